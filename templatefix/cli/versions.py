"""The libraries that a repair's proof rests on."""

from __future__ import annotations

import sys


def library_versions() -> dict[str, str]:
    """Names and versions, Python's own first."""
    # Not above: it imports a reader of mail, and most checks tell no versions.
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for library in ("jinja2", "tokenizers", "hypothesis"):
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            versions[library] = "unknown"
    return versions
