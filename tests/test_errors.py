"""Faults that are remembered and raised again."""

from __future__ import annotations

import gc
import weakref

import pytest

from templatefix.chat.server import Server
from templatefix.errors import TargetError, again
from templatefix.render import Crashed, JinjaRenderer, OverLimit, Refused


@pytest.mark.parametrize(
    "fault",
    [
        Refused("not so"),
        Crashed("TypeError", "odd", 3),
        OverLimit("limit", "rendering takes long", None),
        TargetError("x", "is not there", "look elsewhere", "TF901"),
    ],
)
def test_a_fault_is_the_same_again_without_what_it_went_through(fault: Exception) -> None:
    with pytest.raises(type(fault)):
        raise fault
    made = again(fault)
    assert type(made) is type(fault)
    assert (str(made), vars(made), made.args) == (str(fault), vars(fault), fault.args)
    assert made.__traceback__ is None


@pytest.mark.parametrize("text", ["{{ raise_exception('no') }}", "{{ 1 / 0 }}"])
def test_a_server_that_has_refused_is_freed_without_the_collector(text: str) -> None:
    server = Server(JinjaRenderer(text), "string", False)
    there = weakref.ref(server)
    gc.disable()
    try:
        for _ in range(2):
            with pytest.raises((Refused, Crashed)):
                server.prompt([{"role": "user", "content": "Hi"}], None, {})
        del server
        assert there() is None
    finally:
        gc.enable()
