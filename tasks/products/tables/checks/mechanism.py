"""Was the kind of noise the one that the product leads to, and does the record tell people so?

`mechanism: auto` reads public parameters only: charge, tables, weights, contract, and whether an account that pays is
pure. So it is chosen here again; the plan's other parts (the shares) are not derived again.
"""

from __future__ import annotations

from decimal import Decimal
from math import isclose
from typing import Any, Final

from contracts.errors import Finding, SudareError
from contracts.reading.scalars import parse_decimal
from contracts.release.tables.product import AUTO
from privacy.accounting.calculus import PureCalculus
from privacy.table_plans.plan import TOTAL_KEY, plan_product
from tasks.records.model.version_statements import Record
from tasks.records.sentences import mechanism_choice
from tasks.records.strict_json import printable, shown
from tasks.verification.inclusion import JournalledRun
from tasks.verification.record_identity import OTHER, Meaning

_TOLERANCE: Final = 1e-5
_KIND_OF: Final = {"laplace": "discrete_laplace", "gaussian": "discrete_gaussian"}


def check_mechanism(record: Record, meaning: Meaning, run: JournalledRun | None, *, where: str) -> list[Finding]:
    """Choose the mechanism again, and compare it with the draws and with what people are told.

    Args:
        record: the record.
        meaning: contract and product.
        run: the run as the journal has it; without it no choice can be made again, for it names the accounts.
            A charge that is no number is for rule 7.
        where: the record's file name.
    """
    replay = record.replay
    epsilon, delta = _number(replay.charge.epsilon), _number(replay.charge.delta)
    if run is None or not replay.draws or epsilon is None or delta is None:
        return []
    pure = any(account.calculus.get("kind") == PureCalculus.kind for account in run.accounts.values())
    try:
        plan = plan_product(
            meaning.product,
            meaning.contract,
            epsilon=epsilon,
            delta=delta,
            pure_account=pure,
            with_total=any(draw.key == TOTAL_KEY for draw in replay.draws),
        )
    except (SudareError, ValueError, ArithmeticError) as error:
        found, allowed = printable(str(error)), "a charge that can be split over the tables"
        return [Finding(where, "replay.charge", found, allowed, OTHER)]
    findings = []
    kind, planned = replay.draws[0].event.get("kind"), _KIND_OF[plan.mechanism]
    if meaning.product.mechanism == AUTO and kind != planned:
        allowed = f"{planned}, of which the error is least"
        findings.append(Finding(where, "replay.draws[0].event.kind", shown(kind), allowed, OTHER))
    return findings + _check_told(record, mechanism_choice(meaning.product, plan), plan.mechanism, where)


def _number(text: str) -> Decimal | None:
    """Read an amount from its text; None where it is none that a spec could have."""
    try:
        amount = parse_decimal(text)
    except ValueError:
        return None
    return amount if amount == 0 or Decimal("1e-60") <= amount <= 1000 else None


def _check_told(record: Record, expected: dict[str, Any], mechanism: str, where: str) -> list[Finding]:
    """Compare the two fields for people."""
    group = record.groups.get("noise")
    fields = group.fields if group is not None else {}
    told = {name: fields[name].value if name in fields else None for name in ("mechanism", "mechanism_choice")}
    findings = []
    if told["mechanism"] != f"{mechanism} mechanism on marginals":
        found, allowed = shown(told["mechanism"]), f"{mechanism} mechanism on marginals, as was planned"
        findings.append(Finding(where, "groups.noise.mechanism", found, allowed, OTHER))
    choice = told["mechanism_choice"]
    stated = choice if isinstance(choice, dict) else {}
    if stated.get("by") != expected["by"] or not _alike(stated.get("expected_rmse"), expected["expected_rmse"]):
        allowed = f"{shown(expected)}, computed again"
        findings.append(Finding(where, "groups.noise.mechanism_choice", shown(choice), allowed, OTHER))
    return findings


def _alike(stated: Any, expected: dict[str, str]) -> bool:
    """Compare stated errors with computed ones, up to the digits that are stated."""
    if not isinstance(stated, dict) or set(stated) != set(expected):
        return False
    try:
        return all(
            isclose(float(stated[noise]), float(error), rel_tol=_TOLERANCE) for noise, error in expected.items()
        )
    except (TypeError, ValueError):
        return False
