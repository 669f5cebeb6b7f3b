"""A child's memory as its parent sees it."""

from __future__ import annotations

import os

import pytest

from templatefix.worker import resident
from templatefix.worker.resident import Watch


def test_what_a_child_began_with_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {os.getpid(): 250, 1: 300, 2: 400}
    monkeypatch.setattr(resident, "resident", lambda pid: used[pid] << 20)
    monkeypatch.setattr(resident, "_EVERY", 0.0)
    watch = Watch(megabytes=100)
    assert not watch.exceeds(1, running=True)
    assert watch.exceeds(2, running=True)
    assert not watch.exceeds(2, running=False)
    assert not watch.exceeds(2, running=True)
    used[2] = 501
    assert watch.exceeds(2, running=True)
