"""Linked tables for the tests: a contract of patients, their visits and orders, wards and hospitals; random rows."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import polars as pl

from contracts.contract.contract import Contract
from contracts.contract.linked_tables import LinkedTables
from contracts.contract.odcs import load_contract
from contracts.domains.domain import NULL_LABEL
from tasks.storage.snapshot.linked_rows import INNER, OUTER, delivered_name, flatten

Row = dict[str, object]
Rows = dict[str, list[Row]]
UNIT = "{kind: id, table: patient, column: patient_id, max_rows_per_unit: 1, scope: block}"
LINKS = """[
            {from: visit.patient, to: patient.patient_id, at_most: 3},
            {from: drug.visit, to: visit.visit_id, at_most: 2},
            {from: patient.ward, to: ward.code},
            {from: visit.hospital, to: hospital.hospital_id},
            {from: hospital.town, to: town.town_id}]"""
CATEGORIES = "{kind: categories, values: [%s], nulls: {policy: category}, provenance: {kind: declared}}"
COUNT = (
    "{kind: integer, bounds: [0, %d], bins: {width: 1}, nulls: {policy: map, to: 0}, provenance: {kind: declared}}"
)
CODE = "{kind: categories, values: ['1', '2', '3'], nulls: {policy: category}, provenance: {kind: declared}}"
TABLES: Mapping[str, Sequence[tuple[str, str, str, str]]] = {
    "patient": [
        ("patient_id", "string", "", ""),
        ("ward", "integer", "", ""),
        ("sex", "string", CATEGORIES % "F, M", ""),
        ("visits", "integer", COUNT % 3, "{count: visit}"),
        ("urgent", "integer", COUNT % 3, "{count: visit, where: {kind: [urgent]}}"),
    ],
    "visit": [
        ("visit_id", "integer", "", ""),
        ("patient", "string", "", ""),
        ("hospital", "integer", "", ""),
        ("kind", "string", CATEGORIES % "urgent, planned", ""),
        ("drugs", "integer", COUNT % 2, "{count: drug}"),
    ],
    "drug": [("visit", "integer", "", ""), ("kind", "string", CATEGORIES % "a, b, c", "")],
    "ward": [("code", "integer", CODE, ""), ("floor", "string", CATEGORIES % "low, high", "")],
    "hospital": [
        ("hospital_id", "integer", "", ""),
        ("town", "integer", "", ""),
        ("beds", "string", CATEGORIES % "few, many", ""),
    ],
    "town": [("town_id", "integer", "", ""), ("coast", "string", CATEGORIES % "yes, no", "")],
}


def contract_text(
    unit: str = UNIT,
    links: str = LINKS,
    tables: Mapping[str, Sequence[tuple[str, str, str, str]]] = TABLES,
    *,
    adjacency: str = "add_remove",
    more: str = "",
) -> str:
    lines = ["apiVersion: v3.1.0", "kind: DataContract", "id: clinic", "name: Clinic", "version: 1.0.0"]
    lines += ["status: active", "description: {purpose: tests, limitations: none, usage: tests}"]
    lines += ["customProperties:", "  - property: privacy", "    value:", f"          unit: {unit}"]
    lines += [f"          adjacency: {adjacency}", f"          links: {links}", *([more] if more else []), "schema:"]
    for name, columns in tables.items():
        lines += [f"  - name: {name}", "    logicalType: object", "    properties:"]
        for column, kind, domain, derived in columns:
            lines += [f"      - name: {column}", f"        logicalType: {kind}"]
            lines += ["        customProperties:"] if domain or derived else []
            for block, value in (("domain", domain), ("derived", derived)):
                lines += [f"          - property: {block}", f"            value: {value}"] if value else []
    return "\n".join(lines) + "\n"


def linked_contract(folder: Path, text: str = "") -> Contract:
    path = folder / "contract.odcs.yaml"
    path.write_text(text or contract_text())
    return load_contract(path)


def linked_of(contract: Contract) -> LinkedTables:
    assert contract.linked is not None
    return contract.linked


def random_rows(chance: random.Random, contract: Contract) -> Rows:
    """Make up few rows with keys from 1 to 5: some dangle, are missing or occur twice, and parents are crowded."""
    sizes = {"patient": 6, "visit": 14, "drug": 30}
    return {
        table.name: [
            {key.name: _key(chance, key.logical_type) for key in table.row_keys}
            | {column.name: _value(chance, column.labels) for column in table.delivered}
            for _ in range(chance.randint(3, sizes.get(table.name, 5)))
        ]
        for table in linked_of(contract).tables
    }


def beside(contract: Contract, worlds: Sequence[Rows]) -> Rows:
    """Put worlds beside each other: each has keys of its own, so that none meets another."""
    found: Rows = {}
    for table in linked_of(contract).tables:
        keys = {link.child_column for link in linked_of(contract).upward(table.name)}
        keys |= {link.parent_column for link in linked_of(contract).terms.links if link.parent == table.name}
        keys |= {str(linked_of(contract).terms.unit.column)}
        found[table.name] = [
            {name: _moved(value, place) if name in keys else value for name, value in row.items()}
            for place, rows in enumerate(worlds)
            for row in rows[table.name]
        ]
    return found


def _moved(key: object, place: int) -> object:
    if key is None:
        return None
    return f"{place * 10 + int(str(key))}" if isinstance(key, str) else place * 10 + int(str(key))


def _value(chance: random.Random, labels: Sequence[str]) -> object:
    label = chance.choice(labels)
    return None if label == NULL_LABEL else label


def _key(chance: random.Random, kind: str) -> object:
    number = None if chance.random() < 0.1 else chance.randint(1, 5)
    return str(number) if kind == "string" and number is not None else number


def flat_rows(contract: Contract, rows: Rows, base: str, key: str = "key") -> list[Row]:
    """Join rows as a run does, in memory, under a key."""
    linked = linked_of(contract)
    with duckdb.connect() as connection:
        for table in linked.tables:
            columns = ", ".join(f'"{name}" {_TYPES[table.types[name]]}' for name in table.source_columns)
            place = delivered_name(linked, table.name)
            connection.execute(f"CREATE TABLE {place} ({columns})")
            given = [
                [None if row[name] is None else str(row[name]) for name in table.source_columns]
                for row in rows[table.name]
            ]
            frame = pl.DataFrame(given, schema=dict.fromkeys(table.source_columns, pl.String), orient="row")
            connection.register("given", frame.to_arrow())
            connection.execute(f"INSERT INTO {place} FROM given")
        connection.execute(f"SET VARIABLE {OUTER} = '{key}1'; SET VARIABLE {INNER} = '{key}2'")
        flatten(linked, base, connection, lambda statement: connection.execute(statement))
        found = connection.execute("FROM flat")
        names = [each[0] for each in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


_TYPES = {"integer": "BIGINT", "string": "VARCHAR"}
