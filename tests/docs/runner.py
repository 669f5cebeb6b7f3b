"""Runs commands of pages one after the other in one process: imports take longer than they do.

What a command is to write is not there before it, and candidates of a patch have to pass no
generated conversations beside all else. Reads a JSON list of commands from standard input, works in
the folder that it is started in, and prints a JSON list of ``[exit code, standard output, standard
error]``.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from click.testing import CliRunner

from templatefix.cli.program import templatefix


def main() -> None:
    ended = []
    for command in json.load(sys.stdin):
        program, *words = shlex.split(command)
        assert program == "templatefix", command
        if "--out" in words:
            Path(words[words.index("--out") + 1]).unlink(missing_ok=True)
        if words[0] in ("patch", "survey"):
            words += ["--max-examples", "0"]
        ran = CliRunner().invoke(templatefix, words, catch_exceptions=False)
        ended.append([ran.exit_code, ran.stdout, ran.stderr])
    json.dump(ended, sys.stdout)


if __name__ == "__main__":
    main()
