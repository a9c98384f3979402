"""Tables as SDMX sees them: dimensions with codes, measures and attributes, each with an identifier of its own.

Labels of a column are the codes where all of them may be codes, and otherwise their places in the declared order,
from 1. "(null)" is `_U`, unknown. A count is the measure OBS_VALUE, and its interval two attributes. Every statistic
is a measure. OBS_STATUS is `E`, an estimate, or `Q`, suppressed (SDMX Cross-Domain Code List for Observation Status).
A table without columns has the dimension TOTAL with the one code `_T`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.domains.domain_terms import NULL_LABEL
from contracts.release.exchange_forms import EXCHANGE
from contracts.release.tables.minimum_frequency import SUPPRESSED
from tasks.records.descriptions.file_words import FileWords
from tasks.records.explanation import RecordExplanation
from tasks.records.files.tidy_tables import DATA, WrittenFile
from tasks.records.public_text import sentence

ReadData = Callable[[str], bytes]
OBS_VALUE, OBS_STATUS, TOTAL, PERIOD = "OBS_VALUE", "OBS_STATUS", "TOTAL", "TIME_PERIOD"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_CODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@$-]*")
_TAKEN: Final = re.compile(r"(?i)STRUCTURE(_ID)?|ACTION|OBS_\w*|TIME_PERIOD|TOTAL|(DIMENSION|VALUE)_\d+")
_PERIOD: Final = re.compile(r"\d{4}(-(Q[1-4]|H[12]|W\d\d|\d\d(-\d\d)?))?")
_ATTRIBUTES: Final = frozenset({"lower", "upper"})
_TYPES: Final = {"double": "Double", "float": "Double", "bool": "Boolean", "date": "GregorianDay", "string": "String"}


@dataclass(frozen=True)
class SdmxDimension:
    """A dimension.

    Args:
        name: its identifier.
        column: the column of labels; none of TOTAL.
        labels: of the column, in their order.
        codes: one a label.
        codelist: identifier of the list of codes.
    """

    name: str
    column: str
    labels: tuple[str, ...]
    codes: tuple[str, ...]
    codelist: str


@dataclass(frozen=True)
class SdmxValue:
    """A measure or an attribute of every observation: identifier, column, data type, and what it means."""

    name: str
    column: str
    data_type: str
    means: str


@dataclass(frozen=True)
class SdmxTable:
    """A table of a version.

    Args:
        name: of the table.
        path: of its Parquet file.
        flow: its number in the list of data flows, as an identifier.
        dimensions, measures, attributes: its components, in the order of the columns.
        means: what its rows are.
        period: the time that it is about, where its account has one.
    """

    name: str
    path: str
    flow: str
    dimensions: tuple[SdmxDimension, ...]
    measures: tuple[SdmxValue, ...]
    attributes: tuple[SdmxValue, ...]
    means: str
    period: str | None

    @property
    def data_path(self) -> str:
        """Where its SDMX-CSV file is."""
        return f"{EXCHANGE}sdmx/{self.name}.csv"


def identifier(text: str, otherwise: str) -> str:
    """Return a text where it may be an identifier of SDMX and is none with a meaning; else the other one."""
    return text if _NAME.fullmatch(text) and not _TAKEN.fullmatch(text) else otherwise


def maintainer(explanation: RecordExplanation) -> str:
    """Return the identifier of who publishes: the declared curator in capitals, else PUBLISHER."""
    curator = re.sub(r"[^A-Z0-9]+", "_", sentence(explanation.values, "accountability.curator").upper()).strip("_")
    return curator if _NAME.fullmatch(curator) else "PUBLISHER"


def sdmx_paths(explanation: RecordExplanation) -> Iterable[tuple[str, WrittenFile]]:
    """Yield name and file of each table."""
    for file in explanation.files:
        if file.role == DATA and file.path.endswith(".parquet"):
            yield file.path.removeprefix(f"{DATA}/").removesuffix(".parquet"), file


def sdmx_tables(explanation: RecordExplanation, read: ReadData) -> tuple[SdmxTable, ...]:
    """Describe all tables of a version.

    Args:
        explanation: what its record says.
        read: returns the bytes of a data file.
    Raises:
        OSError, ArrowException: a file cannot be read.
    Privacy: reads published files only.
    """
    words, lists = FileWords.of(explanation), _Codelists()
    columns = [each["name"] for each in explanation.record["replay"]["contract"]["columns"]]
    period = str(explanation.values["identity.reference_period"])
    found = []
    for number, (name, file) in enumerate(sdmx_paths(explanation), 1):
        labels = _labels(read(file.path), [each for each, _ in file.columns if each in columns])
        means = words.columns(file)
        dimensions = tuple(lists.dimension(column, columns.index(column) + 1, labels[column]) for column in labels)
        values = [_value(place, column, means) for place, column in enumerate(file.columns, 1)]
        kept = [each for each in values if each.column not in {*labels, *words.beside, SUPPRESSED}]
        counts = any(each.name == OBS_VALUE for each in kept)
        apart = {each.column for each in kept if counts and each.column in _ATTRIBUTES}
        found.append(
            SdmxTable(
                name=name,
                path=file.path,
                flow=identifier(name, f"TABLE_{number}"),
                dimensions=dimensions or (lists.total(),),
                measures=tuple(each for each in kept if each.column not in apart),
                attributes=tuple(each for each in kept if each.column in apart),
                means=words.rows(file),
                period=period.replace("-H", "-S") if _PERIOD.fullmatch(period) else None,
            )
        )
    return tuple(found)


def _labels(data: bytes, columns: list[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the labels of columns of a Parquet file, in the order in which it lists them."""
    with pq.ParquetFile(pa.BufferReader(data), read_dictionary=columns) as file:
        groups = [file.read_row_group(group, columns=columns) for group in range(file.num_row_groups)]
    return {
        name: tuple(dict.fromkeys(label for group in groups for label in _dictionary(group.column(name))))
        for name in columns
    }


def _dictionary(column: pa.ChunkedArray) -> list[str]:
    return [label for chunk in column.chunks for label in chunk.dictionary.to_pylist()]


def _value(place: int, column: tuple[str, str], means: Mapping[str, str]) -> SdmxValue:
    name, kind = column
    data_type = _TYPES.get(kind, "Long")
    own = OBS_VALUE if name == "count" else identifier(name, f"VALUE_{place}")
    return SdmxValue(own, name, data_type, means.get(name, name))


class _Codelists:
    """The lists of codes of all tables: the same labels of a column are one list."""

    def __init__(self) -> None:
        self._known: dict[str, list[tuple[str, ...]]] = {}

    def dimension(self, column: str, place: int, labels: tuple[str, ...]) -> SdmxDimension:
        """Give a column's labels their list."""
        name = identifier(column, f"DIMENSION_{place}")
        known = self._known.setdefault(name, [])
        if labels not in known:
            known.append(labels)
        number = known.index(labels)
        return SdmxDimension(
            name, column, labels, codes_of(labels), f"CL_{name}" if not number else f"CL_{name}_{number + 1}"
        )

    def total(self) -> SdmxDimension:
        """Return the dimension of a table without columns."""
        return SdmxDimension(TOTAL, "", ("Total",), ("_T",), f"CL_{TOTAL}")


def codes_of(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return a code for each label: itself where all may be codes, else its place from 1; `_U` for "(null)"."""
    whole = all(_CODE.fullmatch(label) for label in labels if label != NULL_LABEL)
    return tuple(
        "_U" if label == NULL_LABEL else label if whole else str(place) for place, label in enumerate(labels, 1)
    )
