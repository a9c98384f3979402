"""`sudare budget`: accounts, caps, and the journal of what was charged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from console.accounts import HEADINGS, NUMBERS, account_object, account_row, print_account
from console.options import AsJson, At, workspace_at
from console.render import answer, table
from contracts.errors import Refused

if TYPE_CHECKING:
    from privacy.accounting.calculus import Calculus
    from privacy.ledger.entries import Entry
    from privacy.ledger.ledger import Ledger
    from privacy.ledger.terms import AccountState

app = typer.Typer(help="Accounts: whose loss is bounded, by how much, and what was charged.", no_args_is_help=True)

Account = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Name of the account.")]
Population = Annotated[str, typer.Option(help="The people whose loss is bounded, such as us-adults.")]


Block = Annotated[str, typer.Option(help="The time block that it is about, such as 1994 or 2026-Q1.")]


class JournalBroken(Refused):
    """The journal contradicts itself."""

    exit_code = 5


class CalculusKind(StrEnum):
    """How losses add up."""

    pure = "pure"
    renyi = "renyi"


class Adjacency(StrEnum):
    """What neighbouring tables are."""

    add_remove = "add_remove"
    replace_one = "replace_one"


@app.command("open")
def open_account(
    account: Account,
    population: Population,
    block: Block,
    unit: Annotated[str, typer.Option(help="The privacy unit: row, or the name of an id column.")],
    epsilon: Annotated[str, typer.Option(help="The cap on ε; it never changes.")],
    calculus: Annotated[CalculusKind, typer.Option(help="How losses add up.")],
    adjacency: Annotated[Adjacency, typer.Option(help="The neighbour relation that every charge must use.")],
    delta: Annotated[str, typer.Option(help="The δ at which the cap is stated; above 0 for renyi.")] = "0",
    source: Annotated[list[str] | None, typer.Option(help="Also bind this source; FILE or FILE::TABLE.")] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Open an account; asking again with the same terms changes nothing.

    Examples:

        sudare budget open adult-1994 --population us-adults --block 1994 \\
          --unit row --epsilon 3 --delta 1e-9 --calculus renyi \\
          --adjacency add_remove --source data/adult.parquet

        sudare budget open panel-2026 --population panel --block 2026 \\
          --unit person_id --epsilon 1 --calculus pure --adjacency add_remove
    """
    from privacy.accounting.amounts import budget_down, delta_down
    from privacy.ledger.terms import AccountTerms

    cap, at = budget_down(_number("--epsilon", epsilon)), delta_down(_number("--delta", delta, zero=True))
    terms = AccountTerms(
        name=account,
        population=population,
        block=block,
        unit=unit,
        adjacency=adjacency.value,
        calculus=_calculus(calculus, cap, at),
        epsilon=cap,
        delta=at,
    )
    with _ledger(workspace) as ledger:
        state = ledger.open_account(terms)
        for name in [_source_name(written) for written in source or []]:
            ledger.bind_source(name, population, block)
        _answer_account(ledger, state, as_json=as_json)


@app.command()
def bind(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="FILE, or FILE::TABLE of a database.")],
    population: Population,
    block: Block,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Bind a source to the people and the time block it is about, for good.

    Examples:

        sudare budget bind data/adult.parquet --population us-adults --block 1994

        sudare budget bind data/panel.duckdb::answers --population panel \\
          --block 2026
    """
    name = _source_name(source)
    with _ledger(workspace) as ledger:
        ledger.bind_source(name, population, block)
    payload = {"source": name, "population": population, "block": block}
    told = f"{name} is about {population}, block {block}"
    answer(payload, lambda console: console.print(told), as_json=as_json)


@app.command()
def show(
    account: Annotated[str | None, typer.Argument(metavar="ACCOUNT", help="One account; all without it.")] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Show what is spent and what is left.

    Examples:

        sudare budget show

        sudare budget show adult-1994 --json
    """
    with _ledger(workspace) as ledger:
        if account is not None:
            _answer_account(ledger, ledger.account(account), as_json=as_json)
            return
        sources = ledger.sources()
        accounts = [account_object(state, sources) for state in ledger.accounts()]

    def people(console: Console) -> None:
        if accounts:
            console.print(table(HEADINGS, [account_row(account) for account in accounts], numbers=NUMBERS))
        else:
            console.print("No account is open yet: sudare budget open --help")

    answer({"accounts": accounts}, people, as_json=as_json)


