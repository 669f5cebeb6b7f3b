"""What a hook leaves alone: a commit also holds templates that render pages or playbooks.

They may need tags that only their own program knows, so they are not even parsed.
"""

from __future__ import annotations

import json
from pathlib import Path

# Configuration files larger than this are not configuration files.
_MAX_BYTES = 64 * 2**20


def is_none_of_ours(target: str) -> bool:
    """Whether a file can be seen to hold no chat template, without reading it as one.

    A file that cannot be read is ours: the check says what is wrong with it.
    """
    path = Path(target)
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return False
        content = path.read_bytes()
    except (OSError, ValueError):
        return False
    if path.suffix.lower() != ".json":
        # A chat template reads ``messages``, and Jinja has no other way to write that name.
        return b"messages" not in content
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return b"chat_template" not in content
    return isinstance(document, dict) and not document.get("chat_template")
