"""Releases of linked tables from files to versions: one account for all bases, and records that can be checked."""

import csv
import importlib.util
import json
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from benchmarks.orchestration import release_plainly
from contracts.errors import GateBroken, Refused, SourceUnreadable
from contracts.periods.time_blocks import time_block
from flows.request import read_request
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.ledger.entries import LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from privacy.private_table import PrivateTable
from tasks.ingest import ingest
from tasks.storage.snapshot.snapshot import SNAPSHOT
from tasks.storage.workspace.settings import Workspace
from tasks.validation.misfits import misfits
from tasks.verify import verify
from tests.tasks.intake import KEY

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "households"
CAP = 10 * PICO


class Town:
    """The shipped example in a workspace, with an account for its households."""

    def __init__(self, folder: Path) -> None:
        self.example = folder / "households"
        shutil.copytree(EXAMPLE, self.example)
        self.workspace = Workspace.create(folder / "w")
        terms = "households-2026", "made-up households", "2026", "household_id", "add_remove", PureCalculus()
        with self.ledger() as ledger:
            ledger.open_account(AccountTerms(*terms, CAP, 0))
            ledger.bind_source(str((self.example / "data").resolve()), "made-up households", time_block("2026"))

    def ledger(self) -> closing[Ledger]:
        return closing(self.workspace.open_ledger())

    def left(self) -> int:
        with self.ledger() as ledger:
            return ledger.account("households-2026").remaining

    def run(self, spec: str) -> Path:
        assert release_plainly(self.example / f"{spec}.yaml", self.workspace.root) == 0
        return self.workspace.releases / read_request(self.example / f"{spec}.yaml").spec.release / "v1"

    def change(self, spec: str, *replaced: tuple[str, str]) -> None:
        path = self.example / f"{spec}.yaml"
        text = path.read_text()
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)

    def rows(self, spec: str) -> PrivateTable:
        """Take the rows in as a run does."""
        request = read_request(self.example / f"{spec}.yaml")
        return ingest(
            request.spec.source, request.contract, folder=self.example / "private", key=KEY, memory_limit="256MB"
        )


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path)


@pytest.mark.long
def test_all_bases_are_charged_to_one_account_and_verified(town: Town):
    """Households with their people counted, people, and what households have: each version holds."""
    key = town.workspace.signer().public_key
    for number, spec in enumerate(("size", "people", "income"), start=1):
        report = verify(town.run(spec), public_key=key)
        assert report.ok, report.findings
        assert town.left() == CAP - number * PICO


@pytest.mark.long
def test_a_household_adds_at_most_its_quota(town: Town):
    """Eight people of up to 99 years each; the sum of the ages hides 120 of them."""
    town.change("people", ("of: [count, {mean: age}]", "of: [count, {sum: age, per_unit: 120}]"))
    folder = town.run("people")
    report = verify(folder, public_key=town.workspace.signer().public_key)
    assert report.ok, report.findings
    draws = json.loads((folder / "record.json").read_text())["replay"]["draws"]
    assert [draw["event"]["moves"] for draw in draws] == [[8], [120], [8]]


@pytest.mark.long
def test_the_record_lists_links_truncation_and_policy(town: Town):
    """On the page too; a forged bound is found."""
    folder = town.run("people")
    record = json.loads((folder / "record.json").read_text())
    terms = record["replay"]["contract"]["linked"]["terms"]
    assert terms["links"][0]["at_most"] == 8 == record["replay"]["rows_per_unit"]
    page = (folder / "record.html").read_text()
    assert "at most 8 rows of person are kept for each row of household" in page
    assert "of rows that share a key one is taken by a keyed hash" in page
    for forge in (_fewer_rows, _other_bound, _no_links):
        forged = town.example / forge.__name__
        shutil.copytree(folder, forged)
        (forged / "record.json").chmod(0o644)
        changed = json.loads((forged / "record.json").read_text())
        forge(changed["replay"])
        (forged / "record.json").write_text(json.dumps(changed))
        report = verify(forged, public_key=town.workspace.signer().public_key)
        assert any("replay" in finding.field or "contract" in finding.field for finding in report.findings)


def _fewer_rows(replay: dict[str, Any]) -> None:
    replay["rows_per_unit"] = replay["contract"]["unit"]["max_rows_per_unit"] = 2


def _other_bound(replay: dict[str, Any]) -> None:
    replay["contract"]["linked"]["terms"]["links"][0]["at_most"] = 2
    _fewer_rows(replay)


def _no_links(replay: dict[str, Any]) -> None:
    del replay["contract"]["linked"]
    _fewer_rows(replay)


@pytest.mark.long
def test_the_record_says_what_a_derived_value_is_made_of(town: Town):
    """And a record that says less of its rows, or of another sum, is found."""
    folder = town.run("income")
    page = (folder / "record.html").read_text()
    assert "the sum of person.income, clipped to its bounds, in the rows kept for each household" in page
    made = json.loads((folder / "record.json").read_text())["replay"]["contract"]["linked"]["tables"][0]["derived"]
    assert [each[1] for each in made if "sum" in each[1]] == [{"sum": "person.income", "where": []}]
    for forge in (_wider, _of_work):
        forged = town.example / forge.__name__
        shutil.copytree(folder, forged)
        (forged / "record.json").chmod(0o644)
        changed = json.loads((forged / "record.json").read_text())
        forge(changed["replay"]["contract"]["linked"]["tables"][0])
        (forged / "record.json").write_text(json.dumps(changed))
        report = verify(forged, public_key=town.workspace.signer().public_key)
        assert any("contract" in finding.field for finding in report.findings)


