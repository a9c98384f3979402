"""The part of `replay` that a version has that was made across sites: its draws, and its execution."""

from __future__ import annotations

from typing import Any

from tasks.records.groups.field import Run
from tasks.records.model.across_statements import ExecutionStatement


def across_part(run: Run, execution: ExecutionStatement) -> dict[str, Any]:
    """Return the draws, a sum a round and lost attempts, and how the version was made."""
    account, lengths = run.facts.account.terms.name, {each.key: each.length for each in execution.rounds}
    entered = [entry.body for entry in run.facts.entries if entry.kind == "noise_drawn"]
    draws = [
        {
            "key": body["key"],
            "number": body["number"],
            "clique": [],
            "shape": [lengths[body["key"]]] if body["key"] in lengths else [],
            "coarsening": None,
            "event": body["event"],
            "cost": body["costs"][account],
            "sha256": body["sha256"],
        }
        for body in sorted(entered, key=lambda body: body["number"])
    ]
    return {"draws": draws, "execution": execution.model_dump(mode="json")}
