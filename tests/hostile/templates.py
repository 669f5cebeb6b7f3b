"""Templates that are out to hang, exhaust or escape, each of a few lines of our own."""

from __future__ import annotations

from collections.abc import Mapping

#: Well-behaved, so that what is added to it is the only fault.
PLAIN = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') }}"
    "{{ '<|im_end|>\n' }}{% endfor %}\n"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}\n"
)
LOOPS = "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}"


def _with(bomb: str) -> str:
    return PLAIN + bomb


#: Code that comes back to the interpreter again and again: a signal ends it.
SLOW: Mapping[str, str] = {
    "nested ranges": _with(LOOPS),
    "exponential macros": _with(
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"
    ),
    "a loop in the content of a message": PLAIN.replace("{{ '<|im_end|>", LOOPS + "{{ '<|im_end|>"),
    "a filter chain over batches": _with(
        "{% for i in range(90000) %}{% set x = range(90000)|batch(2)|list %}{% endfor %}"
    ),
    "lipsum": _with("{% for i in range(90000) %}{% set x = lipsum(n=50) %}{% endfor %}"),
    "urlize": _with(
        "{% set x = ('http://a.bc/(' * 500)|urlize %}"
        "{% for i in range(90000) %}{% set x = ('http://a.bc/(' * 500)|urlize %}{% endfor %}"
    ),
    "loops in a call block": _with(
        "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}" + LOOPS + "{% endcall %}"
    ),
    "a sum over a generator": _with(
        "{% for i in range(90000) %}{% set x = range(90000)|select('odd')|sum %}{% endfor %}"
    ),
}

#: Code that asks for more memory than there may be.
GREEDY: Mapping[str, str] = {
    "string multiplication": _with("{% set x = 'a' * 3000000000 %}"),
    "a constant that would be folded": _with("{{ 'a' * 3000000000 }}"),
    "a format width": _with("{{ '%3000000000d' % 1 }}"),
    "the format filter": _with("{{ '%3000000000d'|format(1) }}"),
    "str.format": _with("{{ '{:3000000000}'.format(1) }}"),
    "center": _with("{{ 'a'|center(3000000000) }}"),
    "ljust": _with("{{ 'a'.ljust(3000000000) }}"),
    "expandtabs": _with("{{ '\t'.expandtabs(2000000000) }}"),
    "replace": _with("{{ ('a' * 1000000).replace('a', 'a' * 100000)|length }}"),
    "tojson's indent": _with("{{ {'a': 1}|tojson(indent=2000000000) }}"),
    "batch with a filler": _with("{{ [1]|batch(2000000000, 'x')|list }}"),
    "a growing list": _with(
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
        "{% set ns.x = ns.x + ns.x %}{% endfor %}"
    ),
    "a growing string": _with(
        "{% set ns = namespace(x='aa') %}{% for i in range(60) %}"
        "{% set ns.x = ns.x ~ ns.x %}{% endfor %}"
    ),
    "growing from turn to turn": _with(
        "{% set ns = namespace(x='aaaaaaaaaa') %}{% for m in messages %}"
        "{% set ns.x = ns.x * 3000 %}{% endfor %}"
    ),
}

#: Code that floods the prompt.
LOUD: Mapping[str, str] = {
    "a flood of pieces": _with("{% for i in range(90000) %}{{ 'abcdefgh' * 1000 }}{% endfor %}"),
    "a flood in one piece": _with("{{ 'a' * 3000000 }}"),
}

#: What is harmless at first sight.
HIDDEN: Mapping[str, str] = {
    "in a late turn only": _with("{% if messages|length > 4 %}" + LOOPS + "{% endif %}"),
    "under one kwarg only": _with("{% if deep_thought %}" + LOOPS + "{% endif %}"),
    "with tools only": _with(
        "{% if tools and not messages[0].tool_calls %}" + LOOPS + "{% endif %}"
    ),
    "in history only": _with(
        "{% for m in messages if m.role == 'assistant' %}" + LOOPS + "{% endfor %}"
    ),
    "in what a message says": PLAIN.replace(
        "(m.content or '')", "(m.content or '') * (m.content or '')|length * 100000"
    ),
}

