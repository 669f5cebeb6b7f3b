"""A wall clock for work that may never answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Late(Exception):
    """The work was still running when its time was over."""


def within(seconds: float, work: Callable[[threading.Event], T]) -> T:
    """``work``'s answer or exception; ``Late`` after ``seconds``.

    The work runs in a daemon thread, which cannot keep the process alive. It is given an event
    that is set once nobody waits for it any more, so that it can stop between two steps.
    """
    abandoned = threading.Event()
    answers: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(work(abandoned))
        except BaseException as error:  # raised again in the waiting thread
            failures.append(error)

    worker = threading.Thread(target=run, name="templatefix-hub", daemon=True)
    worker.start()
    try:
        worker.join(seconds)
    finally:
        abandoned.set()
    if failures:
        raise failures[0]
    if answers:
        return answers[0]
    raise Late
