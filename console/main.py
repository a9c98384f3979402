"""The `sudare` command: what there is, and the one place where errors become words and exit codes.

Exit codes: 0 done · 2 bad spec or contract · 3 the data breaks a declared gate · 4 the ledger refuses ·
5 verification failed · 6 a version that holds was withdrawn · 130 interrupted · 1 anything else.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, Final, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from console.output import INTERRUPTED, Interrupted, UsageRefused, log_for_bugs, present, require_regular
from contracts.errors import SudareError
from contracts.plug_ins import PlugInAway, RegisteredName, absent_extension, core, find, others
from tasks.storage.workspace.environment import switch_telemetry_off
from tasks.storage.workspace.run_folder import sheltered

# --- The commands by name.


GROUP: Final = "sudare.commands"
_DOCSTRING: Final = r'^def {function}\(.*?^    """(.*?)(?:\n\n|""")'

COMMANDS: Final = (
    "init",
    "doctor",
    "metrics",
    "prune",
    "plan",
    "check",
    "approve",
    "run",
    "publish",
    "sample",
    "evaluate",
    "deploy",
    "work",
    "watch",
    "explain",
    "interval",
    "verify",
)
GROUPS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "budget": (
        "Accounts: whose loss is bounded, by how much, and what was charged.",
        ("show", "history", "backup", "restore", "open", "bind", "close", "clock", "return"),
    ),
    "releases": (
        "Releases: what was published, and where it is.",
        ("gaps", "diff", "journal", "list", "show", "withdraw", "refresh"),
    ),
    "keys": (
        "Keys: whose versions you verify, where yours lies, and how it is changed.",
        ("pin", "new", "show", "encrypt", "rotate", "recovery", "revoke", "reprove"),
    ),
    "contract": (
        "Contracts: what the columns may hold and what is protected.",
        ("draft", "diff", "register", "list", "history", "lint"),
    ),
    "federation": (
        "Federations: a model, rows or tables, across sites that keep their rows.",
        ("plan", "key", "run", "site"),
    ),
}
"""The commands of the core by name, in the order of help; `pyproject.toml` says where each is (`sudare.commands`)."""
CHECKER: Final = frozenset({"explain", "interval", "keys.new", "keys.pin", "sample", "verify"})
"""The commands that the base dependencies are enough for; `explain` needs more for a spec."""
IMPORTED: Final = (
    "prefect", "fastapi", "sqlalchemy", "psycopg", "cronsim", "duckdb", "duckdb_engine", "polars", "pandas",
    "great_expectations", "open_data_contract_standard", "dp_accounting",
)  # fmt: skip
"""What the packages of the extra `publish` are imported as."""


class PublisherMissing(SudareError):
    """A command needs packages that checking does without, and they are not installed."""

    exit_code = 2

    def __init__(self, missing: str) -> None:
        super().__init__(f"this needs sudare[publish]: pip install 'sudare[publish]' ({missing} is not installed)")


def require_publisher() -> None:
    """Refuse to go on where a package of the extra `publish` is not installed.

    Raises:
        PublisherMissing: one is not.
    """
    for name in IMPORTED:
        if find_spec(name) is None:
            raise PublisherMissing(name)


def summary_of(place: str) -> str:
    """Return the first paragraph of a function's docstring, without importing its module.

    Args:
        place: module:function; its docstring is what stands first below its head.
    Raises:
        LookupError: no such function, or it has no docstring.
    """
    module, _, function = place.partition(":")
    spec = find_spec(module)
    source = getattr(spec and spec.loader, "get_source", lambda _: None)(module) or ""
    found = re.search(_DOCSTRING.format(function=function), source, re.MULTILINE | re.DOTALL)
    if found is None:
        raise LookupError(f"{place} has no docstring")
    return " ".join(found[1].split())


class DeferredCommand(TyperCommand):
    """A command that a group lists by its name and line of help, and that is imported once its arguments are parsed.

    Args:
        name: as it is typed.
        registered: its entry point. It has no line of help where its source cannot be read.
    """

    def __init__(self, name: str, registered: RegisteredName) -> None:
        try:
            summary = summary_of(registered.point.value)
        except (ImportError, LookupError):
            summary = ""
        super().__init__(name, short_help=summary)
        self._registered = registered

    @cached_property
    def command(self) -> TyperCommand:
        """The command itself, with its options; imports its module."""
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(self.name)(self.load())
        return cast(TyperCommand, typer.main.get_command(app))

    def load(self) -> FunctionType:
        """Import the function that it calls.

        Raises:
            PublisherMissing: it needs the packages of the extra `publish`, and they are not installed.
            PlugInAway: a package that registers it cannot be loaded, or what it registers is no function.
        """
        point = self._registered.point
        if point.name in core(GROUP) and point.name not in CHECKER:
            require_publisher()
        try:
            return cast(FunctionType, self._registered.load(FunctionType))
        except PlugInAway:
            require_publisher()
            raise

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the arguments of the command; the context that is returned runs the command itself."""
        context = self.command.make_context(*arguments, **options)
        for value in context.params.values():
            for path in value if isinstance(value, list | tuple) else (value,):
                if isinstance(path, Path):
                    require_regular(path, context.command_path)
        return context


class CommandGroup(TyperGroup):
    """The commands of the core, then those that packages register: by NAME, or by GROUP.NAME in a group."""

    @property
    def _prefix(self) -> str:
        return f"{self.name}." if self.name in GROUPS else ""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names: those of the core in their order, then those of packages."""
        own = GROUPS[str(self.name)][1] if self._prefix else (*COMMANDS, *GROUPS)
        added = [name for name in others(GROUP, core(GROUP)) if absent_extension(GROUP, name) is None]
        inner = [name.removeprefix(self._prefix) for name in added if name.startswith(self._prefix)]
        return [*own, *(name for name in inner if "." not in name)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None for an unknown one.

        Raises:
            UsageRefused: it is one of an extension that is not installed.
        """
        if (command := super().get_command(ctx, cmd_name)) is not None:
            return command
        name = f"{self._prefix}{cmd_name}"
        if (extension := absent_extension(GROUP, name)) is not None:
            found = f"{cmd_name!r}, which needs the extension {extension}, which is not installed"
            raise UsageRefused(
                f"sudare {self._prefix[:-1]}".rstrip(), found, mended=f"install Sudare with {extension}"
            )
        registered = find(GROUP, core(GROUP), name)
        return None if registered is None else DeferredCommand(cmd_name, registered)


def add_commands(root: TyperGroup) -> TyperGroup:
    """Return the root group with all commands and groups, in the order in which help shows them."""
    for group, (summary, _) in GROUPS.items():
        root.add_command(CommandGroup(name=group, help=summary, no_args_is_help=True))
    return root


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
