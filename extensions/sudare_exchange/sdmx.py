"""SDMX 3.0: the structures of a version's tables as SDMX-JSON 2.0, and each table as SDMX-CSV 2.0.

A table has dimensions with codes, measures and attributes, each with an identifier of its own. Labels of a column are
the codes where all of them may be codes, and otherwise their places in the declared order, from 1. "(null)" is `_U`,
unknown. A count is the measure OBS_VALUE, and its interval two attributes. Every statistic is a measure. OBS_STATUS
is `E`, an estimate, or `Q`, suppressed (SDMX Cross-Domain Code List for Observation Status). A table without
columns has the dimension TOTAL with the one code `_T`.

Source: SDMX Technical Specifications 3.0, SDMX-JSON 2.0.0 (structure message) and SDMX-CSV 2.0.0 (data message).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.contract.contract import Contract
from contracts.domains.domain import NULL_LABEL
from contracts.reading.scalars import Problem
from contracts.release.exchange_forms import EXCHANGE, ExchangeFiles
from contracts.release.product import ProductSpec
from contracts.release.tables.tables import SUPPRESSED
from tasks.records.descriptions.descriptions import FileWords, dataset_description
from tasks.records.files.csv_rows import write_csv
from tasks.records.files.tidy_tables import DATA, WrittenFile
from tasks.records.public_text import sentence
from tasks.records.record import RecordExplanation

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


STRUCTURES: Final = f"{EXCHANGE}sdmx/structures.json"
_SCHEMA: Final = "https://json.sdmx.org/2.0.0/sdmx-json-structure-schema.json"
_STATUS: Final = f"CL_{OBS_STATUS}"
_STATUSES: Final = {"E": "Estimated value", "Q": "Missing value; suppressed"}
_CLASSES: Final = {
    "codelist": "codelist.Codelist",
    "concepts": "conceptscheme.ConceptScheme",
    "structure": "datastructure.DataStructure",
    "flow": "datastructure.Dataflow",
}


def sdmx_files(explanation: RecordExplanation, read: ReadData) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the files of SDMX with their bytes, piece by piece.

    Args:
        explanation: what the record says.
        read: returns the bytes of a data file.
    Raises:
        OSError, ArrowException: a data file cannot be read.
    Privacy: reads published files only.
    """
    tables = sdmx_tables(explanation, read)
    writer = _StructureWriter(explanation, tables)
    # Readers look for the name of the schema at the beginning: keys stay in their order.
    text = json.dumps(writer.message(), indent=2, ensure_ascii=False, allow_nan=False)
    yield STRUCTURES, iter((f"{text}\n".encode(),))
    for table in tables:
        yield table.data_path, _rows(table, writer.flow_name(table), read(table.path))


