"""What the entries read so far say of accounts and runs, and what their events cost, computed once for each text."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from contracts.errors import SudareError
from contracts.periods.time_blocks import TimeBlock, time_block
from privacy.accounting.adaptive import Budget
from privacy.accounting.calculus import Calculus, calculus_from_json
from privacy.accounting.events import PrivacyEvent, event_from_json
from privacy.ledger.terms import AccountTerms


@dataclass
class EnteredAccount:
    """An account as far as the entries are read."""

    terms: AccountTerms
    days: TimeBlock
    calculus: str
    spent: int
    told: int
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
