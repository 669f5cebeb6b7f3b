"""Write the records of the ready templates again: ``python tools/record_ready.py [NAME ...]``.

The published templates and tokenizers come from the corpus (``tests/corpus.py``), encoders from the
Python that has vLLM. With ``--check`` nothing is written and a stale record ends in exit code 1;
without a corpus it ends in 0 and says that nothing was compared, and so it says of a template whose
reference is an encoder where there is no vLLM.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from templatefix.ready.shelf import Ready, shelf
from templatefix.serving.vllm_python import VARIABLE, has_vllm
from tests.corpus import corpus_directory, corpus_entry, family_tokenizer

VLLM_PYTHON = os.environ.get(VARIABLE, "/opt/vllm-venv/bin/python")
ROOT = Path(__file__).resolve().parent.parent


def _command(ready: Ready, words: list[str]) -> list[str]:
    command = [sys.executable, "-m", "templatefix", "ready", "record", ready.name, *words]
    for model_id in ready.header.references:
        entry = corpus_entry(model_id)
        if entry is None:
            continue
        command += ["--reference", f"{model_id}={entry.template}"]
        if entry.tokenizer is not None:
            command += ["--tokenizer", str(entry.tokenizer)]
    own = family_tokenizer(ready.name) if ready.header.encoders else None
    return command if own is None else [*command, "--tokenizer", str(own)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    if corpus_directory() is None:
        print("no corpus of published templates: nothing was compared")
        return 0
    wanted = [each for each in shelf() if not asked.names or each.name in asked.names]
    words = ["--check"] if asked.check else []
    environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: VLLM_PYTHON}

    def made(ready: Ready) -> int:
        if ready.header.encoders and asked.check and not (has_vllm() or Path(VLLM_PYTHON).exists()):
            print(f"{ready.name}: no vLLM, nothing was compared")
            return 0
        return subprocess.run(_command(ready, words), env=environment, check=False).returncode

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return max(pool.map(made, wanted), default=0)


if __name__ == "__main__":
    raise SystemExit(main())
