"""What reaches behind the values that a template is given is told, and comes to nothing."""

from __future__ import annotations

import pytest

from templatefix.api import CheckOptions
from templatefix.checking import check
from templatefix.findings.outcome import Report
from templatefix.render import Crashed, JinjaRenderer, RenderRequest
from templatefix.source import ChatTemplate
from templatefix.syntax import parse
from templatefix.syntax.unsafe import probes
from tests.corpus import corpus_entries
from tests.hostile.templates import PLAIN, PROBES

#: What Python prints of its internals.
_LEAKS = (
    "<class",
    "<function",
    "<module",
    "<frame",
    "<cell",
    "root:",
    "object at 0x",
)


def _report(text: str) -> Report:
    return check(ChatTemplate("x", "x.jinja", text), CheckOptions())


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_renders_to_nothing_of_use(name: str) -> None:
    request = RenderRequest([{"role": "user", "content": "__class__"}])
    try:
        printed = JinjaRenderer(PROBES[name]).render(request)
    except Crashed:
        return
    assert not any(leak in printed for leak in _LEAKS)


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_is_reported_with_its_line(name: str) -> None:
    # No conversation reaches it: it is told from the tree.
    hidden = f"{PLAIN}\n{{% if messages|length > 99 %}}\n{PROBES[name]}\n{{% endif %}}"
    found = [each for each in _report(hidden).findings if each.code == "TF602"]
    assert found
    assert {each.line for each in found} == {PLAIN.count("\n") + 3}
    assert {each.severity for each in found} <= {"error", "warning"}


@pytest.mark.parametrize(
    "harmless",
    [
        "{{ messages[0].content }}",
        "{{ '__start__' ~ messages[0]['content'] }}",
        "{{ 'Hello, %s' | format(messages[0].content) }}",
        "{{ 'Hello, {}: {:>4} {0[role]}'.format(messages[0].content, 1) }}",
        "{{ messages | map(attribute='role') | list }}",
        "{{ messages | selectattr('role', 'equalto', 'user') | list }}",
        "{{ messages[0] | attr('role') }}",
        "{% set _private = 1 %}{{ _private }}{{ message.__len }}",
    ],
)
def test_what_templates_do_is_no_probe(harmless: str) -> None:
    assert probes(parse(harmless)) == []


@pytest.mark.corpus
def test_no_published_template_is_taken_for_one() -> None:
    entries = list(corpus_entries())
    if not entries:
        pytest.skip("no corpus")
    assert [each.model_id for each in entries if probes(parse(each.text))] == []
