"""The text of a fold: the original template as a macro, and the loop that renders around it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

#: Alphanumeric, so that no filter of a template changes them; nobody writes them in a chat.
PRIOR = "Zq9prior9qZ"
CONTENT = "Zq9content9qZ"
REASONING = "Zq9reasoning9qZ"


@dataclass(frozen=True)
class Rule:
    """How an answer that the original prints becomes what a model writes.

    ``view`` says how the original's rendering of the answer stands to the prompt: it ``extends``
    it, it ``follows`` the prompt without its generation prompt, or it is ``unusable``.
    ``condition`` is Jinja's, on the answer's fields and the prompt. ``kind``: ``swap`` puts
    ``after`` in the place of ``before`` at the start, ``whole`` prints ``after`` alone, ``calls``
    the tool calls after it: ``spelling`` is the text after a name, after the arguments where a
    call follows, and after the last.
    """

    view: str
    condition: str
    kind: str
    before: str
    after: str
    spelling: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True)
class Shape:
    """All that a fold needs to know of a template, beyond the template.

    ``silent`` is a Jinja condition on ``fold_prompt``: whether a model that was given this prompt
    may answer without reasoning. ``close`` ends reasoning that is left inside the content.
    ``leftovers`` are texts of the layout that a parser leaves around the content. ``early``: the
    model writes a newline before it opens its reasoning. ``stops`` end an answer in history.
    ``parsed``: a parser hands reasoning and content on with the whitespace around them. ``tools``:
    the tools are shown to the original with every piece, not with the first only; ``system``: so
    are the instructions. ``drops``: reasoning stays dropped where the original drops it.
    ``refuses``: the original may refuse a conversation.
    """

    silent: str = "true"
    close: str = ""
    rules: tuple[Rule, ...] = ()
    leftovers: tuple[tuple[str, str], ...] = ()
    early: bool = False
    stops: tuple[str, ...] = ()
    parsed: bool = False
    tools: bool = False
    system: bool = True
    drops: bool = False
    refuses: bool = False


def folded(original: str, shape: Shape) -> str:
    """The template that renders ``original`` piece by piece."""
    return _wrapped(original) + _driver(shape)


def literal(text: str) -> str:
    """A text as a literal of Jinja."""
    spelled = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'")
    return f"'{spelled}'"


def _wrapped(original: str) -> str:
    text = original.replace("\r\n", "\n").replace("\r", "\n")
    # Jinja drops one newline at the end of a template, and the indentation of a first block.
    text = text.removesuffix("\n")
    text = re.sub(r"\A[ \t]+(?=\{[%#](?!\+))", "", text)
    return (
        "{#- The original template, unchanged, as a macro. -#}\n"
        "{%- macro fold_original(messages, add_generation_prompt, tools) -%}{{ '' }}"
        + text
        + "{{ '' }}{%- endmacro -%}\n"
    )


_HEAD = """
{#- What `fold_text` prints after `fold_known`. Where the original prints the answer before it in
    another way once something follows, both are compared from the mark in that answer on. #}
{%- macro fold_beyond(fold_text, fold_known) %}
    {%- if fold_text.startswith(fold_known) %}
        {{- fold_text[fold_known | length:] }}
    {%- else %}
        {%- set fold_text = fold_text.split(fold_prior)[-1] %}
        {%- set fold_known = fold_known.split(fold_prior)[-1] %}
        {%- if fold_text.startswith(fold_known) %}
            {{- fold_text[fold_known | length:] }}
@STOPS@        {%- else %}
            {{- fold_text }}
        {%- endif %}
    {%- endif %}
{%- endmacro %}

{#- `fold_text` with `fold_value` in the place of `fold_mark`. A parser may have left the newlines
    around the mark in the value: then they are not printed twice. #}
{%- macro fold_filled(fold_text, fold_mark, fold_value, fold_parsed) %}
    {%- set fold_start, fold_end = fold_text.split(fold_mark)[0], fold_text.split(fold_mark)[-1] %}
    {%- if fold_parsed %}
        {%- set fold_space = fold_start[fold_start.rstrip() | length:] %}
        {%- if fold_value.startswith(fold_space) or fold_space.startswith('\\n') and fold_value.startswith('\\n') %}
            {%- set fold_start = fold_start.rstrip() %}
        {%- endif %}
        {%- set fold_space = fold_end[:fold_end | length - fold_end.lstrip() | length] %}
        {%- if fold_value.endswith(fold_space) or fold_space.startswith('\\n') and fold_value.endswith('\\n') %}
            {%- set fold_end = fold_end.lstrip() %}
        {%- endif %}
    {%- endif %}
    {{- fold_start + fold_value + fold_end }}
{%- endmacro %}
"""


def _driver(shape: Shape) -> str:
    stops = "".join(
        f"        {{%- elif {literal(stop)} in fold_text %}}\n"
        f"            {{{{- fold_text.partition({literal(stop)})[2] }}}}\n"
        for stop in shape.stops
    )
    marks = (
        "\n{#- Marks that stand for the texts of an answer while the original renders it. #}\n"
        f"{{%- set fold_prior = '{PRIOR}' %}}\n"
        f"{{%- set fold_content = '{CONTENT}' %}}\n"
        f"{{%- set fold_reasoning = '{REASONING}' %}}\n"
    )
    body = _BODY
    for name, text in {
        "@REFUSE@": _REFUSE if shape.refuses else "",
        "@TOOLS@": "tools" if shape.tools else "none",
        "@SILENT@": shape.silent,
        "@INLINE@": f" or {literal(shape.close)} in fold_words" if shape.close else "",
        "@VIEW@": _view(shape),
        "@LEFTOVERS@": "".join(map(_leftover, shape.leftovers)),
        "@SYSTEM@": "" if shape.system else " | rejectattr('role', 'in', ['system', 'developer']) | list",
        "@EARLY@": _EARLY if shape.early else "fold_thought",
        "@PARSED@": "true" if shape.parsed else "false",
        "@DROPS@": _DROPS if shape.drops else "",
        "@KEEPS@": _KEEPS if shape.drops else "",
    }.items():
        body = body.replace(name, text)
    return marks + _HEAD.replace("@STOPS@", stops) + (_CALLS if any(rule.kind == "calls" for rule in shape.rules) else "") + body


def _view(shape: Shape) -> str:
    """What the original printed for the answer, and the rules for it."""
    lines = []
    for view, test, value in (
        ("extends", "if fold_view.startswith(fold_prompt)", "fold_view[fold_prompt | length:]"),
        ("follows", "elif fold_view.startswith(fold_plain)", "fold_view[fold_plain | length:]"),
        ("unusable", "else", "fold_beyond(fold_view, fold_plain)"),
    ):
        lines += [f"            {{%- {test} %}}\n", f"                {{%- set fold_turn.said = {value} %}}\n"]
        lines += _rules([rule for rule in shape.rules if rule.view == view])
    return "".join([*lines, "            {%- endif %}\n"])


def _rules(rules: list[Rule]) -> list[str]:
    lines = []
    for number, rule in enumerate(rules):
        tests = [rule.condition] if rule.condition else []
        if rule.before:
            tests.append(f"fold_turn.said.startswith({literal(rule.before)})")
        value = _spliced(rule.after)
        if rule.kind == "calls":
            value += f" + fold_spelled(fold_calls, {', '.join(map(literal, rule.spelling))})"
        elif rule.kind == "swap":
            value += f" + fold_turn.said[{len(rule.before)}:]"
        lines += [
            f"                {{%- {'elif' if number else 'if'} {' and '.join(tests) or 'true'} %}}\n",
            f"                    {{%- set fold_turn.said = {value} %}}\n",
        ]
    return [*lines, "                {%- endif %}\n"] if lines else []


def _leftover(around: tuple[str, str]) -> str:
    before, after = around
    tests = [
        f"fold_words.{method}({literal(text)})"
        for method, text in (("startswith", before), ("endswith", after))
        if text
    ]
    end = f"-{len(after)}" if after else ""
    return (
        f"            {{%- if {' and '.join(tests)} %}}\n"
        f"                {{%- set fold_words = fold_words[{len(before)}:{end}] %}}\n"
        "            {%- endif %}\n"
    )


def _spliced(text: str) -> str:
    """An expression of Jinja for a text with marks in it."""
    pieces = []
    for piece in re.split(f"({CONTENT}|{REASONING})", text):
        if piece == CONTENT:
            pieces.append("fold_content")
        elif piece == REASONING:
            pieces.append("fold_reasoning")
        elif piece:
            pieces.append(literal(piece))
    return " + ".join(pieces) or "''"


_CALLS = """
{#- Tool calls as the model writes them; the original prints them in another way. #}
{%- macro fold_spelled(fold_calls, fold_middle, fold_next, fold_end) %}
    {%- for fold_call in fold_calls %}
        {%- set fold_call = fold_call.function or fold_call %}
        {{- fold_call.name + fold_middle }}
        {{- fold_call.arguments if fold_call.arguments is string else fold_call.arguments | tojson }}
        {{- fold_end if loop.last else fold_next }}
    {%- endfor %}
{%- endmacro %}
"""

_REFUSE = """
{#- What the original refuses as a whole is refused as before. #}
{%- set fold_checked = fold_original(messages, add_generation_prompt, tools) %}
"""

_BODY = """
{#- Where the answers are, and what comes before the first question. #}
{%- set fold = namespace(regular=true, asked=false, answers=[], opening=[], since=0, seen=[]) %}
{%- for fold_message in messages %}
    {%- if fold_message.role == 'assistant' %}
        {%- if not fold.asked or loop.previtem.role == 'assistant' %}
            {%- set fold.regular = false %}
        {%- endif %}
        {%- set fold.answers = fold.answers + [loop.index0] %}
    {%- elif fold_message.role in ['system', 'developer'] %}
        {%- if not fold.asked %}
            {%- set fold.opening = fold.opening + [fold_message] %}
        {%- endif %}
    {%- elif not fold.asked %}
        {%- set fold.asked = true %}
        {%- set fold.opening = fold.opening + [{'role': 'user', 'content': 'Go on.' if fold_message.content is string else [{'type': 'text', 'text': 'Go on.'}]}] %}
    {%- endif %}
{%- endfor %}

{%- if not (fold.answers and fold.regular) %}
    {{- fold_original(messages, add_generation_prompt, tools) }}
{%- else %}
@REFUSE@
    {#- An answer is rendered as it was generated: what the original's generation prompt said, then
        the answer as the original prints a last one. What follows is printed as the original
        prints it after [a question, this answer]. `fold.prior` is the answer before the new
        messages; `fold.told` is set instead where it was not rendered as it was generated. #}
    {%- set fold.prior, fold.told, fold.tools = none, none, tools %}
    {%- for fold_index in fold.answers + [messages | length] %}
        {%- set fold_turn = namespace(generated=true, said='') %}
        {%- set fold_new = messages[fold.since:fold_index] %}
        {%- set fold_before = fold.seen %}
        {%- set fold_seen = (fold.opening + [fold.prior] if fold.prior else []) + fold_new %}
        {%- set fold_last = fold_index == messages | length %}
        {%- if not fold_last or add_generation_prompt %}
            {%- set fold_prompt = fold_original(fold_seen, true, fold.tools) %}
        {%- endif %}
        {%- if fold_last %}
            {%- set fold_turn.generated = add_generation_prompt %}
        {%- else %}
            {%- set fold_message = messages[fold_index] %}
            {%- set fold_thought = fold_message.reasoning_content or fold_message.reasoning or fold_message.thinking or '' %}
            {%- set fold_words = fold_message.content or '' %}
            {%- if fold_words is not string %}
                {%- set fold_words = fold_words | map(attribute='text') | join %}
            {%- endif %}
@LEFTOVERS@            {%- set fold_calls = fold_message.tool_calls or [] %}
            {%- set fold_bare = dict(fold_message.items() | rejectattr('0', 'in', ['reasoning_content', 'reasoning', 'thinking']) | list) %}
            {%- set fold_turn.generated = true if fold_thought@INLINE@ else @SILENT@ %}
@DROPS@        {%- endif %}
        {%- set fold_now = fold_prompt if fold_turn.generated else fold_original(fold_seen, false, fold.tools) %}
        {%- if not fold.prior %}
            {{- fold_now }}
        {%- elif fold.told %}
            {{- fold_beyond(fold_original(fold.before + [fold.told] + fold_new, fold_turn.generated, fold.tools), fold_original(fold.before, false, fold.tools)) }}
        {%- else %}
            {{- fold_beyond(fold_now, fold_original(fold.opening + [fold.prior], false, fold.tools)) }}
        {%- endif %}
        {%- if not fold_last and fold_turn.generated %}
            {%- set fold_marked = dict(fold_bare, content=fold_words and (fold_content if fold_message.content is string else [{'type': 'text', 'text': fold_content}])) if fold_words | trim else fold_bare %}
            {%- if fold_thought %}
                {%- set fold_marked = dict(fold_marked, reasoning_content=fold_reasoning, reasoning=fold_reasoning, thinking=fold_reasoning) %}
            {%- endif %}
            {%- set fold_plain = fold_original(fold_seen, false, fold.tools) %}
            {%- set fold_view = fold_original(fold_seen + [fold_marked], false, fold.tools) %}
@VIEW@            {%- set fold_said = fold_filled(fold_turn.said, fold_reasoning, @EARLY@, true) if fold_thought else fold_turn.said %}
            {{- fold_filled(fold_said, fold_content, fold_words, @PARSED@) if fold_words | trim else fold_said }}
        {%- endif %}
        {%- if not fold_last %}
            {%- set fold.before, fold.told = fold_seen, none if fold_turn.generated else fold_bare %}
            {%- set fold.prior = dict(fold_bare, content=fold_prior if fold_message.content is string else [{'type': 'text', 'text': fold_prior}]) %}
            {%- set fold.since, fold.tools = fold_index + 1, @TOOLS@ %}
        {%- endif %}
    {%- endfor %}
{%- endif %}
"""
#: A parser takes the newline that a model writes before its opening tag for reasoning.
_EARLY = "fold_thought[1:] if fold_turn.said.startswith('\\n') and fold_thought.startswith('\\n') else fold_thought"
_DROPS = ""
_KEEPS = ""
