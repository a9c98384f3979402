"""The data files of a version: what each one shows follows from its path, the record and the draws."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.records.files.classifier_files import CARD, INPUTS, WEIGHTS
from tasks.records.files.part_names import parts_among
from tasks.records.files.synthetic_files import MODEL_ARRAYS, MODEL_VALUES
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.model.record_kinds import ShownFile, kind_of, record_part
from tasks.records.model.statement import FileStatement
from tasks.records.model.version_statements import RecordTerms
from tasks.records.unpublished import Unpublished

_FIXED: dict[str, str] = {
    WEIGHTS: "weights",
    INPUTS: "inputs",
    CARD: "card",
    MODEL_VALUES: "model",
    MODEL_ARRAYS: "model",
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
    shown: dict[str, ShownFile] = {name: ("", role, "dense") for name, role in _FIXED.items()}
    for path, (draw, role, form) in record_part(kind_of(record)).files(record):
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
