"""SDMX 3.0: the structures of a version's tables as SDMX-JSON 2.0, and each table as SDMX-CSV 2.0.

Source: SDMX Technical Specifications 3.0, SDMX-JSON 2.0.0 (structure message) and SDMX-CSV 2.0.0 (data message).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from contracts.release.exchange_forms import EXCHANGE
from contracts.release.tables.minimum_frequency import SUPPRESSED
from tasks.records.descriptions.file_words import dataset_description
from tasks.records.exchange.sdmx_tables import (
    OBS_STATUS,
    PERIOD,
    ReadData,
    SdmxDimension,
    SdmxTable,
    SdmxValue,
    maintainer,
    sdmx_tables,
)
from tasks.records.explanation import RecordExplanation
from tasks.records.files.csv_rows import write_csv

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
