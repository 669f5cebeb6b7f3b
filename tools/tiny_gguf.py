"""Write a GGUF file with the tokenizer and the chat template of a model, and tiny random weights.

    python tools/tiny_gguf.py MODEL FILE [--chat-template FILE]

A llama.cpp server loads it in no time: one sees how it renders a template, and what it finds out
about it. MODEL is a directory with a byte-level BPE ``tokenizer.json``, such as
``templatefix/example``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, TokenType

#: Of the one layer that there is.
_WIDTH, _INNER, _HEADS = 32, 64, 2

#: Tokens that end a turn, the first that the tokenizer has.
_ENDS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "</s>", "<|endoftext|>")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--chat-template", type=Path, help="the model's own otherwise")
    given = parser.parse_args()
    template = given.chat_template or given.model / "chat_template.jinja"
    write(given.model / "tokenizer.json", template.read_text("utf-8"), given.file)


def write(tokenizer: Path, chat_template: str, file: Path) -> None:
    """Write the file. Raises ``KeyError`` where the tokenizer is no byte-level BPE."""
    known = json.loads(tokenizer.read_text("utf-8"))
    added = {each["content"]: each["id"] for each in known["added_tokens"]}
    ids = {**known["model"]["vocab"], **added}
    tokens = sorted(ids, key=ids.__getitem__)
    merges = known["model"]["merges"]
    end = next((ids[each] for each in _ENDS if each in ids), len(tokens) - 1)
    writer = GGUFWriter(file, "llama")
    writer.add_name("tiny")
    writer.add_context_length(4096)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in merges])
    writer.add_token_types(
        [TokenType.CONTROL if each in added else TokenType.NORMAL for each in tokens]
    )
    writer.add_eos_token_id(end)
    writer.add_bos_token_id(end)
    writer.add_add_bos_token(False)
    writer.add_chat_template(chat_template)
    random = np.random.default_rng(0)
    for name, shape in _weights(len(tokens)).items():
        weights = np.ones(shape) if name.endswith("norm") else random.normal(0, 0.02, shape)
        writer.add_tensor(f"{name}.weight", weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _weights(tokens: int) -> dict[str, tuple[int, ...]]:
    """The names of all weights, with their shapes (rows, columns)."""
    layer = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (_WIDTH, _WIDTH))
    layer |= {"ffn_gate": (_INNER, _WIDTH), "ffn_up": (_INNER, _WIDTH)}
    shapes: dict[str, tuple[int, ...]] = {f"blk.0.{name}": shape for name, shape in layer.items()}
    shapes |= {"blk.0.ffn_down": (_WIDTH, _INNER)}
    shapes |= {"token_embd": (tokens, _WIDTH), "output": (tokens, _WIDTH)}
    return shapes | dict.fromkeys(("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"), (_WIDTH,))


if __name__ == "__main__":
    main()
