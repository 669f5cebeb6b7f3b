"""What a target is to a server: a model, its files, and the template that it would serve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from templatefix.checking import CheckOptions, prepare
from templatefix.errors import TargetError
from templatefix.render import SyntaxFault
from templatefix.serving.assemble import FILE, MODEL, Served
from templatefix.serving.renderers import recognise
from templatefix.source import ChatTemplate, SourceOptions, is_local, load_bare
from templatefix.source.options import STDIN
from templatefix.source.reading import is_directory
from templatefix.syntax import Unparsable


def of_target(template: ChatTemplate, source: SourceOptions, model: str | None) -> Served:
    """The template of a target as the user named both; ``model`` is what the user calls it.

    Raises ``TargetError`` for a template that vLLM's ``--chat-template`` cannot read.
    """
    target = template.target
    file = source.chat_template
    if file is None and not names_a_model(target):
        file = FILE if target == STDIN else target
        if template.format == "gguf":
            # The file is the model, and its template is inside.
            model, file = model or target, None
    if file is not None and template.format != "jinja":
        why = "vLLM's --chat-template takes Jinja text, not JSON"
        raise TargetError(file, why, "save the template as a .jinja file, or name the model")
    found = of_template(template, file, source.revision)
    return found if model is None else replace(found, model=model)


def of_template(template: ChatTemplate, file: str | None, revision: str | None) -> Served:
    """A template that is served from ``file``; None is the model's own."""
    target = template.target
    return Served(
        _model(template),
        file,
        revision if names_a_model(target) and not is_local(target) else None,
        template.config,
        template.files,
        template.attention,
        _inferred(template),
    )


def without_template(target: str, source: SourceOptions) -> Served | None:
    """A model that the server renders with code of its own and that has no template.

    None for every other. Raises ``TargetError``.
    """
    if source.chat_template is not None or not names_a_model(target):
        return None
    beside = load_bare(target, source)
    if recognise(beside.config, beside.files) is None:
        return None
    revision = None if is_local(target) else source.revision
    return Served(target, None, revision, beside.config, beside.files, beside.attention)


def names_a_model(target: str) -> bool:
    """Whether a server can be started with the target: a hub id or a model directory."""
    return target != STDIN and (not is_local(target) or is_directory(Path(target)))


def _model(template: ChatTemplate) -> str:
    """What a server is started with: the target, or the directory of the model around it."""
    target = template.target
    if names_a_model(target):
        return target
    return str(Path(target).parent) if template.config and target != STDIN else MODEL


def _inferred(template: ChatTemplate) -> tuple[str | None, str | None]:
    """The names of the parsers that the template's markers call for."""
    try:
        # Markers are text: the model's own tokenizer, slow to load, tells nothing about them.
        parsers = prepare(replace(template, tokenizer=None), CheckOptions()).author.parsers
    except (Unparsable, SyntaxFault):
        return None, None  # the check says why
    return (
        parsers.reasoning.name if parsers.reasoning else None,
        parsers.tool.name if parsers.tool else None,
    )
