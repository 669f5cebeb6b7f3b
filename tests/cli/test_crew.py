"""Workers and what they find, without a process for any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from templatefix.limits import Limits
from templatefix.worker import Worker
from templatefix.worker.crew import Crew


def test_a_worker_has_its_next_target_before_what_it_found_is_read() -> None:
    happened = []

    def steps(worker: Worker, job: str) -> Iterator[Callable[[], str]]:
        happened.append(f"begins {job}")

        def read() -> str:
            happened.append(f"{job} is read")
            return job

        yield read

    for found in Crew(Limits(), 1).each(["a", None, "b"], steps):
        happened.append(f"{found} is told")
    assert happened == [
        "begins a",
        "begins b",
        "a is read",
        "['a'] is told",
        "[] is told",
        "b is read",
        "['b'] is told",
    ]
