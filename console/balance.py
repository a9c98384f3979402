"""`sudare budget show` and `history`: what accounts have lost, what is left and for how long, and the journal."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from console.accounts import EXACT, HEADINGS, NUMBERS, account_object, account_row, calendar_object, print_account
from console.options import AsJson, At, Exact, ledger_at, workspace_at
from console.render import answer, table
from contracts.errors import Finding, Refused
from privacy.ledger.entries import Entry, to_the_hour
from privacy.ledger.ledger import Ledger
from privacy.ledger.replay.fold import summary
from privacy.ledger.terms import AccountState
from tasks.checkpoints import check_not_forgotten, proofs_in, published_checkpoints
from tasks.verification.public_keys import read_public_key

AccountArgument = Annotated[str | None, typer.Argument(metavar="ACCOUNT", help="One account; all without it.")]
Proofs = Annotated[
    list[Path] | None,
    typer.Option("--proof", metavar="FILE", help="Also hold the journal against this PROOF.json, kept elsewhere."),
]


class JournalBroken(Refused):
    """The journal contradicts itself, or what was published."""

    exit_code = 5


def show(
    account: AccountArgument = None, exact: Exact = False, workspace: At = None, as_json: AsJson = False
) -> None:
    """Show what was released, how much of the budget is used, how many scheduled runs fit, and when it runs out.

    Every ε is a release's own claim. The account adds up losses in units of its calculus, where two releases lose
    less than their ε together; --exact shows these, and the ε that one more release can have.

    Examples:

        sudare budget show

        sudare budget show adult-1994 --exact

        sudare budget show adult-1994 --json
    """
    with ledger_at(workspace) as ledger:
        if account is not None:
            answer_account(ledger, ledger.account(account), workspace, as_json=as_json, exact=exact)
            return
        calendar = _calendar(ledger, workspace)
        accounts = [_object(ledger, state, calendar) for state in ledger.accounts()]
        if not accounts:
            check_not_forgotten(ledger, workspace_at(workspace).releases)

    def people(console: Console) -> None:
        if accounts:
            rows = [account_row(account, exact=exact) for account in accounts]
            console.print(table((*HEADINGS, *(EXACT if exact else ())), rows, numbers=NUMBERS))
        else:
            console.print("No account is open yet: sudare budget open --help")

    answer({"accounts": accounts}, people, as_json=as_json)


def history(
    account: AccountArgument = None,
    verify: Annotated[bool, typer.Option("--verify", help="Also check the journal; exit 5 when it fails.")] = False,
    proof: Proofs = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Show the journal: every account, charge, draw, publication and withdrawal.

    Times are to the hour, as the public ones are; the number of an entry orders them. Only entries that are sealed
    for auditors have seconds, which --json shows.

    With --verify the database's pages and indexes, every entry, cap and balance are checked, and that the journal
    still begins with what it held when each version in the release store was published.

    Examples:

        sudare budget history

        sudare budget history adult-1994 --verify

        sudare budget history --verify --proof archive/v1/PROOF.json
    """
    with ledger_at(workspace) as ledger:
        held, findings = _verified(ledger, workspace, proof or []) if verify else (0, [])
        unchecked = ledger.unchecked_indexes() if verify and not findings else ""
        if findings:
            raise JournalBroken(findings)
        entries = _entries_of(ledger, account)
    payload: dict[str, Any] = {"entries": [{**entry.to_json(), "hash": entry.hash} for entry in entries]}
    if verify:
        payload |= {"verified": True, "published_checkpoints": held, "indexes_not_checked": unchecked or None}

    def people(console: Console) -> None:
        for entry in entries:
            told = summary(entry)
            head = f"{told.pop('sequence'):>5}  {to_the_hour(told.pop('at'))}  {told.pop('kind'):<18}"
            console.print(head, " ".join(f"{name}={value}" for name, value in told.items()), soft_wrap=True)
        if verify:
            console.print("The journal holds: every entry, every cap, every balance.")
            console.print(f"It begins with what the checkpoints of published versions have seen of it ({held}).")
        if unchecked:
            console.print(f"! Not checked: damaged indexes ({unchecked})", soft_wrap=True)

    answer(payload, people, as_json=as_json)


def answer_account(
    ledger: Ledger, state: AccountState, workspace: Path | None, *, as_json: bool, exact: bool = False
) -> None:
    """Answer with one account as it stands."""
    account = _object(ledger, state, _calendar(ledger, workspace))
    answer(account, lambda console: print_account(console, account, exact=exact), as_json=as_json)


def _object(ledger: Ledger, state: AccountState, calendar: dict[str, Any]) -> dict[str, Any]:
    charges = ledger.charges(account=state.terms.name)
    made = account_object(state, charges, ledger.sources(), ledger.accounts())
    return {**made, **calendar_object(calendar, state)}


def _calendar(ledger: Ledger, folder: Path | None) -> dict[str, Any]:
    """Return the forecasts of the workspace's schedule, and which account refuses which run first."""
    workspace = workspace_at(folder)
    if not workspace.schedule:
        return {"forecasts": [], "refusals": {}}
    # the plans of what is scheduled: for workspaces with a schedule
    from flows.periods.budget_calendar import forecasts, refusals

    now = datetime.now()
    runs = forecasts(ledger, workspace, now=now)
    return {"forecasts": runs, "refusals": refusals(ledger.accounts(), runs, now=now)}


def _verified(ledger: Ledger, folder: Path | None, proofs: list[Path]) -> tuple[int, list[Finding]]:
    """Check the ledger, against the checkpoints of the release store and of the proofs that were named."""
    workspace = workspace_at(folder)
    key = read_public_key(workspace.public_key_file)
    checkpoints, findings = published_checkpoints([*proofs_in(workspace.releases), *proofs], public_key=key)
    return len(checkpoints), findings + ledger.verify(checkpoints, public_key=key)


def _entries_of(ledger: Ledger, account: str | None) -> list[Entry]:
    """Return the journal, or those of its entries that are about one account."""
    if account is None:
        return list(ledger.journal())
    subjects = [ledger.account(account).terms.name]
    subjects += [charge.request.run_key for charge in ledger.charges(account=account)]
    entries = [entry for subject in subjects for entry in ledger.entries_of(subject)]
    return sorted(entries, key=lambda entry: entry.sequence)
