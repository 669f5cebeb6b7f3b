"""The policy under which a template is judged, and the header that records it."""

from __future__ import annotations

import re

POLICIES = ("lossless", "keep-reasoning")

#: The line that a patched file carries in its first comment.
HEADER = "templatefix-policy: {policy}"

_FIRST_COMMENT = re.compile(r"\s*\{#-?(?P<text>.*?)-?#\}", re.DOTALL)
_POLICY = re.compile(r"^\s*templatefix-policy:\s*(?P<policy>\S+)\s*$", re.MULTILINE)
#: The line with the SHA-256 of the template that was patched.
ORIGINAL = "original-sha256: {sha256}"
_ORIGINAL = re.compile(r"^\s*original-sha256:\s*(?P<sha256>[0-9a-f]{64})\s*$", re.MULTILINE)


def first_comment(template_text: str) -> str | None:
    """The text of the comment that a template begins with, its header; None without one."""
    comment = _FIRST_COMMENT.match(template_text)
    return comment["text"] if comment else None


def policy_of(template_text: str) -> str | None:
    """The policy that the header of a patched template records.

    >>> policy_of("{#- patched\\ntemplatefix-policy: lossless\\n-#}{{ messages }}")
    'lossless'
    """
    comment = first_comment(template_text)
    found = _POLICY.search(comment) if comment is not None else None
    return found["policy"] if found and found["policy"] in POLICIES else None


def original_of(template_text: str) -> str | None:
    """The SHA-256, in hexadecimal digits, of the template that a patched one was made of.

    >>> original_of("{#\\n  original-sha256: " + 64 * "0" + "\\n#}{{ messages }}") == 64 * "0"
    True
    """
    comment = first_comment(template_text)
    found = _ORIGINAL.search(comment) if comment is not None else None
    return found["sha256"] if found else None


def policy_for(asked: str | None, template_text: str = "") -> str:
    """The policy of a check: what was asked for, else what the template's header records.

    >>> policy_for(None, "{{ messages }}")
    'keep-reasoning'
    """
    return asked or policy_of(template_text) or "keep-reasoning"
