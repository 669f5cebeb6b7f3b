"""The limits that the command line asks for, where a command runs code of templates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from templatefix.limits import Limits
from templatefix.source.options import NETWORK_TIMEOUT

F = TypeVar("F", bound=Callable[..., Any])


def limit_options(command: F) -> F:
    """``--time-limit`` and ``--memory-limit``, for :func:`limits_of`."""
    memory = click.option(
        "--memory-limit",
        type=click.IntRange(16),
        metavar="MB",
        help="Memory of a rendering (1024).",
    )
    time = click.option(
        "--time-limit", type=click.FloatRange(0.1), metavar="S", help="Seconds a rendering (10)."
    )
    return time(memory(command))


def network_option(command: F) -> F:
    """``--network-timeout``, for ``SourceOptions.time_limit``."""
    return click.option(
        "--network-timeout",
        type=click.FloatRange(0.1),
        default=NETWORK_TIMEOUT,
        metavar="S",
        help="Seconds for the files of a target on the hub (60).",
    )(command)


def limits_of(seconds: float | None, megabytes: int | None) -> Limits:
    """The usual limits where the command line says nothing."""
    usual = Limits()
    return replace(
        usual,
        seconds=usual.seconds if seconds is None else seconds,
        megabytes=usual.megabytes if megabytes is None else megabytes,
    )
