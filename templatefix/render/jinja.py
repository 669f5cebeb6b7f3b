"""Rendering with Jinja exactly as transformers 5.x does it (``utils/chat_template_utils.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from types import BuiltinMethodType, MethodType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import loopcontrols
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, missing

from templatefix.limits import Exceeded, Step, joined
from templatefix.render.protocol import (
    PINNED_CLOCK,
    Crashed,
    OverLimit,
    Refused,
    RenderRequest,
    SyntaxFault,
)
from templatefix.syntax import Template, Unparsable, parse
from templatefix.syntax.additions import GenerationTag, remembering_tojson, tojson
from templatefix.syntax.code import code_of

#: The names under which clients and servers send reasoning; the first that is set fills the others.
_REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")

#: Characters of an exception's message that are kept: a template may raise a text of megabytes.
_MOST_WORDS = 10_000

#: Attributes that are remembered: a template may make up names without end.
_MOST_ATTRIBUTES = 1000

_DICT_ATTRIBUTES = frozenset(dir(dict))
_TEXT_ATTRIBUTES = frozenset(dir(str))

_METHODS = frozenset({MethodType, BuiltinMethodType})

_FORMATS = frozenset({"format", "format_map"})

#: Printed expressions in which there is nothing to evaluate.
_PLAIN = (nodes.TemplateData, nodes.Const, nodes.Name, nodes.Call)


class _Template(jinja2.Template):
    """A template that reads the lines of its code once, and not for every exception."""

    @cached_property
    def debug_info(self) -> list[tuple[int, int]]:
        return super().debug_info


class _Sandbox(ImmutableSandboxedEnvironment):
    """The sandbox, quicker: most of a rendering's time goes into reading attributes.

    Which attributes of which types a template may read is remembered, for both of Jinja's tests
    look at nothing but the type of an object and the name. Of a dictionary the item is taken at
    once where there is no attribute of that name, as Jinja does after having looked for one; so
    are missing items of dictionaries, and those of texts that go by a name, undefined at once.
    What is not a method needs no look at whether it is a text's ``format``, and in a namespace no
    name is forbidden. Methods of texts and dictionaries, namespaces and macros are called without
    a look at what only Python code can have, and most macros' functions with no more than theirs.
    """

    template_class = _Template

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._safe: dict[tuple[type, str], bool] = {}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        safe = self._safe.get((type(obj), attr))
        if safe is None:
            safe = super().is_safe_attribute(obj, attr, value)
            if len(self._safe) < _MOST_ATTRIBUTES:
                self._safe[type(obj), attr] = safe
        return safe

    def getattr(self, obj: Any, attribute: str) -> Any:
        kind = type(obj)
        if kind is dict and attribute not in _DICT_ATTRIBUTES:
            try:
                return obj[attribute]
            except KeyError:
                return self.undefined(obj=obj, name=attribute)
        if kind is _GuardedNamespace:
            value = _attribute(obj, "_Namespace__attrs").get(attribute)
            if value is not None and type(value) not in _METHODS:
                return value
        try:
            value = getattr(obj, attribute)
        except AttributeError:
            return super().getattr(obj, attribute)
        safe = self._safe.get((kind, attribute))
        if safe is None:
            safe = self.is_safe_attribute(obj, attribute, value)
        if not safe:
            return super().getattr(obj, attribute)
        # What may be the format of a text, Jinja replaces.
        kind = type(value)
        if kind is MethodType or (kind is BuiltinMethodType and value.__name__ in _FORMATS):
            return super().getattr(obj, attribute)
        return value

    def getitem(self, obj: Any, argument: Any) -> Any:
        kind = type(obj)
        if kind is str and type(argument) is str and argument not in _TEXT_ATTRIBUTES:
            return self.undefined(obj=obj, name=argument)
        try:
            return obj[argument]
        except (TypeError, LookupError):
            if kind is dict and type(argument) is str and argument not in _DICT_ATTRIBUTES:
                return self.undefined(obj=obj, name=argument)
            return super().getitem(obj, argument)

    # Arguments go by any name, so that ours begin with underscores, as Jinja's do.
    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        is_macro = type(__obj) is Macro
        if (
            is_macro
            or __obj is _GuardedNamespace
            or (type(__obj) is BuiltinMethodType and type(__obj.__self__) in (str, dict))
        ):
            # Code that asks for no more than a macro does and has no marks that forbid a call.
            if kwargs:
                kwargs.pop("_block_vars", None)
                kwargs.pop("_loop_vars", None)
            if not is_macro:
                return __obj(*args, **kwargs)
            # Where nothing is to be done with the arguments but to fill them up.
            lacking = __obj._argument_count - len(args)
            if kwargs or lacking < 0 or _is_special(__obj) or __context.eval_ctx.autoescape:
                return __obj(__context.eval_ctx, *args, **kwargs)
            return __obj._func(*args, *(missing,) * lacking)
        return super().call(__context, __obj, *args, **kwargs)


def _is_special(macro: Macro) -> bool:
    """Whether a macro takes more than the arguments that it names."""
    return macro.caller or macro.catch_kwargs or macro.catch_varargs


class _PlainDict:
    """``dict(...)`` and ``dict.fromkeys(...)`` without the class behind them."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _GuardedNamespace(Namespace):
    """``namespace(...)`` that refuses names which begin with an underscore."""

    # ``self`` may itself be a key, so neither it nor the mapping can be named parameters.
    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *rest = args
        attributes = dict(*rest, **kwargs) if rest else kwargs
        for name in attributes:
            if isinstance(name, str) and name[:1] == "_":
                raise _forbidden(name)
        self._Namespace__attrs = attributes

    # As Jinja's own, which looks up where it keeps the attributes by a call of this as well.
    def __getattribute__(self, name: str) -> Any:
        if name == "_Namespace__attrs" or name == "__class__":
            return _attribute(self, name)
        try:
            return _attribute(self, "_Namespace__attrs")[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(name, str) and name[:1] == "_":
            raise _forbidden(name)
        _attribute(self, "_Namespace__attrs")[name] = value


_attribute = object.__getattribute__


def _forbidden(name: str) -> jinja2.exceptions.SecurityError:
    return jinja2.exceptions.SecurityError(
        f"a namespace attribute may not begin with an underscore: {name!r}"
    )


def _raise_exception(message: object) -> None:
    # Words are made of whatever it is here, where what that takes is limited.
    raise jinja2.exceptions.TemplateError(None if message is None else str(message))


def make_environment(
    now: Callable[[], datetime] = lambda: PINNED_CLOCK,
    sandbox: type[ImmutableSandboxedEnvironment] = _Sandbox,
) -> jinja2.Environment:
    """The environment in which transformers compiles a chat template; ``now`` is its clock."""
    environment = sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols]
    )
    # What measures how long servers take remembers no more than they do.
    environment.filters["tojson"] = remembering_tojson() if sandbox is _Sandbox else tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda format: now().strftime(format)
    environment.globals["dict"] = _PlainDict()
    environment.globals["namespace"] = _GuardedNamespace
    return environment


