"""`sudare budget`: accounts, caps, and the journal of what was charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from console.accounts import EXACT, HEADINGS, NUMBERS, account_object, account_row, calendar_object, print_account
from console.output import AsJson, At, Exact, UsageRefused, answer, ledger_at, require_regular, table, workspace_at
from contracts.errors import Finding, Refused
from contracts.periods.period import PLACEHOLDER, read_any_periods
from contracts.periods.time_blocks import time_block
from contracts.release.address import is_address
from contracts.release.source import written_source_name
from privacy.accounting.amounts import ATTO, PICO, AmountRefused, atto_to_text, budget_down, delta_down, exact
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus, best_order
from privacy.ledger.backup import dump
from privacy.ledger.backup import restore as fill
from privacy.ledger.books import forget_marks
from privacy.ledger.entries import Entry, to_the_hour
from privacy.ledger.ledger import Ledger
from privacy.ledger.replay.fold import SignedCheckpoint, summary
from privacy.ledger.terms import AccountState, AccountTerms
from tasks.checkpoints import check_no_copy, check_not_forgotten, proofs_in, published_checkpoints
from tasks.storage.workspace.settings import FILE, Workspace
from tasks.verification.keys import read_public_key

# --- `sudare budget show` and `history`.


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


AccountName = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Name of the account.")]
PopulationOption = Annotated[str, typer.Option(help="The people whose loss is bounded, such as us-adults.")]
By = Annotated[str | None, typer.Option(help="Column that tells a row's day, for releases by period (`source.by`).")]
Block = Annotated[str, typer.Option(help="The days that it is about: 1994, 2026-Q1, 2026-10, A..B, or lifetime.")]


class CalculusKind(StrEnum):
    """How losses add up."""

    pure = "pure"
    renyi = "renyi"


class AdjacencyOption(StrEnum):
    """What neighbouring tables are."""

    add_remove = "add_remove"
    replace_one = "replace_one"


def open_account(
    account: AccountName,
    population: PopulationOption,
    unit: Annotated[str, typer.Option(help="The privacy unit: row, or the name of an id column.")],
    epsilon: Annotated[str, typer.Option(help="The cap on ε; after the first charge it never changes.")],
    calculus: Annotated[CalculusKind, typer.Option(help="How losses add up.")],
    adjacency: Annotated[AdjacencyOption, typer.Option(help="The neighbour relation that every charge must use.")],
    delta: Annotated[str, typer.Option(help="The δ at which the cap is stated; above 0 for renyi.")] = "0",
    order: Annotated[
        str | None, typer.Option(help="Rényi order; the one at which most noise fits without it.")
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option(help="Also bind this source; FILE, FILE::TABLE or ADDRESS.")
    ] = None,
    by: By = None,
    block: Annotated[
        str | None, typer.Option(help="The days that it is about: 1994, 2026-Q1, 2026-10, A..B, or lifetime.")
    ] = None,
    selection_delta: Annotated[
        str, typer.Option(help="The part of δ that is set aside for selections of keys (`keys: private`).")
    ] = "0",
    reopen: Annotated[
        bool, typer.Option("--reopen", help="Open it again under other terms, if nothing was ever charged to it.")
    ] = False,
    periods: Annotated[
        str | None,
        typer.Option(metavar="A..B", help="Open one for each period, with {period} in the names: 2024Q1..2025Q4."),
    ] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Open an account; asking again with the same terms changes nothing.

    --calculus pure adds up the ε of each release, and holds releases with
    δ = 0 only: tables with Laplace noise, and synthetic rows of `delta: 0`.
    --calculus renyi adds up Rényi losses under an ε and a δ, and holds every
    product. Choose renyi for synthetic rows, models, Gaussian noise, several
    kinds of products or many small releases, and pure for a few large tables
    with Laplace noise or where δ = 0 was promised.

    --selection-delta sets a part of --delta aside for releases that select
    keys which nobody declared (`keys: private`); without it they are refused.
    Other losses are then stated at the rest of --delta.

    A charge takes from every account of the people whose days it touches: open one for a longer block, or for their
    lifetime, to bound what people lose who are in several blocks.

    Examples:

        sudare budget open adult-1994 --population us-adults --block 1994 \\
          --unit row --epsilon 3 --delta 1e-9 --calculus renyi \\
          --adjacency add_remove --source data/adult.parquet

        sudare budget open panel/2026-Q4 --population panel --block 2026-Q4 \\
          --unit person_id --epsilon 1 --calculus pure --adjacency add_remove

        sudare budget open panel/lifetime --population panel --block lifetime \\
          --unit person_id --epsilon 4 --calculus pure --adjacency add_remove

        sudare budget open visits-{period} --periods 2024Q1..2025Q4 --population patients \\
          --unit person_id --epsilon 1 --calculus pure --adjacency add_remove
    """
    opened = []
    with ledger_at(workspace, create=True) as ledger:
        check_not_forgotten(ledger, workspace_at(workspace).releases)
        for days, named in _named(block, periods):
            terms = account_terms(
                named(account),
                population,
                days,
                unit,
                adjacency.value,
                calculus.value,
                epsilon,
                delta,
                order,
                selection_delta,
            )
            sources = [_source_name(named(written), "open") for written in source or []]
            check_no_copy(ledger, population, *sources)
            state = ledger.open_account(terms, reopen=reopen, sources=sources, by=by)
            for written, name in zip(source or [], sources, strict=True):
                _tell_if_missing(named(written), name)
            opened.append(state.terms.name)
        if periods is None:
            answer_account(ledger, state, workspace, as_json=as_json)
            return
    told = f"{len(opened)} accounts are open: {opened[0]} to {opened[-1]}"
    answer({"accounts": opened}, lambda console: console.print(told), as_json=as_json)