class _StructureWriter:
    """Writes code lists, concepts, data structures and data flows of a version, all of one maintainer and version."""

    def __init__(self, explanation: RecordExplanation, tables: tuple[SdmxTable, ...]) -> None:
        self._values, self._tables = explanation.values, tables
        self._agency, self._release = maintainer(explanation), str(explanation.record["release"])
        self._version = f"{explanation.record['version']}.0.0"
        self._concepts = f"CS_{self._release}"

    def flow_name(self, table: SdmxTable) -> str:
        """Name a table's data flow as SDMX-CSV does."""
        return f"{self._agency}:{self._flow(table)}({self._version})"

    def message(self) -> dict[str, Any]:
        """Return the structure message."""
        hour = self._values["identity.measured_hour"]
        name = f"{self._release}-v{self._version.partition('.')[0]}"
        return {
            "meta": {
                "schema": _SCHEMA,
                "id": name,
                "test": False,
                "prepared": f"{hour[:16]}:00Z",
                "contentLanguages": ["en"],
                "sender": {"id": self._agency},
            },
            "data": {
                "conceptSchemes": [self._concept_scheme()],
                "codelists": [*self._codelists()],
                "dataStructures": [self._structure(table) for table in self._tables],
                "dataflows": [self._dataflow(table) for table in self._tables],
            },
        }

    def _flow(self, table: SdmxTable) -> str:
        return f"DF_{self._release}_{table.flow}"

    def _urn(self, kind: str, name: str) -> str:
        return f"urn:sdmx:org.sdmx.infomodel.{_CLASSES[kind]}={self._agency}:{name}({self._version})"

    def _concept(self, name: str) -> str:
        about = f"{self._agency}:{self._concepts}({self._version}).{name}"
        return f"urn:sdmx:org.sdmx.infomodel.conceptscheme.Concept={about}"

    def _maintained(self, name: str, title: str) -> dict[str, Any]:
        return {"id": name, "agencyID": self._agency, "version": self._version, "name": title}

    def _concept_scheme(self) -> dict[str, Any]:
        concepts = {PERIOD: "Time that the account of the release covers"} if self._tables[0].period else {}
        concepts[OBS_STATUS] = "Status of the observation"
        for table in self._tables:
            concepts |= {each.name: each.column or "Total" for each in table.dimensions}
            concepts |= {each.name: each.means for each in (*table.measures, *table.attributes)}
        return {
            **self._maintained(self._concepts, f"Concepts of {self._release}"),
            "concepts": [{"id": name, "name": title} for name, title in sorted(concepts.items())],
        }

    def _codelists(self) -> Iterator[dict[str, Any]]:
        lists = {each.codelist: each for table in self._tables for each in table.dimensions}
        for name, each in sorted(lists.items()):
            codes = [{"id": code, "name": label} for code, label in zip(each.codes, each.labels, strict=True)]
            yield {**self._maintained(name, f"Labels of {each.column or 'the total'}"), "codes": codes}
        codes = [{"id": code, "name": title} for code, title in _STATUSES.items()]
        yield {**self._maintained(_STATUS, "Status of an observation"), "codes": codes}

    def _structure(self, table: SdmxTable) -> dict[str, Any]:
        status = {
            "id": OBS_STATUS,
            "usage": "mandatory",
            "conceptIdentity": self._concept(OBS_STATUS),
            "attributeRelationship": {"observation": {}},
            "localRepresentation": {"enumeration": self._urn("codelist", _STATUS)},
        }
        attributes = [
            {**self._valued(each), "attributeRelationship": {"observation": {}}} for each in table.attributes
        ]
        dimensions: dict[str, Any] = {
            "id": "DimensionDescriptor",
            "dimensions": [self._dimension(each, place) for place, each in enumerate(table.dimensions)],
        }
        if table.period:
            representation = {"format": {"dataType": "ObservationalTimePeriod"}}
            identity = {"id": PERIOD, "conceptIdentity": self._concept(PERIOD)}
            dimensions["timeDimension"] = {**identity, "localRepresentation": representation}
        return {
            **self._maintained(f"DSD_{self._release}_{table.flow}", f"Structure of {table.name}"),
            "dataStructureComponents": {
                "dimensionList": dimensions,
                "measureList": {
                    "id": "MeasureDescriptor",
                    "measures": [self._valued(each) for each in table.measures],
                },
                "attributeList": {"id": "AttributeDescriptor", "attributes": [*attributes, status]},
            },
        }

    def _dimension(self, dimension: SdmxDimension, place: int) -> dict[str, Any]:
        return {
            "id": dimension.name,
            "position": place,
            "conceptIdentity": self._concept(dimension.name),
            "localRepresentation": {"enumeration": self._urn("codelist", dimension.codelist)},
        }

    def _valued(self, value: SdmxValue) -> dict[str, Any]:
        return {
            "id": value.name,
            "usage": "optional",
            "conceptIdentity": self._concept(value.name),
            "localRepresentation": {"format": {"dataType": value.data_type}},
        }

    def _dataflow(self, table: SdmxTable) -> dict[str, Any]:
        return {
            **self._maintained(self._flow(table), f"{table.name} of {self._release}"),
            "description": f"{dataset_description(self._values)} {table.means}",
            "structure": self._urn("structure", f"DSD_{self._release}_{table.flow}"),
        }


def _columns(table: SdmxTable) -> list[str]:
    return [each.column for each in table.dimensions if each.column]


def _rows(table: SdmxTable, flow: str, data: bytes) -> Iterator[bytes]:
    """Yield the rows of a table as SDMX-CSV, a row group at a time."""
    with pq.ParquetFile(pa.BufferReader(data), read_dictionary=_columns(table)) as file:
        for group in range(max(1, file.num_row_groups)):
            rows = file.read_row_group(group) if file.num_row_groups else file.schema_arrow.empty_table()
            sink = BytesIO()
            write_csv(_observations(rows, table, flow), sink, header=group == 0, formulas=None)
            yield sink.getvalue()


def _observations(rows: pa.Table, table: SdmxTable, flow: str) -> pa.Table:
    """Write rows of labels and values as observations."""
    same = {"STRUCTURE": "dataflow", "STRUCTURE_ID": flow, "ACTION": "I"}
    columns: dict[str, Any] = {name: _repeated(text, rows.num_rows) for name, text in same.items()}
    for dimension in table.dimensions:
        columns[dimension.name] = (
            _coded(rows.column(dimension.column), dimension)
            if dimension.column
            else _repeated(dimension.codes[0], rows.num_rows)
        )
    if table.period:
        columns[PERIOD] = _repeated(table.period, rows.num_rows)
    columns |= {each.name: rows.column(each.column) for each in (*table.measures, *table.attributes)}
    gone = rows.column(SUPPRESSED).combine_chunks() if SUPPRESSED in rows.column_names else None
    status = pa.array(["E", "Q"])
    places = pa.array([0] * rows.num_rows, pa.int8()) if gone is None else gone.cast(pa.int8())
    columns[OBS_STATUS] = pa.DictionaryArray.from_arrays(places, status)
    return pa.table(columns)


def _coded(column: pa.ChunkedArray, dimension: SdmxDimension) -> pa.ChunkedArray:
    """Put codes in the place of labels."""
    codes = dict(zip(dimension.labels, dimension.codes, strict=True))
    chunks = [
        pa.DictionaryArray.from_arrays(
            chunk.indices, pa.array([codes[each] for each in chunk.dictionary.to_pylist()])
        )
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(column.type.index_type, pa.string()))


def _repeated(text: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([text]))


def _problems(formats: Sequence[str], product: ProductSpec, contract: Contract) -> Iterator[Problem]:
    if not product.labelled(contract):
        remedy = "drop `sdmx`; its observations are the cells of tables and statistics"
        yield Problem(f"sdmx with kind {product.kind}", "kind tables or statistics", remedy)


FILES: Final = ExchangeFiles(sdmx_files, _problems)
