"""What comes of released sums: a classifier's weights, a table of noisy counts a clique, or rows. Post-processing."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contracts.contract.cell_codes import digit
from contracts.contract.impossible_cells import Clique
from privacy.classifiers.classifier_model import ClassifierModel, read_classifier
from privacy.coordination.coordinator import replayed
from privacy.federation.rounds import RoundSum
from privacy.learning.execution import Execution
from privacy.learning.learners import learner_slots
from tasks.federation.federation_run import Federation
from tasks.federation.generator_outputs import ARRAYS, MODEL, ROWS, SAMPLED, generated_files, wrong_generated
from tasks.records.files.csv_rows import write_csv

WEIGHTS: Final = "weights.safetensors"
TOLERANCE: Final = 1e-4
"""Weights computed again may differ by so much: processors round sums of floats in different orders."""


def made_files(
    known: Federation, rounds: Sequence[RoundSum], parameters: NDArray[np.float32] | None
) -> dict[str, bytes]:
    """Return the files that say what the sums lead to, by name."""
    if known.spec.generator is not None:
        return generated_files(known, rounds, parameters)
    if parameters is not None:
        return {WEIGHTS: classifier(known, parameters).to_bytes()}
    cliques = known.counting.cliques
    return {table_name(clique): table(known, each) for clique, each in zip(cliques, rounds, strict=True)}


def product_names(known: Federation) -> set[str]:
    """Return the names of the files that sums lead to."""
    if known.spec.generator is not None:
        return {MODEL, ARRAYS, ROWS, SAMPLED}
    return {WEIGHTS} if known.trained is not None else {table_name(clique) for clique in known.counting.cliques}


def wrong_files(known: Federation, rounds: Sequence[RoundSum], data: Mapping[str, bytes]) -> list[str]:
    """Return the names of files that are not what the sums lead to."""
    if known.spec.generator is not None:
        return wrong_generated(known, rounds, data)
    if known.trained is None:
        return [name for name, held in made_files(known, rounds, None).items() if data.get(name) != held]
    layout, learner, plan = known.training
    again = classifier(known, replayed(learner, layout, plan, rounds, execution=Execution("cpu")))
    published = read_classifier(data[WEIGHTS], layout, learner.label, None)
    apart = [
        float(np.abs(ours - theirs).max(initial=0))
        for pair in zip(again.layers, published.layers, strict=True)
        for ours, theirs in zip(*pair, strict=True)
    ]
    holds = all(each <= TOLERANCE for each in apart) and published.to_bytes() == data[WEIGHTS]
    return [] if holds else [WEIGHTS]


def classifier(known: Federation, parameters: NDArray[np.float32]) -> ClassifierModel:
    """Return the classifier of a flat vector of parameters."""
    layout, learner, _ = known.training
    layers = tuple(
        (parameters[slot.weights].reshape(slot.layer.weight_shape), parameters[slot.biases])
        for slot in learner_slots(learner)
    )
    return ClassifierModel(layout, learner.label, layers)


def table_name(clique: Clique) -> str:
    """Return the name of a table's file."""
    return "-".join(clique) + ".csv"


def table(known: Federation, summed: RoundSum) -> bytes:
    """Write a table: the cell's label in each column, and its noisy count, exact in decimals [rows]."""
    plan, contract = known.counting, known.contract
    clique = plan.cliques[summed.number]
    written, shape = io.BytesIO(), contract.shape(clique)
    cells = np.arange(contract.cells(clique))
    labels = [
        pa.DictionaryArray.from_arrays(
            digit(cells, shape, place), pa.array(contract.column(name).labels, pa.string())
        )
        for place, name in enumerate(clique)
    ]
    noisy = [_decimal(Fraction(int(steps), 1 << plan.fine_bits), plan.fine_bits) for steps in summed.steps]
    rows = pa.table([*labels, pa.array(noisy, pa.string())], names=[*clique, "noisy"])
    write_csv(rows, written, header=True, formulas=known.spec.formulas)
    return written.getvalue()


def _decimal(number: Fraction, bits: int) -> str:
    """Write a whole multiple of 2^-bits in decimals, exactly."""
    digits = int(number * 10**bits)
    whole, part = divmod(abs(digits), 10**bits)
    text = f"{whole}.{part:0{bits}d}".rstrip("0").rstrip(".") if bits else str(whole)
    return f"-{text}" if digits < 0 else text
