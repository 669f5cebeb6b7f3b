"""Rendering: one protocol, and the Jinja renderer behind it."""

from templatefix.render.jinja import JinjaRenderer
from templatefix.render.protocol import (
    PINNED_CLOCK,
    Crashed,
    OverLimit,
    Refused,
    Renderer,
    RenderRequest,
    SyntaxFault,
)

__all__ = [
    "PINNED_CLOCK",
    "Crashed",
    "JinjaRenderer",
    "OverLimit",
    "Refused",
    "RenderRequest",
    "Renderer",
    "SyntaxFault",
]
