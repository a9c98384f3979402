"""Validate: real Great Expectations on the snapshot, one bit a check, and nothing else leaves."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.contract.contract import Contract, checks
from contracts.domains.statements import Check
from contracts.errors import GateBroken, SudareError
from contracts.release.spec import Source
from contracts.sql.encoding import violation_sql
from privacy.private_table import PrivateTable
from tasks.records.facts import CheckOutcome
from tasks.storage import progress
from tasks.validate import RESULT_FILE, validate, warm
from tasks.validation.misfits import misfits
from tests.tasks.intake import HEADER, ROWS, SECRET, make_contract, take_in, write_csv

REAL = (pytest.mark.real_validator, pytest.mark.long)
BOTH = [pytest.param("its stand-in"), pytest.param("Great Expectations", marks=REAL)]
CLEAN = ("34,F,10.5,2021-03-01", "17,M,700,2020-01-01")


@pytest.fixture(params=BOTH, autouse=True)
def _validator() -> None:
    """Both validators answer each case alike."""


@pytest.fixture(scope="module")
def messy(tmp_path_factory: pytest.TempPathFactory) -> tuple[PrivateTable, Contract]:
    """Rows of which some break every check that is not a gate."""
    folder = tmp_path_factory.mktemp("messy")
    contract = make_contract(folder)
    return take_in(
        write_csv(folder, *ROWS, f"{SECRET},{SECRET},{SECRET},{SECRET}", ",,-1,"), contract, folder
    ), contract


def outcome(table: PrivateTable, contract: Contract, folder: Path) -> dict[str, bool]:
    return {each.name: each.passed for each in validate(table, contract, folder=folder)}


def of_rows(folder: Path, *rows: str, gates: tuple[str, ...] = ()) -> dict[str, bool]:
    contract = make_contract(folder, gates=gates)
    return outcome(take_in(write_csv(folder, *rows), contract, folder), contract, folder / "run")


def test_each_check_of_the_contract_gets_its_bit_in_order(messy: tuple[PrivateTable, Contract], tmp_path: Path):
    table, contract = messy
    outcomes = validate(table, contract, folder=tmp_path)
    assert [each.name for each in outcomes] == [check.name for check in checks(contract)]
    assert [each.name for each in outcomes if each.passed] == ["columns", "rows"]
    assert [each.name for each in outcomes if each.gate] == ["columns"]


def test_clean_rows_pass_everything(tmp_path: Path):
    assert all(of_rows(tmp_path, *CLEAN).values())


def test_a_value_that_cannot_be_written_as_a_text_stops_nothing(tmp_path: Path):
    """One person's earliest timestamp is a date out of bounds like any other, and is not taken for a null."""
    earliest = pa.array([-(2**63), 1_614_556_800_000_000], pa.int64()).cast(pa.timestamp("us"))
    rows = {"age": [34, 17], "sex": ["F", "M"], "wage": [10.5, 700.0], "since": earliest}
    pq.write_table(pa.table(rows), tmp_path / "people.parquet")
    contract = make_contract(tmp_path)
    table = take_in(Source(path=tmp_path / "people.parquet"), contract, tmp_path)
    outcomes = outcome(table, contract, tmp_path / "run")
    assert [name for name, passed in outcomes.items() if not passed] == ["domain:since"]


