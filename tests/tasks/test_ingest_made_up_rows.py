"""The made-up rows of the benchmarks lie in the declared domain, and the same arguments give the same file."""

from pathlib import Path

import duckdb

from benchmarks.ten_million_rows_data import write_rows
from contracts.contract.contract import Contract, checks
from contracts.sql.encoding import violation_sql
from tests.tasks.intake import make_contract

ROWS = 20_000


def made_up(contract: Contract, folder: Path, seed: int = 1) -> Path:
    path = folder / f"made-up-{seed}.csv"
    write_rows(contract, path, rows=ROWS, seed=seed)
    return path


def test_values_lie_in_the_domain_and_a_few_are_missing(tmp_path: Path):
    contract = make_contract(tmp_path)
    path = made_up(contract, tmp_path)
    with duckdb.connect() as connection:
        for check in checks(contract)[2:]:
            rows = f"read_csv('{path}', all_varchar = true)"
            counted = f"SELECT count(*) FROM {rows} WHERE {violation_sql(check, contract)}"
            [broken] = connection.execute(counted).fetchone() or (None,)
            assert broken == 0 if check.kind != "not_null" else 100 < broken < 300, check.name


def test_units_have_some_more_and_some_fewer_rows_than_the_bound(tmp_path: Path):
    path = made_up(make_contract(tmp_path, rows_per_unit=3), tmp_path)
    sizes = duckdb.sql(f"SELECT count(*) FROM read_csv('{path}', all_varchar=true) GROUP BY person").fetchall()
    assert min(sizes)[0] < 3 < max(sizes)[0]


def test_the_seed_decides_the_file(tmp_path: Path):
    contract = make_contract(tmp_path)
    first = made_up(contract, tmp_path).read_bytes()
    assert made_up(contract, tmp_path).read_bytes() == first
    assert made_up(contract, tmp_path, seed=2).read_bytes() != first