def account_terms(
    name: str,
    population: str,
    days: str,
    unit: str,
    adjacency: str,
    calculus: str,
    epsilon: str,
    delta: str = "0",
    order: str | None = None,
    selection_delta: str = "0",
) -> AccountTerms:
    """Return the terms of an account out of what a person writes; numbers are read from their text.

    Raises:
        AmountRefused: a number is none, or none that an account can have.
        UsageRefused: an adjacency or a calculus that there is not.
    """
    for option, word, known in (("adjacency", adjacency, AdjacencyOption), ("calculus", calculus, CalculusKind)):
        if word not in tuple(known):
            raise UsageRefused("sudare budget open", f"{option} {word!r}", f"one of {', '.join(known)}")
    cap, at = budget_down(_number("--epsilon", epsilon)), delta_down(_number("--delta", delta, zero=True))
    aside = delta_down(_number("--selection-delta", selection_delta, zero=True))
    return AccountTerms(
        name=name,
        population=population,
        block=days,
        unit=unit,
        adjacency=AdjacencyOption(adjacency).value,
        calculus=_calculus(CalculusKind(calculus), cap, at, order, aside),
        epsilon=cap,
        delta=at,
    )


def _named(block: str | None, periods: str | None) -> Iterator[tuple[str, Callable[[str], str]]]:
    """Yield the days of each account that is wanted, and what its period makes of a written name."""
    if (block is None) == (periods is None):
        raise UsageRefused(
            "sudare budget open", "no days", "--block for one account, or --periods A..B for many, and not both"
        )
    if block is not None:
        yield time_block(block).text, str
        return
    for period in read_any_periods(periods or ""):
        yield str(period), _filling(PLACEHOLDER, str(period))


def _filling(placeholder: str, name: str) -> Callable[[str], str]:
    return lambda written: written.replace(placeholder, name)


def _bind(ledger: Ledger, written: str, population: str, block: str, by: str | None) -> str:
    """Bind a source, and return its name; a file may come later, but a name that is misspelt is bound for good."""
    name = _source_name(written, "bind")
    check_no_copy(ledger, population, name)
    ledger.bind_source(name, population, time_block(block), by=by)
    _tell_if_missing(written, name)
    return name


def _source_name(written: str, command: str) -> str:
    if not is_address(written):
        require_regular(Path(written.partition("::")[0]), f"sudare budget {command}")
    return written_source_name(written)


def _tell_if_missing(written: str, name: str) -> None:
    if not is_address(written) and not Path(name.partition("::")[0]).exists():
        typer.echo(f"! {name} is not there yet; its name is bound all the same, for good", err=True)


def bind(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="FILE or folder, FILE::TABLE, ADDRESS or ADDRESS::TABLE.")
    ],
    population: PopulationOption,
    block: Block,
    by: By = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Bind a source to the people and the time block it is about, for good.

    Examples:

        sudare budget bind data/adult.parquet --population us-adults --block 1994

        sudare budget bind data/panel.duckdb::answers --population panel \\
          --block 2026

        sudare budget bind postgresql://db.example/clinic::public.visits \\
          --population patients --block 2026

        sudare budget bind data/visits.parquet --by visit_date \\
          --population patients --block 2024-01-01..2030-01-01
    """
    with ledger_at(workspace, create=True) as ledger:
        name = _bind(ledger, source, population, block, by)
    payload = {"source": name, "population": population, "block": block} | ({} if by is None else {"by": by})
    days = "" if by is None else f"; its column {by} tells the days"
    told = f"{name} is about {population}, block {block}{days}"
    answer(payload, lambda console: console.print(told), as_json=as_json)


def clock(
    correct: Annotated[
        bool, typer.Option("--correct", help="Enter in the journal that this clock is right.")
    ] = False,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Compare this machine's clock with the journal, or enter that it is right.

    A journal whose times go back does not verify. Once the clock is set,
    --correct enters that it was wrong before: the check then compares only
    what follows. The entry stays, for auditors to read.

    Examples:

        sudare budget clock

        sudare budget clock --correct
    """
    with ledger_at(workspace) as ledger:
        entry = ledger.correct_clock() if correct else None
        now, last = ledger.times()
    payload = {"clock": now, "last_entry": last, "corrected": None if entry is None else entry.sequence}
    told = f"this clock: {now}; the journal's last entry: {last}"
    if correct:
        told += "; nothing was to be corrected" if entry is None else f"; entry {entry.sequence} corrects the clock"
    answer(payload, lambda console: console.print(told), as_json=as_json)


