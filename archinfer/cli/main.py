"""The command line: one thin module per command, heavy imports inside each."""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from archinfer.cli import hardware, models

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(import_module(f"archinfer.cli.{name}"), name)
    for name in (
        "solve", "predict", "compare", "pareto", "fit", "calibrate", "validate", "check",
        "evidence", "schema",
    )
}  # fmt: skip
"""Commands, each the function of its name in the module of its name."""

COLUMNS_LEAST = 20
"""Narrowest window that is written for."""


class Commands(TyperGroup):
    """Makes the options of a command when it is called, and of no other."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name, the command and the words that are left."""
        name, command, left = super().resolve_command(ctx, args)
        if name in FUNCTIONS:
            from archinfer.cli.options import with_options

            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(name)(with_options(name, FUNCTIONS[name]))
            command = typer.main.get_command(alone)
        return name, command, left


app = typer.Typer(
    cls=Commands,
    name="archinfer",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Infer how large a language model can be, or must be, from the hardware that serves it "
        "and the speed at which it answers."
    ),
    epilog=(
        "Exit codes: 0 an answer (also 'nothing is feasible'), 1 a check or coverage failed, "
        "2 wrong input."
    ),
)


def _not_built() -> None:
    """In the place of a command that is only listed."""


for name, function in FUNCTIONS.items():
    app.command(name, help=inspect.getdoc(function))(_not_built)
app.add_typer(hardware.app, name="hardware")
app.add_typer(models.app, name="models")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"archinfer {version('archinfer')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; what the user got wrong is one line on stderr and exit code 2."""
    from archinfer.cli.usage import ParserError, describe
    from archinfer.errors import InputError, MeasurementError

    if sys.stdout is None:
        # Nothing may be opened before: a file would get the number of standard output.
        typer.echo("error: cannot write: standard output is closed", err=True)
        sys.exit(2)
    _steady_output()
    _usable_width()
    try:
        try:
            code = app(prog_name="archinfer", standalone_mode=False)
        finally:
            # Here, where what goes wrong can be told; at exit Python would only complain.
            sys.stdout.flush()
    except ParserError as error:
        # A group without a command has its help to say, which is no line.
        wordless = type(error).__name__ == "NoArgsIsHelpError"
        typer.echo(str(error) if wordless else f"error: {describe(error)}", err=True)
        sys.exit(2)
    except typer.Abort:
        sys.exit(130)
    except InputError as error:
        for one in (error, *error.further):
            typer.echo(f"error: {one}", err=True)
        sys.exit(2)
    except MeasurementError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        _drop(sys.stdout.fileno())
        typer.echo(f"error: cannot write: {error.strerror or error}", err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


class _Output(io.FileIO):
    """Standard output whose reader may go (`| head`): the rest is then dropped.

    Click and Rich would each end the command with exit code 1, which here means that a check
    failed.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            _drop(self.fileno())
            return len(data)


def _drop(descriptor: int) -> None:
    """From now on what is written to `descriptor` goes nowhere."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, descriptor)
    os.close(sink)


def _steady_output() -> None:
    """Output that neither a reader that goes nor a letter that the encoding lacks can break."""
    out, err = sys.stdout, sys.stderr
    if out is sys.__stdout__ and isinstance(out, io.TextIOWrapper):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(out.fileno(), "w", closefd=False)),
            encoding=out.encoding,
            errors="replace",
            line_buffering=out.line_buffering,
        )
    if isinstance(err, io.TextIOWrapper):
        err.reconfigure(errors="replace")


def _usable_width() -> None:
    """A COLUMNS that is no number counts as not set, as 0 does, which programs say that do not
    know; one too narrow for any table as the narrowest."""
    columns = os.environ.pop("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        os.environ["COLUMNS"] = str(max(int(columns), COLUMNS_LEAST))
