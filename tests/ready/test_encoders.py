"""Ready templates whose reference is an encoder: here one of our own in the place of vLLM."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from templatefix.cli.program import templatefix
from templatefix.errors import TargetError
from templatefix.findings.ready import EncoderName
from templatefix.ready import encoding as encodings
from templatefix.ready import shelf
from templatefix.ready.encoding import encoding
from templatefix.ready.header import header_of
from templatefix.ready.record import record_from
from templatefix.render import Crashed, Refused, RenderRequest
from templatefix.serving import vllm_python
from tests.subjects import APPENDS

HEADER = """\
{{#-
  serves: org/One
  reference: vllm:deepseek_v32{kwargs}
  templatefix-policy: keep-reasoning
  change: answers stay.
-#}}
"""
READY = APPENDS.replace("message.content", "(message.content or '')")
KEEPS = ' {"drop": false}'

#: Prints messages as READY does, but for past answers, which it drops unless told otherwise.
ENCODER = """
class Tokenizer:
    def apply_chat_template(self, messages, tools, tokenize, conversation, drop=True, **kwargs):
        print("noise on stdout")
        prompt = ""
        for message in conversation:
            role, content = message["role"], message["content"]
            if role == "developer":
                raise ValueError("no developers here")
            if role == "critic":
                raise KeyError(role)
            if role != "assistant" or not drop:
                prompt += f"<|im_start|>{role}\\n{content}<|im_end|>\\n"
        return prompt + "<|im_start|>assistant\\n"


def get_deepseek_v32_tokenizer(tokenizer):
    return Tokenizer()
"""
PREPARES = """
def parse_chat_messages(messages, model, content_format):
    assert content_format == "string"
    return messages, None, None
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shelf, beside a Python with something that is called vllm."""
    for name, text in {
        "vllm/__init__.py": "__version__ = '0.0.1'",
        "vllm/renderers/__init__.py": "",
        "vllm/renderers/chat_utils.py": PREPARES,
        "vllm/tokenizers/__init__.py": "",
        "vllm/tokenizers/deepseek_v32.py": ENCODER,
    }.items():
        path = tmp_path / "python" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "python"))
    monkeypatch.setenv(vllm_python.VARIABLE, sys.executable)
    monkeypatch.setattr(vllm_python, "has_vllm", lambda: False)
    shelved = tmp_path / "shelf"
    shelved.mkdir()
    monkeypatch.setattr(shelf, "directory", lambda: shelved)
    return shelved


def record(folder: Path, kwargs: str, text: str = READY) -> tuple[int, str]:
    (folder / "one.jinja").write_text(HEADER.format(kwargs=kwargs) + text, encoding="utf-8")
    words = ["ready", "record", "one", "--max-examples", "5"]
    ended = CliRunner().invoke(templatefix, words)
    return ended.exit_code, ended.stderr


def test_an_encoder_renders_what_it_is_asked_and_says_why_it_does_not(folder: Path) -> None:
    user = {"role": "user", "content": "hi"}
    with encoding("vllm:deepseek_v32") as encoder:
        assert encoder.version == "0.0.1"
        answer = {"role": "assistant", "content": "é"}
        asked = RenderRequest([user, answer, user])
        assert "é" not in encoder.render(asked)
        assert "é" in encoder.given({"drop": False}).render(asked)
        with pytest.raises(Refused, match="no developers here"):
            encoder.render(RenderRequest([{"role": "developer", "content": "d"}]))
        with pytest.raises(Crashed, match="KeyError"):
            encoder.render(RenderRequest([{"role": "critic", "content": "d"}]))
        assert encoder.render(RenderRequest([user])).startswith("<|im_start|>user\nhi")


def test_a_record_holds_what_was_compared(folder: Path) -> None:
    code, said = record(folder, KEEPS)
    assert (code, said.splitlines()[-1]) == (0, f"wrote {folder / 'one.json'}")
    found = record_from((folder / "one.json").read_text(encoding="utf-8"), "one")
    assert found.references == ()
    (encoder,) = found.encoders
    assert (encoder.name, encoder.kwargs) == ("vllm:deepseek_v32", {"drop": False})
    assert encoder.openings.prompts > 10
    assert encoder.openings.refused > 0  # those with a developer message
    assert encoder.histories is not None
    assert encoder.histories.prompts > 30
    assert set(encoder.clauses) == {"C2", "C6"}
    chat = next(chat for chat in encoder.reuse if chat.scenario == "plain-chat")
    assert all(turn.cached[0] < turn.cached[1] == turn.ideal[1] for turn in chat.turns)
    shown = CliRunner().invoke(templatefix, ["ready", "show", "one"]).stdout
    assert "the encoder vllm:deepseek_v32 of vLLM 0.0.1" in shown
    assert f"all {encoder.histories.prompts}" in shown
    row = CliRunner().invoke(templatefix, ["ready", "list", "--output-format", "markdown"]).stdout
    assert "| `one` | vllm:deepseek_v32 |" in row


def test_histories_are_left_alone_where_the_encoder_keeps_none(folder: Path) -> None:
    assert record(folder, "")[0] == 0
    (encoder,) = record_from((folder / "one.json").read_text(encoding="utf-8"), "one").encoders
    assert encoder.histories is None


@pytest.mark.parametrize(
    ("kwargs", "old", "new", "said"),
    [
        (KEEPS, "or '')", "or '') + ('!' if message.role == 'user' else '')", "renders otherwise"),
        (KEEPS, "{%- for", "{{- 'a' }}{%- for", "renders otherwise"),
        (' {"drop": true}', "", "", "renders otherwise"),
        ("", "(message.content or '')", "(message.content or '')|trim", "breaks C2"),
        ("", "{{- '<|", "{%- for p in message.content %}{% endfor %}{{- '<|", "its openai form"),
        (" drop", "", "", "no JSON object"),
    ],
)
def test_what_differs_from_the_encoder_or_breaks_gets_no_record(
    folder: Path, kwargs: str, old: str, new: str, said: str
) -> None:
    code, complaint = record(folder, kwargs, READY.replace(old, new) if old else READY)
    assert code == 2
    assert said in complaint
    assert not (folder / "one.json").exists()


def test_without_vllm_there_is_no_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(vllm_python.VARIABLE)
    code, complaint = record(folder, "")
    assert code == 2
    assert "vllm:deepseek_v32: vLLM is not installed" in complaint


def test_an_encoder_that_is_not_known_is_refused() -> None:
    with pytest.raises(TargetError, match="no such encoder"), encoding("vllm:mistral"):
        pass


def test_a_python_that_ends_at_once_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "_PROGRAM", "raise SystemExit(3)")
    with (
        pytest.raises(TargetError, match="vLLM's Python ended"),
        encoding("vllm:deepseek_v4", sys.executable),
    ):
        pass


def test_a_header_names_encoders_beside_published_templates() -> None:
    header = header_of(HEADER.format(kwargs=KEEPS + "\n  reference: org/One"), "one")
    assert header.references == ("org/One",)
    assert header.encoders == (EncoderName("vllm:deepseek_v32", {"drop": False}),)
