"""Small tokenizers of the kinds that models use, trained on the spot."""

from __future__ import annotations

from collections.abc import Callable

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

TEXT = (
    "user assistant system hello world, the quick brown fox. What is 42? It's fine.\n\n"
    " two  spaces and\ttabs; naïve café, 中文 ▁ <b>bold</b> [x] {'a': 1}\r\n"
) * 3


def _trained(tokenizer: Tokenizer, added: list[AddedToken]) -> Tokenizer:
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        show_progress=False,
        initial_alphabet=[*pre_tokenizers.ByteLevel.alphabet(), "▁", "\n", " "],
        special_tokens=["<unk>"],
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.add_tokens(added)
    return tokenizer


def _plain(*texts: str) -> list[AddedToken]:
    return [AddedToken(text, normalized=False, special=True) for text in texts]


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(
                Regex(r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s"), "isolated"
            ),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return _trained(
        tokenizer, _plain("<|im_start|>", "<|im_end|>", "<think>", "</think>", "\n\n\n")
    )


def prefix_space() -> Tokenizer:
    """Byte-level with a space before every segment, and a template for special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer = _trained(tokenizer, _plain("<s>", "</s>"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        special_tokens=[(text, tokenizer.token_to_id(text)) for text in ("<s>", "</s>")],
    )
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=32)
    return tokenizer


def _metaspace(scheme: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return _trained(tokenizer, _plain("<s>", "</s>", "[INST]", "[/INST]", "<", "<th"))


def metaspace_first() -> Tokenizer:
    return _metaspace("first")


def metaspace_always() -> Tokenizer:
    return _metaspace("always")


def sentencepiece() -> Tokenizer:
    """The export of a SentencePiece model: the dummy space is a normalizer's work."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    return _trained(tokenizer, _plain("<s>", "</s>", "<|user|>"))


def stripping() -> Tokenizer:
    """Added tokens that take the white space beside them along."""
    added = [
        AddedToken("<mask>", lstrip=True, normalized=False),
        AddedToken("<|end|>", rstrip=True, normalized=False),
        AddedToken("<both>", lstrip=True, rstrip=True, normalized=False),
        *_plain("<|user|>"),
    ]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _trained(tokenizer, added)


def stripping_beside_space_tokens() -> Tokenizer:
    """Where the white space that one token takes may be another token."""
    tokenizer = stripping()
    tokenizer.add_tokens(_plain("\n\n", "  "))
    return tokenizer


def overlapping() -> Tokenizer:
    """Tokens that begin, end and contain one another."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _trained(tokenizer, _plain("<a", "<a>", "<a><b>", "<", ">x", "a><", "<b>>"))


def normalized() -> Tokenizer:
    """Tokens that are looked for in lower-cased text, and words that match only alone."""
    added = [
        AddedToken("<Think>", normalized=True),
        AddedToken("yes", normalized=True, single_word=True),
        AddedToken("no", normalized=False, single_word=True),
        *_plain("<|End|>", "<th"),
    ]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _trained(tokenizer, added)


def second_pass() -> Tokenizer:
    """Normalised tokens without a normalizer: they are looked for after the others."""
    added = [
        AddedToken("<|User|>", normalized=True),
        AddedToken("<think>", normalized=True, rstrip=True),
        AddedToken("<|end|><think>", normalized=True),
        *_plain("<|end|>", "er|>"),
    ]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _trained(tokenizer, added)


KINDS: tuple[Callable[[], Tokenizer], ...] = (
    byte_level,
    prefix_space,
    metaspace_first,
    metaspace_always,
    sentencepiece,
    stripping,
    stripping_beside_space_tokens,
    overlapping,
    normalized,
    second_pass,
)
