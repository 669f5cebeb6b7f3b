"""Newlines that a parser leaves in the fields come back however many the model wrote."""

from __future__ import annotations

from jinja2 import nodes

from templatefix.checking import CheckOptions, prepare
from templatefix.checking.runs import modes_of
from templatefix.patching.bench import Bench
from templatefix.patching.repair import PatchOptions, repair
from templatefix.syntax import parse
from tests.peers import Pair
from tests.subjects import branches, template

#: Reasoning and content are trimmed, and the format's own newlines printed around them.
TRIMS = branches(
    "{{- '<|im_start|>assistant\\n<think>\\n' + (message.reasoning_content or '').strip('\\n')"
    " + '\\n</think>\\n\\n' + (message.content or '').lstrip('\\n') + '<|im_end|>\\n' }}"
)


def test_a_repaired_template_reproduces_what_was_generated_from_the_fields() -> None:
    original = template(TRIMS)
    repaired = repair(original, PatchOptions(policy="keep-reasoning", max_examples=10))
    assert repaired.text is not None
    assert repaired.candidate is not None
    assert repaired.candidate.rung == 3
    asked = CheckOptions()
    subject = prepare(original, asked)
    bench = Bench(subject, modes_of(subject, asked), "keep-reasoning", 16)
    cases = Pair("trims", bench, TRIMS, repaired)
    assert list(cases.keeps(TRIMS).values()) == [False, False, False]
    assert cases.keeps(repaired.text) == {
        "reasoning after a blank line": True,
        "answer after a newline": True,
        "one newline after </think>": True,
    }


def test_no_slice_of_a_repaired_template_ends_at_none() -> None:
    """llama.cpp refuses such a slice, which Python and Jinja take."""
    repaired = repair(template(TRIMS), PatchOptions(policy="keep-reasoning", max_examples=0))
    assert repaired.text is not None
    parsed = parse(repaired.text)
    slices = [place.node for place in parsed.places if isinstance(place.node, nodes.Slice)]
    assert slices
    assert not [
        node for each in slices for node in parsed.below(each, nodes.Const) if node.value is None
    ]
