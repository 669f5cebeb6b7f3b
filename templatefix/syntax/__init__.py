"""What can be known of a template without rendering it.

>>> from templatefix.syntax import kwargs, parse
>>> template = parse("{% if think is defined and think %}<think>{% endif %}{{ messages }}")
>>> [(kwarg.name, kwarg.values) for kwarg in kwargs(template)]
[('think', (True, False))]
"""

from templatefix.syntax.content import ContentFormat, content_format
from templatefix.syntax.fault import Unparsable, located
from templatefix.syntax.kwargs import Kwarg, kwargs
from templatefix.syntax.literals import literals, reads_attribute, spelled
from templatefix.syntax.names import looks_like_chat, named_kwargs, reads_messages
from templatefix.syntax.span import Lines, Position, Span, normalise_newlines
from templatefix.syntax.template import Template, parse
from templatefix.syntax.tree import Place
from templatefix.syntax.unknown import UnknownName, unknown_names

__all__ = [
    "ContentFormat",
    "Kwarg",
    "Lines",
    "Place",
    "Position",
    "Span",
    "Template",
    "UnknownName",
    "Unparsable",
    "content_format",
    "kwargs",
    "literals",
    "located",
    "looks_like_chat",
    "named_kwargs",
    "normalise_newlines",
    "parse",
    "reads_attribute",
    "reads_messages",
    "spelled",
    "unknown_names",
]
