"""Croissant 1.1 metadata (JSON-LD) for the data files, so that dataset tools find and load them.

Source: MLCommons, Croissant Format Specification 1.1 (release candidate of 2025-12-10), which has `isArray` and
`arrayShape` in the place of 1.0's `repeated`. License and address are left out, for no part of a run knows them. The
creator is the curator whom the publisher declares, and is left out where nobody is declared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from tasks.records.draws.draw_form import DrawForm
from tasks.records.explanation import RecordExplanation
from tasks.records.files.tidy_tables import DATA, WrittenFile
from tasks.records.groups.contract_terms import SCOPE_WORDS
from tasks.records.model.draw_kinds import draw_form, draw_kinds
from tasks.records.public_text import sentence

CONFORMS_TO = "http://mlcommons.org/croissant/1.1"
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "annotation": "cr:annotation",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "sdVersion": "cr:sdVersion",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_ADDRESS = re.compile(r"[A-Za-z0-9._/-]+")
_FORMATS = {".parquet": "application/x-parquet", ".csv": "text/csv", ".json": "application/json"}
_FORMATS |= {".safetensors": "application/octet-stream", ".md": "text/markdown"}
_TYPES = {
    "string": "sc:Text",
    "uint8": "sc:Integer",
    "int32": "sc:Integer",
    "int64": "sc:Integer",
    "double": "sc:Float",
    "float": "sc:Float",
    "bool": "sc:Boolean",
    "date": "sc:Date",
}
_ROLES = {
    "data": "Refined tables.",
    "rows": "Synthetic rows.",
    "part": "Some rows of a data file once more.",
    "measurements": "Noisy counts as they were drawn.",
    "statistics": "What was added up in each sum over rows.",
    "rounds": "The noisy sum over sites of each round, as it was drawn.",
    "choices": "Private choices as they were made.",
    "model": "The fitted model, in whole numbers.",
    "weights": "Weights and biases of the classifier, as safetensors.",
    "inputs": "How a row becomes the classifier's input, and what its outputs mean.",
    "card": "The model card.",
}
_MEANINGS = {
    "count": "Refined count: noisy, then post-processed.",
    "noisy": "Noisy count, as it was drawn.",
    "variance": "Variance of the noise.",
    "lower": "Lower end of a 95 % interval of the exact count.",
    "upper": "Upper end of a 95 % interval of the exact count.",
    "structural_zero": "Whether the contract declares the cell impossible.",
    "suppressed": "Whether the noisy count is below the threshold of the minimum-frequency rule; it is missing then.",
}
_ARRAYS = frozenset({"model", "statistics", "rounds"})
_OF_ARRAYS = {"array": "Name of an array.", "value": "Its values in row-major order."}


def croissant(explanation: RecordExplanation) -> dict[str, Any]:
    """Describe the data files of a version.

    Args:
        explanation: what the public record tells people.
    Returns:
        dict: JSON-LD; paths are relative to the version's folder.
    """
    fields, record, files = explanation.values, explanation.record, explanation.files
    synthetic = fields["identity.product_type"] == "synthetic"
    curator = sentence(fields, "accountability.curator")
    tables = [
        (number, file) for number, file in enumerate(files) if file.path.endswith(".parquet") and file.role != "part"
    ]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": f"{record['release']}-v{record['version']}",
        "alternateName": fields["identity.title"],
        "description": _description(fields),
        **({"creator": {"@type": "sc:Organization", "name": curator}} if curator else {}),
        "version": f"{record['version']}.0.0",
        "datePublished": fields["identity.measured_hour"][:10],
        "isLiveDataset": False,
        "distribution": [_file(file, number, synthetic) for number, file in enumerate(files)],
        "recordSet": [_records(file, number, synthetic) for number, file in tables],
    }


def _description(fields: dict[str, Any]) -> str:
    delta = "" if fields["guarantee.delta"] == "0" else f" and delta {fields['guarantee.delta']}"
    made, about = "Tables", "Counts are noisy; record.html explains them."
    if fields["identity.product_type"] == "synthetic":
        made, about = "Synthetic rows", "No row is a person's; record.html says what they are good for."
    if fields["identity.product_type"] == "classifier":
        made, about = "A classifier", "Its weights are noisy; model/card.md says what it is good for."
    return (
        f"{made} about {fields['identity.title']} with {fields['guarantee.variant']}, "
        f"epsilon {fields['guarantee.epsilon']}{delta}, "
        f"for {fields['unit.unit']} ({fields['unit.adjacency']}), bounded {SCOPE_WORDS[fields['unit.scope']]}. "
        f"{about}"
    )


def _id(name: str, otherwise: str) -> str:
    """Name a part by itself where that is an address without escapes, and by its number where it is not."""
    return name if _ADDRESS.fullmatch(name) else otherwise


def _file(file: WrittenFile, number: int, synthetic: bool) -> dict[str, Any]:
    path = PurePosixPath(file.path)
    return {
        "@type": "cr:FileObject",
        "@id": _id(file.path, f"file-{number}"),
        "name": path.name,
        "description": _summary("rows" if synthetic and file.role == DATA else file.role),
        "contentUrl": file.path,
        "contentSize": f"{file.bytes} B",
        "encodingFormat": _FORMATS[path.suffix],
        "sha256": file.sha256,
    }


def _records(file: WrittenFile, number: int, synthetic: bool) -> dict[str, Any]:
    name, rows = file.path.removesuffix(".parquet"), synthetic and file.role == DATA
    meanings = {} if rows else _columns(file.role)
    otherwise = "Synthetic value." if rows else "Label of the cell."
    records, source = _id(name, f"records-{number}"), _id(file.path, f"file-{number}")
    return {
        "@type": "cr:RecordSet",
        "@id": records,
        "name": name,
        "description": f"{file.rows} rows." if rows else _rows(file),
        "field": [
            _field(
                _id(f"{records}/{column}", f"{records}/column-{place}"),
                source,
                (column, kind),
                meanings.get(column, otherwise),
            )
            for place, (column, kind) in enumerate(file.columns)
        ],
    }


def _columns(role: str) -> Mapping[str, str]:
    """Say what the columns of a file mean; those of cells where nothing else is known."""
    if role in _ROLES:
        return _OF_ARRAYS if role in _ARRAYS else _MEANINGS
    return _form(role).columns


def _summary(role: str) -> str:
    """Say what a file is."""
    return _ROLES[role] if role in _ROLES else _form(role).summary


def _form(role: str) -> DrawForm[Any, Any]:
    """Return the kind of draw whose files have a role."""
    form: DrawForm[Any, Any] = next(form for form in map(draw_form, draw_kinds()) if form.role == role)
    return form


def _rows(file: WrittenFile) -> str:
    """Say what the rows are."""
    if _columns(file.role) is not _MEANINGS:
        return f"{file.rows} rows, one a number."
    if file.form == "dense":
        return f"{file.rows} rows, one a cell of the declared domain."
    if file.role == DATA:
        return f"{file.rows} rows, one a cell above 0; the count of every other cell of the declared domain is 0."
    return f"{file.rows} rows, one a cell whose noisy count reached the threshold; every other cell lies below it."


def _field(name: str, source: str, typed: tuple[str, str], means: str) -> dict[str, Any]:
    column, kind = typed
    return {
        "@type": "cr:Field",
        "@id": name,
        "name": column,
        "description": means,
        "dataType": _TYPES[kind.partition("[")[0]],
        **({"isArray": True, "arrayShape": kind.partition("[")[2][:-1]} if kind.endswith("]") else {}),
        "source": {"fileObject": {"@id": source}, "extract": {"column": column}},
    }
