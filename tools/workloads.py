"""Which workloads gain though reasoning is dropped: ``python tools/workloads.py [MODEL_ID ...]``.

Prints the table of docs/answers.md for templates of the corpus (``tests/corpus.py``): what a server
finds in its cache of what it could reuse, in tokens over a conversation, under the published
template in the mode that it reasons in. ``~`` marks figures of a stand-in tokenizer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from templatefix import api
from templatefix.findings.outcome import Report
from templatefix.findings.run_outcome import RunOutcome
from tests.corpus import corpus_entry

MODELS = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-4B-Thinking-2507",
    "Qwen/Qwen3.6-35B-A3B",
    "deepseek-ai/DeepSeek-V3.1",
    "zai-org/GLM-4.5",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "moonshotai/Kimi-K2-Thinking",
    "MiniMaxAI/MiniMax-M2",
    "openai/gpt-oss-20b",
)
#: Heading -> scenario.
WORKLOADS = {
    "new question every turn": "reasoning-chat",
    "one loop of calls": "tool-rounds",
    "a loop, then questions": "tool-loop-then-user",
}


def table(model_ids: Iterator[str]) -> Iterator[str]:
    """The lines of the table."""
    yield "| model | " + " | ".join(WORKLOADS) + " |"
    yield "| --- |" + " --- |" * len(WORKLOADS)
    for model_id in model_ids:
        entry = corpus_entry(model_id)
        if entry is None:
            sys.exit(f"{model_id} is not in the corpus")
        tokenizer = str(entry.tokenizer) if entry.tokenizer else None
        (report,) = api.check_target(
            str(entry.template),
            api.SourceOptions(tokenizer=tokenizer),
            api.CheckOptions(full=True),
        )
        cells = [_cell(report, scenario) for scenario in WORKLOADS.values()]
        yield f"| {model_id} | " + " | ".join(cells) + " |"


def _cell(report: Report, scenario: str) -> str:
    run = next((run for run in _reasoning(report) if run.scenario == scenario), None)
    if run is None:
        return "-"
    about = "~" if report.tokenizer_approximate else ""
    hits = sum(row.hit_tokens or 0 for row in run.turns)
    ideal = sum(row.ideal_tokens or 0 for row in run.turns)
    return f"{about}{hits} of {about}{ideal}"


def _reasoning(report: Report) -> list[RunOutcome]:
    """The core runs of the first mode in which answers have reasoning."""
    core = [run for run in report.runs if run.core and run.replay == "raw"]
    first = next((run.kwargs for run in core if run.scenario == "reasoning-chat"), {})
    return [run for run in core if run.kwargs == first]


if __name__ == "__main__":
    for line in table(iter(sys.argv[1:] or MODELS)):
        print(line, flush=True)