def close_account(account: AccountName, workspace: At = None, as_json: AsJson = False) -> None:
    """Close an account for new charges; what it lost stays written.

    Examples:

        sudare budget close adult-1994
    """
    with ledger_at(workspace) as ledger:
        state = ledger.close_account(account)
        answer_account(ledger, state, workspace, as_json=as_json)


def return_charge(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Key of a run that reserved and never began to draw.")],
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Give back what a run reserved, if its grant was never opened.

    Examples:

        sudare budget return adult-tables-0c29d2f1ab34e5f678901234
    """
    with ledger_at(workspace) as ledger:
        ledger.return_charge(run)
        answer({"run_key": run, "status": "returned"}, lambda c: c.print(f"{run} is returned"), as_json=as_json)


def _calculus(kind: CalculusKind, cap: int, delta: int, order: str | None, aside: int) -> Calculus:
    """Return the calculus; a Rényi one of the given order, else of that at which the most noise fits."""
    if aside > delta:
        allowed = f"at most --delta, {atto_to_text(delta)}: it is a part of it"
        raise AmountRefused("--selection-delta", atto_to_text(aside), allowed)
    if kind is CalculusKind.pure:
        if order is not None:
            raise AmountRefused("--order", order, "no order for --calculus pure")
        return PureCalculus(aside)
    if delta - aside < 1 <= delta:
        raise AmountRefused("--selection-delta", atto_to_text(aside), "less than --delta for --calculus renyi")
    if delta < 1:
        raise AmountRefused("--delta", delta, "a probability > 0 for --calculus renyi, such as 1e-9")
    if order is not None:
        top, _, bottom = order.partition("/")
        return RenyiCalculus(_number("--order", top) / _number("--order", bottom or "1"), aside)
    return RenyiCalculus(best_order(Fraction(cap, PICO), Fraction(delta - aside, ATTO)), aside)


def _number(option: str, text: str, *, zero: bool = False) -> Fraction:
    """Read a number from its text, never through floating point."""
    try:
        return exact(Decimal(text), what=option, zero=zero)
    except InvalidOperation:
        raise AmountRefused(option, text, "a decimal number, such as 1.0 or 1e-9") from None


# --- `sudare budget backup` and `restore`.


CopyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The copy.")]


def backup(file: CopyFile, workspace: At = None, as_json: AsJson = False) -> None:
    """Copy the ledger into a new file: one committed state, whichever database it is in.

    The file tells which releases were made of which sources: keep it like
    the ledger. Copy the workspace's other files before it, and .sudare/draws after it.

    Examples:

        sudare budget backup /backups/ledger-2026-10-05.ndjson
    """
    entries = dump(workspace_at(workspace).ledger_url, file)
    told = f"{entries} journal entries are in {file}"
    answer({"file": str(file), "entries": entries}, lambda console: console.print(told), as_json=as_json)


def restore(file: CopyFile, proof: Proofs = None, workspace: At = None, as_json: AsJson = False) -> None:
    """Fill an empty ledger (SQLite or PostgreSQL) with a copy, once the copy is checked.

    A copy that does not know of a version in the release store (or of one
    whose PROOF.json is named) is refused: it would let its charge be spent again.

    Examples:

        sudare budget restore /backups/ledger-2026-10-05.ndjson

        sudare budget restore /backups/ledger-2026-10-05.ndjson --proof archive/v7/PROOF.json
    """
    where = workspace_at(workspace)
    key, published = _seen(where, proof or [])
    entries = fill(file, where.ledger_url, public_key=key, published=published)
    forget_marks(where.draws)
    told = f"{entries} journal entries are restored; now: sudare budget history --verify"
    left = where.private / "ledger.sqlite"
    moved = left.exists() and not where.ledger_url.endswith(str(left))
    if moved:
        told += f"\nThe old ledger is still there, and could be spent again: name the new one in {where.root / FILE} "
        told += f"([ledger] url), then remove {left}, and its -wal and -shm"
    payload = {"file": str(file), "entries": entries, "published_checkpoints": len(published)}
    payload |= {"old_ledger": str(left)} if moved else {}
    answer(payload, lambda console: console.print(told, soft_wrap=True), as_json=as_json)


def _seen(workspace: Workspace, proofs: list[Path]) -> tuple[str | None, list[SignedCheckpoint]]:
    """Return the public key, if there is one, and what published versions have seen of the ledger.

    Raises:
        JournalBroken: a proof cannot be read, or another key signed it.
    """
    found = [*proofs_in(workspace.releases), *proofs]
    if not found and not workspace.public_key_file.is_file():
        return None, []
    key = read_public_key(workspace.public_key_file)
    published, findings = published_checkpoints(found, public_key=key)
    if findings:
        raise JournalBroken(findings)
    return key, published
