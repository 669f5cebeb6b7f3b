"""A chat replayed turn by turn: streams, prompts and what they share."""
