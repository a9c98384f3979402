"""The commands by name. The module of a command is imported when the command is called: `sudare --help` imports none.

A line of help stands here beside the place of its command. It is the first paragraph of the command's docstring; a
test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, Final, cast

import typer
from typer.core import TyperCommand, TyperGroup

Table = Mapping[str, tuple[str, str]]
"""Of each command its place (module:function) and its line of help."""

COMMANDS: Final[Table] = {
    "init": ("console.init:init", "Make a workspace: settings, ledger, keys and release store."),
    "plan": (
        "console.plan:plan",
        "Show what a release would cost, what error to expect, and what the account can still give. Reads no data.",
    ),
    "check": (
        "console.check:check",
        "Show how the rows fit the contract, to you who hold them. Charges nothing, publishes nothing.",
    ),
    "run": ("console.run:run", "Make one release; ends with where it is, what it cost and what is left."),
    "publish": (
        "console.publish:publish",
        "Copy a published version to another store; again after a failure, it goes on.",
    ),
    "sample": (
        "console.sample:sample",
        "Sample further rows from the model of a synthetic version, under a condition too; it costs no privacy.",
    ),
    "evaluate": (
        "console.evaluate:evaluate",
        "Compare synthetic rows, tables or a model with the real rows (PRIVATE, stays here), or rows "
        "with public ones.",
    ),
    "deploy": (
        "console.schedule:deploy",
        "Make a Prefect deployment of a release, for workers (`sudare work`) to run when it is due.",
    ),
    "work": (
        "console.schedule:work",
        "Run scheduled releases until it is stopped; start several for several releases at once.",
    ),
    "watch": (
        "console.schedule:watch",
        "Release periods as their files arrive: those that are over, not published, and delivered.",
    ),
    "verify": (
        "console.verify:verify",
        "Check a published version offline, against a key that you pin; exit 0 only if all of it holds.",
    ),
    "serve": (
        "console.serve:serve",
        "Serve the review site: releases, records, accounts and the journal, read only, until Ctrl-C.",
    ),
}
GROUPS: Final[Mapping[str, tuple[str, Table]]] = {
    "budget": (
        "Accounts: whose loss is bounded, by how much, and what was charged.",
        {
            "show": (
                "console.balance:show",
                "Show what was released, what an account can still give, how many scheduled runs fit, and when "
                "it runs out.",
            ),
            "history": (
                "console.balance:history",
                "Show the journal: every account, charge, draw, publication and withdrawal.",
            ),
            "backup": (
                "console.ledger_copies:backup",
                "Copy the ledger into a new file: one committed state, whichever database it is in.",
            ),
            "restore": (
                "console.ledger_copies:restore",
                "Fill an empty ledger (SQLite or PostgreSQL) with a copy, once the copy is checked.",
            ),
            "open": (
                "console.budget:open_account",
                "Open an account; asking again with the same terms changes nothing.",
            ),
            "bind": ("console.budget:bind", "Bind a source to the people and the time block it is about, for good."),
            "close": (
                "console.budget:close_account",
                "Close an account for new charges; what it lost stays written.",
            ),
            "return": (
                "console.budget:return_charge",
                "Give back what a run reserved, if its grant was never opened.",
            ),
        },
    ),
    "releases": (
        "Releases: what was published, and where it is.",
        {
            "gaps": ("console.gaps:gaps", "Say which periods of a release are missing, and why."),
            "catalog": (
                "console.releases_catalog:catalog",
                "Write a catalogue of all published versions, for dataset search and data portals.",
            ),
            "list": (
                "console.releases:list_releases",
                "List every version of every release, as the ledger knows them.",
            ),
            "show": ("console.releases:show", "Show one version: its guarantee, its cost and its tables."),
            "withdraw": (
                "console.releases:withdraw",
                "Withdraw a version: the signed journal says so from now on; its files and its charge stay.",
            ),
        },
    ),
    "key": (
        "Keys: whose versions you verify.",
        {
            "pin": ("console.key:pin", "Keep a publisher's key, so that `sudare verify` needs no --key."),
        },
    ),
    "contract": (
        "Contracts: what the columns may hold and what is protected.",
        {
            "draft": (
                "console.contract_draft:draft",
                "Draft a contract; what has to be declared is left open, and nothing is learned from rows.",
            ),
            "diff": (
                "console.contract_diff:diff",
                "Compare two contracts by what they mean, and say for whom a change breaks something.",
            ),
            "register": (
                "console.contract_registry:register",
                "Register a version of a contract, for good; a breaking change without a new MAJOR is refused.",
            ),
            "list": (
                "console.contract_registry:list_contracts",
                "List the registered contracts with their last version.",
            ),
            "history": (
                "console.contract_registry:history",
                "Show every registered version of a contract, and what each changed.",
            ),
            "lint": (
                "console.contract:lint",
                "Check a contract: list all that is wrong with it, then what may not be meant; it reads no data.",
            ),
        },
    ),
    "federation": (
        "Federations: one model, or tables, across sites that keep their rows.",
        {
            "plan": ("console.federation:plan", "Say what a federation costs whom, without data."),
            "key": (
                "console.federation:key",
                "Make this site's key, unless it has one, and print its public half for the federation spec.",
            ),
            "run": (
                "console.federation:run",
                "Coordinate a federation: wait for its sites, train or count, and release what they lead to.",
            ),
            "site": (
                "console.federation:site",
                "Join a federation with the rows of this site; ends with Ctrl-C, or when its node ends.",
            ),
            "check": (
                "console.federation:check",
                "Check a released federation offline: signature, plan, epsilon, and weights from the noisy sums.",
            ),
        },
    ),
}


class DeferredCommand(TyperCommand):
    """A command that a group lists by its name and line of help, and that is imported once its arguments are parsed.

    Args:
        name: as it is typed.
        place: module:function.
        summary: its line of help.
    """

    def __init__(self, name: str, place: str, summary: str) -> None:
        super().__init__(name, short_help=summary)
        self._place = place

    @cached_property
    def command(self) -> TyperCommand:
        """The command itself, with its options; imports its module."""
        module, _, function = self._place.partition(":")
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(self.name)(getattr(import_module(module), function))
        return cast(TyperCommand, typer.main.get_command(app))

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the arguments of the command; the context that is returned runs the command itself."""
        return self.command.make_context(*arguments, **options)


def add_commands(root: TyperGroup) -> TyperGroup:
    """Return the root group with all commands and groups, in the order in which help shows them."""
    for name, (place, summary) in COMMANDS.items():
        root.add_command(DeferredCommand(name, place, summary))
    for group, (summary, table) in GROUPS.items():
        inner = {name: DeferredCommand(name, *entry) for name, entry in table.items()}
        root.add_command(TyperGroup(name=group, help=summary, no_args_is_help=True, commands=dict(inner)))
    return root
