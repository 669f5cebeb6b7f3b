"""Hand-made training templates of another project beside repairs of the same originals by ours.

The templates come out of the wheel that ``tests/packages.py`` pins, and are read, never kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Message, Scenario, Turn, assistant_message
from templatefix.chat.server import Server
from templatefix.checking import CheckOptions, prepare
from templatefix.checking.runs import modes_of
from templatefix.dialect.author import Unspoken
from templatefix.patching.bench import Bench
from templatefix.patching.repair import Patched, PatchOptions, repair
from templatefix.replay.run import Plan, replay
from templatefix.source import SourceOptions, load
from tests.corpus import corpus_entry
from tests.packages import cache_directory, templates

#: The package's originals, and the model whose tokenizer counts, where the corpus has it.
ORIGINALS = {
    "qwen3": "Qwen/Qwen3-8B",
    "qwen3_5_think": "Qwen/Qwen3.5-0.8B",
    "glm4moe": "zai-org/GLM-4.5",
    "nemotron_3_nano": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "gptoss": "openai/gpt-oss-20b",
}

_ASKED: Message = {"role": "user", "content": "When does the ferry sail?"}
_NEXT: Message = {"role": "user", "content": "And back?"}
_REASONING, _CONTENT = "The timetable says Monday.", "On Monday."


@dataclass(frozen=True)
class Pair:
    """An original on its bench under ``keep-reasoning``, the peer's template and our repair."""

    name: str
    bench: Bench
    theirs: str
    repaired: Patched

    def broken(self, text: str) -> Counter[str]:
        """How many core comparisons a text does not preserve, by scenario and code."""
        trial = self.bench.trial(text)
        if trial.fault is not None:
            return Counter({f"fails: {trial.fault}": 1})
        return Counter(f"{f.code} {f.run.plan.scenario.name}" for f in trial.failures)

    def keeps(self, text: str) -> Mapping[str, bool]:
        """Whether the next prompt continues the stream, for each way to write one answer."""
        server = self.bench.server(text)
        return {case: self._keeps(server, written) for case, written in self._cases()}

    def _cases(self) -> Iterator[tuple[str, str]]:
        """What a model may write, and its parser hands on with whatever surrounds the fields."""
        plain = self._written(Answer(_REASONING, _CONTENT))
        yield "reasoning after a blank line", self._written(Answer("\n" + _REASONING, _CONTENT))
        yield "answer after a newline", self._written(Answer(_REASONING, "\n" + _CONTENT))
        if "</think>\n\n" in plain:
            yield "one newline after </think>", plain.replace("</think>\n\n", "</think>\n")
        elif "</think>" in plain:
            # This model writes fewer newlines: one more or less is the same liberty.
            other = "</think>" if "</think>\n" in plain else "</think>\n"
            rest = plain.partition("</think>")[2].removeprefix("\n")
            yield "one newline after </think>", plain.partition("</think>")[0] + other + rest

    def _written(self, answer: Answer) -> str:
        written = self.bench.subject.author.completion([_ASKED], None, {}, answer).written
        if written is None:
            raise Unspoken("the layout of answers is not known")
        return written.text

    def _keeps(self, server: Server, text: str) -> bool:
        subject = self.bench.subject
        author = subject.author
        seat = author.seat([_ASKED], None, {})
        stop = max((text.rfind(stop) for stop in author.stops), default=-1)
        said = text[:stop] if stop >= 0 else text
        meant = Answer(_REASONING, _CONTENT)
        answer = author.parsers.answer(said, meant, state=seat.state, kwargs={}, tools=None)
        sent = assistant_message(answer, ())
        turns = (Turn((_ASKED,), answer, text, None, sent), Turn((_NEXT,)))
        plan = Plan(Scenario("case", turns, core=True), {}, replay="given")
        run = replay(plan, author, subject.encoder, self.bench.block_size, server)
        return bool(run.comparisons[0].preserving)


@cache
def pair(name: str) -> Pair:
    """Raises ``Unavailable`` where the package cannot be fetched."""
    packaged = templates("trl")
    entry = corpus_entry(ORIGINALS[name])
    tokenizer = str(entry.tokenizer) if entry is not None and entry.tokenizer else None
    directory = Path(cache_directory()) / "peers"
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{name}.jinja"
    file.write_text(packaged[f"{name}.jinja"], "utf-8")
    (template,) = load(str(file), SourceOptions(tokenizer=tokenizer))
    asked = CheckOptions()
    subject = prepare(template, asked)
    bench = Bench(subject, modes_of(subject, asked), "keep-reasoning", 16)
    repaired = repair(template, PatchOptions(policy="keep-reasoning"))
    return Pair(name, bench, packaged[f"{name}_training.jinja"], repaired)
