"""The server's memory: what is the same request, and what of it can be asked for again."""

from __future__ import annotations

from collections import OrderedDict
from http import HTTPStatus
from typing import Any

import pytest

from templatefix.chat.server import Server
from templatefix.render import JinjaRenderer, Refused

_TEXT = (
    "{% for m in messages %}{{ m.content }}|{% endfor %}{{ given }}"
    "{% if given == 'no' %}{{ raise_exception('not that') }}{% endif %}"
)


def _server() -> tuple[Server, JinjaRenderer]:
    renderer = JinjaRenderer(_TEXT)
    return Server(renderer, "string", False), renderer


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_what_reads_alike_is_rendered_once() -> None:
    server, renderer = _server()
    texts = [server.prompt([_user("".join(["H", "i"]))], None, {"given": "x"}) for _ in range(3)]
    assert texts == ["Hi|x"] * 3
    assert renderer.renders == server.renders == 1


@pytest.mark.parametrize(
    "others",
    [(True, 1), (0, False), ("1", 1), (1, 1.0), (None, ""), ("é", "e\u0301"), ("\ud800", "?")],
)
def test_values_of_different_kinds_are_different_requests(others: tuple[object, object]) -> None:
    server, _ = _server()
    said = [server.prompt([_user("Hi")], None, {"given": other}) for other in others]
    assert server.renders == 2
    assert said[0] == server.prompt([_user("Hi")], None, {"given": others[0]})


def test_kinds_of_dictionaries_texts_and_numbers_are_taken_for_what_json_takes_them_for() -> None:
    server, renderer = _server()
    message = OrderedDict(_user("Hi"), name=type("Text", (str,), {})("x"))
    for given in (OrderedDict(a=HTTPStatus.OK), {"a": 200}):
        assert server.prompt([message], None, {"given": given}).startswith("Hi|")
    assert renderer.renders == 1
    with pytest.raises(TypeError, match="not JSON serializable"):
        server.prompt([message], None, {"given": object()})


def test_what_was_asked_can_be_told_again() -> None:
    server, _ = _server()
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    server.prompt([_user("\ud800 中")], [tool], {"given": [1, {"a": None}]})
    with pytest.raises(Refused):
        server.prompt((_user("Hi"),), None, {"given": "no"}, generation_prompt=False)
    first, second = server.asked()
    assert first == ([_user("\ud800 中")], [tool], {"given": [1, {"a": None}]}, True, first[-1])
    assert second[:4] == ([_user("Hi")], None, {"given": "no"}, False)
    assert isinstance(second[4], Refused)
