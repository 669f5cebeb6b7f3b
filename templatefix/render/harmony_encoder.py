"""gpt-oss prompts by ``openai_harmony``, as vLLM 0.32 builds them for a chat request.

Source: vLLM's ``entrypoints/openai/parser/harmony_utils.py`` for what becomes which harmony
message; the library spells and encodes them.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from templatefix.render.harmony_vocabulary import VARIABLE, write_vocabulary
from templatefix.render.protocol import Crashed, Refused
from templatefix.render.remote import Message

#: The server's own variable that keeps the date of the head.
_DATE = "VLLM_SYSTEM_START_DATE"


class HarmonyEncoder:
    """Renders chat requests; it has no parsers of its own.

    Raises ``ImportError`` where the library is not installed and ``OSError`` where its vocabulary
    neither is at hand nor can be written from ``tokenizer_json``.
    """

    url = "openai-harmony"
    model = "gpt-oss"

    def __init__(self, tokenizer_json: Path | None) -> None:
        import openai_harmony

        self._library = openai_harmony
        self._encoding = _loaded(openai_harmony, tokenizer_json)

    @property
    def name(self) -> str:
        return f"openai-harmony {importlib.metadata.version('openai-harmony')}"

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] | None,
        kwargs: Mapping[str, Any],
        *,
        generation_prompt: bool = True,
    ) -> list[int]:
        """The prompt's ids. As in vLLM, kwargs and ``generation_prompt`` change nothing."""
        told = self._without_past_analysis(self._conversation(messages, tools))
        config = self._library.RenderConversationConfig(auto_drop_analysis=False)
        try:
            conversation = self._library.Conversation.from_messages(told)
            role = self._library.Role.ASSISTANT
            ids = self._encoding.render_conversation_for_completion(
                conversation, role, config=config
            )
        except self._library.HarmonyError as error:
            raise Crashed("openai-harmony", str(error)) from error
        return list(ids)

    def derender(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] | None,
        kwargs: Mapping[str, Any],
        prompt_ids: Sequence[int],
        completion_ids: Sequence[int],
        *,
        cut: bool = False,
    ) -> None:
        return None

    def tokenize(self, text: str) -> list[int]:
        return list(self._encoding.encode(text, allowed_special="all"))

    def detokenize(self, token_ids: Sequence[int]) -> str:
        return str(self._encoding.decode(list(token_ids)))

    def _conversation(
        self, messages: Sequence[Message], tools: Sequence[Message] | None
    ) -> list[Any]:
        rest = list(messages)
        instructions = None
        if rest and rest[0].get("role") in ("system", "developer"):
            instructions = _text(rest.pop(0).get("content"))
        day = os.environ.get(_DATE) or date.today().isoformat()
        system = self._library.SystemContent.new().with_conversation_start_date(day)
        told = [self._said("system", system)]
        if instructions or tools:
            told.append(self._developer(instructions, tools))
        names = {
            call.get("id"): call["function"]["name"]
            for message in rest
            for call in message.get("tool_calls") or ()
        }
        for message in rest:
            told += self._messages(message, names)
        return told

    def _developer(self, instructions: str | None, tools: Sequence[Message] | None) -> Any:
        content = self._library.DeveloperContent.new()
        if instructions is not None:
            content = content.with_instructions(instructions)
        described = [
            self._library.ToolDescription.new(
                name=tool["function"]["name"],
                description=tool["function"].get("description") or "",
                parameters=tool["function"].get("parameters"),
            )
            for tool in tools or ()
        ]
        if described:
            content = content.with_function_tools(described)
        return self._said("developer", content)

    def _messages(self, message: Message, names: Mapping[Any, str]) -> Iterator[Any]:
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            yield from self._answer(message)
        elif role == "tool":
            author = self._library.Author.new(
                self._library.Role.TOOL, f"functions.{names.get(message.get('tool_call_id'), '')}"
            )
            said = self._library.Message.from_author_and_content(author, _text(content) or "")
            yield said.with_channel("commentary").with_recipient("assistant")
        elif role in ("system", "developer"):
            instructions = _text(content)
            if instructions is not None:
                yield self._developer(instructions, None)
        elif role == "user":
            parts = content if isinstance(content, list) else [{"text": content or ""}]
            texts = [
                self._library.TextContent(text=part if isinstance(part, str) else part["text"])
                for part in parts
            ]
            yield self._library.Message.from_role_and_contents(self._library.Role.USER, texts)
        else:
            raise Refused(f"harmony has no role {role!r}")

    def _answer(self, message: Message) -> Iterator[Any]:
        """An answer's messages: beside calls, its text is a preamble and comes first."""
        calls = message.get("tool_calls") or ()
        text = _text(message.get("content"))
        reasoning = message.get("reasoning")
        if calls and text:
            yield self._said("assistant", text).with_channel("commentary")
        if reasoning:
            yield self._said("assistant", reasoning).with_channel("analysis")
        if not calls and text:
            yield self._said("assistant", text).with_channel("final")
        for call in calls:
            function = call["function"]
            arguments = function.get("arguments") or ""
            spelled = arguments if isinstance(arguments, str) else json.dumps(arguments)
            said = self._said("assistant", spelled).with_channel("commentary")
            yield said.with_recipient(f"functions.{function['name']}").with_content_type("json")

    def _said(self, role: str, content: Any) -> Any:
        return self._library.Message.from_role_and_content(self._library.Role(role), content)

    def _without_past_analysis(self, told: Sequence[Any]) -> list[Any]:
        """Without the analysis that comes before the last final message."""
        finals = [at for at, message in enumerate(told) if message.channel == "final"]
        last = finals[-1] if finals else -1
        return [m for at, m in enumerate(told) if at >= last or m.channel != "analysis"]


def _loaded(library: Any, tokenizer_json: Path | None) -> Any:
    """The encoding, which the library reads from a file or fetches."""
    name = library.HarmonyEncodingName.HARMONY_GPT_OSS
    if os.environ.get(VARIABLE) or tokenizer_json is None:
        try:
            return library.load_harmony_encoding(name)
        except library.HarmonyError as error:
            raise OSError(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="templatefix-") as scratch:
        written = write_vocabulary(tokenizer_json, Path(scratch))
        if written is not None:
            os.environ[VARIABLE] = str(written)
        try:
            return library.load_harmony_encoding(name)
        except library.HarmonyError as error:
            raise OSError(str(error)) from error
        finally:
            os.environ.pop(VARIABLE, None)


def _text(content: Any) -> str | None:
    """The text of a content, its parts joined; None where there is none."""
    if content is None or isinstance(content, str):
        return content
    texts = [part if isinstance(part, str) else part.get("text") for part in content]
    said = [text for text in texts if text is not None]
    return "".join(said) if said else None
