"""How far a run over many targets is: on stderr, on a terminal only.

A few targets have a line; more have a bar with what is done and failed, the rate and the time left.
Nothing is drawn from a thread, which would make forking a worker unsafe.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from templatefix.cli.progress import Progress, can_draw, progress
from templatefix.cli.units import HANDFUL

if TYPE_CHECKING:  # a piped run does not import rich
    from rich.progress import Progress as Bar

#: How often the bar is drawn, in seconds.
_OFTEN = 0.25


class Watch:
    """Told of each target that is done; draws nothing by itself."""

    def __init__(self, what: str, names: Sequence[str]) -> None:
        self._what = what
        self._names = names
        self._done = 0

    def done(self, failed: bool) -> None:
        """One more target is done; ``failed``: it could not be used."""
        self._done += 1

    def tick(self) -> None:
        """It may be time to draw."""

    def erase(self) -> None:
        """Something else is about to be written to the terminal."""


class _Line(Watch):
    def __init__(self, what: str, names: Sequence[str], shown: Progress) -> None:
        super().__init__(what, names)
        self._shown = shown
        self._name()

    def done(self, failed: bool) -> None:
        super().done(failed)
        self._name()

    def erase(self) -> None:
        self._shown.erase()

    def _name(self) -> None:
        if self._done < len(self._names):
            count = f"({self._done + 1} of {len(self._names)})"
            self._shown.now(f"{self._what} {self._names[self._done]} {count}")


class _Bar(Watch):
    def __init__(self, what: str, names: Sequence[str], bar: Bar) -> None:
        super().__init__(what, names)
        self._bar = bar
        self._task = bar.add_task(what, total=len(names), failed=0, rate="")
        self._failed = 0
        self._begun = self._drawn = time.monotonic()

    def done(self, failed: bool) -> None:
        super().done(failed)
        self._failed += failed

    def tick(self) -> None:
        now = time.monotonic()
        if now - self._drawn < _OFTEN:
            return
        self._drawn = now
        self._bar.start()
        rate = f"{self._done / (now - self._begun):.1f}/s"
        self._bar.update(self._task, completed=self._done, failed=self._failed, rate=rate)
        self._bar.refresh()

    def erase(self) -> None:
        self._bar.stop()


@contextlib.contextmanager
def watch(what: str, names: Sequence[str], *, wanted: bool = True) -> Iterator[Watch]:
    """``what`` is done with each of the named targets: ``checking``."""
    if len(names) <= HANDFUL:
        with progress(wanted=wanted) as shown:
            yield _Line(what, names, shown)
        return
    if not (wanted and can_draw()):
        yield Watch(what, names)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]} failed"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(file=sys.stderr),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    try:
        yield _Bar(what, names, bar)
    finally:
        bar.stop()
