"""The workers of a Dask cluster in the place of a crew's: what they come to is the same.

They need the same version of templatefix, and local targets under the same paths. Whoever may talk
to a Dask scheduler may run code on its workers: it is for a network of one's own.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from types import TracebackType
from typing import Any

from templatefix import __version__
from templatefix.errors import TargetError
from templatefix.findings.outcome import Fault
from templatefix.limits import Limits
from templatefix.worker import remote
from templatefix.worker.codec import plain, typed
from templatefix.worker.crew import InOrder, Tick, nothing
from templatefix.worker.job import Job, Outcome
from templatefix.worker.parent import LOOK
from templatefix.worker.unfinished import unfinished

SCHEME = "dask://"

#: Seconds for the scheduler's answer, and for the first worker to be there.
_PATIENCE = 10.0

#: Seconds without any worker after which there is no use in waiting for the next.
_DESERTED = 30.0

#: Jobs that are with the scheduler for each thread of a worker, and how far they may run ahead.
_EACH, _AHEAD = 4, 1024


class Cluster:
    """The workers at ``dask://HOST:PORT``, for the length of a ``with`` block.

    Raises ``TargetError`` where the scheduler, its workers or the package are missing.
    """

    def __init__(self, address: str, limits: Limits) -> None:
        self._address = address
        self._limits = plain(limits)
        self._client: Any = None
        self._seen = 0.0

    def __enter__(self) -> Cluster:
        try:
            from distributed import Client
        except ImportError:
            hint = 'pip install "templatefix[dask]"'
            raise self._fault("dask.distributed is not installed", hint) from None
        # The client logs and warns of each connection that fails; there is one line for it.
        logging.disable(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                where = "tcp://" + self._address.removeprefix(SCHEME)
                self._client = Client(where, timeout=_PATIENCE, set_as_default=False)
                self._client.wait_for_workers(1, timeout=_PATIENCE)
            except (OSError, ValueError, TimeoutError) as error:
                there = self._client is not None
                self.__exit__(None, None, None)
                if there:
                    hint = f"start some: dask worker {where}"
                    raise self._fault("the scheduler has no workers", hint) from error
                hint = "check the address, or start one: dask scheduler"
                raise self._fault("no Dask scheduler answers there", hint) from error
        self._seen = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._client is not None:
            self._client.close(timeout=1)
        logging.disable(logging.NOTSET)

    def check(
        self, jobs: Iterable[Job | None], tick: Tick = nothing
    ) -> Generator[list[Outcome], None, None]:
        """As ``Crew.check``. A job whose worker is gone is done by another; one that ends several
        workers is reported. Raises ``TargetError`` when the scheduler is gone, or all workers."""
        executor = self._client.get_executor(pure=False)
        order = InOrder[Job, Outcome](jobs, _AHEAD)
        busy: dict[Future[dict[str, Any]], tuple[int, Job]] = {}
        while busy or not order.over:
            while len(busy) < self._room() and (taken := order.take()):
                asked = __version__, self._limits, plain(taken[1])
                busy[executor.submit(remote.run, *asked)] = taken
            finished, _ = wait(busy, timeout=LOOK, return_when=FIRST_COMPLETED)
            for future in finished:
                number, job = busy.pop(future)
                order.put(number, self._outcomes(future, job))
            yield from order.told()
            tick()

    def _room(self) -> int:
        """How many jobs may be with the scheduler at a time."""
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, KeyError) as error:
            raise self._lost() from error
        now = time.monotonic()
        if workers:
            self._seen = now
        elif now - self._seen > _DESERTED:
            raise self._fault("all workers are gone", "start some, and go on with --resume")
        return max(1, _EACH * sum(int(each["nthreads"]) for each in workers.values()))

    def _outcomes(self, future: Future[dict[str, Any]], job: Job) -> list[Outcome]:
        try:
            answer = future.result()
        except CancelledError:
            raise self._lost() from None
        except ImportError as error:
            hint = "install the same version there"
            raise self._fault(f"a worker cannot import templatefix: {error}", hint) from error
        except Exception as error:  # the worker's, or what the scheduler says of dead workers
            words = str(error).splitlines() or [""]
            why = f"a worker failed on it: {type(error).__name__}: {words[0][:200]}"
            fault = Fault("TF901", why, "report it, with the template, if it comes again")
            return [Outcome(unfinished(job, None, fault))]
        if "version" in answer:
            there = f"a worker has templatefix {answer['version']}, this is {__version__}"
            raise self._fault(there, "install the same version there")
        return [typed(Outcome, each) for each in answer["outcomes"]]

    def _lost(self) -> TargetError:
        return self._fault("the scheduler is gone", "start it again, and go on with --resume")

    def _fault(self, message: str, hint: str) -> TargetError:
        return TargetError(self._address, message, hint)
