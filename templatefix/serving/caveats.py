"""Why hits would end early all the same: what write-back and a template cannot mend."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from templatefix.findings.finding import Finding
from templatefix.findings.outcome import Report
from templatefix.report.kwargs import kwargs_text
from templatefix.serving.connectors import Storage
from templatefix.serving.plan import KWARGS_FLAG, Warned, flag_text
from templatefix.serving.renderers import MISTRAL, Recognised

_MOST_FINDINGS, _MOST_SKIPPED = 4, 3
_MEASURE = "measure it on the server before relying on it"


def of_check(report: Report, patch: tuple[str, ...]) -> Iterator[Warned]:
    """What the check of the served template came to.

    ``patch`` is the command, without its policy, that repairs the template.
    """
    for finding in report.findings:
        if finding.code == "TF408":
            yield Warned("kwarg-not-read", finding.message)
    if report.verdict == "not-evaluated":
        skipped = dict.fromkeys(
            f"{each.what}: {each.why}" for each in report.coverage.not_evaluated
        )
        why = "; ".join(list(skipped)[:_MOST_SKIPPED])
        yield Warned(
            "not-checked",
            f"whether the template prints answers as they were generated could not be evaluated "
            f"({why or 'no run was possible'})",
            (f"templatefix check {shlex.quote(report.target)} --verbose",),
        )
    if report.verdict == "breaks":
        yield _breaks(report, patch)


def _breaks(report: Report, patch: tuple[str, ...]) -> Warned:
    broken = {run.id: run for run in report.runs if run.core and run.preserving is False}
    guilty = [each for each in report.findings if not broken.keys().isdisjoint(each.run_ids)]
    told: dict[str, dict[str, None]] = {}  # findings that read alike are one, with all their modes
    for finding in guilty:
        place = f" at line {finding.line}" if finding.line else ""
        modes = told.setdefault(f"{finding.code} {finding.name}{place}", {})
        for run in filter(broken.__contains__, finding.run_ids):
            modes[kwargs_text(broken[run].kwargs) or "the default mode"] = None
    shown = [f"{name} ({', '.join(list(modes)[:2])})" for name, modes in told.items()]
    if len(shown) > _MOST_FINDINGS:
        shown = [*shown[:_MOST_FINDINGS], f"{len(shown) - _MOST_FINDINGS} more"]
    reason = (
        f"{report.display} does not print every answer as it was generated: {'; '.join(shown)}. "
        "There the next prompt leaves the cached tokens before the answer is over, and KV that was "
        "written back for the rest is never asked for"
    )
    return Warned("not-prefix-preserving", reason, tuple(_repairs(guilty, patch)))


def _repairs(guilty: list[Finding], patch: tuple[str, ...]) -> list[str]:
    """What the findings propose, each once: kwargs of the template, or a patch."""
    found: dict[str, None] = {}
    for finding in guilty:
        fix = "" if finding.fix is None else finding.fix.text
        if KWARGS_FLAG in fix:
            found[fix[fix.index(KWARGS_FLAG) :]] = None
        elif fix:
            retains = finding.code == "TF102"
            policy = ("--policy", "keep-reasoning") if retains else ()
            note = " (the model then sees past reasoning)" if retains else ""
            found[shlex.join((*patch, *policy)) + note] = None
    return list(found)


def of_renderer(
    found: Recognised, kwargs: Mapping[str, Any], *, template_given: bool, switched: bool
) -> Iterator[Warned]:
    """A model that vLLM does not render with Jinja.

    ``template_given``: the user named a template to serve. ``switched``: the command makes vLLM
    render with Jinja.
    """
    renderer = found.renderer
    what = f"vLLM renders this model ({found.evidence}) with code of its own ({renderer.mode})"
    if switched:
        needs = ", with a tokenizer that transformers reads" if renderer is MISTRAL else ""
        yield Warned(
            "not-rendered-by-jinja",
            f"{what} and would ignore --chat-template: --tokenizer-mode hf, which the command "
            f"has, makes it render with Jinja{needs}",
        )
        return
    left_out = ", so it is left out here" if template_given else ""
    ignored = f"{what}: --chat-template is ignored{left_out}"
    if renderer.escapes:
        escape = "--tokenizer-mode hf --chat-template FILE, to render with Jinja"
        yield Warned("not-rendered-by-jinja", ignored, (escape,))
    else:
        never = "and no flag makes vLLM render it with Jinja"
        yield Warned("not-rendered-by-jinja", f"{ignored}, {never}")
    kept = renderer.append_only
    if kept is not None and all(kwargs.get(name) == value for name, value in kept.items()):
        return
    options = []
    if kept is not None:
        flag = shlex.join((KWARGS_FLAG, flag_text(kept)))
        options.append(f"{flag}, with clients that send reasoning back")
    if renderer.escapes:
        options.append("--tokenizer-mode hf with a prefix-preserving template")
    if renderer.pins:
        pins = shlex.join(f"{name}={value}" for name, value in renderer.pins.items())
        options.append(f"{pins} in the environment keeps the head the same from day to day")
    reason = (
        f"what {renderer.mode} does with past turns is not checked here, but this is known: "
        f"{renderer.history}. Where that changes what was cached, a hit ends"
    )
    yield Warned("renderer-history", reason, tuple(options))


def of_model(attention: str | None, config: Mapping[str, Any], asked: Storage) -> Iterator[Warned]:
    """A model whose cache is not one block after another, and conditions that it misses."""
    if attention == "hybrid":
        yield _hybrid(asked)
    if attention == "sliding-window":
        reason = (
            "config.json names sliding-window layers, of which vLLM keeps blocks near the end of a "
            "prefix only: a hit can be shorter than the tokens that the prompts share"
        )
        if asked.connector == "lmcache":
            reason += (
                "; LMCacheConnectorV1 also makes vLLM turn the hybrid KV cache manager off, so "
                "that every layer keeps its blocks, at a cost in memory"
            )
        yield Warned("sliding-window", reason, (_MEASURE,))
    if asked.store_tp_size is not None:
        yield from _store_tp(attention, config, asked.store_tp_size)


def _hybrid(asked: Storage) -> Warned:
    reason = (
        "config.json names recurrent layers (Mamba, GDN or the like), whose state vLLM keeps at "
        "some block boundaries only: a hit can be shorter than the tokens that the prompts share"
    )
    instead = _MEASURE
    if asked.connector == "mooncake-store":
        reason += (
            ". MooncakeStoreConnector of vLLM 0.32 and 0.33 stores no recurrent state of decoded "
            "blocks, so that hits end where the prompt ended and save_decode_cache changes nothing "
            "(vLLM's issue 56972)"
        )
        instead = "a vLLM that has the change of its pull request 56971"
    elif asked.connector == "lmcache":
        reason += (
            ". LMCacheConnectorV1 does not work with vLLM's hybrid KV cache manager, which such "
            "models need: the server does not start"
        )
        instead = "--connector lmcache-mp"
    return Warned("hybrid", reason, (instead,))


def _store_tp(attention: str | None, config: Mapping[str, Any], size: int) -> Iterator[Warned]:
    """Conditions of a common Store layout that ``config.json`` tells are missed."""
    missed = []
    if attention is not None:
        missed.append("the model has other layers than full attention")
    nested = config.get("text_config")
    text = {**config, **(nested if isinstance(nested, Mapping) else {})}
    heads = text.get("num_key_value_heads")
    if text.get("kv_lora_rank"):
        missed.append("its attention is MLA, which vLLM does not count as full attention")
    elif isinstance(heads, int) and heads != 1 and heads % size:
        missed.append(f"its {heads} KV heads are no multiple of {size}")
    if missed:
        yield Warned(
            "store-tp-size",
            f"store_tp_size {size} will not be used: {' and '.join(missed)}; instances of "
            "different tensor-parallel sizes will share nothing",
            ("the same --tensor-parallel-size on all instances, without --store-tp-size",),
        )