def _wider(household: dict[str, Any]) -> None:
    """Bounds that no sum reaches would ask for more noise than there is."""
    [column] = [each for each in household["columns"] if each["name"] == "household_income"]
    column["domain"]["bounds"] = ["0", "60000"]


def _of_work(household: dict[str, Any]) -> None:
    """Texts are not added up."""
    for _, made in household["derived"]:
        made.update({"sum": "person.work"} if "sum" in made else {})


@pytest.mark.long
@pytest.mark.usefixtures("every_row_kept")
def test_the_rows_are_those_that_the_contract_keeps(town: Town):
    """Counted by hand from the files: at most 8 people of a household, nobody without one, no household twice."""
    with (town.example / "data" / "person.csv").open() as file:
        people = [row["household_id"] for row in csv.DictReader(file)]
    with (town.example / "data" / "household.csv").open() as file:
        households = {row["household_id"] for row in csv.DictReader(file)}
    kept = sum(min(8, people.count(each)) for each in households)
    assert len(people) > kept
    assert _raw(town.rows("people"), "count(*), count(DISTINCT household_id)") == (kept, len(households))
    found = _raw(town.rows("size"), "count(*), sum(size), max(size), sum(earners) < sum(size)")
    assert found == (len(households), kept, 8, True)
    found = _raw(town.rows("income"), "sum(household_income) / count(*) BETWEEN 2000 AND 5000, min(oldest) >= 18")
    assert found == (True, True)


def _raw(table: PrivateTable, what: str) -> tuple[Any, ...]:
    with duckdb.connect(str(table.path), read_only=True) as connection:
        return tuple(connection.execute(f"SELECT {what} FROM raw").fetchone() or ())


@pytest.mark.long
def test_the_operator_is_told_what_links_leave_out(town: Town):
    """A key that is written in another way joins nobody: nothing stops, so the look before the charge says it."""
    request = read_request(town.example / "people.yaml")
    look = misfits(town.rows("people"), request.contract, folder=town.example / "private", memory_limit="256MB")
    link, unit = look.columns[1], look.columns[0]
    values = {each.column: each for each in look.columns}
    income = values["person.income → household_income"]
    assert (income.rows, income.unfit) == (link.rows, 0)
    assert (income.unfit_to, income.clipped > 0, income.null > 0) == ("(null)", True, True)
    assert (link.column, unit.column) == ("person.household_id → household.household_id", "household.household_id")
    assert (link.unfit, link.null, unit.clipped) == (1, 1, 1)
    assert link.clipped == link.rows - 2 - look.rows > 0
    assert not look.above(Fraction(1, 100))
    person = town.example / "data" / "person.csv"
    header, *rows = person.read_text().splitlines()
    person.write_text("\n".join([header, *(f"h{row}" for row in rows)]) + "\n")
    look = misfits(town.rows("people"), request.contract, folder=town.example / "private", memory_limit="256MB")
    assert [each.column for each in look.above(Fraction(1, 100))] == [link.column]
    assert look.rows == 0


@pytest.mark.long
@pytest.mark.parametrize("form", ["parquet", "duckdb", "sqlite"])
def test_every_kind_of_store_gives_the_same_rows(town: Town, form: str):
    """Parquet files, a DuckDB file, an SQLite file: the same keyed hash of the same snapshot."""
    expected = town.rows("people").keyed_hash
    data = town.example / "data"
    with duckdb.connect() as connection:
        if form == "duckdb":
            connection.execute(f"ATTACH '{data / 'all.duckdb'}' AS store")
        for name in ("household", "person"):
            frame = connection.execute(f"SELECT * FROM read_csv('{data / name}.csv')")
            if form == "parquet":
                connection.execute(f"COPY (FROM read_csv('{data / name}.csv')) TO '{data / name}.parquet'")
            elif form == "duckdb":
                connection.execute(f"CREATE TABLE store.{name} AS FROM read_csv('{data / name}.csv')")
            else:
                _sqlite(data / "all.db", name, frame.fetchall(), [each[0] for each in frame.description or ()])
    if form == "parquet":
        town.change("people", ("household.csv", "household.parquet"), ("person.csv", "person.parquet"))
    else:
        place = {"duckdb": "data/all.duckdb", "sqlite": "data/all.db"}[form]
        town.change(
            "people", ("path: data/", f"path: {place}"), ("household.csv", "household"), ("person.csv", "person")
        )
    assert town.rows("people").keyed_hash == expected


def _sqlite(path: Path, name: str, rows: list[tuple[Any, ...]], columns: list[str]) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        file.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)


