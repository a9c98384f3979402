"""The record's `replay` part: all that `sudare verify` needs to compute the release again, exact and public."""

from __future__ import annotations

from typing import Any

from contracts.reading.scalars import plain_text
from privacy.ledger.terms import Charge
from tasks.records.groups.account import taken
from tasks.records.groups.field import Run
from tasks.records.model.record_kinds import ACROSS, record_part


def replay(run: Run) -> dict[str, Any]:
    """Return what the release is computed from, beside the files.

    Amounts are integers: losses in 10⁻¹², deltas in 10⁻¹⁸. The spec's amounts are its own text.
    """
    facts = run.facts
    return {
        "contract": facts.contract.model_dump(mode="json"),
        "contract_digest": facts.contract.digest,
        "spec_digest": facts.charge.request.spec_digest,
        "charge": {
            "account": facts.spec.charge.account,
            "epsilon": plain_text(facts.spec.charge.epsilon),
            "delta": plain_text(facts.spec.charge.delta),
            "noise_epsilon": facts.charge.request.noise_epsilon,
        },
        "product": facts.spec.product.model_dump(mode="json"),
        "adjacency": facts.charge.request.adjacency,
        "rows_per_unit": facts.charge.request.rows_per_unit,
        "calculus": facts.account.terms.calculus.to_json(),
        "claim": _claim(facts.charge),
        "amount": facts.charge.amount,
        "before": taken(run)["before"],
        "after": taken(run)["after"],
        "cap": facts.account.cap,
        "formulas": facts.spec.publish.formulas,
        **({} if facts.spec.publish.labels is None else {"labels": facts.spec.publish.labels}),
        **({"exchange": list(facts.spec.publish.exchange)} if facts.spec.publish.exchange else {}),
        **({} if facts.approvals is None else {"approvals": facts.approvals.model_dump(mode="json")}),
        "due": facts.spec.due,
        "distances": {key: found.to_json() for key, found in facts.distances.items()},
        **_of_the_product(run),
    }


def _of_the_product(run: Run) -> dict[str, Any]:
    """Return the part that only this kind of product has."""
    return record_part(ACROSS if run.facts.execution is not None else run.facts.spec.product.kind).stated(run)


def _claim(charge: Charge) -> dict[str, int]:
    return {"epsilon": charge.request.epsilon, "delta": charge.request.delta}
