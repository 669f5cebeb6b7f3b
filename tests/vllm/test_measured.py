"""The figures in docs/measured.md are the ones that we compute for its conversation.

They were pasted from a server; that it still says so is what the tests beside this one show.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.vllm.chats import LONG_ANSWERS, Predicted, Qwen3

pytestmark = pytest.mark.vllm

_PAGE = Path(__file__).parent.parent.parent / "docs" / "measured.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
SILENT = {"enable_thinking": False}


def _tables(block: str) -> list[list[list[str]]]:
    """The tables of a block of output, as rows of cells without their heading."""
    tables: list[list[list[str]]] = []
    for line in block.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if cells[0] == "turn":
            tables.append([])
        elif len(cells) > 1 and cells[0].isdigit():
            tables[-1].append(cells)
    return tables


def _expected(predicted: Predicted, hits: list[int], stored: bool) -> list[list[str]]:
    """turn, prompt, stream, reused, ideal, predicted, cached, local, external."""
    rows = []
    comparisons = [None, *predicted.run.comparisons]
    for turn, (request, one, hit) in enumerate(
        zip(predicted.run.requests, comparisons, hits, strict=True), start=1
    ):
        before = ["-"] * 3 if one is None else [str(one.reuse), str(one.ideal), str(hit)]
        found = [0, hit] if stored else [hit, 0]
        lengths = [turn, len(request.prompt_ids), len(request.stream_ids)]
        rows.append([*map(str, lengths), *before, *map(str, (hit, *found))])
    return rows


def test_every_table_is_what_we_compute(qwen3: Qwen3) -> None:
    outputs = [block for block in _BLOCK.findall(_PAGE.read_text()) if "turn |" in block]
    published, patched = (
        qwen3.predicted(form, LONG_ANSWERS, SILENT, "faithful")
        for form in ("published", "lossless")
    )

    local, write_back, prompts_only = map(_tables, outputs)

    assert local == [_expected(each, each.hits, False) for each in (published, patched)]
    assert write_back == [_expected(each, each.hits, True) for each in (published, patched)]
    assert prompts_only == [
        _expected(each, each.hits_of_prompts_alone(), True) for each in (published, patched)
    ]
