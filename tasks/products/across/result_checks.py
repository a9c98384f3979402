"""Rule 9 of a version that was made across sites: tables, model and rows, or weights follow from the sums."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from contracts.contract.decoding import Decoder
from contracts.errors import Finding
from contracts.release.synthetic import SyntheticProduct
from contracts.release.tables.tables import TablesProduct, tables_of
from privacy.classifiers.classifier import ClassifierModel, read_classifier
from privacy.federation.rounds import RoundSum
from privacy.generators.generator import Model
from privacy.generators.rows import PIECE_ROWS, read_model, seed_text
from privacy.marginals.model import FORBIDDEN
from tasks.products.across.results import COUNTS, FederatedOutput, classifier_files, rows_of, rows_paths, seed_of
from tasks.products.across.spec_terms import Federation
from tasks.products.synthetic.row_replay import check_published_rows, row_table
from tasks.records.files.classifier_files import CARD, INPUTS, WEIGHTS
from tasks.records.files.synthetic_files import MODEL_ARRAYS, MODEL_VALUES
from tasks.records.files.tidy_tables import DATA
from tasks.records.model.across_statements import AcrossRecord
from tasks.records.model.version_statements import SyntheticRowsStatement
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.draw_checks import FileForm
from tasks.verification.files.array_reader import read_arrays
from tasks.verification.files.folder import OpenFiles
from tasks.verification.files.table_files import OTHER_TABLE, compare_column, read_parquet
from tasks.verification.fitted_meaning import SyntheticMeaning
from tasks.verification.record_identity import differences

TOLERANCE: Final = 1e-4
"""What is computed again may differ by so much of an array's largest number: processors round floats otherwise."""
_LEAST: Final = 2
"""Numbers of a model may differ by so many of their units too."""
_OTHER_MODEL: Final = "it does not follow from the noisy sums: do not use this version"


def check_output(
    federation: Federation, outcome: FederatedOutput, sums: Sequence[RoundSum], files: OpenFiles, record: AcrossRecord
) -> Iterator[Finding]:
    """Compare what is published with what the sums lead to.

    Args:
        federation: the federation.
        outcome: what the sums lead to, computed here.
        sums: the published sums, which are those that were entered.
        files: those that may be opened.
        record: gives notes, number of the version, and how CSV files write formulas.
    """
    notes = [("replay.execution.notes", list(record.replay.execution.notes), list(outcome.notes))]
    yield from differences(notes, where="record.json", allowed="as follows from the sums")
    if outcome.classifier is not None:
        yield from _check_classifier(federation, outcome.classifier, files, record.version)
    elif outcome.model is not None:
        yield from _check_rows(federation, outcome.model, sums, files, record)
    else:
        yield from _check_tables(federation, outcome, files)


def _check_tables(federation: Federation, outcome: FederatedOutput, files: OpenFiles) -> Iterator[Finding]:
    """Compare every table, column by column; CSV files are compared with these tables where bytes are."""
    for name, clique, expected in outcome.tables:
        path, findings = f"{DATA}/{name}.parquet", list[Finding]()
        data = files.read(path, findings)
        yield from findings
        if data is None:
            continue
        columns, wrong = read_parquet(data, where=path, cells=federation.contract, clique=clique, values=COUNTS)
        yield from wrong
        if columns is None:
            continue
        for column, values in expected.items():
            found, source = columns[column], "computed from the noisy sums"
            yield from compare_column(
                found, values.reshape(-1), where=path, name=column, source=source, remedy=OTHER_TABLE
            )


def _check_classifier(
    federation: Federation, again: ClassifierModel, files: OpenFiles, version: int
) -> Iterator[Finding]:
    """Compare weights up to the tolerance, and contract of inputs and card byte by byte."""
    findings = list[Finding]()
    read = {name: files.read(name, findings) for name in (WEIGHTS, INPUTS, CARD)}
    yield from findings
    weights = read[WEIGHTS]
    if weights is None:
        return
    published = read_classifier(weights, again.layout, again.label, None)
    apart = [
        float(np.abs(ours - theirs).max(initial=0))
        for pair in zip(again.layers, published.layers, strict=True)
        for ours, theirs in zip(*pair, strict=True)
    ]
    if not all(each <= TOLERANCE for each in apart):
        yield Finding(WEIGHTS, "weights", f"off by {max(apart):.3g}", f"at most {TOLERANCE:g}", _OTHER_MODEL)
    for name, _, expected in classifier_files(federation, published, version):
        if read[name] is not None and read[name] != expected:
            yield Finding(name, "the file", "other bytes", "those that weights and record give", _OTHER_MODEL)


