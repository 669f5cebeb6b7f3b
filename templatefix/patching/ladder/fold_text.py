"""The text of a fold: the original template as a macro, and the loop that renders with it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from templatefix.patching.ladder import fold_driver as driver
from templatefix.patching.ladder.fold_head import head_end
from templatefix.patching.proposals.text import begins, ends, literal
from templatefix.syntax import parse

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
    ``after`` in the place of ``before`` at the start, ``front`` takes the content away from where
    it is printed as well, ``whole`` prints ``after`` alone, ``calls``
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
    ``endings`` end a last answer, and are printed otherwise once something follows.
    ``parsed``: a parser hands reasoning and content on with the whitespace around them. ``tools``:
    the tools are shown to the original with every piece, not with the first only; ``system``: so
    are the instructions. ``thinking`` is a kwarg and the expression for its value that turns
    thinking on. ``drops``: reasoning stays dropped where the original drops it. ``refuses``: the
    original may refuse a conversation. ``moves`` introduces an answer where a question is
    printed in another way once one follows. ``trims``: an answer of nothing but reasoning ends
    without the whitespace that the original prints. ``remembers``: tool results are shown to the
    original after others, as all but the first are. ``behind``: the content of an answer is printed
    behind the results of its tool calls, or not once they are answered. ``exact``: a parser takes
    the whitespace of the layout off reasoning, and none of the reasoning's own. ``mute``: one mode
    thinks, and another not. ``parts``: vLLM hands the original contents in parts.
    """

    silent: str = "true"
    close: str = ""
    rules: tuple[Rule, ...] = ()
    leftovers: tuple[tuple[str, str], ...] = ()
    early: bool = False
    stops: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    parsed: bool = False
    tools: bool = False
    system: bool = True
    thinking: tuple[str, str] | None = None
    drops: bool = False
    refuses: bool = False
    moves: str = ""
    trims: bool = False
    remembers: bool = False
    behind: bool = False
    exact: bool = False
    mute: bool = False
    parts: bool = False


def folded(original: str, shape: Shape) -> str:
    """The template that renders ``original`` piece by piece."""
    prefix = "fold_"
    while prefix in original:
        prefix = "re" + prefix
    head, body = _parted(original, shape)
    before, after = _filled(driver.BEFORE, shape), _filled(driver.AFTER, shape)
    before = before.replace("@WHOLE@", "The rest" if head else "All")
    if any(rule.kind == "calls" for rule in shape.rules):
        after += driver.CALLS
    after += _filled(driver.DRIVER, shape)
    if shape.mute:
        after = _in_pieces(after, shape.close, original)
    return head + before.replace("fold_", prefix) + body + after.replace("fold_", prefix)


def _in_pieces(text: str, close: str, original: str) -> str:
    """The text with a closing tag in two literals where the original has it in no single one.

    A tag that stands in a template says that its model may reason in modes that do not mention
    thinking: around a template with modes that do not think it would say too much.
    """
    if not close or close in original:
        return text
    head = next((n for n in range(len(close) - 1, 0, -1) if close[:n] in original), 1)
    whole = literal(close)[1:-1]
    first, second = literal(close[:head])[1:-1], literal(close[head:])[1:-1]
    return text.replace(whole, f"{first}' + '{second}")


def _parted(original: str, shape: Shape) -> tuple[str, str]:
    """The original's text in two: what comes out alike for every piece, and the macro's body.

    The body as it has to stand between two outputs to render as before.
    """
    template = parse(original)
    given = {"messages", "add_generation_prompt", "tools", *(shape.thinking or ())[:1]}
    at = head_end(template, frozenset(given))
    # Jinja drops one newline at the end of a template, and the indentation of a first block.
    body = template.text[at:].removesuffix("\n")
    return template.text[:at], re.sub(r"\A[ \t]+(?=\{[%#](?!\+))", "", body)


def _filled(text: str, shape: Shape) -> str:
    """A piece of the driver with the names in it replaced, those inside of pieces as well."""
    name, value = shape.thinking or ("", "")
    inline = f"{literal(shape.close)} in fold_words" if shape.close else ""
    if shape.drops:
        generated = f"({shape.silent}) and not {inline}" if inline else shape.silent
        generated = f"true if fold_thought else {generated}"
    else:
        generated = f"true if fold_thought{' or ' + inline if inline else ''} else {shape.silent}"
    opening = "messages[:fold_first] + [fold_question]" if shape.system else "[fold_question]"
    filled = "fold_said | replace(fold_content, fold_words, 1)"
    if shape.parsed:
        filled += (
            "\n                    if fold_words == fold_words | trim else fold_filled("
            "\n                        fold_said, fold_content, fold_words, true, not fold_calls)"
        )
    for key, piece in (
        ("@UNTOLD@", driver.PARTS if shape.parts else driver.NO_PARTS),
        ("@REFUSALS@", driver.REFUSALS if shape.refuses else ""),
        ("@THINKING@", driver.THINKING if shape.thinking else ""),
        ("@DROPPING@", driver.DROPPING if shape.drops else ""),
        ("@ASKED@", driver.ASKED if shape.drops else ""),
        ("@MOVING@", driver.MOVING if shape.moves else ""),
        (
            "@SILENTLY@",
            driver.SILENTLY if shape.moves else "",
        ),
        ("@INLINED@", driver.INLINED if shape.close and not shape.drops else ""),
        ("@TRIMMING@", driver.TRIMMING if shape.trims else ""),
        ("@REMEMBERING@", driver.REMEMBERING if shape.remembers else ""),
        ("@LED@", "false" if shape.exact else "true"),
        ("@BEHIND@", driver.BEHIND if shape.behind else ""),
        ("@ALONE@", "" if shape.system else driver.ALONE),
        ("@EARLY@", driver.EARLY if shape.early else ""),
        ("@VIEW@", _view(shape)),
        ("@LEFTOVERS@", "".join(map(_leftover, shape.leftovers))),
        ("@ENDINGS@", "".join(map(_ending, shape.endings))),
        ("@LASTS@", "".join(map(_last, shape.endings))),
        ("@STOPS@", "".join(map(_stop, shape.stops))),
        ("@PARAMETER@", f", {name}" if name else ""),
        ("@OWNMODE@", f"        {{%- set fold_mode = {name} %}}\n" if name else ""),
        ("@OWN@", f", {name}" if name else ""),
        ("@MODE@", ", fold_mode" if name else ""),
        ("@SWITCHED@", f" or fold_mode != {name}" if name else ""),
        ("@UNSWITCHED@", f" and fold_mode == {name}" if name else ""),
        ("@VALUE@", value),
        ("@END@", _end(shape)),
        ("@CLOSED@", ends("(fold_prompt | trim)", shape.close.strip())),
        ("@CLOSE@", literal(shape.close)),
        ("@GENERATED@", generated),
        ("@OPENING@", opening),
        ("@TOOLS@", "tools" if shape.tools else "none"),
        ("@FILLED@", filled),
        ("@PRIOR@", PRIOR),
        ("@CONTENT@", CONTENT),
        ("@REASONING@", REASONING),
    ):
        text = text.replace(key, piece)
    return text


