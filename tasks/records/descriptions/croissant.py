"""Croissant 1.1 metadata (JSON-LD) for the data files, so that dataset tools find and load them.

Source: MLCommons, Croissant Format Specification 1.1 (release candidate of 2025-12-10), which has `isArray` and
`arrayShape` in the place of 1.0's `repeated`. License and address are left out, for no part of a run knows them. The
creator is the curator whom the publisher declares, and is left out where nobody is declared.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from tasks.records.explanation import RecordExplanation
from tasks.records.files.tidy_tables import DATA, WrittenFile
from tasks.records.groups.contract_terms import SCOPE_WORDS
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
    "sums": "Noisy sums over rows as they were drawn.",
    "statistics": "What was added up in each sum over rows.",
    "checkpoint": "The last checkpoint of a training, as it was drawn.",
    "parameters": "Noisy parameters of a network as they were drawn, or the last checkpoint of them.",
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
_OF_ARRAYS = {"array": "Name of an array.", "value": "Its values in row-major order."}
_OF_CHECKPOINTS = {"part": "Parameters, the optimizer's moments, or their average.", "value": "A number of it."}
_OF_PARAMETERS = {"value": "Steps of a parameter's range; of a training on noisy changes the bits of a double."}
_OF_SUMS = {
    "part": "What is added up: counts, sums, products (diagonal or full), or features.",
    "group": "Place of the group of rows, from 0.",
    "i": "Place of the entry, from 0; of features the frequency. Missing for counts.",
    "j": "Place of the other factor of a product; of features 0 for the cosine, 1 for the sine.",
    "noisy": "Noisy sum, as it was drawn, in units of its lattice.",
    "value": "The same in natural units.",
    "variance": "Variance of the noise of the value.",
}


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
    if fields["identity.product_type"] == "model":
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
        "description": _ROLES["rows" if synthetic and file.role == DATA else file.role],
        "contentUrl": file.path,
        "contentSize": f"{file.bytes} B",
        "encodingFormat": _FORMATS[path.suffix],
        "sha256": file.sha256,
    }


def _records(file: WrittenFile, number: int, synthetic: bool) -> dict[str, Any]:
    name, rows = file.path.removesuffix(".parquet"), synthetic and file.role == DATA
    by_role = {"model": _OF_ARRAYS, "statistics": _OF_ARRAYS, "sums": _OF_SUMS, "checkpoint": _OF_CHECKPOINTS}
    by_role |= {"parameters": _OF_PARAMETERS, "rounds": _OF_ARRAYS}
    meanings = {} if rows else by_role.get(file.role, _MEANINGS)
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


def _rows(file: WrittenFile) -> str:
    """Say what the rows are."""
    if file.role in ("model", "statistics", "sums", "checkpoint", "parameters", "rounds"):
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