@app.command()
def history(
    account: Annotated[str | None, typer.Argument(metavar="ACCOUNT", help="One account; all without it.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Also check the journal; exit 5 when it fails.")] = False,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Show the journal: every account, charge, draw and publication.

    Examples:

        sudare budget history

        sudare budget history adult-1994 --verify
    """
    from privacy.ledger.fold import summary

    with _ledger(workspace) as ledger:
        entries = _entries_of(ledger, account)
        findings = ledger.verify() if verify else None
    payload: dict[str, Any] = {"entries": [{**entry.to_json(), "hash": entry.hash} for entry in entries]}
    if findings is not None:
        payload["verified"] = not findings

    def people(console: Console) -> None:
        for entry in entries:
            told = summary(entry)
            head = f"{told.pop('sequence'):>5}  {told.pop('at')}  {told.pop('kind'):<18}"
            console.print(head, " ".join(f"{name}={value}" for name, value in told.items()), soft_wrap=True)
        if findings is not None and not findings:
            console.print("The journal holds: every entry, every cap, every balance.")

    if findings:
        raise JournalBroken(findings)
    answer(payload, people, as_json=as_json)


@app.command("close")
def close_account(account: Account, workspace: At = None, as_json: AsJson = False) -> None:
    """Close an account for new charges; what it lost stays written.

    Examples:

        sudare budget close adult-1994
    """
    with _ledger(workspace) as ledger:
        state = ledger.close_account(account)
        _answer_account(ledger, state, as_json=as_json)


@contextmanager
def _ledger(folder: Path | None) -> Iterator[Ledger]:
    """Open the ledger of a workspace inside the block."""
    from privacy.ledger.ledger import Ledger

    workspace = workspace_at(folder)
    ledger = Ledger(workspace.ledger_url, draws=workspace.draws)
    try:
        yield ledger
    finally:
        ledger.close()


def _answer_account(ledger: Ledger, state: AccountState, *, as_json: bool) -> None:
    account = account_object(state, ledger.sources())
    answer(account, lambda console: print_account(console, account), as_json=as_json)


def _entries_of(ledger: Ledger, account: str | None) -> list[Entry]:
    """Return the journal, or those of its entries that are about one account."""
    entries = list(ledger.journal())
    if account is None:
        return entries
    runs = {charge.request.run_key for charge in ledger.account(account).charges}
    return [
        entry
        for entry in entries
        if account in (entry.body.get("name"), entry.body.get("account")) or entry.body.get("run_key") in runs
    ]


def _calculus(kind: CalculusKind, cap: int, delta: int) -> Calculus:
    """Return the calculus; a Rényi one of the order at which the most noise fits under the cap."""
    from privacy.accounting.amounts import ATTO, PICO, AmountRefused
    from privacy.accounting.calculus import PureCalculus, RenyiCalculus, best_order

    if kind is CalculusKind.pure:
        return PureCalculus()
    if delta < 1:
        raise AmountRefused("--delta", delta, "a probability > 0 for --calculus renyi, such as 1e-9")
    return RenyiCalculus(best_order(Fraction(cap, PICO), Fraction(delta, ATTO)))


def _number(option: str, text: str, *, zero: bool = False) -> Fraction:
    """Read a number from its text, never through floating point."""
    from privacy.accounting.amounts import AmountRefused, exact

    try:
        return exact(Decimal(text), what=option, zero=zero)
    except InvalidOperation:
        raise AmountRefused(option, text, "a decimal number, such as 1.0 or 1e-9") from None


def _source_name(written: str) -> str:
    """Return the ledger's name of FILE or FILE::TABLE."""
    from contracts.source import source_name

    path, _, name = written.partition("::")
    return source_name(Path(path), name or None)
