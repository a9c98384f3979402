"""What comes of released sums: tables, a model and its rows, or a classifier. Post-processing.

data/NAME.parquet, .csv        a table of noisy counts each, with intervals; or all synthetic rows
model/                         the model of rows, or weights, contract of inputs and card of a classifier
measurements/rounds.parquet    the noisy sum of every round, whole numbers, one array a draw
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import readable_json
from contracts.contract.impossible_cells import Clique
from contracts.release.classifier import ClassifierProduct
from contracts.release.tables.tables import TablesProduct, tables_of
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.accounting.events import DiscreteGaussian
from privacy.arrays import Singles
from privacy.classifiers.classifier import CardTerms, ClassifierModel, card_of, inputs_of
from privacy.classifiers.trainer import trainer
from privacy.federation.rounds import RoundSum
from privacy.generators.fitting import zeros
from privacy.generators.generator import Model, Options
from privacy.generators.rows import synthetic_rows
from privacy.learning.learners import learner_slots, parameters_of
from privacy.learning.plan import Execution
from privacy.marginals.count_noise import half_width
from privacy.marginals.estimation import Measured, estimate, estimate_total
from privacy.marginals.model import PublishedModel
from privacy.marginals.portable import PostProcessingSeed
from privacy.table_plans.plan import CONFIDENCE
from tasks.products.across.spec_terms import Federation, estimated_of
from tasks.records.across.seed import seed_of_sums
from tasks.records.files.classifier_files import CARD, INPUTS, WEIGHTS
from tasks.records.files.synthetic_files import (
    MODEL,
    MODEL_ARRAYS,
    MODEL_VALUES,
    type_name,
    write_model,
    write_pieces,
)
from tasks.records.files.tidy_tables import DATA, MEASUREMENTS, Tidy, WrittenFile, written
from tasks.records.files.write import ARRAY_COLUMNS, ROUNDS, write_arrays

# --- A model estimated from noisy tables over all sites, as AIM's is from its measurements.


def estimated_model(federation: Federation, rounds: Sequence[RoundSum]) -> PublishedModel:
    """Fit a graphical model to the tables.

    A table counts the rows of the sites that took part in its round.

    Args:
        federation: the federation.
        rounds: the noisy tables, in order.
    Raises:
        ValueError: tables of another form.
    """
    terms, contract = federation.spec.generator, federation.contract
    if terms is None:
        raise TypeError(f"federation {federation.spec.federation} makes no rows")
    asked, cliques = estimated_of(federation.spec, terms, contract), federation.counting.cliques
    measured = [
        measured_table(federation, number, each) for number, each in zip(range(len(cliques)), rounds, strict=True)
    ]
    total = float(asked.public_total) if asked.public_total is not None else estimate_total(measured)
    found = estimate(
        asked.domain,
        measured,
        total=max(total, 1.0),
        structural_zeros=zeros(asked),
        cap_mb=Options().max_model_megabytes,
    )
    return PublishedModel.of(found.model, max(0, round(total)))


def measured_table(federation: Federation, number: int, summed: RoundSum) -> Measured:
    """Return a table in rows, with the variance of its noise: of all shares that are in it."""
    plan = federation.counting
    clique = plan.cliques[number]
    values = summed.steps.reshape(federation.shape(clique)) / 2.0**plan.fine_bits
    return Measured(clique, values, float(fine_noise(federation, summed)) / 4.0**plan.fine_bits)


def fine_noise(federation: Federation, summed: RoundSum) -> Fraction:
    """Return the parameter of the noise of a sum: of all shares that are in it [fine units squared]."""
    plan = federation.counting
    return plan.fine_variance if plan.trust.noise == "server" else plan.share_variance * sum(summed.present)


COUNTS: Final = {"count": "double", "lower": "int64", "upper": "int64"}
"""Columns of a table after its labels."""


@dataclass(frozen=True)
class FederatedOutput:
    """What the sums of a federation lead to; one of the three.

    Args:
        tables: names, columns and values of tables, in order.
        model: the model of rows.
        classifier: the classifier.
        notes: what a reader should know.
    """

    tables: tuple[tuple[str, Clique, Mapping[str, NDArray[Any]]], ...] = ()
    model: Model | None = None
    classifier: ClassifierModel | None = None
    notes: tuple[str, ...] = ()


def output_of(federation: Federation, rounds: Sequence[RoundSum]) -> FederatedOutput:
    """Compute from released sums what they lead to.

    Raises:
        ValueError: sums of another form.
    """
    if federation.generated is not None:
        sums, model_of = federation.generated.plan.sums.rounds, federation.generated.model
        model, notes = model_of(rounds[:sums], _trained(federation, rounds))
        return FederatedOutput(model=model, notes=notes)
    if federation.spec.generator is not None:
        return FederatedOutput(model=estimated_model(federation, rounds))
    if federation.trained is not None:
        from privacy.coordination.coordinator import replayed  # torch, which tables and rows of tables do without

        layout, learner, plan = federation.training
        found = replayed(learner, layout, plan, rounds, execution=Execution("cpu"))
        layers = tuple(
            (found[slot.weights].reshape(slot.layer.weight_shape), found[slot.biases])
            for slot in learner_slots(learner)
        )
        return FederatedOutput(classifier=ClassifierModel(layout, learner.label, layers))
    return FederatedOutput(tables=tuple(_tables(federation, rounds)))


def _trained(federation: Federation, rounds: Sequence[RoundSum]) -> Singles:
    """Compute the parameters that the second phase led to."""
    phased = federation.generated
    if phased is None:
        raise TypeError(f"federation {federation.spec.federation} has one phase")
    from privacy.coordination.coordinator import replayed  # as above

    plan = phased.plan
    learner = phased.learner(rounds[: plan.sums.rounds])
    trained = rounds[plan.sums.rounds :]
    if any(each.steps.shape != (parameters_of(learner),) for each in trained):
        raise ValueError("a round of the training has other numbers than there are parameters")
    return replayed(learner, phased.trained_layout, plan.training, trained, execution=Execution("cpu"))


def _tables(
    federation: Federation, rounds: Sequence[RoundSum]
) -> Iterable[tuple[str, Clique, Mapping[str, NDArray[Any]]]]:
    """Return each table in rows, with 95 % intervals of the noise of the sites that are in it."""
    product, contract = federation.spec.product, federation.contract
    if not isinstance(product, TablesProduct):
        raise TypeError(f"federation {federation.spec.federation} publishes no tables")
    bits = federation.counting.fine_bits
    for number, (table, summed) in enumerate(zip(tables_of(product, contract), rounds, strict=True)):
        zeros, counts = contract.impossible(table.columns), measured_table(federation, number, summed).values
        width = half_width(DiscreteGaussian(fine_noise(federation, summed), (1,)), CONFIDENCE)
        steps = summed.steps.reshape(counts.shape)
        ends = {"lower": (steps - width) >> bits, "upper": -(-(steps + width) >> bits)}
        columns = {"count": np.where(zeros, 0.0, counts), **{n: np.where(zeros, 0, end) for n, end in ends.items()}}
        yield table.name, table.columns, columns


def seed_of(federation: Federation, rounds: Sequence[RoundSum]) -> PostProcessingSeed:
    """Return the seed of the rows."""
    return seed_of_sums(federation.run_key, [each.sha256 for each in rounds])


def rows_of(federation: Federation) -> int:
    """Return how many rows are made."""
    product = federation.spec.product
    if product.kind != "synthetic" or not isinstance(product.rows, int):
        raise TypeError(f"federation {federation.spec.federation} makes no rows")
    return product.rows


def write_output(
    federation: Federation,
    outcome: FederatedOutput,
    rounds: Sequence[RoundSum],
    version: int,
    folder: Path,
    marks: Mapping[str, str],
) -> tuple[WrittenFile, ...]:
    """Write the data files of a version.

    Args:
        federation: the federation.
        outcome: what the sums lead to.
        rounds: the released sums, in order.
        version: its number.
        folder: where.
        marks: what each Parquet file says about where it comes from.
    Privacy: released values only.
    """
    for name in (DATA, MODEL, MEASUREMENTS):
        (folder / name).mkdir(parents=True, exist_ok=True)
    files: list[WrittenFile] = []
    keys = [key for key, _ in federation.rounds]
    for key, (name, clique, values) in zip(keys, outcome.tables, strict=False):
        tidy = Tidy(federation.contract, clique, values)
        for path in (f"{DATA}/{name}.parquet", f"{DATA}/{name}.csv"):
            files.append(tidy.write(folder, path, draw=key, marks=marks, formulas=federation.spec.formulas))
    if outcome.model is not None:
        files += _write_rows(federation, outcome.model, seed_of(federation, rounds), folder, marks)
        files += write_model(outcome.model, folder, marks=marks)
    if outcome.classifier is not None:
        for path, role, content in classifier_files(federation, outcome.classifier, version):
            (folder / path).write_bytes(content)
            size = outcome.classifier.parameters if role == "weights" else 1
            files.append(written(folder, path, "", role, size, ()))
    for name in (DATA, MODEL):
        if not any((folder / name).iterdir()):
            (folder / name).rmdir()
    sums = {key: each.steps for key, each in zip(keys, rounds, strict=True)}
    write_arrays(sums, folder / ROUNDS, marks=marks)
    numbers = sum(each.size for each in sums.values())
    return (*files, written(folder, ROUNDS, "", "rounds", numbers, ARRAY_COLUMNS))


def _write_rows(
    federation: Federation, model: Model, seed: PostProcessingSeed, folder: Path, marks: Mapping[str, str]
) -> tuple[WrittenFile, ...]:
    paths, number = rows_paths(federation), rows_of(federation)
    pieces = synthetic_rows(model, federation.contract, seed, number)
    targets = [folder / path for path in paths]
    schema = write_pieces(pieces, targets, marks=marks, formulas=federation.spec.formulas)
    columns = tuple((field.name, type_name(field.type)) for field in schema)
    return tuple(written(folder, path, "", "data", number, columns) for path in paths)


def rows_paths(federation: Federation) -> tuple[str, str]:
    """Return the names of the files of the rows."""
    return f"{DATA}/{federation.spec.federation}.parquet", f"{DATA}/{federation.spec.federation}.csv"


def classifier_files(
    federation: Federation, model: ClassifierModel, version: int
) -> Iterable[tuple[str, str, bytes]]:
    """Yield name, role and content of the files of a classifier."""
    product, contract = federation.spec.product, federation.contract
    if not isinstance(product, ClassifierProduct):
        raise TypeError(f"federation {federation.spec.federation} trains no classifier")
    terms = CardTerms(
        release=federation.spec.federation,
        version=version,
        title=contract.name,
        trainer=product.trainer,
        summary=trainer(product.trainer).summary,
        label=product.label,
        names=product.names(contract),
        widths=model.widths,
        epsilon=pico_to_text(federation.person_epsilon),
        delta=atto_to_text(federation.delta),
        unit=contract.unit.column or "row",
        adjacency=contract.adjacency,
        notes=(),
    )
    inputs = inputs_of(contract, product, model.widths, None)
    yield WEIGHTS, "weights", model.to_bytes()
    yield INPUTS, "inputs", readable_json(inputs)
    yield CARD, "card", card_of(terms, {"weights": WEIGHTS, "inputs": INPUTS})


def file_names(federation: Federation) -> set[str]:
    """Return the names of the data files of a version."""
    product = federation.spec.product
    if isinstance(product, TablesProduct):
        names = [table.name for table in tables_of(product, federation.contract)]
        return {ROUNDS, *(f"{DATA}/{name}.{form}" for name in names for form in ("parquet", "csv"))}
    if federation.trained is not None:
        return {ROUNDS, WEIGHTS, INPUTS, CARD}
    return {ROUNDS, MODEL_VALUES, MODEL_ARRAYS, *rows_paths(federation)}
