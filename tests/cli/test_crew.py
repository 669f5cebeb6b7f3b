"""Workers and what they find, without a process for any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from templatefix.limits import Limits
from templatefix.worker import Worker
from templatefix.worker.crew import Crew, InOrder


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


@given(
    st.lists(st.none() | st.integers(0, 99), max_size=120),
    st.integers(1, 40),
    st.integers(1, 5),
    st.randoms(),
)
@example([0, *[9] * 40], 5, 1, Random(0))  # the first is overtaken for as long as it may be
def test_all_jobs_are_taken_once_and_told_in_order(
    jobs: list[int | None], ahead: int, workers: int, random: Random
) -> None:
    order = InOrder[int, int](jobs, ahead, length=lambda job: job)
    busy: list[tuple[int, int]] = []
    told: list[list[int]] = []
    while busy or not order.over:
        while len(busy) < workers and (taken := order.take()) is not None:
            busy.append(taken)
        before = len(told)
        told += order.told()  # jobs that are None
        assert busy or len(told) > before
        if busy:
            number, job = busy.pop(random.randrange(len(busy)))
            order.put(number, [job])
            told += order.told()
    assert told == [[] if job is None else [job] for job in jobs]


def test_the_longest_of_the_next_few_is_taken_first_where_there_are_many() -> None:
    def taken(jobs: list[int]) -> list[int]:
        order = InOrder[int, int](jobs, 1000, length=lambda job: job)
        return [job for _, job in iter(order.take, None)]

    assert taken([1, 2, 3]) == [1, 2, 3]
    assert taken([*range(15), 99])[:2] == [99, 14]
    assert taken([0, *[5] * 100]).index(0) == 16
