"""Whether vLLM hands a template texts or lists of parts."""

from __future__ import annotations

import pytest

from templatefix.syntax import content_format, parse


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{% for p in m.content %}a{% endfor %}{% endfor %}",
        "{% for m in messages %}{% for p in m['content'] %}a{% endfor %}{% endfor %}",
        "{% for m in messages %}{% for p in m.content|list %}a{% endfor %}{% endfor %}",
        "{% for m in messages[1:] %}{% for p in m.content[1:] %}a{% endfor %}{% endfor %}",
        "{% set rest = messages[1:] %}{% set all = rest %}"
        "{% for m in all %}{% for p in m.content %}a{% endfor %}{% endfor %}",
        "{% for m in messages %}{% set content = m.content %}"
        "{% for p in content %}a{% endfor %}{% endfor %}",
        "{% macro show(parts) %}{% for p in parts %}a{% endfor %}{% endmacro %}"
        "{% for m in messages %}{{ show(m.content) }}{% endfor %}",
        "{% macro show(head, parts) %}{% for p in parts %}a{% endfor %}{% endmacro %}"
        "{% for m in messages %}{{ show(parts=m.content, head='') }}{% endfor %}",
    ],
)
def test_a_loop_over_content_means_lists_of_parts(source: str) -> None:
    assert content_format(parse(source)) == "openai"


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{% for c in m.tool_calls %}a{% endfor %}{% endfor %}",
        # Another name than "content" for the content is not followed outside of macros.
        "{% for m in messages %}{% set parts = m.content %}"
        "{% for p in parts %}a{% endfor %}{% endfor %}",
        # A macro's own loop counts for what it is called with, not for its parameter's name.
        "{% macro show(content) %}{% for p in content %}a{% endfor %}{% endmacro %}"
        "{% for m in messages %}{{ show(m.tools) }}{% endfor %}",
        # Of macros inside macros the inner one decides.
        "{% macro outer(a) %}{% macro inner(b) %}{% for p in a %}x{% endfor %}{% endmacro %}"
        "{{ inner(m.content) }}{% endmacro %}{% for m in messages %}{{ outer(m.content) }}"
        "{% endfor %}",
        # vLLM wants plain names; a namespace or a tuple ends its search with an error.
        "{% set ns = namespace() %}{% set ns.all = messages %}"
        "{% for m in messages %}{% for p in m.content %}a{% endfor %}{% endfor %}",
        "{% for m in messages %}{% for k, p in m.content %}a{% endfor %}{% endfor %}",
    ],
)
def test_everything_else_means_texts(source: str) -> None:
    assert content_format(parse(source)) == "string"


def test_names_assigned_in_a_circle_end() -> None:
    source = "{% set a = messages %}{% set b = a %}{% set a = b %}{% for m in a %}{% endfor %}"
    assert content_format(parse(source)) == "string"
