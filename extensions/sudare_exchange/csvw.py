"""CSV on the Web: metadata of the CSV files of a version, with the type and meaning of every column.

Source: W3C Recommendation 2015-12-17, Metadata Vocabulary for Tabular Data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

from contracts.canonical import readable_json
from contracts.contract.contract import Contract
from contracts.contract.labels import neutralised
from contracts.reading.scalars import Problem
from contracts.release.exchange_forms import EXCHANGE, ExchangeFiles
from contracts.release.product import ProductSpec
from tasks.records.descriptions.descriptions import FileWords, dataset_description
from tasks.records.descriptions.key_columns import KeyColumns, key_columns
from tasks.records.files.tidy_tables import DATA, WrittenFile
from tasks.records.public_text import sentence
from tasks.records.record import RecordExplanation

CSVW: Final = f"{EXCHANGE}csvw.json"
_TYPES: Final = {
    "double": "double",
    "float": "double",
    "bool": {"base": "boolean", "format": "true|false"},
    "date": {"base": "date", "format": "yyyy-MM-dd"},
    "string": "string",
}
_UNWRITTEN: Final = re.compile(r"[^A-Za-z0-9_]")


def csvw_files(explanation: RecordExplanation, read: Callable[[str], bytes]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the metadata of all CSV files; no data file is read."""
    yield CSVW, iter((readable_json(_group(explanation)),))


def _group(explanation: RecordExplanation) -> dict[str, Any]:
    values, words = explanation.values, FileWords.of(explanation)
    curator, record = sentence(values, "accountability.curator"), explanation.record
    neutral = record["replay"]["formulas"] == "neutralised"
    return {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
        "dc:title": f"{record['release']} v{record['version']}",
        "dc:description": dataset_description(values),
        "dc:issued": values["identity.measured_hour"][:10],
        **({"dc:publisher": curator} if curator else {}),
        "dialect": {"delimiter": ",", "encoding": "utf-8", "header": True, "lineTerminators": ["\n"]},
        "tables": [
            _table(file, words, key_columns(record["replay"], file.path.removesuffix(".csv")), neutral=neutral)
            for file in explanation.files
            if file.role == DATA and file.path.endswith(".csv")
        ],
    }


def _table(file: WrittenFile, words: FileWords, keys: KeyColumns, *, neutral: bool) -> dict[str, Any]:
    means = words.columns(file)
    return {
        "url": f"../{quote(file.path)}",
        "dc:description": f"{words.summary(file)} {words.rows(file)}",
        "tableSchema": {
            "columns": [
                {
                    "name": _name(name),
                    "titles": neutralised(name) if neutral else name,
                    "dc:description": keys.meaning(name) or means.get(name, words.label(file)),
                    "datatype": _TYPES.get(kind, "integer"),
                }
                for name, kind in file.columns
            ],
            **({} if keys.primary is None else {"primaryKey": _name(keys.primary)}),
            **({} if keys.foreign is None else {"foreignKeys": [_foreign(*keys.foreign)]}),
        },
    }


def _foreign(column: str, path: str, key: str) -> dict[str, Any]:
    """Write the link from a column to the key of another table."""
    reference = {"resource": f"../{quote(path)}.csv", "columnReference": _name(key)}
    return {"columnReference": _name(column), "reference": reference}


def _name(column: str) -> str:
    """Write a column's name as a variable of a URI template: other characters as %XX of UTF-8."""
    text = _UNWRITTEN.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), column)
    return f"%5F{text[1:]}" if text.startswith("_") else text


def _problems(formats: Sequence[str], product: ProductSpec, contract: Contract) -> Iterator[Problem]:
    if "csv" not in formats:
        remedy = "add csv to `formats:`, or drop `csvw`"
        yield Problem("csvw without CSV files", "csv among the formats, which csvw describes", remedy)


FILES: Final = ExchangeFiles(csvw_files, _problems)