def template_messages(messages: list[Mapping[str, Any]] | Any) -> list[dict[str, Any]]:
    """What transformers makes of messages first: keys that are None go, reasoning is aliased."""
    prepared = []
    for message in messages:
        kept = dict(message)
        if None in kept.values():
            kept = {key: value for key, value in kept.items() if value is not None}
        for field in _REASONING_FIELDS:
            if field in kept:
                kept = {"thinking": kept[field], **kept, "reasoning_content": kept[field]}
                break
        prepared.append(kept)
    return prepared


class JinjaRenderer:
    """One compiled template with its special tokens.

    ``as_served``: by Jinja's own compiler and in its own sandbox, as servers render it, which
    takes several times as long. Raises :class:`SyntaxFault` when the template does not compile.
    """

    name = "jinja"

    def __init__(
        self,
        text: str,
        special_tokens: Mapping[str, str] | None = None,
        *,
        as_served: bool = False,
    ) -> None:
        self._clock = PINNED_CLOCK
        self._special_tokens = dict(special_tokens or {})
        self.renders = 0
        sandbox = ImmutableSandboxedEnvironment if as_served else _Sandbox
        environment = make_environment(lambda: self._clock, sandbox)
        step = Step("compiling")
        try:
            template = parse(text)
            with step:
                self._template = (
                    environment.from_string(text) if as_served else _compiled(template, environment)
                )
        except Exceeded as fault:
            raise SyntaxFault(step.note(fault), None, "TF601") from None
        except Unparsable as fault:
            raise SyntaxFault(fault.message, fault.line, fault.code) from None
        except jinja2.TemplateSyntaxError as fault:
            raise SyntaxFault(fault.message or str(fault), fault.lineno) from None
        except SyntaxError as fault:
            # Python's own compiler refuses what Jinja let pass, such as a break outside a loop.
            raise SyntaxFault(f"{fault.msg}", None) from None
        except Exception as fault:
            raise SyntaxFault(f"{type(fault).__name__}: {fault}", None) from None

    @property
    def environment(self) -> jinja2.Environment:
        """What the template is rendered in."""
        return self._template.environment

    def render(self, request: RenderRequest) -> str:
        """The prompt's text. Raises :class:`Refused` or :class:`Crashed`."""
        self._clock = request.clock
        self.renders += 1
        step = rendering(request)
        try:
            with step:
                variables = template_variables(request, self._special_tokens)
                return joined(pieces_of(self._template, variables))
        except Exceeded as fault:
            raise over_limit(fault, step, self._template) from None
        except Exception as fault:
            raise fault_of(fault, self._template) from None


