"""The answer, seen from the dialects (its home is :mod:`templatefix.chat.answer`)."""

from templatefix.chat.answer import Answer, ToolCall

__all__ = ["Answer", "ToolCall"]
