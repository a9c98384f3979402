"""Croissant 1.1 metadata (JSON-LD) for the data files, so that dataset tools find and load them.

Source: MLCommons, Croissant Format Specification 1.1 (release candidate of 2025-12-10), which has `isArray` and
`arrayShape` in the place of 1.0's `repeated`. License and address are left out, for no part of a run knows them. The
creator is the curator whom the publisher declares, and is left out where nobody is declared.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from tasks.records.descriptions.file_words import FileWords, dataset_description
from tasks.records.descriptions.key_columns import KeyColumns, key_columns
from tasks.records.explanation import RecordExplanation
from tasks.records.files.tidy_tables import WrittenFile
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


def croissant(explanation: RecordExplanation) -> dict[str, Any]:
    """Describe the data files of a version.

    Args:
        explanation: what the public record tells people.
    Returns:
        dict: JSON-LD; paths are relative to the version's folder.
    """
    fields, record, files = explanation.values, explanation.record, explanation.files
    curator, words = sentence(fields, "accountability.curator"), FileWords.of(explanation)
    tables = [
        (number, file) for number, file in enumerate(files) if file.path.endswith(".parquet") and file.role != "part"
    ]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": f"{record['release']}-v{record['version']}",
        "alternateName": fields["identity.title"],
        "description": dataset_description(fields),
        **({"creator": {"@type": "sc:Organization", "name": curator}} if curator else {}),
        "version": f"{record['version']}.0.0",
        "datePublished": fields["identity.measured_hour"][:10],
        "isLiveDataset": False,
        "distribution": [_file(file, number, words) for number, file in enumerate(files)],
        "recordSet": [
            _records(file, number, words, key_columns(record["replay"], file.path.removesuffix(".parquet")))
            for number, file in tables
        ],
    }


def _id(name: str, otherwise: str) -> str:
    """Name a part by itself where that is an address without escapes, and by its number where it is not."""
    return name if _ADDRESS.fullmatch(name) else otherwise


def _file(file: WrittenFile, number: int, words: FileWords) -> dict[str, Any]:
    path = PurePosixPath(file.path)
    return {
        "@type": "cr:FileObject",
        "@id": _id(file.path, f"file-{number}"),
        "name": path.name,
        "description": words.summary(file),
        "contentUrl": file.path,
        "contentSize": f"{file.bytes} B",
        "encodingFormat": _FORMATS[path.suffix],
        "sha256": file.sha256,
    }


def _records(file: WrittenFile, number: int, words: FileWords, keys: KeyColumns) -> dict[str, Any]:
    name, meanings = file.path.removesuffix(".parquet"), words.columns(file)
    otherwise = words.label(file)
    records, source = _id(name, f"records-{number}"), _id(file.path, f"file-{number}")
    return {
        "@type": "cr:RecordSet",
        "@id": records,
        "name": name,
        "description": words.rows(file),
        **({} if keys.primary is None else {"key": {"@id": _of_records(records, keys.primary, file)}}),
        "field": [
            {
                **_field(
                    _of_records(records, column, file),
                    source,
                    (column, kind),
                    keys.meaning(column) or meanings.get(column, otherwise),
                ),
                **_reference(keys, column),
            }
            for column, kind in file.columns
        ],
    }


def _of_records(records: str, column: str, file: WrittenFile) -> str:
    """Name a field: by its column, or by its place where that is no address."""
    place = [name for name, _ in file.columns].index(column)
    return _id(f"{records}/{column}", f"{records}/column-{place}")


def _reference(keys: KeyColumns, column: str) -> dict[str, Any]:
    """Say of which field of another record set a field holds the values: the key is the first column there."""
    if keys.foreign is None or keys.foreign[0] != column:
        return {}
    _, path, key = keys.foreign
    return {"references": {"field": {"@id": _id(f"{path}/{key}", f"{path}/column-0")}}}


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