def _compiled(template: Template, environment: jinja2.Environment) -> jinja2.Template:
    for node in template.printed:
        _fold(node, environment)
    code = compile(code_of(template).plain, "<template>", "exec")
    # The globals are copied for every rendering, and a plain dictionary is quick to copy.
    names = dict(environment.make_globals(None))
    return environment.template_class.from_code(environment, code, names)


def _fold(printed: nodes.Node, environment: jinja2.Environment) -> None:
    """Evaluate what Jinja evaluates while it compiles: a bomb there goes off at the server, too."""
    if isinstance(printed, nodes.Expr) and not isinstance(printed, _PLAIN):
        with suppress(Exception):
            printed.as_const(nodes.EvalContext(environment))


def rendering(request: RenderRequest) -> Step:
    """The step of rendering a request: what an overrun is reported with."""
    roles = [message.get("role") for message in request.messages]
    return Step("rendering", request.kwargs, roles.count("assistant") + 1)


def pieces_of(template: jinja2.Template, variables: dict[str, Any]) -> Iterator[str]:
    """What a template prints, piece by piece.

    As ``Template.generate``, but that exceptions keep the lines of the generated code: most are
    refusals, of which nobody asks where they come from, and Jinja would rewrite their tracebacks.
    Nor is it kept which variables are globals, which only templates that import others ask for.
    """
    variables = {**template.globals, **variables}
    environment = template.environment
    context = environment.context_class(environment, variables, template.name, template.blocks)
    return template.root_render_func(context)


def over_limit(fault: Exceeded, step: Step, template: jinja2.Template) -> OverLimit:
    """What hitting a limit means for a rendering."""
    line = template_line(fault, template)
    _let_go(fault)
    return OverLimit("limit", step.note(fault, line), line)


def template_variables(request: RenderRequest, special_tokens: Mapping[str, str]) -> dict[str, Any]:
    """What the template is given.

    transformers passes messages, tools and the generation flag by name: no kwarg replaces them.
    """
    return {
        "documents": None,
        **special_tokens,
        **(request.kwargs or {}),
        "messages": template_messages(request.messages),
        "tools": request.tools,
        "add_generation_prompt": request.add_generation_prompt,
    }


def fault_of(fault: Exception, template: jinja2.Template) -> Refused | Crashed:
    """What an exception of a rendering means: a refusal in the template's words, or a crash."""
    if type(fault) is jinja2.exceptions.TemplateError:
        _let_go(fault)
        return Refused((fault.message or "")[:_MOST_WORDS])
    line = template_line(fault, template)
    _let_go(fault)
    return Crashed(type(fault).__name__, str(fault)[:_MOST_WORDS], line)


def _let_go(fault: BaseException | None) -> None:
    """Free what the frames of a rendering hold, which may be a lot: outcomes are remembered."""
    while fault is not None:
        fault.__traceback__ = None
        fault = fault.__context__


def template_line(fault: BaseException, template: jinja2.Template) -> int | None:
    """The innermost line of a template from which an exception of its code comes, 1-based."""
    line, traceback = None, fault.__traceback__
    file = template.root_render_func.__code__.co_filename
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return None if line is None else template.get_corresponding_lineno(line)
