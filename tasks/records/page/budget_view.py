"""The budget of an account as shares of its cap: one segment for each release that came before, for this one, and
for what is left."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from markupsafe import Markup

from tasks.records.charts import charts
from tasks.records.page.words import share
from tasks.records.values import Values

MOST_NAMED: Final = 6
"""Earlier releases with a segment of their own; those that took most."""


@dataclass(frozen=True)
class BudgetShare:
    """A part of the cap.

    Args:
        kind: before, charged or left.
        release: who took it; empty for this release, for what is left, and for many small ones together.
        share: of the cap, rounded against the spender.
        amount: in the account's own units.
    """

    kind: str
    release: str
    share: str
    amount: Decimal


def budget_shares(values: Values) -> list[BudgetShare]:
    """Return who took which part of the cap, those before this release in the order of what they took.

    Args:
        values: the record's fields by "section.name".
    """
    cap, before = str(values["ledger.cap"]), Decimal(values["ledger.before"])
    taken: dict[str, Decimal] = {}
    charges = values["ledger.other_charges"]
    for charge in charges if isinstance(charges, list) else ():
        taken[charge["release"]] = taken.get(charge["release"], Decimal(0)) + Decimal(charge["amount"])
    named = sorted(taken.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMED]
    rest = before - sum((amount for _, amount in named), Decimal(0))  # smaller ones, and what was inherited
    parts = [("before", release, amount) for release, amount in named]
    parts += [("before", "", rest)] if rest > 0 else []
    parts += [("charged", "", Decimal(values["ledger.charged"])), ("left", "", Decimal(values["ledger.left"]))]
    return [
        BudgetShare(kind, name, share(str(amount), cap, up=kind != "left"), amount) for kind, name, amount in parts
    ]


def budget_bar(shares: list[BudgetShare]) -> Markup:
    """Draw the shares side by side."""
    return charts.budget_bar([(each.kind, float(each.amount)) for each in shares])
