"""From what the user named to chat templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from templatefix.errors import TargetError
from templatefix.policy import original_of
from templatefix.source.choice import is_model_directory, model_templates
from templatefix.source.options import STDIN, SourceOptions, is_local
from templatefix.source.override import overridden, override_template, override_tokenizer
from templatefix.source.reading import Folder, is_directory, local_folder
from templatefix.source.search import search
from templatefix.source.single import file_templates, stdin_templates
from templatefix.source.stored import DEFAULT, StoredTemplate
from templatefix.source.surroundings import Surroundings, find_tokenizer, read_surroundings
from templatefix.source.template import ChatTemplate, sha256

_NO_TEMPLATE_HINT = "name a model that is made for chat, or give --chat-template"


class NoTemplate(TargetError):
    """A target was obtained and read, and holds no chat template."""


def no_template(target: str) -> NoTemplate:
    """The error for a target without any template."""
    return NoTemplate(target, "holds no chat template", _NO_TEMPLATE_HINT)


def load(target: str, options: SourceOptions, stdin: IO[bytes] | None = None) -> list[ChatTemplate]:
    """Every template of a target. Raises ``TargetError``, in a search for its first failure."""
    templates: list[ChatTemplate] = []
    for found in load_each(target, options, stdin):
        if isinstance(found, TargetError):
            raise found
        templates.append(found)
    return templates


def load_each(
    target: str, options: SourceOptions, stdin: IO[bytes] | None = None
) -> Iterator[ChatTemplate | TargetError]:
    """Like ``load``, but a file that fails in a directory search does not hide the others.

    A target that fails as a whole yields its error.
    """
    try:
        if is_local(target) and target != STDIN and is_directory(Path(target)):
            yield from _directory(target, options)
        else:
            yield from _chosen(*_one(target, options, stdin), target, options)
    except TargetError as error:
        yield error


def parts(target: str, options: SourceOptions) -> list[Path | TargetError]:
    """What a search of a directory finds, each for :func:`load_part`; nothing where the target is
    loaded as a whole. Nothing is read but directories."""
    root = Path(target)
    if options.chat_template or options.without_template or not is_local(target):
        return []
    try:
        if target == STDIN or not is_directory(root):
            return []
        if is_model_directory(local_folder(target, root)):
            return []
        return list(search(root))
    except TargetError:
        return []  # whoever loads it is told why


def load_part(
    target: str, part: Path, options: SourceOptions
) -> Iterator[ChatTemplate | TargetError]:
    """The templates of one of a directory's :func:`parts`, which may have none."""
    path = str(part)
    try:
        if part.is_dir():
            templates, surroundings = _model(local_folder(path, part), options)
        else:
            templates, surroundings = file_templates(part, path, empty_allowed=True)
        if templates:
            yield from _chosen(templates, surroundings, target, options, path)
    except TargetError as error:
        yield error


def _one(
    target: str, options: SourceOptions, stdin: IO[bytes] | None
) -> tuple[Sequence[StoredTemplate], Surroundings]:
    """The templates of a target that is not a directory."""
    if target == STDIN:
        return stdin_templates(stdin), Surroundings()
    if is_local(target):
        return file_templates(Path(target), target)
    folder, surroundings = _repository(target, options)
    return _own_templates(folder, options), surroundings


def load_bare(target: str, options: SourceOptions) -> Surroundings:
    """What a model directory or a repository holds besides templates, of which it needs none.

    Raises ``TargetError``.
    """
    if is_local(target):
        return read_surroundings(local_folder(target, Path(target)))
    return _repository(target, options)[1]


def load_hub_client() -> None:
    """Import what hub ids need, before a process is forked for each of many: it takes a second."""
    from templatefix.source.hub_client import client

    client()


def _repository(target: str, options: SourceOptions) -> tuple[Folder, Surroundings]:
    from templatefix.source.hub import snapshot

    shot = snapshot(target, options)
    return shot.folder, read_surroundings(shot.folder, shot.tokenizer_source, shot.listed)


