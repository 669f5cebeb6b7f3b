"""Pages of the documentation that are written somewhere else: a hook of mkdocs.

README and its neighbours become pages, every rule becomes a page, and the JSON schema becomes
tables. Links are written for a reader of the repository, and turned here into those of the site.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from templatefix.rules import RULES
from templatefix.rules.rule import Rule

ROOT = Path(__file__).resolve().parent.parent

#: Files of the repository, by the page or file of the site that shows them.
MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "templatefix/report/schema.json": "schema.json",
    "templatefix/report/verify_schema.json": "verify_schema.json",
    "action.yml": "action.yml",
}
#: Where docs/json.md gets its tables, and what from.
TABLES = {
    "<!-- tables of the schema -->\n": "templatefix/report/schema.json",
    "<!-- tables of the schema of verify -->\n": "templatefix/report/verify_schema.json",
}
_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)([^)\s]*)\)")
_CODE = re.compile(r"```.*?^```|`[^`\n]*`|\[[^\]]*\]|\b(TF\d{3})\b", re.DOTALL | re.MULTILINE)
_ROLE = re.compile(r":(?:func|class|mod|attr):(?=<code>)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the rules to the navigation."""
    (pages,) = (entry["Rules"] for entry in config.nav or [] if "Rules" in entry)
    pages += [{f"{rule.code} {rule.name}": _place(rule.code)} for rule in RULES.values()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, name in MOVED.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text("utf-8")))
    for rule in RULES.values():
        files.append(File.generated(config, _place(rule.code), content=rule_page(rule)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri
    if here == "json.md":
        for place, source in TABLES.items():
            schema = json.loads((ROOT / source).read_text("utf-8"))
            markdown = markdown.replace(place, "\n".join(schema_tables(schema)))
    source = next((source for source, name in MOVED.items() if name == here), f"docs/{here}")
    if not here.startswith("rules/"):
        markdown = _LINK.sub(lambda link: _on_site(link, source, here), markdown)
    return _CODE.sub(lambda found: _linked(found, here), markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Docstrings name functions in the roles of reStructuredText: only the names stay."""
    return _ROLE.sub("", html)


def rule_page(rule: Rule) -> str:
    """The page on one rule, made of what the rule itself says."""
    parts = [f"# {rule.code} {rule.name}", f"**{rule.severity}**: {rule.summary}.", rule.why]
    given = {**rule.special_tokens, **({"kwargs": dict(rule.kwargs)} if rule.kwargs else {})}
    titles = {"Reported": rule.bad, "Repaired": rule.good}
    for title, template in titles.items():
        if template.strip():
            parts.append(f"## {title}\n\n```jinja\n{template.strip()}\n```")
    if rule.bad and given:
        shown = ", ".join(f"`{name}` is `{json.dumps(value)}`" for name, value in given.items())
        parts.append(f"Both are checked by the tests, where {shown}.")
    parts.append(
        "## Accept it\n\nIn the template, before the construct that is reported:\n\n"
        f"```jinja\n{{# templatefix: ignore[{rule.code}] the reason #}}\n```\n\n"
        "For many files, see [settings](../settings.md)."
    )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def schema_tables(schema: Mapping[str, Any]) -> Iterator[str]:
    """A heading and a table of keys for each object of a JSON schema, as lines of Markdown."""
    objects = {"The document": schema, **schema["$defs"]}
    for name, definition in objects.items():
        if "properties" not in definition:
            continue
        yield f"### {name}\n"
        yield "| key | type | what it is |"
        yield "| --- | --- | --- |"
        for key, value in definition["properties"].items():
            words = str(value.get("description", "")).replace("|", "\\|")
            yield f"| `{key}` | {_type(value)} | {words} |"
        yield ""


def _type(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        return f"`{value['$ref'].rpartition('/')[2]}`"
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if "enum" in value:
        return ", ".join(f"`{json.dumps(each)}`" for each in value["enum"])
    for several in ("anyOf", "oneOf"):
        if several in value:
            return " or ".join(_type(each) for each in value[several])
    if value.get("type") == "array" and "items" in value:
        return f"list of {_type(value['items'])}"
    types = value.get("type", "any")
    return " or ".join([types] if isinstance(types, str) else types)


def _place(code: str) -> str:
    return f"rules/{code.lower()}.md"


def _on_site(link: re.Match[str], source: str, here: str) -> str:
    """A link from one file of the repository to another, between their pages.

    What is no page loses the link and keeps its text.
    """
    words, target, anchor = link.groups()
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if wanted not in MOVED and not wanted.startswith("docs/"):
        return words
    page = MOVED.get(wanted, wanted.removeprefix("docs/"))
    return f"[{words}]({posixpath.relpath(page, posixpath.dirname(here) or '.')}{anchor})"


def _linked(found: re.Match[str], here: str) -> str:
    """A rule's code in running text, as a link to its page."""
    code = found[1]
    if code not in RULES or here in (_place(code), "changelog.md"):
        return found[0]
    return f"[{code}]({posixpath.relpath(_place(code), posixpath.dirname(here) or '.')})"
