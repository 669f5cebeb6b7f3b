"""Text to token ids, as a server counts them, at a cost that is linear in new text."""

from .encoder import Encoder
from .loading import load_encoder
from .seam import completion_ids, stream_ids

__all__ = ["Encoder", "completion_ids", "load_encoder", "stream_ids"]