def _model(folder: Folder, options: SourceOptions) -> tuple[Sequence[StoredTemplate], Surroundings]:
    return _own_templates(folder, options), read_surroundings(folder)


def _own_templates(folder: Folder, options: SourceOptions) -> Sequence[StoredTemplate]:
    """The templates of a model. Where another one is given, they need not be readable."""
    try:
        return model_templates(folder)
    except TargetError:
        if options.chat_template:
            return []
        raise


def _directory(target: str, options: SourceOptions) -> Iterator[ChatTemplate | TargetError]:
    """A model directory yields its templates, any other what a search of it finds."""
    folder = local_folder(target, Path(target))
    if options.chat_template or is_model_directory(folder):
        templates, surroundings = _model(folder, options)
        if templates or options.chat_template:
            yield from _chosen(templates, surroundings, target, options)
            return
    if options.without_template and find_tokenizer(folder) is not None:
        yield from _chosen((), read_surroundings(folder), target, options)
        return
    found_any = False
    for found in search(Path(target)):
        if isinstance(found, TargetError):
            yield found
            continue
        for each in load_part(target, found, options):
            found_any = True
            yield each
    if not found_any:
        raise no_template(target)


def _chosen(
    templates: Sequence[StoredTemplate],
    surroundings: Surroundings,
    target: str,
    options: SourceOptions,
    argument: str | None = None,
) -> list[ChatTemplate]:
    """The templates that the options ask for, with all that belongs to them.

    ``argument`` is what names them on a command line, where that is not the target: one of those
    that a search has found.
    """
    own = templates
    if options.chat_template:
        templates = override_template(options.chat_template)
    if options.tokenizer:
        surroundings = overridden(surroundings, override_tokenizer(options.tokenizer, options))
    if not templates and options.without_template:
        templates = [StoredTemplate("", None, target, None, "none")]
    if not templates:
        raise no_template(target)
    several = len(templates) > 1
    return [
        ChatTemplate(
            target=target,
            display=each.display,
            text=each.text,
            name=each.name,
            path=each.path,
            special_tokens=surroundings.special_tokens,
            stop_token_ids=surroundings.stop_token_ids,
            tokenizer=surroundings.tokenizer,
            attention=surroundings.attention,
            format=each.format,
            config=surroundings.config,
            files=surroundings.files,
            arguments=_arguments(
                target if argument is None else argument,
                replace(options, template_name=each.name or DEFAULT if several else None),
            ),
            original=_original(each.text, own, target, options) if own is not templates else (),
        )
        for each in _named(templates, target, options.template_name)
    ]


def _original(
    text: str, own: Sequence[StoredTemplate], target: str, options: SourceOptions
) -> tuple[str, ...]:
    """The words of a command line that name the template which ``text`` was patched from, where
    that is one of the target's own."""
    original = original_of(text)
    if original is None or target == STDIN:
        return ()
    for each in own:
        if sha256(each.text) == original:
            name = each.name or DEFAULT if len(own) > 1 else None
            return _arguments(target, replace(options, chat_template=None, template_name=name))
    return ()


def _arguments(argument: str, options: SourceOptions) -> tuple[str, ...]:
    """The words of a command line that name a target and what was given in place of its own."""
    named = {
        "--revision": options.revision,
        "--tokenizer": options.tokenizer,
        "--chat-template": options.chat_template,
        "--template-name": options.template_name,
    }
    words = [argument]
    for option, value in named.items():
        words += [option, value] if value else []
    return tuple(words)


def _named(
    templates: Sequence[StoredTemplate], target: str, name: str | None
) -> Sequence[StoredTemplate]:
    if name is None:
        return templates
    picked = [each for each in templates if (each.name or DEFAULT) == name]
    if not picked:
        there = ", ".join(sorted({each.name or DEFAULT for each in templates}))
        raise TargetError(target, f"has no template named {name!r}", f"it has: {there}")
    return picked
