"""A classifier against the real rows: how well it tells the label, and members. For the auditor alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from contracts.domains.value_sql import identifier
from contracts.errors import Finding, Refused, SpecRefused
from privacy.classifiers.classifier import ClassifierModel, ParameterRange, classifier_layout, read_classifier
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.membership import PrivateModelScores, model_scores
from privacy.private_table import PrivateTable
from tasks.evaluation.linked_scores import encoded_rows, fetched_rows, refuse_pictures
from tasks.products.classifier.classifier_statement_checks import WEIGHTS, ClassifierMeaning
from tasks.records.model.version_statements import ClassifierRecord
from tasks.records.strict_json import printable
from tasks.storage.duckdb_session import connect
from tasks.storage.progress import step

_REMEDY = "sudare verify says what is wrong with this version"
_PREDICT = "predict labels of real pictures with the published weights, by code of your own"


def published_classifier(path: Path, record: ClassifierRecord, meaning: ClassifierMeaning) -> ClassifierModel:
    """Read the weights of a version; it is not verified.

    Raises:
        SpecRefused: they cannot be read, or are not those of the record's columns and range.
    """
    limits = record.replay.model.range
    bounds = None if limits is None else ParameterRange.of(limits)
    file = path / WEIGHTS
    try:
        if file.is_symlink() or file.parent.is_symlink():
            raise FileNotFoundError("a link")
        layout = classifier_layout(meaning.contract, meaning.product)
        return read_classifier(file.read_bytes(), layout, meaning.product.label, bounds)
    except (OSError, ValueError) as error:
        found = printable(str(error))
        raise SpecRefused([Finding(WEIGHTS, "the weights", found, "a published classifier", _REMEDY)]) from error


def evaluate_model(
    table: PrivateTable, model: ClassifierModel, meaning: ClassifierMeaning, *, others: Path | None, memory_limit: str
) -> PrivateModelScores:
    """Score a model on a snapshot.

    Args:
        table: the snapshot.
        model: the model.
        meaning: its contract, which encoded the snapshot, and its product.
        others: Parquet file of rows of the same people that the model was not trained on; attacks it with them.
        memory_limit: DuckDB's limit, such as "1GB" [text].
    Returns:
        PrivateModelScores: private.
    Raises:
        Refused: the snapshot is of another contract, columns hold pictures, or there are no rows.
    Privacy: nothing is drawn or charged, and the result must not be shown to anybody who may not see the rows.
    """
    contract, names = meaning.contract, meaning.names
    if table.contract_digest != contract.digest:
        found, allowed = "another contract than the snapshot's", "the contract that encoded the snapshot"
        raise Refused([Finding(f"contract {contract.id}", "digest", found, allowed)])
    refuse_pictures(contract, names, "the evaluation", _PREDICT)
    spill, place = table.path.parent / "spill", names.index(meaning.product.label)
    chosen = ", ".join(map(identifier, names))
    with step("evaluate"):
        with connect(table.path, memory_limit=memory_limit, spill=spill, read_only=True) as connection:
            real = fetched_rows(connection, f"SELECT {chosen} FROM codes", contract, names, table.path)
        beside = None if others is None else encoded_rows(others, contract, names, spill, memory_limit)
        return model_scores(
            _chances(model, real),
            real.codes[:, place].astype(np.int64),
            column=meaning.product.label,
            cells=contract.column(meaning.product.label).labels,
            others=None if beside is None else (_chances(model, beside), beside.codes[:, place].astype(np.int64)),
        )


def _chances(model: ClassifierModel, rows: EncodedRows) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return model.probabilities(rows.codes.astype(np.uint32))
