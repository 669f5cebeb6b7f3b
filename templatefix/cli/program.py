"""The program: its commands, imported when they are used, and how it ends.

Exit codes: 0, 1 and 2 are the commands' own; a usage error is 2, Ctrl-C is 130, SIGTERM 143 and
a reader that closed our standard output 141. None of them shows a traceback.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from types import FrameType
from typing import Any

import click

from templatefix import __version__
from templatefix.cli import written
from templatefix.errors import TargetError

#: Name -> (module and attribute, help in one line): help must not import the commands.
COMMANDS = {
    "check": ("templatefix.cli.check:check", "Find what makes a server lose its cached tokens."),
    "patch": ("templatefix.cli.patch:patch", "Repair a template with the smallest proven change."),
    "survey": ("templatefix.cli.survey:survey", "Say how many templates can be repaired, and how."),
    "serve-args": (
        "templatefix.cli.serve_args:serve_args",
        "Print the vllm serve command for a template and a KV connector.",
    ),
    "verify": ("templatefix.cli.verify:verify", "Hold a live server's cache hits to predictions."),
    "ready": ("templatefix.cli.ready:ready", "Find templates that are repaired already."),
    "explain": ("templatefix.cli.explain:explain", "Explain one rule, with examples."),
    "rules": ("templatefix.cli.rules:rules", "List the rules."),
}


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class ClosedOutput(BaseException):
    """Nobody reads standard output any more."""


class Interrupted(BaseException):
    """Ctrl-C, where click does not see it: it would print an empty line."""


class Terminated(BaseException):
    """SIGTERM arrived."""


class LazyGroup(click.Group):
    """A group that imports a command's module only to run the command or to print its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


class Program(LazyGroup):
    """Ends every command the same way, whatever goes wrong."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        written.forget()
        try:
            with _sigterm_raises():
                code = super().main(
                    args, prog_name or "templatefix", complete_var, standalone_mode=False, **extra
                )
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx is not None else "templatefix"
            error = _without_hidden(error)
            _complain(f"{error.format_message()} (see {command} --help)")
            code = error.exit_code
        except click.ClickException as error:
            _complain(error.format_message())
            code = 2
        except TargetError as error:
            _complain(str(error))
            # A template that takes more than it may is a finding, wherever it is met.
            code = 1 if error.code == "TF601" else 2
        except (click.Abort, KeyboardInterrupt, Interrupted):
            _tell_interrupted()
            code = 130
        except Terminated:
            code = 143
        except ClosedOutput:
            abandon_stdout()
            code = 141
        if standalone_mode:
            sys.exit(code or 0)
        return code

    # click ends a broken pipe with exit code 1 in its main(): it must not see one.

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _unseen():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _unseen():
            return super().invoke(ctx)


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="templatefix", message="%(prog)s %(version)s")
@click.pass_context
def templatefix(ctx: click.Context) -> None:
    """Find what makes a server throw its KV cache away: the places where a chat template
    renders an answer otherwise than the model wrote it."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(2)


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted from None
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise ClosedOutput from None
        if error.errno in _FULL:
            abandon_stdout()
            message = f"cannot be written: {error.strerror}"
            raise TargetError("standard output", message) from error
        raise


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """While a command runs, SIGTERM unwinds the stack, so that files and children are cleared."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _complain(message: str) -> None:
    """One line on stderr; nothing in it reaches the terminal raw."""
    from templatefix.report.visible import visible

    click.echo(f"templatefix: {visible(message)}", err=True)


def _without_hidden(error: click.UsageError) -> click.UsageError:
    """An unknown option is told which are like it, but none that is hidden."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    options = [each for each in error.ctx.command.params if isinstance(each, click.Option)]
    hidden = {name for each in options if each.hidden for name in each.opts}
    likely = [name for name in error.possibilities or () if name not in hidden]
    return click.NoSuchOption(error.option_name, possibilities=likely, ctx=error.ctx)


def _tell_interrupted() -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        click.echo(err=True)  # after the ^C that the terminal shows
    places = written.places()
    so_far = f"written so far: {', '.join(places)}" if places else "nothing was written"
    _complain(f"interrupted: {so_far}")


def abandon_stdout() -> None:
    """Python flushes standard output at exit and would complain about what cannot be written."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
