"""The part of a released model's `replay` that others do not have: draws, and what the weights follow from."""

from __future__ import annotations

import hashlib
from typing import Any

from contracts.message import messages_to_json
from privacy.generators.rows import seed_text
from tasks.records.draws.drawn import stated_draws
from tasks.records.files.classifier_files import CARD, INPUTS, WEIGHTS
from tasks.records.groups.field import Run


def classifier_part(run: Run) -> dict[str, Any]:
    """Return what the weights follow from, beside the files."""
    made = run.facts.trained[1]
    model = made.model
    return {
        "draws": stated_draws(run.facts),
        "model": {
            "weights": WEIGHTS,
            "inputs": INPUTS,
            "card": CARD,
            "widths": list(model.widths),
            "range": None if model.bounds is None else list(model.bounds.texts),
            "sha256": hashlib.sha256(model.to_bytes()).hexdigest(),
        },
        "seed": None if made.seed is None else seed_text(made.seed),
        "notes": messages_to_json(made.fitted.notes),
    }
