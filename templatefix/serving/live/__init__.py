"""Driving a live OpenAI-compatible server, and holding what it caches against the prediction."""

from templatefix.serving.live.verify import VerifyOptions, verify
from templatefix.serving.live.wire import Security

__all__ = ["Security", "VerifyOptions", "verify"]
