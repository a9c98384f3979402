"""The commands by name. The module of a command is imported when the command is called: `sudare --help` imports none.

Packages add commands in the group `sudare.commands`, as NAME or, in a group, as GROUP.NAME.
A command's line of help is the first paragraph of its docstring, which is read from the source without running it.
All commands but those of `CHECKER` need the packages of the extra `publish`; without them they end in one line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any, Final, cast

import typer
from typer.core import TyperCommand, TyperGroup

from console.errors import UsageRefused, require_regular
from contracts.errors import SudareError
from contracts.plug_ins import PlugInAway, RegisteredName, absent_extension, find, load_place, others

GROUP: Final = "sudare.commands"
Table = Mapping[str, str]
"""Of each command its place, module:function."""
_DOCSTRING: Final = r'^def {function}\(.*?^    """(.*?)(?:\n\n|""")'

COMMANDS: Final[Table] = {
    "init": "console.init:init",
    "doctor": "console.doctor:doctor",
    "metrics": "console.metrics:metrics",
    "prune": "console.prune:prune",
    "plan": "console.plan_command:plan",
    "check": "console.check:check",
    "approve": "console.approve:approve",
    "run": "console.run:run",
    "publish": "console.publish:publish",
    "sample": "console.sample:sample",
    "evaluate": "console.evaluate:evaluate",
    "deploy": "console.schedule:deploy",
    "work": "console.schedule:work",
    "watch": "console.schedule:watch",
    "explain": "console.explain:explain",
    "interval": "console.interval:interval",
    "verify": "console.verify:verify",
}
GROUPS: Final[Mapping[str, tuple[str, Table]]] = {
    "budget": (
        "Accounts: whose loss is bounded, by how much, and what was charged.",
        {
            "show": "console.balance:show",
            "history": "console.balance:history",
            "backup": "console.ledger_copies:backup",
            "restore": "console.ledger_copies:restore",
            "open": "console.budget:open_account",
            "bind": "console.budget:bind",
            "close": "console.budget:close_account",
            "clock": "console.budget:clock",
            "return": "console.budget:return_charge",
        },
    ),
    "releases": (
        "Releases: what was published, and where it is.",
        {
            "gaps": "console.gaps:gaps",
            "diff": "console.releases_diff:diff",
            "journal": "console.releases:journal",
            "list": "console.releases:list_releases",
            "show": "console.releases:show",
            "withdraw": "console.releases:withdraw",
            "refresh": "console.releases:refresh",
        },
    ),
    "keys": (
        "Keys: whose versions you verify, where yours lies, and how it is changed.",
        {
            "pin": "console.pinned_keys:pin",
            "new": "console.pinned_keys:new",
            "show": "console.keys:show",
            "encrypt": "console.keys:encrypt",
            "rotate": "console.keys:rotate",
            "recovery": "console.keys:recovery",
            "revoke": "console.keys:revoke",
            "reprove": "console.keys:reprove",
        },
    ),
    "contract": (
        "Contracts: what the columns may hold and what is protected.",
        {
            "draft": "console.contract_draft:draft",
            "diff": "console.contract_diff:diff",
            "register": "console.contract_registry:register",
            "list": "console.contract_registry:list_contracts",
            "history": "console.contract_registry:history",
            "lint": "console.contract:lint",
        },
    ),
    "federation": (
        "Federations: a model, rows or tables, across sites that keep their rows.",
        {
            "plan": "console.federation:plan",
            "key": "console.federation:key",
            "run": "console.federation:run",
            "site": "console.federation:site",
        },
    ),
}
CHECKER: Final = frozenset(
    {
        "console.verify:verify",
        "console.pinned_keys:pin",
        "console.pinned_keys:new",
        "console.sample:sample",
        "console.explain:explain",
        "console.interval:interval",
    }
)
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
        place: module:function.
        summary: its line of help; None: that of its docstring.
    """

    def __init__(self, name: str, place: str, summary: str | None = None) -> None:
        super().__init__(name, short_help=summary_of(place) if summary is None else summary)
        self._place = place

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
        """
        if self._place not in CHECKER:
            require_publisher()
        return cast(FunctionType, load_place(self._place))

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the arguments of the command; the context that is returned runs the command itself."""
        context = self.command.make_context(*arguments, **options)
        for value in context.params.values():
            for path in value if isinstance(value, list | tuple) else (value,):
                if isinstance(path, Path):
                    require_regular(path, context.command_path)
        return context


class RegisteredCommand(DeferredCommand):
    """A command of an installed package; it has no line of help where its source cannot be read."""

    def __init__(self, name: str, registered: RegisteredName) -> None:
        try:
            summary = summary_of(registered.point.value)
        except (ImportError, LookupError):
            summary = ""
        super().__init__(name, registered.point.value, summary)
        self._registered = registered

    def load(self) -> FunctionType:
        """Import the function.

        Raises:
            PublisherMissing: it needs the packages of the extra `publish`, and they are not installed.
            PlugInAway: the package cannot be loaded, or what it registers is no function.
        """
        try:
            return cast(FunctionType, self._registered.load(FunctionType))
        except PlugInAway:
            require_publisher()
            raise


class CommandGroup(TyperGroup):
    """The commands of the core, then those that packages register: by NAME, or by GROUP.NAME in a group."""

    @property
    def _prefix(self) -> str:
        return f"{self.name}." if self.name in GROUPS else ""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names: those of the core in their order, then those of packages."""
        added = [name for name in others(GROUP, {}) if absent_extension(GROUP, name) is None]
        inner = [name.removeprefix(self._prefix) for name in added if name.startswith(self._prefix)]
        return [*super().list_commands(ctx), *(name for name in inner if "." not in name)]

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
        registered = find(GROUP, {}, name)
        return None if registered is None else RegisteredCommand(cmd_name, registered)


def add_commands(root: TyperGroup) -> TyperGroup:
    """Return the root group with all commands and groups, in the order in which help shows them."""
    for name, place in COMMANDS.items():
        root.add_command(DeferredCommand(name, place))
    for group, (summary, table) in GROUPS.items():
        inner = {name: DeferredCommand(name, place) for name, place in table.items()}
        root.add_command(CommandGroup(name=group, help=summary, no_args_is_help=True, commands=dict(inner)))
    return root
