"""Was the kind of noise the one that the product leads to?

`mechanism: auto` reads public parameters only: charge, tables, weights, contract, and whether an account that pays is
pure. So it is chosen here again; the plan's other parts (the shares) are not derived again.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from contracts.errors import Finding, SudareError
from contracts.reading.scalars import parse_decimal
from contracts.release.lambda_reference import AUTO
from privacy.accounting.calculus import PureCalculus
from privacy.table_plans.plan import TOTAL_KEY, plan_product
from tasks.records.model.version_statements import Record
from tasks.records.strict_json import printable, shown
from tasks.verification.inclusion import JournalledRun
from tasks.verification.record_identity import OTHER
from tasks.verification.table_meaning import Meaning

_KIND_OF: Final = {"laplace": "discrete_laplace", "gaussian": "discrete_gaussian"}


def check_mechanism(record: Record, meaning: Meaning, run: JournalledRun | None, *, where: str) -> list[Finding]:
    """Choose the mechanism again, and compare it with the draws.

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
        why = "as residuals have" if meaning.product.noise_is_gaussian else "of which the error is least"
        allowed = f"{planned}, {why}"
        findings.append(Finding(where, "replay.draws[0].event.kind", shown(kind), allowed, OTHER))
    return findings


def _number(text: str) -> Decimal | None:
    """Read an amount from its text; None where it is none that a spec could have."""
    try:
        amount = parse_decimal(text)
    except ValueError:
        return None
    return amount if amount == 0 or Decimal("1e-60") <= amount <= 1000 else None