def _check_rows(
    federation: Federation, again: Model, sums: Sequence[RoundSum], files: OpenFiles, record: AcrossRecord
) -> Iterator[Finding]:
    """Compare the model up to the tolerance, and make the rows again from the published one."""
    findings, product = list[Finding](), federation.spec.product
    parquet_name, csv_name = rows_paths(federation)
    values, arrays, rows, csv = (
        files.read(n, findings) for n in (MODEL_VALUES, MODEL_ARRAYS, parquet_name, csv_name)
    )
    yield from findings
    if values is None or arrays is None or not isinstance(product, SyntheticProduct):
        return
    told = json.loads(values)
    if not isinstance(told, dict) or set(told) != {"kind", "shapes", "values"}:
        yield Finding(MODEL_VALUES, "the file", shown(told), "kind, shapes and values of a model", _OTHER_MODEL)
        return
    published = read_model(told["kind"], told["values"], read_arrays(arrays, told["shapes"]))
    yield from _compared(again, published)
    if rows is not None:
        number, seed = rows_of(federation), seed_text(seed_of(federation, sums))
        stated = SyntheticRowsStatement.model_validate(
            {"number": number, "from": "declared", "seed": seed, "data": parquet_name}
        )
        meaning = SyntheticMeaning(federation.contract, product, product.names(federation.contract))
        copy = None if csv is None else (csv_name, csv)
        table = row_table(published, stated, meaning)
        yield from check_published_rows(table, federation.contract, rows, copy, record.replay.formulas)


def _compared(again: Model, published: Model) -> Iterator[Finding]:
    """Compare two models up to what the rounding of floats makes."""
    (values, ours), (told, theirs) = again.to_arrays(), published.to_arrays()
    if again.kind != published.kind or json.dumps(values, sort_keys=True) != json.dumps(told, sort_keys=True):
        yield Finding(MODEL_VALUES, "values", "others", "what the noisy sums lead to", _OTHER_MODEL)
    if set(ours) != set(theirs) or any(array.shape != theirs[name].shape for name, array in ours.items()):
        yield Finding(MODEL_ARRAYS, "arrays", "others", "those of such a model", _OTHER_MODEL)
        return
    for name, array in ours.items():
        other = theirs[name]
        one, two = (np.where(each == FORBIDDEN, 0, each).astype(np.float64) for each in (array, other))
        allowed = _LEAST + TOLERANCE * float(np.abs(one).max(initial=0))
        if ((array == FORBIDDEN) != (other == FORBIDDEN)).any() or np.abs(one - two).max(initial=0) > allowed:
            found = "numbers that are further off than rounding makes them"
            yield Finding(MODEL_ARRAYS, printable(name), found, "what the noisy sums lead to", _OTHER_MODEL)


def output_forms(federation: Federation, outcome: FederatedOutput) -> dict[str, FileForm]:
    """Return how each Parquet file of what was made is written."""
    product, contract = federation.spec.product, federation.contract
    if isinstance(product, TablesProduct):
        return {
            f"{DATA}/{table.name}.parquet": FileForm({name: contract.column(name).labels for name in table.columns})
            for table in tables_of(product, contract)
        }
    if not isinstance(product, SyntheticProduct) or outcome.model is None:
        return {}
    labels = {
        form.name: [value for value in form.values if value is not None]
        for form in Decoder(contract, product.names(contract)).forms
        if form.kind == "label"
    }
    arrays = FileForm({"array": frozenset(outcome.model.to_arrays()[1])}, piece=None)
    return {rows_paths(federation)[0]: FileForm(labels, piece=PIECE_ROWS), MODEL_ARRAYS: arrays}