@pytest.mark.long
def test_a_second_read_is_the_same_and_a_changed_file_is_another(town: Town):
    """The choice of rows is fixed by the workspace's key; one more person in one of the files is noticed."""
    first = town.rows("people").keyed_hash
    shutil.rmtree(town.example / "private")
    assert town.rows("people").keyed_hash == first
    assert (town.example / "private" / SNAPSHOT).is_file()
    assert [path.name for path in (town.example / "private").iterdir()] == [SNAPSHOT]
    with (town.example / "data" / "person.csv").open("a") as file:
        file.write("1,30,employed,2000\n")
    assert town.rows("people").keyed_hash != first


def test_files_that_are_not_there_or_lie_elsewhere_are_refused(town: Town, tmp_path: Path):
    """The ledger knows the folder: a link that leads out of it would be other people's rows under its name."""
    person = town.example / "data" / "person.csv"
    elsewhere = person.rename(tmp_path / "person.csv")
    with pytest.raises(SourceUnreadable, match="no such file"):
        town.rows("people")
    person.symlink_to(elsewhere)
    with pytest.raises(SourceUnreadable, match="a link that leads out of the folder"):
        town.rows("people")
    person.unlink()
    person.symlink_to(town.example / "data" / "household.csv")
    with pytest.raises(SourceUnreadable, match="the file of household again"):
        town.rows("people")
    person.unlink()
    person.write_text("household_id,age\n1,2\n")
    with pytest.raises(GateBroken, match="'work'"):
        town.rows("people")
    assert town.left() == CAP


@pytest.mark.usefixtures("every_row_kept")
def test_a_join_of_nobody_is_no_refusal(town: Town):
    """That all people lead nowhere may be a matter of one of them: the release is made of noise."""
    (town.example / "data" / "person.csv").write_text("household_id,age,work,income\n-5,30,employed,2000\n")
    assert _raw(town.rows("people"), "count(*)") == (0,)


@pytest.mark.parametrize(
    ("old", "new", "field", "found"),
    [
        ("base: person", "base: persons", "source.base", "'persons'"),
        ("  base: person\n", "", "source", "linked tables without `base`"),
        ("  tables: {household: household.csv, person: person.csv}\n", "", "source", "without `tables`"),
        (", person: person.csv", "", "source.tables", "no file for the table 'person'"),
        ("person: person.csv", "person: person.csv, pet: pet.csv", "source.tables.pet", "the table 'pet'"),
        ("person: person.csv", "person: household.csv", "source.tables.person", "for household and person"),
        ("person: person.csv", "person: ./household.csv", "source.tables.person", "for household and person"),
        ("person: person.csv", "person: ../person.csv", "source.tables.person", "'../person.csv'"),
        ("person: person.csv", "person: person.xlsx", "source.tables.person", "the suffix"),
        ("path: data/", "path: data/person.csv", "source.path", "a csv file"),
        ("path: data/", "path: postgresql://db.example/data", "source.path", "an address"),
        ("base: person", "base: person\n  select: SELECT * FROM source", "source.select", "`select` beside `tables`"),
        ("base: person", "base: person\n  files: csv", "source.files", "`files` beside `tables`"),
    ],
)
def test_a_spec_that_does_not_fit_its_tables_is_refused(town: Town, old: str, new: str, field: str, found: str):
    """File, line, what was found and what is allowed, exit 2; nothing is charged."""
    town.change("people", (old, new))
    with pytest.raises(Refused) as refused:
        read_request(town.example / "people.yaml", town.workspace)
    assert refused.value.exit_code == 2
    [finding] = [each for each in refused.value.findings if each.field == field and found in each.found]
    assert "people.yaml:" in finding.where
    assert finding.allowed
    assert town.left() == CAP


def test_linked_tables_need_a_contract_of_linked_tables_and_the_other_way_round(town: Town):
    """A file alone is no source for two tables."""
    town.change("size", ("path: data/", "path: data/household.csv"), ("base: household", ""))
    town.change("size", ("  tables: {household: household.csv, person: person.csv}\n", ""))
    with pytest.raises(Refused, match="one table for a contract of linked ones"):
        read_request(town.example / "size.yaml")
    alone = EXAMPLE.parent / "adult" / "adult.odcs.yaml"
    town.change("people", ("contract: households.odcs.yaml", f"contract: {alone}"))
    with pytest.raises(Refused, match="`tables` for a contract of one table"):
        read_request(town.example / "people.yaml")


def test_the_same_people_elsewhere_are_bound_to_nobody(town: Town):
    """Another folder, another name: the ledger refuses until an officer says whose rows these are."""
    shutil.copytree(town.example / "data", town.example / "copy")
    town.change("people", ("path: data/", "path: copy/"))
    with pytest.raises((LedgerRefusal, AssertionError)):
        town.run("people")
    assert town.left() == CAP


def test_the_shipped_rows_are_those_that_the_script_makes(tmp_path: Path):
    """Byte for byte."""
    spec = importlib.util.spec_from_file_location("build_households", EXAMPLE / "build_households.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.build(tmp_path)
    for name in ("household.csv", "person.csv"):
        assert (tmp_path / name).read_bytes() == (EXAMPLE / "data" / name).read_bytes()
