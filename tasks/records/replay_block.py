"""The record's `replay` part: all that `sudare verify` needs to compute the release again, exact and public."""

from __future__ import annotations

import hashlib
from math import sqrt
from typing import Any

import numpy as np

from contracts.release.tables.levels import level_name
from privacy.arrays import Numbers
from privacy.ledger.draw_files import listing_digest
from privacy.ledger.terms import Charge
from privacy.refine.sparse import SparseTable as NoisyList
from tasks.records.across.across_replay_block import across_part
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import DATA, MEASUREMENTS
from tasks.records.fitted_groups.classifier_replay_block import classifier_part
from tasks.records.fitted_groups.synthetic_replay_block import synthetic_part
from tasks.records.groups.account import taken
from tasks.records.groups.field import Run
from tasks.records.groups.post_processing import disagreement, estimated_rmse, suppressed_cells, total_kind
from tasks.records.outputs import ReleasedSparseTable, ReleasedTable


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
            "epsilon": str(facts.spec.charge.epsilon),
            "delta": str(facts.spec.charge.delta),
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
        "due": facts.spec.due,
        "distances": {key: found.to_json() for key, found in facts.distances.items()},
        **_of_the_product(run),
    }


def _of_the_product(run: Run) -> dict[str, Any]:
    """Return the part that only this kind of product has."""
    if run.facts.execution is not None:
        return across_part(run, run.facts.execution)
    if run.facts.classifier is not None:
        return classifier_part(run)
    return synthetic_part(run) if run.facts.synthesis is not None else _tables_part(run)


def _tables_part(run: Run) -> dict[str, Any]:
    facts = run.facts
    return {
        "draws": _draws(facts),
        "total": {
            "kind": total_kind(run),
            "value": _total(facts),
            "standard_error": _standard_error(facts),
            "kept": _kept(facts),
        },
        "reference": _reference(facts),
        "tables": [_table(facts, table) for table in facts.tables],
    }


def _claim(charge: Charge) -> dict[str, int]:
    return {"epsilon": charge.request.epsilon, "delta": charge.request.delta}


def _draws(facts: RunFacts) -> list[dict[str, Any]]:
    entered = sorted(
        (entry.body for entry in facts.entries if entry.kind == "noise_drawn"), key=lambda body: body["number"]
    )
    lists = {
        table.measurement.key: table.measurement.table
        for table in facts.tables
        if isinstance(table, ReleasedSparseTable)
    }
    return [
        {
            "key": body["key"],
            "number": body["number"],
            "clique": list(facts.tables_plan.draw(body["key"]).clique),
            "shape": _shape(facts, body["key"]),
            "coarsening": _coarsening(facts, body["key"]),
            "event": body["event"],
            "cost": body["costs"][facts.account.terms.name],
            "sha256": body["sha256"],
            **_sparse_statement(lists.get(body["key"])),
        }
        for body in entered
    ]


def _shape(facts: RunFacts, key: str) -> list[int]:
    planned = facts.tables_plan.draw(key)
    return list(facts.contract.shape(planned.clique) if planned.coarsening is None else planned.coarsening.shape)


def _coarsening(facts: RunFacts, key: str) -> dict[str, str] | None:
    """Name the coarser resolution that was measured, with the digest of which cells it sums up."""
    coarser = facts.tables_plan.draw(key).coarsening
    return None if coarser is None else coarser.to_json()


def _levels(table: ReleasedTable) -> list[dict[str, Any]]:
    return [
        {
            "name": each.level.name,
            "data": f"{DATA}/{level_name(table.name, each.level.name)}.parquet",
            "measurements": f"{MEASUREMENTS}/{level_name(table.name, each.level.name)}.parquet",
            "sha256": _values_digest(counts.values),
        }
        for each, counts in zip(table.levels, table.refined.coarser, strict=True)
    ]


def _sparse_statement(table: NoisyList | None) -> dict[str, Any]:
    """Say of a sparse draw from which threshold on its cells are listed, and how many they are."""
    if table is None:
        return {}
    return {"listed": {"cells": table.cells, "threshold": table.threshold, "rows": int(table.codes.size)}}


def _reference(facts: RunFacts) -> dict[str, Any] | None:
    """Name the version on which λ was chosen."""
    earlier = facts.earlier_version
    if earlier is None:
        return None
    return {"release": earlier.release, "version": earlier.number, "manifest": earlier.manifest}


def _total(facts: RunFacts) -> int | None:
    if facts.estimated_total is not None:
        return facts.estimated_total.value
    return facts.plan.public_total if facts.total is None else int(facts.total.values)


def _standard_error(facts: RunFacts) -> str | None:
    """Give the standard error of a total that was estimated from all sums."""
    estimated = facts.estimated_total
    return None if estimated is None else f"{sqrt(estimated.variance):.6g}"


def _kept(facts: RunFacts) -> str:
    """Say that tables keep an average of sums only where they gain, as those do that are refined one by one."""
    alone = facts.estimated_total is None or facts.spec.tables_product.refine.consistent
    return "by_all" if alone else "where_it_gains"


def _table(facts: RunFacts, table: ReleasedTable) -> dict[str, Any]:
    refined = table.refined
    return {
        "name": table.name,
        "columns": list(table.columns),
        "method": refined.method,
        "lambda": None if refined.lambda_ is None else str(refined.lambda_),
        "chosen": None if refined.chosen is None else {"of": refined.chosen.of, "by": refined.chosen.by},
        "estimated_rmse": estimated_rmse(table),
        "disagreement": disagreement(table),
        "integers": facts.spec.tables_product.refine.integers,
        "total": refined.total,
        "notes": list(refined.notes),
        "suppressed": _suppressed(table),
        "data": f"{DATA}/{table.name}.parquet",
        "measurements": f"{MEASUREMENTS}/{table.name}.parquet",
        "sha256": _digest(table),
        "levels": _levels(table),
        **_rows(table),
    }


def _suppressed(table: ReleasedTable) -> int | None:
    """Count the cells that a minimum-frequency rule suppressed; None without one."""
    gone = suppressed_cells(table)
    return None if gone is None else int(gone.sum())


def _rows(table: ReleasedTable) -> dict[str, Any]:
    """Say of a refined sparse table how many cells are not 0, and where the interval of an unlisted one ends."""
    if not isinstance(table, ReleasedSparseTable):
        return {}
    return {"listed": {"rows": int(table.refined.codes.size), "absent_upper": table.refined.absent_upper}}


def _digest(table: ReleasedTable) -> str:
    """SHA-256 of the refined values; of a sparse table with its cells."""
    if isinstance(table, ReleasedSparseTable):
        return listing_digest(table.refined.codes, table.refined.values, {"cells": table.refined.cells})
    return _values_digest(table.refined.values)


def _values_digest(values: Numbers) -> str:
    """SHA-256 of the refined values: little-endian int64 or float64, row-major."""
    form = "<i8" if np.issubdtype(values.dtype, np.integer) else "<f8"
    return hashlib.sha256(np.ascontiguousarray(values, dtype=form).tobytes()).hexdigest()
