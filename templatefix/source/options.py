"""What the caller may say about obtaining a target, and which targets are local."""

from __future__ import annotations

import os
from dataclasses import dataclass

STDIN = "-"

#: Seconds that the network may take for one target when nobody says otherwise.
NETWORK_TIMEOUT = 60.0
_LOCAL_SUFFIXES = (".jinja", ".jinja2", ".j2", ".json", ".gguf")


@dataclass(frozen=True)
class SourceOptions:
    """How targets are obtained.

    ``revision`` and ``offline`` concern the hub. ``template_name`` picks one of several named
    templates. ``tokenizer`` (a directory, a ``tokenizer.json`` or a hub id) and ``chat_template``
    (a template file) replace what the target brings. ``without_template``: a model that has none is
    a target, too, since a server renders. ``time_limit`` is the number of seconds that
    the network may take for one target.
    """

    revision: str | None = None
    offline: bool = False
    template_name: str | None = None
    tokenizer: str | None = None
    chat_template: str | None = None
    without_template: bool = False
    time_limit: float = NETWORK_TIMEOUT


def is_local(target: str) -> bool:
    """Whether ``target`` names something on this machine, so that the hub is never asked for it.

    A mistyped path must end in "no such file", not in a request that tells a server about it.
    """
    return (
        target == STDIN
        or target.startswith((".", "/", os.sep))
        or os.path.isabs(target)
        or (os.altsep is not None and os.sep in target)  # no id of the hub has a backslash
        or target.lower().endswith(_LOCAL_SUFFIXES)
        or os.path.lexists(target)
    )
