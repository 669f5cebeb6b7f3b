"""A patched template takes the form of the file that it came from."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from templatefix.errors import TargetError
from templatefix.patching.newlines import with_newlines_of
from templatefix.patching.repair import PatchOptions, repair
from templatefix.patching.result import report_of
from templatefix.source.reading import Place
from templatefix.source.write_back import stored_text, write_back
from tests.subjects import APPENDS, branches, template

PLACE = Place("t", "tokenizer_config.json")
_ENDINGS = re.compile(r"\r\n|\r|\n")
_FEW = settings(max_examples=60, deadline=None, derandomize=True, database=None)

texts = st.text(st.sampled_from("ab{ \n\r\u2028"), max_size=30)


def normalised(text: str) -> str:
    return _ENDINGS.sub("\n", text)


@_FEW
@given(texts, texts)
@example("a\r\nb\n", "a\nb")
def test_only_newlines_are_changed_by_taking_those_of_another_text(
    original: str, patched: str
) -> None:
    patched = normalised(patched)
    assert normalised(with_newlines_of(original, patched)) == patched


@_FEW
@given(texts)
@example("\r")
def test_a_text_that_was_not_changed_gets_all_its_newlines_back(original: str) -> None:
    assert with_newlines_of(original, normalised(original)) == original


def test_a_new_line_ends_as_most_lines_do_and_the_others_as_before() -> None:
    original = "a\nb\r\nc\r\nd"
    assert with_newlines_of(original, "new\na\nb\nc\nnew\nd") == ("new\r\na\nb\r\nc\r\nnew\r\nd")


blanks = st.sampled_from(["", " ", "\n  ", "\t", "\r\n"])
words = st.text(max_size=6) | st.sampled_from(["chat_template", "template", "name"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, str, str | None]:
    """What stands before and after a template in a configuration, and the template's name."""

    def spelled(value: object) -> str:
        escaped, spaced = draw(st.booleans()), draw(st.booleans())
        indent = 2 if spaced else None
        return json.dumps(value, ensure_ascii=escaped, indent=indent)

    def joined(*members: str) -> str:
        return ",".join(draw(blanks) + member + draw(blanks) for member in members)

    others = draw(st.dictionaries(words.filter(lambda w: w != "chat_template"), values, max_size=3))
    around = [f"{json.dumps(key)}{draw(blanks)}:{spelled(value)}" for key, value in others.items()]
    form, name = draw(st.sampled_from(["text", "list", "mapping"])), None
    entry = "SPOT"
    if form != "text":
        name = draw(st.sampled_from(["default", "tool_use", "é"]))
    if form == "list":
        one = [f'"name":{spelled(name)}', '"template" :SPOT', '"x":{"template":[1]}']
        item = "{" + joined(*draw(st.permutations(one))) + "}"
        entry = "[" + joined('{"name":"rag","template":"r"}', item) + "]"
    elif form == "mapping":
        entry = "{" + joined('"rag":"r"', f"{spelled(name)}: SPOT") + "}"
    members = draw(st.permutations([*around, f'"chat_template":{draw(blanks)}{entry}']))
    document = draw(blanks) + "{" + joined(*members) + "}" + draw(blanks)
    before, after = document.split("SPOT")
    return before, after, name


@_FEW
@given(documents(), st.text(min_size=1), st.text(min_size=1))
def test_every_byte_around_the_template_stays(
    document: tuple[str, str, str | None], old: str, new: str
) -> None:
    before, after, name = document
    old, new = "o" + old.encode("utf-8", "ignore").decode(), "n" + new
    content = (before + json.dumps(old) + after).encode()
    assert write_back(content, name, old, PLACE) == content
    written = write_back(content, name, new, PLACE)
    assert written.startswith(before.encode())
    assert written.endswith(after.encode())
    spot = written[len(before.encode()) : len(written) - len(after.encode())]
    assert json.loads(spot) == new
    assert stored_text(written, name, PLACE) == new


@pytest.mark.parametrize(
    ("content", "spelled"),
    [
        ('{"chat_template": "é"}', '"ü"'),
        ('{"chat_template": "\\u00e9", "x": "é"}', '"\\u00fc"'),
        ('{"chat_template": "e", "x": "é"}', '"ü"'),
        ('{"chat_template": "e"}', '"\\u00fc"'),
    ],
)
def test_characters_are_spelled_as_the_file_spells_them(content: str, spelled: str) -> None:
    written = write_back(content.encode(), None, "ü", PLACE).decode()
    assert written.startswith('{"chat_template": ' + spelled)


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("{}", None, "has no chat_template"),
        ('{"chat_template": null}', None, "has no chat_template"),
        ('{"chat_template": "x"}', "tool_use", "no template named 'tool_use'"),
        ("[]", None, "not a JSON object"),
        ("{", None, "is not JSON"),
    ],
)
def test_a_file_without_the_template_is_named(content: str, name: str | None, words: str) -> None:
    with pytest.raises(TargetError, match=words):
        write_back(content.encode(), name, "new", PLACE)


#: Leaves out, in history, the empty block that the generation prompt ends in.
DROPS_BLOCK = branches(
    "{{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}",
    prompt="{{- '<think>\\n\\n</think>\\n\\n' }}",
)


def test_the_price_is_the_block_and_the_gain_the_answers() -> None:
    options = PatchOptions(max_examples=0, block_size=1)
    told = report_of(repair(template(DROPS_BLOCK), options), options)
    (trade,) = told.trades
    # The block is four tokens: two tags, and the line breaks after each.
    assert trade.extra_context >= 4 * trade.requests > 0
    # All of it comes out of the cache, and with it answers longer than their blocks.
    assert trade.saved_prefill > trade.requests
    assert (told.status, told.remaining, told.excluded) == ("patched", (), 0)
    assert told.broken > 0


def test_a_failed_repair_names_what_is_left() -> None:
    options = PatchOptions(max_examples=0, block_size=1)
    patched = repair(template(DROPS_BLOCK), options)
    failed = replace(patched, status="failed", text=None, candidate=None, proof=None)
    told = report_of(failed, options)
    assert {each.code for each in told.unrepaired} == {"TF101"}
    assert len(told.unrepaired) == told.broken
    assert all(each.turn > 1 and each.lost_tokens > 0 for each in told.unrepaired)
    assert "TF101" in {each.code for each in told.remaining if not each.edge}


def test_the_report_of_what_was_not_changed_holds_the_text_as_it_was() -> None:
    text = "{#- mixed -#}\r\n\n" + APPENDS
    told = report_of(repair(template(text), PatchOptions()), PatchOptions())
    assert (told.status, told.text) == ("unchanged", text)
    assert told.patched_sha256 == told.original_sha256
    assert (told.rung, told.trades, told.clauses) == (None, (), ())