#: Code that never comes back to the interpreter, and hears of no signal: what is built in sixty
#: steps has 2 ** 60 leaves, and C visits each of them.
_TOWERS = (
    "{% set ns = namespace(a=[1], b=[1]) %}"
    "{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}"
)
DEAF: Mapping[str, str] = {
    "a comparison": _with(_TOWERS + "{% if ns.a == ns.b %}x{% endif %}"),
    "a look-up in a list": _with(_TOWERS + "{% if ns.a in [0, ns.b] %}x{% endif %}"),
    "a sort": _with(_TOWERS + "{% set x = [ns.a, ns.b]|sort %}"),
    "a hash": _with(
        "{% set ns = namespace(a=(1, 2)) %}"
        "{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}{{ {ns.a: 1}|length }}"
    ),
}

#: Long calculations that the interpreter itself breaks off when a signal comes.
SLOW_IN_C: Mapping[str, str] = {
    "a huge power": _with("{% set x = 7 ** (10 ** 9) %}"),
    "a power of powers": _with("{% set x = 3 ** (3 ** 20) %}{% set y = x ** 97 %}"),
    "a huge product": _with("{% set x = (10 ** 9000000) * (10 ** 9000000) %}{{ x % 7 }}" * 50),
}

#: What tries the compiler or the parser.
LARGE: Mapping[str, str] = {
    "ten megabytes of text": PLAIN + "a" * 10_000_000,
    "ten megabytes of expressions": PLAIN + "{{ a + a }}" * 1_000_000,
    "a hundred thousand names": PLAIN + "{{a}}" * 100_000,
}

#: What ends in an error of its own, as it does in a server.
FAILING: Mapping[str, str] = {
    "a macro without end": _with("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
    "a range beyond the sandbox's": _with("{% for i in range(10 ** 12) %}{% endfor %}"),
    "a text beyond the address space": _with("{{ 'a' * 10 ** 30 }}"),
    "an undefined value": _with("{{ 'a' * 2 ** 24 ~ {}.a.b }}"),
}

#: What does not compile.
BROKEN: Mapping[str, str] = {
    "a hundred nested loops": "{% for m in messages %}" * 100 + "{% endfor %}" * 100,
    "five thousand nested ifs": "{% if messages %}" * 5000 + "{% endif %}" * 5000,
    "a hundred thousand parentheses": "{{ messages" + "(" * 100_000 + ")" * 100_000 + "}}",
}

#: What reaches behind the values that it is given: a construct, and what must not be printed.
PROBES: Mapping[str, str] = {
    "the class of a text": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "the globals of a function": "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "the globals by subscript": "{{ cycler['__init__']['__globals__'] }}",
    "the attr filter": "{{ ''|attr('__class__')|attr('__base__') }}",
    "the attr filter with an escape": "{{ ''|attr('\\x5f\\x5fclass\\x5f\\x5f') }}",
    "the attr filter with pieces": "{{ ''|attr('__cla' ~ 'ss__') }}",
    "the attr filter with a message": "{{ ''|attr(messages[0].content) }}",
    "a format string": "{{ '{0.__class__.__init__.__globals__}'.format(cycler) }}",
    "a format string behind attr": "{{ ('{0.__class__}'|attr('format'))(cycler) }}",
    "a format string in a variable": "{% set f = '{0.__class__}'.format %}{{ f(cycler) }}",
    "format_map": "{{ '{x.__class__}'.format_map({'x': cycler}) }}",
    "the map filter": "{{ [cycler]|map(attribute='__init__.__globals__')|list }}",
    "a generator's frame": "{{ (messages|map('upper')).gi_frame.f_builtins }}",
    "the namespace class": "{{ namespace.__init__.__globals__ }}",
    "raise_exception's globals": "{{ raise_exception.__globals__ }}",
    "strftime_now's closure": "{{ strftime_now.__closure__ }}",
    "the template itself": "{{ self.__init__.__globals__ }}",
    "a file": "{% include '/etc/passwd' %}",
    "a module": "{% import 'os' as os %}",
}
