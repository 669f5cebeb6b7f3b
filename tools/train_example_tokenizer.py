"""Trains templatefix/example/tokenizer.json: ``python tools/train_example_tokenizer.py``.

The result is the same on every run. It stands in for a real tokenizer where a template comes
without one, so it is built like those of current models: byte-level BPE, digits by themselves,
runs of newlines kept together.
"""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from training_text import training_text

_VOCABULARY = 4096
_WORDS = (
    r" ?[\p{L}\p{M}]+"  # a word, with the space before it
    r"|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+"  # punctuation
    r"|[\r\n]+"
    r"|[^\S\r\n]+(?!\S)"  # blanks, but for the last one before a word
    r"|\s"
)
#: In the order of their ids, which follow those of the vocabulary.
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_MARKERS = (
    *("<think>", "</think>"),
    *(f"<{slash}{name}>" for name in ("tool_call", "tool_response") for slash in ("", "/")),
)


def train() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(training_text(), trainer)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in _SPECIAL])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in _MARKERS])
    return tokenizer


if __name__ == "__main__":
    target = Path(__file__).parents[1] / "templatefix" / "example" / "tokenizer.json"
    target.write_text(train().to_str() + "\n", "utf-8")
