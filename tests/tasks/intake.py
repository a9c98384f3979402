"""A small contract and source for the tests of ingest and validate."""

from pathlib import Path

import duckdb
import pytest

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.domains.value_sql import identifier
from contracts.errors import Refused
from contracts.release.spec import Source
from privacy.private_table import PrivateTable
from tasks.ingest import ingest
from tasks.storage.snapshot.snapshot import ROW

KEY = bytes(range(32))
SECRET = "Xq7-secret"

CONTRACT = """\
apiVersion: v3.1.0
kind: DataContract
id: people
name: People
version: 1.0.0
status: active
description: {purpose: tests, limitations: none, usage: tests}
schema:
  - name: people
    logicalType: object
    physicalType: table
    customProperties:
      - property: privacy
        value:
          unit: UNIT
          adjacency: add_remove
          invariants: []
          structural_zeros: []
          gates: GATES
    properties:IDPROPERTY
      - name: age
        logicalType: integer
        customProperties:
          - property: domain
            value:
              kind: integer
              bounds: [0, 99]
              bins: {width: 10}
              nulls: {policy: category}
              missing: ["?"]
              provenance: {kind: declared}
      - name: sex
        logicalType: string
        customProperties:
          - property: domain
            value: {kind: categories, values: [F, M], nulls: {policy: category}, provenance: {kind: declared}}
      - name: wage
        logicalType: number
        customProperties:
          - property: domain
            value:
              kind: decimal
              bounds: [0, 1000]
              bins: {edges: [0, 12.5, 100, 1000]}
              nulls: {policy: category}
              provenance: {kind: declared}
      - name: since
        logicalType: date
        customProperties:
          - property: domain
            value:
              kind: date
              bounds: [2020-01-01, 2024-12-31]
              granularity: year
              nulls: {policy: category}
              provenance: {kind: declared}
"""
ID_PROPERTY = "\n      - name: person\n        logicalType: string"
HEADER = "age,sex,wage,since"
ROWS = ("34,F,10.5,2021-03-01", "17,M,700,2020-01-01", "?,F,,2024-12-31", "120,X,12.5,1999-01-01")


def make_contract(folder: Path, *, rows_per_unit: int | None = None, gates: tuple[str, ...] = ()) -> Contract:
    unit = "{kind: row, scope: block}"
    if rows_per_unit is not None:
        unit = f"{{kind: id, scope: block, column: person, max_rows_per_unit: {rows_per_unit}}}"
    text = CONTRACT.replace("UNIT", unit).replace("GATES", str(list(gates)))
    text = text.replace("IDPROPERTY", ID_PROPERTY if rows_per_unit is not None else "")
    path = folder / "people.odcs.yaml"
    path.write_text(text)
    return load_contract(path)


def write_csv(folder: Path, *rows: str, header: str = HEADER, name: str = "people.csv") -> Source:
    path = folder / name
    path.write_text("\n".join((header, *rows)) + "\n")
    return Source(path=path)


def take_in(source: Source, contract: Contract, folder: Path, *, key: bytes = KEY) -> PrivateTable:
    return ingest(source, contract, folder=folder / "run", key=key, memory_limit="256MB")


def refusal(folder: Path, source: Source, kind: type[Refused], *, rows_per_unit: int | None = None) -> str:
    """Ingest, expect a refusal of that kind, and return its message, which quotes no value and leaves no file."""
    with pytest.raises(kind) as raised:
        take_in(source, make_contract(folder, rows_per_unit=rows_per_unit), folder)
    assert raised.value.__context__ is None
    assert SECRET not in str(raised.value)
    assert not list((folder / "run").glob("*"))
    assert all(finding.found and finding.allowed and finding.remedy for finding in raised.value.findings)
    return str(raised.value)


def contents(path: Path, table: str) -> list[tuple[object, ...]]:
    """The rows of a snapshot, as written (`raw`) or as codes, without their numbers."""
    columns = f"* EXCLUDE ({identifier(ROW)})" if table == "raw" else "*"
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(f"SELECT {columns} FROM {table}").fetchall()


def large_csv(folder: Path, rows: int = 600_000) -> Source:
    """A CSV whose reading takes a while; the wages do not compress."""
    path = folder / "large.csv"
    duckdb.sql(
        f"SELECT i % 99 AS age, 'F' AS sex, (hash(i) % 10000019) / 1e4 AS wage, '2021-01-01' AS since "
        f"FROM range({rows}) t(i)"
    ).write_csv(str(path))
    return Source(path=path)
