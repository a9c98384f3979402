"""The part of a synthetic record's `replay` that tables do not have: draws and choices, model, rows and seed."""

from __future__ import annotations

from typing import Any

from contracts.message import messages_to_json
from privacy.generators.generator import Model
from privacy.generators.rows import seed_text
from privacy.grant.measurement import Measurement, Selection, SumMeasurement
from privacy.ledger.draw_files import values_digest
from tasks.records.files.sum_files import statistic_part
from tasks.records.files.synthetic_files import MODEL_ARRAYS, MODEL_VALUES, measurement_name
from tasks.records.files.tidy_tables import DATA, MEASUREMENTS
from tasks.records.fitted_groups import parameter_entries as parameters
from tasks.records.fitted_groups.training_entries import replayed
from tasks.records.groups.field import Run


def synthetic_part(run: Run) -> dict[str, Any]:
    """Return what the rows are computed from, beside the files."""
    facts, (_, made) = run.facts, run.facts.synthetic
    return {
        "draws": drawn_part(run),
        "model": {
            "kind": made.model.kind,
            "values": MODEL_VALUES,
            "arrays": MODEL_ARRAYS,
            "rows": made.model.rows,
            "sha256": arrays_digests(made.model),
        },
        "rows": {
            "number": made.rows,
            "from": made.rows_from,
            "seed": seed_text(made.seed),
            "data": f"{DATA}/{facts.spec.release}.parquet",
        },
        "notes": messages_to_json(made.fitted.notes),
    }


def drawn_part(run: Run) -> list[dict[str, Any]]:
    """Return all draws of a fit, in their order."""
    facts, (_, made) = run.facts, run.facts.fit
    account = facts.account.terms.name
    entered = {entry.body["key"]: entry.body for entry in facts.entries if entry.kind == "noise_drawn"}
    costs = {key: body["costs"][account] for key, body in entered.items()}
    told = [_draw(each, costs[each.key]) for each in made.drawn] + replayed(facts, account)
    told += parameters.replayed(facts)
    return sorted(told, key=lambda draw: int(draw["number"]))


def _draw(draw: Measurement | SumMeasurement | Selection, cost: int) -> dict[str, Any]:
    return {
        "key": draw.key,
        "number": draw.number,
        "clique": [] if isinstance(draw, SumMeasurement) else list(draw.clique),
        "shape": [] if isinstance(draw, Selection) else list(draw.values.shape),
        "coarsening": None,
        "event": draw.event.to_json(),
        "cost": cost,
        "sha256": draw.sha256,
        "measurements": None if isinstance(draw, Selection) else f"{MEASUREMENTS}/{measurement_name(draw)}.parquet",
        "index": draw.index if isinstance(draw, Selection) else None,
        **({"statistic": statistic_part(draw)} if isinstance(draw, SumMeasurement) else {}),
    }


def arrays_digests(model: Model) -> dict[str, str]:
    """Return the SHA-256 of each of the model's arrays: little-endian int64, row-major."""
    return {name: values_digest(array) for name, array in model.to_arrays()[1].items()}
