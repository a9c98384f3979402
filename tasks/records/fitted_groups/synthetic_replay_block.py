"""The part of a synthetic record's `replay` that tables do not have: draws and choices, model, rows and seed."""

from __future__ import annotations

from typing import Any

from contracts.message import messages_to_json
from privacy.generators.generator import Model
from privacy.generators.rows import seed_text
from privacy.ledger.draw_files import values_digest
from tasks.records.draws.drawn import stated_draws
from tasks.records.files.synthetic_files import MODEL_ARRAYS, MODEL_VALUES
from tasks.records.files.tidy_tables import DATA
from tasks.records.groups.field import Run


def synthetic_part(run: Run) -> dict[str, Any]:
    """Return what the rows are computed from, beside the files."""
    facts, (_, made) = run.facts, run.facts.synthetic
    return {
        "draws": stated_draws(facts),
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


def arrays_digests(model: Model) -> dict[str, str]:
    """Return the SHA-256 of each of the model's arrays: little-endian int64, row-major."""
    return {name: values_digest(array) for name, array in model.to_arrays()[1].items()}
