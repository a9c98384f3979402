"""A small table with units for the tests of engines: Parquet files, and rows that tie, misfit and are missing."""

from pathlib import Path

import duckdb

from contracts.contract.contract import Contract
from contracts.domains.statements import ValueKind
from contracts.release.source import Source
from sudare_engines.portable_sql import Dialect
from sudare_engines.staging import KEY_COLUMNS, KEYS
from tasks.storage.snapshot.snapshot import choice_keys, order_keys
from tests.tasks.intake import make_contract

KINDS: dict[str, ValueKind] = {"person": "text", "age": "whole", "sex": "text", "wage": "real", "since": "day"}
FILES, UNITS, MOST = 3, 400, 3


class Answering:
    """What a stage asks of its engine beside answers: how it is called, and what SQL it is sent."""

    name = "Spark"
    dialect: Dialect = "pyspark"
    remedy = "Look at it, and run again"


def write_people(folder: Path, *, rows: int = 3000) -> Source:
    """Write three Parquet files of people: about seven rows a unit, some ids with spaces around them."""
    folder.mkdir()
    values = f"""
        SELECT CASE WHEN i % 5 = 0 THEN ' ' ELSE '' END || 'ü' || (i * i * 7 + i) % {UNITS} AS person,
            CASE WHEN i % 11 = 0 THEN NULL ELSE (i * 31 % 130)::INTEGER - 10 END AS age,
            CASE i % 7 WHEN 0 THEN NULL WHEN 1 THEN 'X' WHEN 2 THEN 'F\u2003' WHEN 3 THEN 'F' ELSE 'M' END AS sex,
            CASE i % 13 WHEN 0 THEN NULL WHEN 1 THEN 'nan'::DOUBLE WHEN 2 THEN 'inf'::DOUBLE WHEN 3 THEN 12.5
                ELSE i % 1100 / 0.9 END AS wage,
            CASE WHEN i % 17 = 0 THEN NULL ELSE DATE '2019-06-01' + (i * 13 % 2500)::INTEGER END AS since
        FROM range({rows}) t(i)
    """
    with duckdb.connect() as connection:
        for part in range(FILES):
            target = str(folder / f"part-{part}.parquet")
            connection.execute(
                f"COPY (SELECT * FROM ({values}) WHERE hash(person, age) % {FILES} = {part}) TO '{target}'"
            )
    return Source(path=folder, files="parquet")


def people_contract(folder: Path, *, gates: tuple[str, ...] = ()) -> Contract:
    return make_contract(folder, rows_per_unit=MOST, gates=gates)


def write_keys(connection: duckdb.DuckDBPyConnection, key: bytes) -> None:
    values = ", ".join(
        f"'{each}' AS {name}"
        for name, each in zip(KEY_COLUMNS, (*choice_keys(key), *order_keys(key), "", ""), strict=True)
    )
    connection.execute(f"CREATE OR REPLACE TABLE {KEYS} AS SELECT {values}")
