"""The `sudare` command: what there is, and the one place where errors become words and exit codes.

Exit codes: 0 done · 2 bad spec or contract · 3 the data breaks a declared gate · 4 the ledger refuses ·
5 verification failed · 6 a version that holds was withdrawn · 130 interrupted · 1 anything else.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Final, NoReturn, cast

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from console.commands import CommandGroup, add_commands
from console.errors import INTERRUPTED, Interrupted, UsageRefused, log_for_bugs, present
from contracts.errors import SudareError
from tasks.storage.workspace.environment import switch_telemetry_off
from tasks.storage.workspace.run_folder import sheltered

LASTING_OBJECTS = 100_000
START = """Start here: sudare studio, a page of your own machine, leads to a first release. Or step by step:

1. sudare init DIR: a workspace

2. sudare contract draft --from FILE: what the columns may hold, and who is protected

3. sudare budget open NAME: the account that bounds what is ever learned of these people

4. a release spec: what to publish, at which epsilon (examples/adult/tables.yaml)

5. sudare plan SPEC: cost and error, without data. sudare check SPEC: do the rows fit the contract?

6. sudare run SPEC, then sudare verify VERSION_DIR

Examples of each: sudare COMMAND --help"""


def _print_version(print_version: bool) -> None:
    if print_version:
        # the parsers of mail that metadata is written in
        from importlib.metadata import PackageNotFoundError
        from importlib.metadata import version as installed

        try:
            number = installed("sudare")
        except PackageNotFoundError:
            number = "(not installed)"
        typer.echo(f"sudare {number}")
        raise typer.Exit


VersionFlag = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
]
app = typer.Typer(
    name="sudare",
    cls=CommandGroup,
    epilog=START,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def options(version: VersionFlag = False) -> None:
    """Differentially private releases of confidential tables, charged to a ledger and checkable offline."""


def root_command() -> TyperGroup:
    """Return the command `sudare` with all that it offers."""
    return add_commands(cast(TyperGroup, typer.main.get_command(app)))


def main() -> None:
    """Run the command line of this process."""
    exit_with(lambda: execute(sys.argv[1:]))


def exit_with(action: Callable[[], int]) -> NoReturn:
    """Do what this process is for, and end it with the exit code.

    The libraries of a run make a million objects that last: looking through them for garbage again and again while
    they load, and once more at the end, would take a quarter of the time of a small release.
    """
    gc.set_threshold(LASTING_OBJECTS)
    code = action()
    gc.freeze()
    sys.exit(code)


def execute(arguments: Sequence[str]) -> int:
    """Run one command line.

    Args:
        arguments: the words after `sudare`.
    Returns:
        int: the exit code.
    """
    switch_telemetry_off()
    try:
        return _invoke(list(arguments))
    except SudareError as error:
        return present(error, as_json="--json" in arguments)


def _invoke(arguments: list[str]) -> int:
    """Run the command; any error that comes out is one of ours."""
    try:
        code = sheltered(lambda: _understand(arguments), lambda: log_for_bugs(arguments))
    except (KeyboardInterrupt, typer.Abort):
        raise Interrupted("interrupted") from None
    if code == INTERRUPTED:  # Typer makes an exit code of a Ctrl-C that nobody handled
        raise Interrupted("interrupted")
    return code if isinstance(code, int) else 0


def _misunderstood(error: TyperException) -> str:
    """Return what is wrong with a command line: with the option whose value it is, without the parser's own words."""
    of_an_option = getattr(error, "param", None) is not None
    words = error.format_message() if of_an_option else getattr(error, "message", "") or error.format_message()
    return str(words).partition(". Did you mean")[0].replace(": Value error, ", ": ").rstrip(".")


def _understand(arguments: list[str]) -> object:
    try:
        return root_command()(arguments, prog_name="sudare", standalone_mode=False)
    except TyperException as error:
        if not error.format_message():  # the help was asked for by leaving the command out, and is printed
            return error.exit_code
        context = getattr(error, "ctx", None)
        command = "sudare" if context is None else context.command_path
        group = getattr(context, "command", None)
        known = group.list_commands(context) if context and isinstance(group, TyperGroup) else ()
        meant = [name for name in getattr(error, "possibilities", None) or () if name.startswith("--")]
        found, mended = _misunderstood(error), _suggestion(error, known, meant)
        raise UsageRefused(command, found, " or ".join([*meant, "what its help lists"]), mended) from error


_QUOTED: Final = re.compile(r"'([^']*)'")


def _suggestion(error: TyperException, commands: Sequence[str], options: Sequence[str]) -> str:
    """Return what was meant, as far as the parser's words tell: a command, an option, or one of a few values."""
    # with pydantic: for the few command lines that are not understood
    from contracts.reading.scalars import nearest

    words = error.format_message()
    quoted = _QUOTED.findall(words)
    if words.startswith("No such command") and quoted:
        return nearest(quoted[0], commands)
    if words.startswith("No such option") and options and (typed := re.search(r"--[\w-]+", words)):
        return nearest(typed[0], options)
    if " is not one of " in words:
        value, _, allowed = words.partition(" is not one of ")
        return nearest(_QUOTED.findall(value)[-1], _QUOTED.findall(allowed))
    return ""
