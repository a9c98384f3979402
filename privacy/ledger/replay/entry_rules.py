"""Could the ledger have written these entries? The rules that an entry obeys where it stands.

An operator who can write into the database can append a well-chained entry with fitting tables. So each is held
against those before it, its sums and what it may give back by `accounts.fold.Accounts`, the rest here:
    account_opened      a new name, or that of an open account of these people and days on which nothing was ever
                        reserved; for people and days without an account of those very days; the cap is what its
                        epsilon and delta admit; unit and relation are those of its people's other accounts
    charges_inherited   right after the opening of an account whose people were charged before: each of these charges,
                        at what its events cost in the account's calculus, adding up to what the opening says is spent
    source_bound        a source that is bound to nobody; one column at most tells its days apart
    charge_reserved     a new run, or the same release again after a return; from every account, all open and of this
                        unit and relation, that its people have on these days, none of which is without one; what
                        its events (at least one) cost in each calculus
    grant_opened        of a reserved charge
    noise_drawn         of an opened one; numbered on; one of the planned events, or within the plan's budget for
                        events chosen on the way; at its cost in each calculus
    version_published   of an opened one with secure noise, under its own release; a new number
    version_withdrawn   of a published version
    key_changed         a note with the next number, at the place that it names, signed by the successor; a
                        rotation by the key too, which is that of the change before
    clock_corrected     what it says of the times before it, `guards` checks
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from sys import intern
from typing import Any, Final

from contracts.errors import Finding, SudareError
from contracts.periods.time_blocks import LIFETIME, TimeBlock, division_of, gap, time_block
from privacy.accounting.calculus import Calculus, calculus_from_json
from privacy.accounting.events import PrivacyEvent, event_from_json, event_kind
from privacy.accounting.renyi import Budget, budget_of, limit, share
from privacy.ledger.accounts.fold import parts_in
from privacy.ledger.entries import Entry
from privacy.ledger.entry_bodies import subject_of
from privacy.ledger.store.ledger_rows import to_text
from privacy.ledger.terms import TERMS, AccountTerms, terms_from_json

# --- What the entries read so far say of accounts and runs, and what their events cost, computed once for each text.


@dataclass
class EnteredAccount:
    """An account as far as the entries are read."""

    terms: AccountTerms
    days: TimeBlock
    calculus: str
    inherits: int
    past: dict[str, int | None]
    closed: bool = False


@dataclass
class EnteredRun:
    """A run as far as the entries are read."""

    status: str
    release: str
    people: tuple[str, TimeBlock]
    events: str
    parts: dict[str, int]
    planned: Counter[str]
    security: str = ""
    draws: int = 0
    name: str = ""
    drawn: dict[str, int] = field(default_factory=dict)
    budget: Budget | None = None
    shared: Fraction = Fraction(0)


def release_digest(*told: str) -> str:
    """Return a digest of what a release is, short enough to remember for each run."""
    return hashlib.sha256(repr(told).encode()).hexdigest()[:32]


def is_near(found: int, computed: int | None) -> bool:
    """Say whether an amount is what is computed now; another version may have rounded the last digits otherwise."""
    return computed is not None and abs(found - computed) <= 2 + computed // 10**9


@lru_cache(maxsize=256)
def days_of_block(block: str) -> TimeBlock:
    """Return the days of a block, as its text names them."""
    return time_block(block)


@lru_cache(maxsize=256)
def _calculus(text: str) -> Calculus:
    return calculus_from_json(json.loads(text))


@lru_cache(maxsize=4096)
def entered_event(text: str) -> PrivacyEvent:
    """Return the event that stands as canonical JSON in an entry."""
    return event_from_json(json.loads(text))


@lru_cache(maxsize=4096)
def cost_of_events(calculus: str, events: str) -> int | None:
    """Return what events cost in a calculus, both as canonical JSON; None where that cannot be said."""
    try:
        return _calculus(calculus).cost([event_from_json(event) for event in json.loads(events)])
    except SudareError:
        return None


FORGED: Final = "the ledger never writes this: somebody else did; find out who, and trust no balance after it"
_RELEASE: Final = ("account", "release", "spec_digest", "contract_digest")


EntryRule = tuple[bool, str, object, object]


class Lifecycle:
    """What the entries read so far allow next."""

    def __init__(self) -> None:
        self._accounts: dict[str, EnteredAccount] = {}
        self._by_people: dict[str, list[EnteredAccount]] = {}
        self._sources: set[str] = set()
        self._columns: dict[str, str] = {}
        self._runs: dict[str, EnteredRun] = {}
        self._versions: dict[tuple[str, int], str] = {}
        self._changes = 0
        self._signs: str | None = None
        self._heir = ""

    def entry(self, entry: Entry, subject: str) -> list[Finding]:
        """Take one entry in; return what the ledger would not have written."""
        where = f"journal entry {entry.sequence}"
        rules = list(_RULES[entry.kind](self, entry)) if entry.kind in _RULES else []
        rules.append((subject == subject_of(entry), "subject", subject, subject_of(entry)))
        rules += self._succeeds(entry)
        return [
            Finding(where, f"{entry.kind}, {name}", str(found)[:200], str(allowed)[:200], FORGED)
            for holds, name, found, allowed in rules
            if not holds
        ]

    def end(self) -> list[Finding]:
        """Return what is missing after the last entry."""
        found = f"none of account {self._heir}"
        return [Finding("the journal", "charges_inherited", found, "one", FORGED)] if self._heir else []

    def _succeeds(self, entry: Entry) -> Iterator[EntryRule]:
        """An opening with a past is followed by the entry that tells it, and nothing else is."""
        heir, told = self._heir, entry.body["account"] if entry.kind == "charges_inherited" else ""
        yield told == heir, "account", told or "none", heir or "an opening right before it, with something spent"
        self._heir = entry.body["name"] if entry.kind == "account_opened" and entry.body["spent"] else ""

    def _created(self, entry: Entry) -> Iterator[EntryRule]:
        yield entry.sequence == 0, "sequence", entry.sequence, "0: once, at the beginning"

    def _opened(self, entry: Entry) -> Iterator[EntryRule]:
        body = entry.body
        terms = terms_from_json({name: body[name] for name in TERMS})
        unused = self._forget_unused(terms)
        yield unused, "name", f"{terms.name} again", "a name that was not opened before, or an account never charged"
        cap = terms.calculus.cap(terms.epsilon, terms.delta)
        yield is_near(body["cap"], cap), "cap", body["cap"], f"{cap}, what its epsilon and delta admit"
        for other in self._of(terms.population, terms.days):
            theirs = (other.terms.unit, other.terms.adjacency)
            yield other.days != terms.days, "block", f"{terms.block}, of {other.terms.name} too", "other days"
            yield (
                (terms.unit, terms.adjacency) == theirs,
                "unit and relation",
                terms.unit,
                f"those of {other.terms.name}",
            )
        calculus, spent = to_text(body["calculus"]), body["spent"]
        past = {
            run_key: cost_of_events(calculus, run.events)
            for run_key, run in self._runs.items()
            if run.status != "returned" and run.people[0] == terms.population and run.people[1].overlaps(terms.days)
        }
        yield bool(spent) == bool(past), "spent", spent, f"what {len(past)} charges before it took"
        opened = EnteredAccount(terms, terms.days, calculus, spent, past)
        self._accounts[terms.name] = opened
        self._by_people.setdefault(terms.population, []).append(opened)

    def _forget_unused(self, terms: AccountTerms) -> bool:
        """Say whether a name may be opened: it is new, or of an account never used, which is then forgotten."""
        known = self._accounts.get(terms.name)
        if known is None:
            return True
        people = (known.terms.population, known.terms.block) == (terms.population, terms.block)
        used = known.inherits or known.closed or any(terms.name in run.parts for run in self._runs.values())
        if people and not used:
            self._by_people[terms.population].remove(known)
        return people and not used

    def _inherited(self, entry: Entry) -> Iterator[EntryRule]:
        account = self._accounts[entry.body["account"]]
        amounts = {part["run_key"]: part["amount"] for part in entry.body["parts"]}
        yield sum(amounts.values()) == account.inherits, "sum", sum(amounts.values()), account.inherits
        yield set(amounts) == set(account.past), "runs", sorted(amounts), f"the {len(account.past)} charged before"
        for run_key, amount in amounts.items():
            cost = account.past.get(run_key)
            yield is_near(amount, cost), "amount", f"{amount} for {run_key}", f"{cost}, what its events cost"
            self._runs[run_key].parts[account.terms.name] = amount

    def _closed(self, entry: Entry) -> Iterator[EntryRule]:
        account = self._accounts[entry.body["name"]]
        yield not account.closed, "name", "closed before", "an open account"
        account.closed = True

    def _bound(self, entry: Entry) -> Iterator[EntryRule]:
        source = entry.body["source"]
        yield source not in self._sources, "source", "bound before", "a source that is bound to nobody"
        self._sources.add(source)
        name, by = division_of(source) or ("", "")
        yield self._columns.setdefault(name, by) == by, "source", "told apart by a second column", "by one column"

    def _reserved(self, entry: Entry) -> Iterator[EntryRule]:
        body = entry.body
        known = self._runs.get(body["run_key"])
        planned = [to_text(event) for event in body["events"]]
        events = intern(f"[{','.join(planned)}]")  # many runs have the same, and each is remembered
        rows = body["due"] if body["due"] is not None else body["snapshot_hash"]  # a date's rows may change
        release = release_digest(events, *(body[name] for name in _RELEASE), rows)
        again = known is not None and (known.status, known.release) == ("returned", release)
        yield known is None or again, "run_key", body["run_key"], "a new run, or the same again after a return"
        parts, people = parts_in(body), (body["population"], days_of_block(body["block"]))
        yield body["days"] in (None, body["block"]), "days", body["days"], body["block"]
        theirs = sorted(each.terms.name for each in self._of(*people))
        yield sorted(parts) == theirs, "accounts", sorted(parts), f"{theirs}, all these people have"
        yield bool(planned), "events", "none", "at least one"
        yield from self._covered(body, people)
        for name, amount in parts.items():
            account = self._accounts[name]
            cost = cost_of_events(account.calculus, events)
            yield is_near(amount, cost), "amount", f"{amount} from {name}", f"{cost}, what its events cost"
            yield not account.closed, "account", f"{name}, which is closed", "open accounts"
        run = EnteredRun(
            "reserved", release, people, events, dict(parts), Counter(planned), name=intern(body["release"])
        )
        run.budget = budget_of(map(entered_event, planned))
        if run.budget is not None:
            del run.planned[to_text(run.budget.to_json())]  # no draw is one
        self._runs[body["run_key"]] = run

    def _covered(self, body: Mapping[str, Any], people: tuple[str, TimeBlock]) -> Iterator[EntryRule]:
        """All days have an account, a lifetime has one, and all are for this unit and relation."""
        theirs = self._of(*people)
        yield (
            gap(people[1], [each.days for each in theirs]) is None,
            "block",
            people[1],
            "days that all have an account",
        )
        if body["scope"] == LIFETIME:
            yield any(each.days.is_lifetime for each in theirs), "scope", LIFETIME, "an account for the lifetime"
        asked = (body["unit"], body["adjacency"])
        for each in theirs:
            terms = (each.terms.unit, each.terms.adjacency)
            yield asked == terms, "unit and relation", asked, f"{terms}, of {each.terms.name}"

    def _returned(self, entry: Entry) -> tuple[EntryRule, ...]:
        """Take a return in: what it gives back is held against what waits by `Accounts`."""
        self._runs[entry.body["run_key"]].status = "returned"
        return ()

    def _granted(self, entry: Entry) -> Iterator[EntryRule]:
        run = self._runs[entry.body["run_key"]]
        yield run.status == "reserved", "status", run.status, "reserved"
        run.status, run.security = "opened", entry.body["security"]

    def _drawn(self, entry: Entry) -> Iterator[EntryRule]:
        body = entry.body
        run = self._runs[body["run_key"]]
        yield run.status == "opened", "status", run.status, "opened"
        yield body["number"] == run.draws, "number", body["number"], run.draws
        run.draws += 1
        event = to_text(body["event"])
        kind = body["event"].get("kind")
        registered = event_kind(kind) if isinstance(kind, str) else None
        drawn = registered is not None and registered.drawn
        yield drawn, "event", f"kind {kind}", "noise that a grant draws, of a kind that is registered here"
        chosen = run.budget is not None and run.planned[event] < 1
        if chosen:
            yield from self._from_budget(run, event)
        else:
            run.planned[event] -= 1
            yield run.planned[event] >= 0, "event", event, "one of the planned events, each once"
        for name, cost in body["costs"].items():
            expected = cost_of_events(self._accounts[name].calculus, f"[{event}]")
            yield is_near(cost, expected), "cost", f"{cost} of {name}", expected
            if chosen:
                continue
            run.drawn[name] = run.drawn.get(name, 0) + cost
            yield run.drawn[name] <= run.parts[name], "costs", run.drawn[name], f"at most {run.parts[name]}, reserved"

    def _from_budget(self, run: EnteredRun, event: str) -> Iterator[EntryRule]:
        """What was not planned takes its share of the plan's budget."""
        if run.budget is not None and event != to_text(run.budget.to_json()):
            run.shared += share(run.budget, entered_event(event))
            yield run.shared <= limit(run.budget), "event", event, f"within what is left of {run.budget.to_json()}"

    def _published(self, entry: Entry) -> Iterator[EntryRule]:
        body = entry.body
        run, version = self._runs[body["run_key"]], (body["release"], body["number"])
        told = (run.status, run.security)
        yield told == ("opened", "csprng"), "status", told, "opened, with noise of a CSPRNG"
        yield run.name == body["release"], "release", body["release"], run.name
        yield version not in self._versions, "number", body["number"], "a number that was not published"
        run.status, self._versions[version] = "published", "published"
        run.planned.clear()  # nothing more is drawn, and there may be many runs to remember
        run.drawn.clear()

    def _withdrawn(self, entry: Entry) -> Iterator[EntryRule]:
        version = (entry.body["release"], entry.body["number"])
        status = self._versions.get(version, "never published")
        yield status == "published", "status", status, "published"
        self._versions[version] = "withdrawn"

    def _key_changed(self, entry: Entry) -> Iterator[EntryRule]:
        from privacy.ledger.journal.key_changes import read_change  # most journals have none

        signed = read_change(entry.body["note"])
        change = signed.change
        self._changes += 1
        yield change.number == self._changes, "number", change.number, self._changes
        yield change.size == entry.sequence, "size", change.size, entry.sequence
        yield signed.is_signed_by(change.successor), "signature", "none of the successor", "one that holds"
        if change.kind == "rotated":
            yield signed.is_signed_by(change.key), "signature", "none of the key", "one that holds"
            yield self._signs in (None, change.key), "key", change.key, self._signs
        self._signs = change.successor

    def _of(self, population: str, days: TimeBlock) -> list[EnteredAccount]:
        """Return the accounts that people have on these days."""
        return [each for each in self._by_people.get(population, ()) if each.days.overlaps(days)]


_RULES: Final = {
    "ledger_created": Lifecycle._created,
    "account_opened": Lifecycle._opened,
    "charges_inherited": Lifecycle._inherited,
    "account_closed": Lifecycle._closed,
    "source_bound": Lifecycle._bound,
    "charge_reserved": Lifecycle._reserved,
    "charge_returned": Lifecycle._returned,
    "grant_opened": Lifecycle._granted,
    "noise_drawn": Lifecycle._drawn,
    "version_published": Lifecycle._published,
    "version_withdrawn": Lifecycle._withdrawn,
    "key_changed": Lifecycle._key_changed,
}
