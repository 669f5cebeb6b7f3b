"""``import templatefix`` as somebody's program or test suite does it."""

from __future__ import annotations

import doctest
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import templatefix
from templatefix import library, testing
from templatefix.errors import TargetError
from templatefix.source import ChatTemplate
from templatefix.testing import assert_prefix_preserving

EXAMPLE = Path(templatefix.__file__).with_name("example")

KEEPS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TRIMS = KEEPS.replace("m.content", "m.content | trim")
MOVES = "{% if messages|length > 1 %}!{% endif %}" + KEEPS


class Saved:
    """A tokenizer object as far as the library looks at one: it writes its files."""

    def __init__(self, template: str) -> None:
        self.template = template

    def save_pretrained(self, folder: str) -> None:
        shutil.copy(EXAMPLE / "tokenizer.json", folder)
        (Path(folder) / "chat_template.jinja").write_text(self.template, "utf-8")


@pytest.mark.parametrize("module", [templatefix, library, testing])
def test_examples_in_docstrings_are_true(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.failed == 0
    assert found.attempted > 0


def test_the_package_itself_imports_nothing_before_it_is_asked() -> None:
    seen = "import sys, templatefix; print(templatefix.__version__, 'jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [templatefix.__version__, "False"]
    with pytest.raises(AttributeError, match="no attribute 'lint'"):
        templatefix.lint  # noqa: B018


def test_a_target_is_named_as_the_command_line_does() -> None:
    assert templatefix.load(str(EXAMPLE)).text == templatefix.load(EXAMPLE).text


def test_the_example_goes_from_broken_to_preserving() -> None:
    template = templatefix.load(EXAMPLE)
    assert template.tokenizer is not None
    before = templatefix.check(template, max_examples=0)
    assert before.verdict == "breaks"
    assert {f.code for f in before.findings if f.severity == "error"} == {"TF101", "TF102"}
    repaired = templatefix.patch(template, policy="keep-reasoning", max_examples=2)
    assert repaired.status == "patched"
    assert repaired.text is not None
    run = templatefix.simulate(template, served=repaired.text)
    assert run.preserving
    assert [comparison.lost for comparison in run.comparisons] == [0, 0, 0]
    broken = templatefix.simulate(template)
    assert not broken.preserving
    assert all(comparison.lost > 0 for comparison in broken.comparisons)
    assert [c.turn for c in broken.comparisons] == [2, 3, 4]


def test_a_tokenizer_object_brings_its_template() -> None:
    template = templatefix.load(Saved(KEEPS))
    assert template.text == KEEPS
    assert template.tokenizer is not None
    given = templatefix.load(TRIMS, tokenizer=Saved(KEEPS))
    assert given.text == TRIMS
    assert given.tokenizer is not None
    run = templatefix.simulate(given)
    assert run.requests[0].prompt_ids[0] == 3942  # <|im_start|> of the example's tokenizer


def test_figures_are_those_of_the_conversation_that_is_given() -> None:
    chat = {
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": " b", "completion": " b<|im_end|>"},
            {"role": "user", "content": "c"},
        ]
    }
    kept = templatefix.simulate(KEEPS, chat, block_size=1)
    assert kept.preserving
    trimmed = templatefix.simulate(TRIMS, chat, block_size=1)
    assert not trimmed.preserving
    (comparison,) = trimmed.comparisons
    before = comparison.before
    assert before.stream == before.prompt + " b<|im_end|>"
    assert comparison.reuse == comparison.hit == len(before.prompt_ids)
    assert templatefix.check(TRIMS, conversation=chat, block_size=1).verdict == "breaks"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ messages[0]['content'", "line 1"),
        ("{{ raise_exception('no') }}{{ messages }}", "refuses the conversation: no"),
        ("{{ messages.a.b.c }}{{ messages[0].role }}{{ messages[0].content }}", "rendering fails"),
        ("no/such/file.jinja", "no such file"),
    ],
)
def test_what_cannot_be_replayed_says_why(template: str, words: str) -> None:
    with pytest.raises(TargetError, match=words):
        templatefix.simulate(template)


@pytest.mark.parametrize("named", [5, None, b"x"])
def test_what_names_no_template_is_refused(named: Any) -> None:
    for ask in (templatefix.load, templatefix.check, templatefix.simulate):
        with pytest.raises(TypeError, match=f"is wanted, not {type(named).__name__}"):
            ask(named)


def test_what_is_no_conversation_is_refused() -> None:
    for ask in (templatefix.check, templatefix.simulate):
        with pytest.raises(TargetError, match=r"messages\[0\] is not an object with a role"):
            ask(KEEPS, conversation={"messages": ["hello"]})


def test_what_does_not_compile_has_a_fault_and_no_verdict() -> None:
    report = templatefix.check("{% for m in messages %}{{ m.content }}")
    assert report.verdict == "error"
    assert report.fault is not None
    assert report.fault.code == "TF902"


def test_a_publisher_asserts_that_the_template_keeps_the_prefix() -> None:
    report = assert_prefix_preserving(KEEPS, max_examples=0)
    assert report.verdict == "preserving"
    template = ChatTemplate("mine", "mine.jinja", KEEPS)
    assert assert_prefix_preserving(template, Saved(KEEPS)).tokenizer_approximate is False


@pytest.mark.parametrize(
    ("template", "words"),
    [(MOVES, "TF107"), ("{{ messages[0].content }}{{ messages[9].content[0] }}", "TF203")],
)
def test_an_assertion_fails_with_the_report(template: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_prefix_preserving(template, max_examples=0)
