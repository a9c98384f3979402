"""What comes of the sums of a generator's federation: a model in whole numbers, a public seed, and rows.

    model.json, model-arrays.parquet    the model, as releases of one place publish theirs
    rows.csv                            rows of the model
    rows.json                           how many, their seed, and what a reader should know of the model

The seed is made of the released sums by SHA-256, and anybody finds it again. Who chooses among
sums chooses among seeds (docs/federation.md). All post-processing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from contracts.canonical import digest, readable_json
from contracts.release.synthetic import MOST_ROWS
from privacy.arrays import Singles
from privacy.coordination.coordinator import replayed
from privacy.federation.rounds import RoundSum
from privacy.generators.generator import Model
from privacy.generators.models import FORBIDDEN, read_model
from privacy.generators.p3gm_across import P3gmAcross
from privacy.generators.rows import seed_text, synthetic_rows
from privacy.learning.execution import Execution
from privacy.learning.learners import parameters_of
from privacy.marginals.errors import NothingPossible
from privacy.marginals.seeds import PostProcessingSeed
from tasks.federation.federation_run import Federation
from tasks.federation.table_estimation import estimated_model
from tasks.records.files.array_file import write_arrays
from tasks.records.files.synthetic_files import write_pieces
from tasks.verification.files.array_reader import read_arrays

MODEL, ARRAYS, ROWS, SAMPLED = "model.json", "model-arrays.parquet", "rows.csv", "rows.json"
TOLERANCE: Final = 1e-4
"""The model computed again may differ by so much of an array's largest number: processors round floats otherwise."""
_LEAST: Final = 2
"""Or by so many of its units."""


def generated_files(known: Federation, rounds: Sequence[RoundSum], parameters: Singles | None) -> dict[str, bytes]:
    """Return the files that the sums, and where there are some the trained parameters, lead to, by name."""
    model, notes = _model(known, rounds, parameters)
    return {**_model_files(model), **_row_files(known, model, notes, rounds)}


def wrong_generated(known: Federation, rounds: Sequence[RoundSum], data: Mapping[str, bytes]) -> list[str]:
    """Return the names of files that are not what the sums lead to.

    Raises:
        ValueError, KeyError, TypeError: files, or sums, of another form.
    """
    again, notes = _model(known, rounds, None if known.generated is None else _trained_again(known.generated, rounds))
    told = json.loads(data[MODEL])
    published = read_model(told["kind"], told["values"], read_arrays(data[ARRAYS], told["shapes"]))
    wrong = [ARRAYS] if _apart(again, published) else []
    if _model_files(published)[MODEL] != data[MODEL]:
        wrong.append(MODEL)
    try:
        rows = _row_files(known, published, notes, rounds)
    except NothingPossible:
        return [*wrong, ROWS]
    return wrong + [name for name, held in rows.items() if data[name] != held]


def _model(
    known: Federation, rounds: Sequence[RoundSum], parameters: Singles | None
) -> tuple[Model, tuple[str, ...]]:
    """Return the model, and what a reader should know."""
    if known.generated is None or parameters is None:
        return estimated_model(known, rounds), ()
    return known.generated.model(rounds[: known.generated.plan.sums.rounds], parameters)


def _trained_again(phased: P3gmAcross, rounds: Sequence[RoundSum]) -> Singles:
    """Compute the trained parameters again."""
    plan = phased.plan
    sums, trained = rounds[: plan.sums.rounds], rounds[plan.sums.rounds :]
    learner = phased.learner(sums)
    if any(each.steps.shape != (parameters_of(learner),) for each in trained):
        raise ValueError("a round of the training has other numbers than there are parameters")
    return replayed(learner, phased.trained_layout, plan.training, trained, execution=Execution("cpu"))


def _model_files(model: Model) -> dict[str, bytes]:
    values, arrays = model.to_arrays()
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    with TemporaryDirectory(prefix="sudare-") as folder:
        path = Path(folder) / ARRAYS
        write_arrays(arrays, path, marks={})
        written = path.read_bytes()
    return {MODEL: readable_json({"kind": model.kind, "shapes": shapes, "values": values}), ARRAYS: written}


def _row_files(known: Federation, model: Model, notes: Sequence[str], rounds: Sequence[RoundSum]) -> dict[str, bytes]:
    """Sample and decode the rows."""
    seed, rows = _seed(known, rounds), _rows(known)
    told = {"rows": rows, "seed": seed_text(seed), "notes": list(notes)}
    return {ROWS: _csv(model, known, seed, rows), SAMPLED: readable_json(told)}


def _csv(model: Model, known: Federation, seed: PostProcessingSeed, rows: int) -> bytes:
    with TemporaryDirectory(prefix="sudare-") as folder:
        path = Path(folder) / ROWS
        drawn = synthetic_rows(model, known.contract, seed, rows)
        write_pieces(drawn, [path], marks={}, formulas=known.spec.formulas)
        return path.read_bytes()


def _rows(known: Federation) -> int:
    """Return how many rows are made: the spec's number, or what the sites declare together."""
    terms = known.spec.generator
    declared = min(MOST_ROWS, sum(site.rows_about for site in known.spec.sites))
    return declared if terms is None or terms.rows is None else terms.rows


def _seed(known: Federation, rounds: Sequence[RoundSum]) -> PostProcessingSeed:
    """Return the seed: the first 16 bytes of SHA-256 over run and released sums."""
    sums = [hashlib.sha256(each.steps.astype("<i8").tobytes()).hexdigest() for each in rounds]
    return PostProcessingSeed(int(digest({"run": known.run_key, "sums": sums})[:32], 16))


def _apart(again: Model, published: Model) -> bool:
    """Whether two models differ by more than the rounding of floats makes."""
    (values, ours), (told, theirs) = again.to_arrays(), published.to_arrays()
    if json.loads(readable_json(values)) != json.loads(readable_json(told)) or set(ours) != set(theirs):
        return True
    for name, array in ours.items():
        other = theirs[name]
        if array.shape != other.shape or ((array == FORBIDDEN) != (other == FORBIDDEN)).any():
            return True
        ours_, theirs_ = (np.where(each == FORBIDDEN, 0, each).astype(np.float64) for each in (array, other))
        allowed = _LEAST + TOLERANCE * float(np.abs(ours_).max(initial=0))
        if np.abs(ours_ - theirs_).max(initial=0) > allowed:
            return True
    return False