def _end(shape: Shape) -> str:
    """How an answer ends that prints no text of its own: with its calls."""
    if not shape.close:
        return "fold_known[-32:]"
    close = literal(shape.close)
    return f"fold_known.split({close})[-1] if {close} in fold_known else fold_known[-32:]"


def _ending(ending: str) -> str:
    return (
        f"        {{%- elif fold_known == {literal(ending)} %}}\n            {{{{- fold_text }}}}\n"
    )


def _last(ending: str) -> str:
    return (
        "                {%- if fold_index + 1 < messages | length "
        f"and {ends('fold_said', ending)} %}}\n"
        "                    {#- What follows begins with another end. #}\n"
        f"                    {{%- set fold_said = fold_said[:-{len(ending)}] %}}\n"
        "                {%- endif %}\n"
    )


def _stop(stop: str) -> str:
    return (
        f"        {{%- elif {literal(stop)} in fold_text %}}\n"
        f"            {{{{- fold_text.partition({literal(stop)})[2] }}}}\n"
    )


def _view(shape: Shape) -> str:
    """What the original printed for the answer, and the rules for it."""
    of = {
        view: [rule for rule in shape.rules if rule.view == view]
        for view in ("extends", "follows", "unusable")
    }
    lines = []
    if shape.moves:
        lead = literal(shape.moves)
        lines += [
            "{%- if fold_moved and fold_view[:fold_prompt | length] != fold_prompt %}",
            f"    {{%- set fold_said = {lead} + fold_view.split({lead})[-1] %}}",
        ]
    lines += [
        f"{{%- {'elif' if shape.moves else 'if'} "
        "fold_view[:fold_prompt | length] == fold_prompt %}",
        "    {%- set fold_said = fold_view[fold_prompt | length:] %}",
        *("    " + line for line in _rules(of["extends"])),
        "{%- else %}",
        "    {#- What the generation prompt adds is looked at once. #}",
        "    {%- if fold_cue and fold_prompt[-(fold_cue | length):] == fold_cue %}",
        "        {%- set fold_plain = fold_prompt[:-(fold_cue | length)] %}",
        "    {%- else %}",
        "        {%- set fold_plain = fold_original(fold_seen, false, fold_tools@MODE@) %}",
        "        {%- if fold_asks and fold_prompt[:fold_plain | length] == fold_plain %}",
        "            {%- set fold_cue = fold_prompt[fold_plain | length:] %}",
        "        {%- endif %}",
        "    {%- endif %}",
        "    {%- set fold_said = fold_beyond(fold_view, fold_plain) %}",
    ]
    if of["unusable"]:
        lines += [
            "    {%- if fold_view[:fold_plain | length] == fold_plain %}",
            *("        " + line for line in _rules(of["follows"]) or ["{#- As it is. #}"]),
            "    {%- else %}",
            "        {%- set fold_said = (fold_reasoning if fold_thought else '')",
            "            + (fold_content if fold_words else '') %}",
            *("        " + line for line in _rules(of["unusable"])),
            "    {%- endif %}",
        ]
    else:
        lines += ["    " + line for line in _rules(of["follows"])]
    return "".join(f"                    {line}\n" for line in [*lines, "{%- endif %}"])


def _rules(rules: list[Rule]) -> list[str]:
    lines = []
    for number, rule in enumerate(rules):
        tests = [rule.condition] if rule.condition else []
        if rule.before:
            tests.append(f"fold_said[:{len(rule.before)}] == {_spliced(rule.before)}")
        value = _spliced(rule.after)
        if rule.kind == "calls":
            value += f" + fold_spelled(fold_calls, {', '.join(map(literal, rule.spelling))})"
        elif rule.kind in ("swap", "front"):
            moved = " | replace(fold_content, '', 1)" if rule.kind == "front" else ""
            rest = f"[{len(rule.before)}:]" if rule.before else ""
            value += f" + fold_said{rest}{moved}"
        lines += [
            f"{{%- {'elif' if number else 'if'} {' and '.join(tests) or 'true'} %}}",
            f"    {{%- set fold_said = {value.removeprefix(chr(39) * 2 + ' + ')} %}}",
        ]
    return [*lines, "{%- endif %}"] if lines else []


def _leftover(around: tuple[str, str]) -> str:
    before, after = around
    tests = [
        is_there("fold_words", text) for is_there, text in ((begins, before), (ends, after)) if text
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
