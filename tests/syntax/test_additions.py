"""The filters that transformers adds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from templatefix.syntax.additions import remembering_tojson, tojson

_VALUES: tuple[Any, ...] = ({"a": [1, "é", None]}, [{"b": 2.5, "a": {}}], "text", 3, True, None)
_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"indent": 4},
    {"indent": True},
    {"ensure_ascii": True},
    {"sort_keys": True},
    {"separators": (",", ":")},
    {"separators": [",", ":"]},
)


@pytest.mark.parametrize("options", _OPTIONS)
@pytest.mark.parametrize("value", _VALUES)
def test_a_text_is_the_one_that_json_makes_however_often_it_is_asked_for(
    value: Any, options: dict[str, Any]
) -> None:
    wanted = json.dumps(value, **{"ensure_ascii": False, **options})
    remembering = remembering_tojson()
    assert tojson(value, **options) == wanted
    assert [remembering(value, **options) for _ in range(2)] == [wanted, wanted]


def test_texts_are_remembered_by_the_options_that_they_were_made_with() -> None:
    value, remembering = {"b": 1, "a": 2}, remembering_tojson()
    found = [remembering(value, **options) for options in _OPTIONS]
    assert found == [tojson(value, **options) for options in _OPTIONS]


def test_what_is_no_json_is_refused_each_time() -> None:
    value, remembering = {"a": object()}, remembering_tojson()
    for _ in range(2):
        with pytest.raises(TypeError, match="object is not JSON serializable"):
            remembering(value)
    with pytest.raises(TypeError, match="float"):
        remembering({"a": 1}, indent=1.0)


def test_objects_that_come_and_go_are_never_taken_for_each_other() -> None:
    remembering = remembering_tojson()
    assert all(remembering({"n": n}) == f'{{"n": {n}}}' for n in range(1000))
