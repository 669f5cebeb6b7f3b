"""A program that starts like ``python -m vllm.entrypoints.cli.main`` and serves the fake.

It is copied, with the package around it, to where a test wants a Python with vLLM to be.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.served.fake import Fake, example, of, serving


def _flag(name: str) -> str | None:
    return next((a.partition("=")[2] for a in sys.argv if a.startswith(f"--{name}=")), None)


def main() -> None:
    notes = Path(os.environ["STAND_IN_NOTES"])
    # vLLM's own command line asks for this, and dies where no distribution has the name.
    version = importlib.metadata.version("vllm")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    told = {"args": sys.argv[1:], "version": version, "pids": [os.getpid(), child.pid]}
    told["directory"] = sorted(file.name for file in Path(sys.argv[3]).iterdir())
    told["config"] = json.loads((Path(sys.argv[3]) / "config.json").read_text("utf-8"))
    notes.write_text(json.dumps(told), encoding="utf-8")
    how = os.environ.get("STAND_IN_HOW", "")
    if how == "dies":
        sys.exit("ValueError: no such architecture: ['Nothing']")
    if how == "never":
        time.sleep(600)
    file = _flag("chat-template")
    fake: Fake = of(Path(file).read_text("utf-8")) if file else example()
    fake.reasoning, fake.tool = _flag("reasoning-parser"), _flag("tool-call-parser")
    with serving(fake, int(_flag("port") or 0)):
        time.sleep(600)


if __name__ == "__main__":
    main()
