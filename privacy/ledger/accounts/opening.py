"""Opening an account: its terms, and what its people lost before it was opened.

An account bounds the loss of all people of its time block, so charges that were taken before on sources of these
people, from accounts of other blocks, are taken from it as well. People of one population whose blocks overlap have
one unit and one neighbour relation: losses to different units do not add up.

A Rényi filter needs an order that was fixed before its first charge, and whoever opens an account that inherits
charges may have seen what was released. So its order is that of the population's first Rényi account, if that was
open before the first charge it inherits (docs/derivations.md, section 8). Pure losses have no order to choose.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from contracts.periods.time_blocks import LIFETIME, TimeBlock, divided_name, is_divided, time_block
from contracts.reading.scalars import is_not_plain
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import UnsupportedEvent
from privacy.ledger.accounts.admission import cost_of
from privacy.ledger.accounts.fold import Reckoning, is_unused
from privacy.ledger.accounts.table_rows import check_accounts
from privacy.ledger.entries import TAMPERED, LedgerCorrupt, refusal
from privacy.ledger.store import schema
from privacy.ledger.store.database import Transaction
from privacy.ledger.store.journal import Journal, checked_entry
from privacy.ledger.store.ledger_rows import (
    accounts_of,
    charges_of_people,
    divisions_of,
    existing_charge,
    find_account,
    insert_account,
    insert_parts,
    insert_source,
    people_of,
    populations,
    set_account,
    to_text,
)
from privacy.ledger.store.schema import LONGEST_NAME
from privacy.ledger.terms import AccountState, AccountTerms, ChargePart

# Letters that look like Latin ones, of UTS 39's confusables: Greek, Cyrillic, Armenian, variants of Latin, and two
# digits. Fullwidth, mathematical and ligature forms are the same letters under NFKC.
_CAPITALS: Final = str.maketrans("IΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹ", "lABEZHlKMNOPTYXC")
_LOOK_ALIKES: Final = str.maketrans(
    "αβγεηικνορτυχωϲϳавгеѕіїјкмнорстухьһԁԛԝӏґօսհոզցյıɑɡɩɪʟοɛʜɴʀᴀᴇᴏᴘᴛᴜᴠᴡʏ01",
    "abyenikvoptuxwcjabresiijkmhopctyxbhdqwlrouhnqgjiagiiloehnraeoptuvwyol",
)
_WRITTEN_TOGETHER: Final = frozenset({"Latin", "Cjk", "Hiragana", "Katakana", "Hangul", "Bopomofo", "Ideographic"})


def open_account(
    transaction: Transaction, journal: Journal, terms: AccountTerms, reckoning: Reckoning, *, reopen: bool
) -> None:
    """Open an account, or find the one with these terms; refuse what would be a second cap on the same people.

    An account that nothing was ever reserved on may be opened again, for the same people and days, under other terms.
    """
    connection = transaction.connection
    known = find_account(connection, terms.name)
    if known is not None:
        check_accounts((known,), (terms.name,), reckoning.balances)
        if known.terms == terms:
            return
        _check_again(terms, known, unused=is_unused(connection, terms.name, reckoning), reopen=reopen)
    check_name("account", terms.name)
    check_name("unit", terms.unit)
    check_population(connection, terms.population)
    for other in accounts_of(connection, terms.population, terms.days):
        if other.terms.name != terms.name:
            _check_overlap(terms, other)
    cap = terms.calculus.cap(terms.epsilon, terms.delta)
    inherited = _inherited(connection, terms)
    if inherited and isinstance(terms.calculus, RenyiCalculus):
        _check_order(connection, journal, terms, terms.calculus, first=inherited[0][0])
    spent = sum(part.amount for _, part in inherited)
    if spent > cap:
        raise refusal(
            f"account {terms.name}",
            "cap",
            f"{pico_to_text(cap)}, and these people have lost {pico_to_text(spent)} already",
            "a cap that holds what was charged before on sources of these people",
            "open it with a larger epsilon, or leave the cap to the accounts that they have",
        )
    _check_selections(connection, terms, [run_key for run_key, _ in inherited])
    if known is None:
        insert_account(connection, terms, cap=cap, spent=spent)
    else:
        set_account(connection, terms.name, terms=to_text(terms.to_json()), cap=cap)
    for run_key, part in inherited:
        insert_parts(connection, run_key, [part])
    body = {**terms.to_json(), "cap": cap, "spent": spent}
    journal.append(transaction, "account_opened", body, subject=terms.name)
    if inherited:
        # An entry of its own: the opening is shown with every version, these runs are not.
        parts = [{"run_key": run_key, "amount": part.amount} for run_key, part in inherited]
        journal.append(transaction, "charges_inherited", {"account": terms.name, "parts": parts}, subject=terms.name)


def check_population(connection: Connection, name: str) -> None:
    """Refuse a name that reads like a known one, by case, spaces, signs or letters that look alike: a second budget.

    A name with letters of scripts that are not written together is refused, unless it is known already.
    """
    check_name("population", name)
    known_names = populations(connection)
    scripts = sorted({_script(sign) for sign in unicodedata.normalize("NFKC", name) if sign.isalpha()})
    if len(scripts) > 1 and not set(scripts) <= _WRITTEN_TOGETHER and name not in known_names:
        found, allowed = f"letters of {' and '.join(scripts)}", "letters of one script, or Latin with CJK"
        raise refusal(f"population {name!r}", "name", found, allowed, "type the name anew, on one keyboard")
    alike = [known for known in known_names if _readings(known) & _readings(name) and known != name]
    if alike:
        allowed = f"{alike[0]!r}, as it is written elsewhere"
        raise refusal(f"population {name!r}", "name", repr(name), allowed, "the same people have one name")


def check_name(what: str, name: str) -> None:
    """Refuse a name that a column cannot hold, or that shows nothing."""
    if not name.strip() or len(name) > LONGEST_NAME:
        allowed = f"1 to {LONGEST_NAME} characters"
        raise refusal(f"{what} {name[:40]!r}", "name", f"{len(name)} characters", allowed, "choose a shorter one")
    if is_not_plain(name):
        found, allowed = "a control character or a direction mark", "text that reads as it is"
        raise refusal(f"{what} {name[:40]!a}", "name", found, allowed, "type the name anew")


def _readings(name: str) -> set[str]:
    """Return what a name may be read as: its skeletons (UTS 39) by small letters, and as it is written."""
    whole = unicodedata.normalize("NFKC", name)
    folded = (whole.casefold(), whole.translate(_CAPITALS).casefold())
    return {"".join(filter(str.isalnum, each)).translate(_LOOK_ALIKES).replace("rn", "m") for each in folded}


def _script(letter: str) -> str:
    """Return the script of a letter, by the first word of its name."""
    return unicodedata.name(letter, "unnamed").partition(" ")[0].partition("-")[0].title()


def _check_again(terms: AccountTerms, existing: AccountState, *, unused: bool, reopen: bool) -> None:
    """Refuse other terms for an account that was ever used, or other people for any, or without being asked to."""
    people = [(each.population, each.block) for each in (existing.terms, terms)]
    if unused and reopen and people[0] == people[1]:
        return
    allowed = "the terms that it was opened with; after its first charge a cap never changes"
    if unused and people[0] == people[1]:
        remedy = "nothing was ever charged to it: say --reopen to open it again under these terms"
    elif unused:
        remedy = f"it is about {people[0][0]}, block {people[0][1]}: open an account under another name"
    else:
        remedy = "open an account under another name, for other people or another time block"
    raise refusal(f"account {terms.name}", "terms", "an account of this name with other terms", allowed, remedy)


def _check_overlap(terms: AccountTerms, other: AccountState) -> None:
    """Refuse an account beside one of the same days, or with another unit or relation for some of the same people."""
    theirs = other.terms
    if theirs.days == terms.days:
        raise refusal(
            f"account {terms.name}",
            "people",
            f"{terms.population}, block {terms.block}",
            f"people without an account; these have {theirs.name}",
            f"charge {theirs.name}: a second account would be a second cap on the same people",
        )
    for field, found, allowed in (
        ("unit", terms.unit, theirs.unit),
        ("adjacency", terms.adjacency, theirs.adjacency),
    ):
        if found != allowed:
            allowed = f"{allowed}, as account {theirs.name} has it for overlapping days ({theirs.block})"
            raise refusal(f"account {terms.name}", field, found, allowed, "losses to different units do not add up")


def _check_order(
    connection: Connection, journal: Journal, terms: AccountTerms, calculus: RenyiCalculus, *, first: str
) -> None:
    """Refuse an order that was not fixed before the first inherited charge, that of run `first`."""
    charged = next(e.sequence for e in journal.entries(connection, subject=first) if e.kind == "charge_reserved")
    opened = (
        ([*journal.entries(connection, kind="account_opened", subject=known.terms.name)][-1].sequence, known.terms)
        for known in accounts_of(connection, terms.population, time_block(LIFETIME))
        if isinstance(known.terms.calculus, RenyiCalculus)
    )
    sequence, oldest = min(opened, key=lambda each: each[0], default=(charged, None))
    where = f"account {terms.name}"
    if oldest is None or sequence >= charged:
        raise refusal(
            where,
            "calculus",
            "renyi, after releases on these people",
            "pure, or an account that was opened before their first release",
            "an order that is chosen after outcomes were seen bounds nothing: open it for later days",
        )
    if oldest.calculus.selection_delta != calculus.selection_delta:
        raise refusal(
            where,
            "selection_delta",
            atto_to_text(calculus.selection_delta),
            f"{atto_to_text(oldest.calculus.selection_delta)}, that of {oldest.name}, fixed before the first release "
            "on these people",
            "a part of δ that is chosen after outcomes were seen bounds nothing: set the same part aside",
        )
    if oldest.calculus != calculus:
        fixed = getattr(oldest.calculus, "order", None)
        raise refusal(
            where,
            "order",
            str(calculus.order),
            f"{fixed}, that of {oldest.name}, which was fixed before the first release on these people",
            f"open it with --order {fixed}",
        )


def bind_source(
    transaction: Transaction, journal: Journal, source: str, population: str, block: TimeBlock, by: str | None
) -> None:
    """Bind a source to its people, or find that it is; arguments as for `Ledger.bind_source`."""
    connection, name = transaction.connection, divided_name(source, by)
    _check_division(connection, source, population, block, by)
    bound = people_of(connection, name)
    if bound is None:
        check_population(connection, population)
        insert_source(connection, name, population, block)
        body = {"source": name, "population": population, "block": block.text}
        journal.append(transaction, "source_bound", body, subject=name)
    elif bound != (population, block):
        found, allowed = (f"{people}, block {days}" for people, days in ((population, block), bound))
        raise refusal(f"source {name}", "people", found, allowed, "a source never changes its people")


def _check_division(connection: Connection, source: str, population: str, block: TimeBlock, by: str | None) -> None:
    """Refuse two columns that tell one source's days apart, or other people or days for some of its rows.

    By two columns a row would be of two days, and each would be charged where the other is not looked at.
    """
    if is_divided(source):
        allowed = "a name that does not end like that of a source with its column"
        raise refusal(f"source {source}", "name", "[by ...] at its end", allowed, "rename it, or use --by")
    for known, people in divisions_of(connection, source):
        if known == divided_name(source, by):
            continue
        if by is not None and is_divided(known):
            found, allowed = f"by {by}", f"{known}: one column tells whose rows are whose, for good"
            raise refusal(f"source {source}", "column", found, allowed)
        if people != (population, block):
            found, allowed = f"{population}, block {block}", f"{people[0]}, block {people[1]}, as {known}"
            raise refusal(f"source {source}", "people", found, allowed, "a source never changes its people")


def _check_selections(connection: Connection, terms: AccountTerms, runs: Sequence[str]) -> None:
    """Refuse an account whose δ for selections of keys does not hold those that its people have had."""
    failure = sum(existing_charge(connection, run_key).request.failure for run_key in runs)
    aside = terms.calculus.selection_delta
    if failure > aside:
        found = f"{atto_to_text(aside)}, and selections of keys on these people may have failed with more"
        allowed = f"at least {atto_to_text(failure)}, which was charged before"
        raise refusal(f"account {terms.name}", "selection_delta", found, allowed, "set more of δ aside")


def _inherited(connection: Connection, terms: AccountTerms) -> Sequence[tuple[str, ChargePart]]:
    """Return what charges of the past on these people take from the new account."""
    past = charges_of_people(connection, terms.population, terms.days)
    _check_past(connection, terms, {charge.request.run_key for charge in past if charge.status != "returned"})
    standing = [charge.request for charge in past if charge.status != "returned"]
    try:
        return [(request.run_key, ChargePart(terms.name, cost_of(terms, request))) for request in standing]
    except UnsupportedEvent as error:
        found = f"pure, and these people have had releases with other noise: {str(error).partition('; allowed')[0]}"
        remedy = "open it with --calculus renyi and a delta"
        raise refusal(f"account {terms.name}", "calculus", found, "one that has a loss for it", remedy) from error


def _check_past(connection: Connection, terms: AccountTerms, found: set[str]) -> None:
    """Refuse a past that the tables tell otherwise than the entries: what is missing would not be inherited."""
    journal, standing = schema.journal.c, set[str]()
    kinds = ("charge_reserved", "charge_returned")
    for row in connection.execute(schema.journal.select().where(journal.kind.in_(kinds)).order_by(journal.sequence)):
        body = checked_entry(row).body
        if row.kind == "charge_returned":
            standing.discard(body["run_key"])
        elif body["population"] == terms.population and time_block(body["block"]).overlaps(terms.days):
            standing.add(body["run_key"])
    for run_key in sorted(standing ^ found):
        told = "in the journal, and not in the database" if run_key in standing else "in the database only"
        raise LedgerCorrupt(f"account {terms.name}: the charge of run {run_key} on its people is {told}; {TAMPERED}")