def test_nothing_but_names_and_bits_leaves(
    messy: tuple[PrivateTable, Contract],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
):
    table, contract = messy
    caplog.set_level(logging.DEBUG)
    outcomes = validate(table, contract, folder=tmp_path)
    assert all(type(each) is CheckOutcome for each in outcomes)
    assert all(list(map(type, dataclasses.astuple(each))) == [str, bool, bool] for each in outcomes)
    ours = [record.getMessage() for record in caplog.records]
    assert ours == ["validated: 13 checks, all 1 gates hold"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.real_validator
def test_the_full_result_goes_to_a_private_file(messy: tuple[PrivateTable, Contract], tmp_path: Path):
    table, contract = messy
    validate(table, contract, folder=tmp_path)
    path = tmp_path / RESULT_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SECRET in path.read_text()
    suites = json.loads(path.read_text())["suites"]
    named = {result["expectation_config"]["meta"]["check"] for suite in suites for result in suite["results"]}
    assert named == {check.name for check in checks(contract)}


def test_the_snapshot_is_not_changed(messy: tuple[PrivateTable, Contract], tmp_path: Path):
    table, contract = messy
    before = hashlib.sha256(table.path.read_bytes()).digest()
    validate(table, contract, folder=tmp_path)
    assert hashlib.sha256(table.path.read_bytes()).digest() == before


NASTY = (
    " 34 ,  F, 12.5 , 2021-03-01 ",
    "34.5,F ,nan,2021-03-01 12:30:00",
    "inf,M,-inf,infinity",
    "-0,?,-0.0,2020-02-30",
    "99.000001,f,1000.0000001,2025-01-01",
    "1e1,'F',0x10,20210301",
    " ? ,F,1000,?",
)


@pytest.mark.parametrize("row", NASTY)
def test_every_outcome_is_that_of_the_contracts_own_sql(tmp_path: Path, row: str):
    """A second derivation: `contracts.sql.encoding` counted on the rows of the file by DuckDB alone."""
    contract = make_contract(tmp_path)
    source = write_csv(tmp_path, CLEAN[0], row)
    table = take_in(source, contract, tmp_path)
    expected = {"columns": True, "rows": True}
    with duckdb.connect() as connection:
        for check in checks(contract)[2:]:
            rows = f"read_csv('{source.path}', all_varchar = true, delim = ',', quote = '\"')"
            broken = f"SELECT 1 FROM {rows} WHERE {violation_sql(check, contract)}"
            expected[check.name] = not connection.execute(broken).fetchall()
    assert outcome(table, contract, tmp_path / "run") == expected


def test_typed_columns_are_judged_like_texts(tmp_path: Path):
    contract = make_contract(tmp_path)
    source = write_csv(tmp_path, *ROWS).model_copy(
        update={
            "select": "SELECT TRY_CAST(age AS INTEGER) AS age, sex, CAST(wage AS DOUBLE) AS wage, "
            "CAST(since AS DATE) AS since FROM source",
            "types": {"age": "text", "wage": "text", "since": "text"},
        }
    )
    found = outcome(take_in(source, contract, tmp_path), contract, tmp_path / "run")
    failed = ["nulls:age", "domain:age", "domain:sex", "nulls:wage", "domain:since"]
    assert [name for name, passed in found.items() if not passed] == failed


def test_a_column_of_nulls_alone_is_unreadable_in_nothing(tmp_path: Path):
    found = of_rows(tmp_path, ",,,", ",,,")
    assert {name for name, passed in found.items() if not passed} == {
        f"nulls:{name}" for name in ("age", "sex", "wage", "since")
    }


def test_a_broken_gate_stops_and_tells_the_gate_alone(tmp_path: Path):
    """Neither the value, nor how many, nor which other checks fail."""
    with pytest.raises(GateBroken) as raised:
        of_rows(tmp_path, *CLEAN, f"{SECRET},{SECRET},7771,1888-08-08", gates=("domain:sex", "nulls:age"))
    error = raised.value
    assert str(error) == (
        "contract people, column 'sex': gate domain:sex\n"
        "    found: rows for which it does not hold\n"
        "    allowed: one of 'F', 'M'\n"
        "    do: correct the data, or take 'domain:sex' out of the contract's `gates`"
    )
    assert error.__context__ is None
    assert error.exit_code == 3
    assert (tmp_path / "run" / RESULT_FILE).exists()


GATES = {
    "nulls:age": "allowed: a value in every row",
    "type:age": "allowed: a whole number in every row that has a value",
    "domain:age": "allowed: a whole number from 0 to 99",
    "domain:since": "allowed: a date from 2020-01-01 to 2024-12-31",
}


def test_every_kind_of_gate_says_what_it_allows(tmp_path: Path):
    with pytest.raises(GateBroken) as raised:
        of_rows(tmp_path, *ROWS, "x,F,1,2020-01-01", gates=tuple(GATES))
    assert [finding.field for finding in raised.value.findings] == [f"gate {name}" for name in GATES]
    assert all(allowed in str(raised.value) for allowed in GATES.values())


SELECTS_OF_ONE_OR_NOBODY = ("age = '17'", "age = '18'", "sex = 'F' AND age = '17'", "false")


@pytest.mark.parametrize("ids", [False, True])
def test_a_select_that_keeps_nobody_stops_nothing(tmp_path: Path, ids: bool):
    """Whether somebody of 17 is there is no free answer; that nobody is, auditors and the operator see."""
    contract = make_contract(tmp_path, rows_per_unit=1 if ids else None)
    rows = [f"p{place},{row}" for place, row in enumerate(ROWS)] if ids else ROWS
    source = write_csv(tmp_path, *rows, header=f"person,{HEADER}" if ids else HEADER)
    found = {}
    for place, kept in enumerate(SELECTS_OF_ONE_OR_NOBODY):
        asked = source.model_copy(update={"select": f"SELECT * FROM source WHERE {kept}"})
        table = take_in(asked, contract, tmp_path / str(place))
        outcomes = validate(table, contract, folder=tmp_path / str(place) / "run")
        found[kept] = next(each.passed for each in outcomes if each.name == "rows")
        assert [each.name for each in outcomes if each.gate] == ["columns", "nulls:person"][: 1 + ids]
    assert list(found.values()) == [True, False, False, False]


def test_a_contract_may_declare_that_nobody_stops_the_release(tmp_path: Path):
    contract = make_contract(tmp_path, gates=("rows",))
    source = write_csv(tmp_path, *ROWS).model_copy(update={"select": "SELECT * FROM source WHERE false"})
    with pytest.raises(GateBroken, match="gate rows"):
        validate(take_in(source, contract, tmp_path), contract, folder=tmp_path / "run")


def test_the_id_column_is_checked_on_the_rows(tmp_path: Path):
    contract = make_contract(tmp_path, rows_per_unit=1)
    table = take_in(write_csv(tmp_path, f"p1,{CLEAN[0]}", header=f"person,{HEADER}"), contract, tmp_path)
    outcomes = validate(table, contract, folder=tmp_path / "run")
    assert CheckOutcome("nulls:person", passed=True, gate=True) in outcomes


@pytest.mark.real_validator
def test_an_exception_inside_great_expectations_is_our_error_and_not_bad_data(
    messy: tuple[PrivateTable, Contract], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import tasks.validation.expectations as expectations

    compiled = expectations.expectation

    def misnamed(check: Check) -> object:
        column = "nobody" if check.name == "nulls:sex" else check.column
        return compiled(dataclasses.replace(check, column=column))

    monkeypatch.setattr(expectations, "expectation", misnamed)
    table, contract = messy
    with pytest.raises(SudareError) as raised:
        validate(table, contract, folder=tmp_path)
    assert type(raised.value) is SudareError
    assert str(raised.value).startswith("checks that could not be run: nulls:sex. Report this.")
    assert SECRET not in str(raised.value)


def test_a_snapshot_that_is_gone_or_damaged_is_named(messy: tuple[PrivateTable, Contract], tmp_path: Path):
    _, contract = messy
    (tmp_path / "snapshot.duckdb").write_text("no database")
    for name in ("snapshot.duckdb", "nobody.duckdb"):
        with pytest.raises(SudareError, match=f"{name}: reading the snapshot"):
            validate(PrivateTable(tmp_path / name, "", contract.digest, "people.csv"), contract, folder=tmp_path)


def test_a_result_that_cannot_be_written_is_an_error(messy: tuple[PrivateTable, Contract], tmp_path: Path):
    table, contract = messy
    (tmp_path / RESULT_FILE).mkdir()
    with pytest.raises(SudareError, match="writing the result of validation"):
        validate(table, contract, folder=tmp_path)


@pytest.fixture
def interrupting() -> Iterator[None]:
    class Interrupter:
        def begin(self, name: str) -> Interrupter:
            return self

        def advance(self, fraction: float) -> None:
            signal.raise_signal(signal.SIGINT)

        def end(self, name: str, *, ok: bool) -> None:
            assert not ok

    progress.watch(Interrupter())
    yield
    progress.watch(None)


@pytest.mark.usefixtures("interrupting")
def test_ctrl_c_stops_the_validation(messy: tuple[PrivateTable, Contract], tmp_path: Path):
    table, contract = messy
    with pytest.raises(KeyboardInterrupt):
        validate(table, contract, folder=tmp_path)
    assert not (tmp_path / RESULT_FILE).exists()


def test_the_suite_is_one_that_a_reader_of_great_expectations_knows(tmp_path: Path):
    import great_expectations as gx

    from tasks.validation.distinct_values import DistinctValues
    from tasks.validation.expectations import suite

    listed = tuple(check for check in checks(make_contract(tmp_path)) if check.column in ("age", "sex"))
    compiled = suite(DistinctValues("values_0", "two columns", listed))
    assert isinstance(compiled, gx.ExpectationSuite)
    assert [(each.expectation_type, each.column) for each in compiled.expectations] == [
        ("expect_column_values_to_not_be_null", "age"),
        ("expect_column_values_to_not_be_null", "age as integer"),
        ("expect_column_values_to_be_between", "age as integer"),
        ("expect_column_values_to_not_be_null", "sex"),
        ("expect_column_values_to_be_in_set", "sex"),
    ]
    assert all(each.mostly == 1 for each in compiled.expectations)


@pytest.mark.services
@pytest.mark.real_validator
def test_great_expectations_is_imported_only_when_it_is_needed():
    program = "import sys, tasks.validate; sys.exit('great_expectations' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
    warm()
    assert "great_expectations" in sys.modules


@pytest.mark.parametrize("row", NASTY)
def test_the_operators_counts_and_the_checks_agree(tmp_path: Path, row: str):
    """Of one clean and one awkward row: what Great Expectations finds broken is what the operator is shown."""
    contract = make_contract(tmp_path)
    table = take_in(write_csv(tmp_path, CLEAN[0], row), contract, tmp_path)
    found = misfits(table, contract, folder=tmp_path / "run", memory_limit="1GB")
    passed = outcome(table, contract, tmp_path / "run")
    shown = {f"nulls:{each.column}": not each.null for each in found.columns}
    for column, each in zip(contract.columns, found.columns, strict=True):
        listed = column.domain.kind in ("categories", "mapping")
        shown |= {f"domain:{each.column}": not (each.unfit if listed else each.clipped)}
        shown |= {} if listed else {f"type:{each.column}": not each.unfit}
    assert {name: passed[name] for name in shown} == shown
    assert found.rows == 2
    assert "2" not in repr(found) + repr(found.columns[0])


def test_what_counts_as_astray(tmp_path: Path):
    """Clipped and unfit rows do; missing ones and those of a declared `other` do not, until no row fits at all."""
    contract = make_contract(tmp_path)
    rows = (*CLEAN, "200,X,,2021-03-01", ",F,,", "x,M,,")
    found = misfits(
        take_in(write_csv(tmp_path, *rows), contract, tmp_path), contract, folder=tmp_path / "run", memory_limit="1GB"
    )
    by_name = {each.column: each for each in found.columns}
    assert (by_name["age"].clipped, by_name["age"].unfit, by_name["age"].null) == (1, 1, 1)
    assert by_name["age"].astray == 2
    assert by_name["wage"].astray == 0
    assert dataclasses.replace(by_name["wage"], null=5).astray == 5
    caught = dataclasses.replace(by_name["sex"], unfit=1, expected=True)
    assert (caught.astray, dataclasses.replace(caught, expected=False).astray) == (0, 1)
