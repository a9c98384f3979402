"""The data files of a version: what each one shows follows from its path, the record and the draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contracts.contract.contract import Contract
from contracts.release.federation_spec import FederationTerms
from contracts.release.tables.expansion import tables_of
from contracts.release.tables.product import TableForm, TablesProduct
from privacy.table_plans.plan import TOTAL_KEY, table_key
from tasks.records.files.array_file import ROUNDS
from tasks.records.files.classifier_files import CARD, INPUTS, WEIGHTS
from tasks.records.files.part_names import parts_among
from tasks.records.files.synthetic_files import MODEL_ARRAYS, MODEL_VALUES
from tasks.records.files.tidy_tables import DATA, MEASUREMENTS, WrittenFile
from tasks.records.model.across_statements import AcrossRecord
from tasks.records.model.draw_kinds import draw_form
from tasks.records.model.statement import FileStatement
from tasks.records.model.synthetic_statements import FittedRecord, SyntheticRecord
from tasks.records.model.version_statements import Record, RecordTerms
from tasks.records.unpublished import Unpublished

_Shown = tuple[str, str, TableForm]
"""Key of the draw that a file shows, its role, and its form."""
_FIXED: dict[str, str] = {
    WEIGHTS: "weights",
    INPUTS: "inputs",
    CARD: "card",
    MODEL_VALUES: "model",
    MODEL_ARRAYS: "model",
    ROUNDS: "rounds",
}


def files_of(record: RecordTerms, signed: Mapping[str, FileStatement]) -> tuple[WrittenFile, ...]:
    """Return the data files in the record's order.

    Args:
        record: says how many rows they have, and of which columns.
        signed: the manifest's files; give digest and size.
    Raises:
        Unpublished: a file of the record that nothing in it leads to, or that the manifest has not.
    """
    paths = [file.path for file in record.files]
    shown: dict[str, _Shown] = {name: ("", role, "dense") for name, role in _FIXED.items()}
    for path, (draw, role, form) in _shown(record):
        shown[path] = (draw, role, form)
        if path.startswith("data/"):
            shown[f"{path.removesuffix('.parquet')}.csv"] = (draw, role, form)
            shown |= dict.fromkeys(parts_among(path, paths), (draw, "part", form))
    if not {*paths} <= {*shown} & {*signed}:
        raise Unpublished("files")
    return tuple(
        WrittenFile(
            file.path,
            shown[file.path][0],
            shown[file.path][1],
            file.rows,
            tuple((column.name, column.type) for column in file.columns),
            signed[file.path].sha256,
            signed[file.path].bytes,
            shown[file.path][2],
        )
        for file in record.files
    )


def _shown(record: RecordTerms) -> Iterator[tuple[str, _Shown]]:
    """Yield the files that draws and products lead to."""
    if isinstance(record, Record):
        yield from _of_tables(record)
    if isinstance(record, AcrossRecord):
        yield from _across(record)
    if isinstance(record, SyntheticRecord):
        yield record.replay.rows.data, ("", "data", "dense")
    if isinstance(record, FittedRecord):
        for draw in record.replay.draws:
            form = draw_form(draw.kind)
            for name, role in form.beside.items():
                yield name, ("", role, "dense")
            if draw.measurements is not None:
                yield draw.measurements, (draw.key, form.role, "dense")


def _of_tables(record: Record) -> Iterator[tuple[str, _Shown]]:
    yield f"{MEASUREMENTS}/{TOTAL_KEY}.parquet", (TOTAL_KEY, "measurements", "dense")
    for table in record.replay.tables:
        form: TableForm = "dense" if table.listed is None else "sparse"
        for level in table.levels:
            key = table_key(table.name, level.name)
            yield level.data, (key, "data", "dense")
            yield level.measurements, (key, "measurements", "dense")
        yield table.data, (table_key(table.name), "data", form)
        yield table.measurements, (table_key(table.name), "measurements", form)


def _across(record: AcrossRecord) -> Iterator[tuple[str, _Shown]]:
    """Yield a table a round, or all rows."""
    execution = record.replay.execution
    terms = FederationTerms.model_validate(execution.spec)
    product = terms.product
    if isinstance(product, TablesProduct):
        tables = tables_of(product, Contract.model_validate(record.replay.contract))
        for each, table in zip(execution.rounds, tables, strict=True):
            yield f"{DATA}/{table.name}.parquet", (each.key, "data", "dense")
    elif terms.generator is not None:
        yield f"{DATA}/{terms.federation}.parquet", ("", "data", "dense")
