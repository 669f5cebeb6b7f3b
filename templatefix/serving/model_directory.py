"""The directory that a render server is started on: a configuration beside tokenizer files."""

from __future__ import annotations

import json
import os
from pathlib import Path

from templatefix.errors import TargetError
from templatefix.serving.renderers import HARMONY, Renderer
from templatefix.source.template import ChatTemplate
from templatefix.tokens import load_encoder

_CONFIG = "config.json"
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx")
#: For tokenizers that come without a model: nothing of it but the vocabulary's size is ever used.
_SMALLEST = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "dtype": "bfloat16",
}
#: vLLM chooses harmony by the type of the model, and by nothing else.
_SMALLEST_OF_HARMONY = {
    **_SMALLEST,
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
}


def model_directory(
    template: ChatTemplate, scratch: Path, renderer: Renderer | None = None
) -> Path:
    """The target's own directory where it has a configuration, else one made in ``scratch``.

    For a ``renderer`` that is not Jinja it is always made, and only the tokenizer is the target's:
    of the model such code asks nothing, and what the model is stored in (FP8, MXFP4) would keep a
    server from starting on a machine without a GPU. Raises ``TargetError`` for a target without
    tokenizer files.
    """
    tokenizer = template.tokenizer
    if tokenizer is None or tokenizer.directory is None:
        raise TargetError(
            template.display, "a server cannot be started without a tokenizer", "give --tokenizer"
        )
    own = Path(template.target)
    configured = (own / _CONFIG).is_file()
    if renderer is None and tokenizer.directory == own and configured:
        return own.absolute()
    made = scratch / "model"
    made.mkdir()
    for file in sorted(tokenizer.directory.iterdir()):
        # Code of the model is left where it is: nobody runs it.
        if file.is_file() and file.suffix not in (*_WEIGHTS, ".py", ".jinja"):
            (made / file.name).symlink_to(file.resolve())
    if renderer is not None:
        (made / _CONFIG).unlink(missing_ok=True)
    elif own.is_dir() and configured:
        # The model is the target's, though its tokenizer was replaced.
        (made / _CONFIG).unlink(missing_ok=True)
        (made / _CONFIG).symlink_to((own / _CONFIG).resolve())
    if not os.path.lexists(made / _CONFIG):
        smallest = _SMALLEST_OF_HARMONY if renderer is HARMONY else _SMALLEST
        config = {**smallest, "vocab_size": _vocabulary_size(template)}
        (made / _CONFIG).write_text(json.dumps(config), "utf-8")
    return made


def _vocabulary_size(template: ChatTemplate) -> int:
    """At least as many as there are ids: vLLM refuses prompts with others."""
    try:
        encoder = load_encoder(template.tokenizer)
    except TargetError:
        return 1 << 20
    known = [encoder.token_id(text) or 0 for text in encoder.special_tokens()]
    return max([1 << 18, *known]) + 1
