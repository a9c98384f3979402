"""Releases of one period each: the right rows, the right accounts, once, and what is missing and why."""

import json
import shutil
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from benchmarks._periodic_place import DAYS, QUARTERS, SPEC, Periodic, make_periodic, write_rows
from console.main import execute
from contracts.errors import GateBroken, SpecRefused
from contracts.periods.period import read_periods
from contracts.periods.time_blocks import time_block
from flows.periods.publications import PeriodStanding, VersionWithdrawn, attempt_noted, settled, standings
from flows.prepare import intake
from flows.request import read_request
from privacy.ledger.entries import LedgerRefusal
from tasks.charge import charge
from tasks.storage.workspace.run_folder import RunFolder, hold, run_name

TODAY = date(2025, 8, 1)


@pytest.fixture
def place(tmp_path: Path) -> Periodic:
    return make_periodic(tmp_path)


def _release(place: Periodic, period: str) -> None:
    """Make the release of a period with the plain functions of the flow's steps."""
    from benchmarks.orchestration import release_plainly

    release_plainly(place.spec, place.workspace.root, period=period)


def _attempt(place: Periodic, period: str) -> None:
    """Take the rows of a period in, and keep a note of how that ends."""
    request = read_request(place.spec, place.workspace, period)
    name = run_name(request.spec.release, request.spec.digest)
    with hold(place.workspace.runs, name, keep_snapshot=False) as run, attempt_noted(request, place.workspace, run):
        intake(run, request, place.workspace)


def _rows(place: Periodic, period: str) -> list[tuple[str, int]]:
    """Take the rows of a period in, and return how many there are by ward."""
    import duckdb

    request = read_request(place.spec, place.workspace, period)
    name = run_name(request.spec.release, request.spec.digest)
    with hold(place.workspace.runs, name, keep_snapshot=False) as run:
        table = intake(run, request, place.workspace)
        with duckdb.connect(str(table.path), read_only=True) as connection:
            counted = connection.execute("SELECT ward, count(*) FROM codes GROUP BY ALL").fetchall()
        labels = request.contract.column("ward").labels
        return sorted((labels[code], number) for code, number in counted)


def _states(found: list[PeriodStanding]) -> dict[str, str]:
    return {str(each.period): each.state for each in found}


def test_each_row_is_of_one_period(place: Periodic):
    """Periods partition the rows: first and last days are in, unreadable days in none, whatever else the row says."""
    file = place.folder / "visits.csv"
    days = ["2024-03-31", "2024-04-01", "2024-06-30", "2024-06-30", "2024-07-01", "", "soon", "2024-06-31"]
    file.write_text("ward,day\n" + "".join(f"a,{day}\n" for day in days))
    assert [_rows(place, quarter) for quarter in ("2024Q1", "2024-Q2", "2024q3")] == [
        [("a", 1)],
        [("a", 3)],
        [("a", 1)],
    ]


@pytest.mark.long
def test_a_folder_with_a_day_in_its_paths_is_divided_by_it(tmp_path: Path):
    """A hive partition column tells the day as a text; the rows of a period are those of its folders."""
    import duckdb

    place = make_periodic(tmp_path, spec=SPEC.replace("path: visits.csv", "path: parts, files: parquet"))
    for day, rows in (("2024-03-31", 1), ("2024-04-01", 2), ("2024-05-09", 4), ("2024-07-01", 8)):
        (folder := tmp_path / "parts" / f"day={day}").mkdir(parents=True)
        duckdb.sql(f"COPY (SELECT 'b' AS ward FROM range({rows})) TO '{folder / 'part.parquet'}'")
    with closing(place.ledger()) as ledger:
        ledger.bind_source(str((tmp_path / "parts").resolve()), "patients", time_block(DAYS), by="day")
    assert [_rows(place, quarter) for quarter in ("2024Q1", "2024Q2", "2024Q3")] == [
        [("b", 1)],
        [("b", 6)],
        [("b", 8)],
    ]


@pytest.mark.long
def test_a_period_is_charged_to_its_account_and_published_once(place: Periodic, capfd: pytest.CaptureFixture[str]):
    """The release of a quarter takes from that quarter alone; another attempt reads nothing and changes nothing."""
    _release(place, "2024Q2")
    assert place.charges() == {"visits-2024-Q2": 1}
    (place.folder / "visits.csv").unlink()
    request = read_request(place.spec, place.workspace, "2024-Q2")
    again = settled(request, place.workspace, RunFolder(place.folder), supersede=False)
    at = ("--workspace", str(place.workspace.root))
    assert execute(["run", str(place.spec), "--backfill", "2024Q2..2024-Q2", *at]) == 0
    assert "Nothing is missing" in capfd.readouterr().out
    assert execute(["watch", str(place.spec), "--once", "--periods", "2024Q2", *at]) == 0
    assert "Nothing has arrived" in capfd.readouterr().out
    assert again is not None
    assert (again.release, again.version, again.repeated) == ("visits-2024-q2", 1, True)
    assert settled(request, place.workspace, RunFolder(place.folder), supersede=True) is None
    with closing(place.ledger()) as ledger:
        assert ledger.verify() == []


def test_a_withdrawn_period_is_refused_with_what_brings_it_back(place: Periodic):
    _release(place, "2024Q2")
    with closing(place.ledger()) as ledger:
        ledger.withdraw("visits-2024-q2", 1, reason="a ward was mislabelled")
    request = read_request(place.spec, place.workspace, "2024-Q2")
    with pytest.raises(VersionWithdrawn, match="v1, which was withdrawn") as refused:
        settled(request, place.workspace, RunFolder(place.folder), supersede=False)
    assert refused.value.exit_code == 4
    assert "--supersede" in refused.value.findings[0].remedy


@pytest.mark.long
def test_corrected_rows_supersede_their_period_alone(place: Periodic):
    """Late rows of Q1 make another version of Q1, charged to Q1; Q2 stays as it is."""
    for period in ("2024Q1", "2024Q2"):
        _release(place, period)
    write_rows(place.folder / "visits.csv", [(2024, 1), (2024, 1), (2024, 2)])
    _release(place, "2024Q1")
    with closing(place.ledger()) as ledger:
        found = [(each.release, each.number, each.status) for each in ledger.versions()]
        assert ledger.verify() == []
    assert found == [
        ("visits-2024-q1", 1, "superseded"),
        ("visits-2024-q1", 2, "published"),
        ("visits-2024-q2", 1, "published"),
    ]
    assert place.charges() == {"visits-2024-Q1": 2, "visits-2024-Q2": 1}


def test_days_outside_the_binding_are_refused(place: Periodic):
    """The source is bound to two years; a quarter beyond them has no people to charge."""
    write_rows(place.folder / "visits.csv", [(2026, 1)])
    with pytest.raises(LedgerRefusal, match="2026-Q1"):
        _rows(place, "2026Q1")


def test_a_source_has_one_column_of_days_for_good(place: Periodic):
    """By two columns one row would be charged twice to accounts that do not know of each other."""
    name, block = str((place.folder / "visits.csv").resolve()), time_block(DAYS)
    with closing(place.ledger()) as ledger:
        ledger.bind_source(name, "patients", block, by="day")
        ledger.bind_source(name, "patients", block)
        for other, population, days in (
            ("discharged", "patients", block),
            (None, "visitors", block),
            (None, "patients", time_block("2024")),
        ):
            with pytest.raises(LedgerRefusal):
                ledger.bind_source(name, population, days, by=other)
        with pytest.raises(LedgerRefusal, match="name"):
            ledger.bind_source(f"{name} [by day]", "visitors", block)
        assert ledger.verify() == []


def test_a_select_may_not_make_the_days(place: Periodic):
    """A computed day could put a row into a period whose account does not pay for it."""
    select = "SELECT ward, make_date(2024, 1, 1) AS day FROM source"
    place.spec.write_text(SPEC.replace("by: day}", f'by: day, select: "{select}"}}'))
    with pytest.raises(SpecRefused, match="'day'"):
        read_request(place.spec, None, "2024Q1")
    select = 'select: "SELECT day, upper(ward) AS ward FROM source", types: {ward: text}'
    place.spec.write_text(SPEC.replace("by: day}", f"by: day, {select}}}"))
    assert read_request(place.spec, None, "2024Q1").spec.block == "2024-Q1"


@pytest.mark.parametrize(
    ("old", "new", "period", "field"),
    [
        ("period: quarter\n", "", None, "release"),
        ("period: quarter", "period: decade", "2024Q1", "period"),
        ("visits-{period}\np", "visits\np", "2024Q1", "release"),
        (", by: day", "", "2024Q1", "source"),
        ("by: day", "by: ward", "2024Q1", "source.by"),
        ("x", "x", None, "the file"),
    ],
)
def test_a_spec_that_is_no_pattern_is_refused(place: Periodic, old: str, new: str, period: str | None, field: str):
    """Each names the field; none is understood as something near it."""
    place.spec.write_text(SPEC.replace(old, new))
    with pytest.raises(SpecRefused) as refused:
        read_request(place.spec, None, period)
    assert field in [finding.field for finding in refused.value.findings]


@pytest.mark.parametrize("product", ["tables", "synthetic"])
def test_a_public_total_of_the_whole_table_is_not_that_of_a_period(place: Periodic, product: str):
    """Declared is how many rows the table has; a period's own number would be published, or wrong, by it."""
    contract = place.folder / "visits.odcs.yaml"
    total = "adjacency: replace_one, invariants: [{kind: total, value: 87, reference: yearbook}]"
    contract.write_text(contract.read_text().replace("adjacency: add_remove", total))
    made_up = "product: {kind: synthetic, generator: mst}\n"
    if product == "synthetic":
        place.spec.write_text(SPEC[: SPEC.index("product:")] + made_up + SPEC[SPEC.index("publish:") :])
    else:
        read_request(place.spec, None, "2024Q1")
        place.spec.write_text(SPEC.replace("total: noisy", "total: invariant"))
    with pytest.raises(SpecRefused, match="public total beside `by`"):
        read_request(place.spec, None, "2024Q1")


def test_a_timestamp_of_a_time_zone_tells_no_days(place: Periodic):
    """Its day depends on where it is read, so one row could be of two periods."""
    import duckdb

    file = place.folder / "visits.parquet"
    duckdb.sql(f"COPY (SELECT 'a' AS ward, TIMESTAMPTZ '2024-01-31 23:30:00+00' AS day) TO '{file}'")
    place.spec.write_text(SPEC.replace("visits.csv", "visits.parquet"))
    with closing(place.ledger()) as ledger:
        ledger.bind_source(str(file.resolve()), "patients", time_block(DAYS), by="day")
    with pytest.raises(GateBroken, match="TIME ZONE"):
        _rows(place, "2024Q1")


@pytest.mark.long
def test_the_same_delivery_for_two_periods_is_refused(tmp_path: Path):
    """A file of Q1 that comes again under the name of Q2 is not charged to Q2."""
    spec = SPEC.replace("{path: visits.csv, by: day}", '{path: "visits-{period}.csv"}')
    place = make_periodic(tmp_path, spec=spec)
    write_rows(place.folder / "visits-2024-Q1.csv", [(2024, 1)])
    shutil.copy(place.folder / "visits-2024-Q1.csv", place.folder / "visits-2024-Q2.csv")
    with closing(place.ledger()) as ledger:
        for quarter in ("2024-Q1", "2024-Q2"):
            name = str((place.folder / f"visits-{quarter}.csv").resolve())
            ledger.bind_source(name, "patients", time_block(quarter))
    _release(place, "2024Q1")
    with pytest.raises(GateBroken, match="visits-2024-q1"):
        _release(place, "2024Q2")
    write_rows(place.folder / "visits-2024-Q2.csv", [(2024, 2)])
    _release(place, "2024Q2")
    assert place.charges() == {"visits-2024-Q1": 1, "visits-2024-Q2": 1}


OTHERS = SPEC.replace("{path: visits.csv, by: day}", '{path: "visits-{period}.csv"}')


def _copied(folder: Path) -> Periodic:
    place = make_periodic(folder, spec=OTHERS)
    write_rows(folder / "visits-2024-Q1.csv", [(2024, 1)])
    shutil.copy(folder / "visits-2024-Q1.csv", folder / "visits-2024-Q2.csv")
    with closing(place.ledger()) as ledger:
        own = ledger.account("visits-2024-Q2").terms
        ledger.open_account(replace(own, name="others-2024-Q2", population="others"))
        for quarter, people in (("2024-Q1", "patients"), ("2024-Q2", "others")):
            ledger.bind_source(str((folder / f"visits-{quarter}.csv").resolve()), people, time_block(quarter))
    return place


@pytest.mark.long
def test_a_copy_of_released_rows_gives_other_people_no_second_cap(tmp_path: Path):
    """Rows that were copied and bound to another population are known by their keyed hash: a gate, in the journal."""
    place = _copied(tmp_path)
    _release(place, "2024Q1")
    place.spec.write_text(OTHERS.replace('account: "visits-', 'account: "others-'))
    with pytest.raises(GateBroken, match="charged to other people") as broken:
        _attempt(place, "2024Q2")
    assert broken.value.exit_code == 3
    with closing(place.ledger()) as ledger:
        [entry] = [each for each in ledger.journal() if each.kind == "gate_failed"]
    assert (entry.body["gates"], entry.body["account"]) == (["people"], "others-2024-Q2")
    write_rows(place.folder / "visits-2024-Q2.csv", [(2024, 2)])
    _release(place, "2024Q2")


def test_runs_that_are_charged_go_on_although_their_rows_were_charged_to_other_people(tmp_path: Path):
    """Two runs that ask the gate before either is charged: what is charged is resumed."""
    place, asked = _copied(tmp_path), []
    for quarter, account in (("2024Q1", "visits"), ("2024Q2", "others")):
        place.spec.write_text(OTHERS.replace('account: "visits-', f'account: "{account}-'))
        request = read_request(place.spec, place.workspace, quarter)
        with hold(
            place.workspace.runs, run_name(request.spec.release, request.spec.digest), keep_snapshot=True
        ) as run:
            asked.append((request, intake(run, request, place.workspace)))
    with closing(place.ledger()) as ledger:
        for each, table in asked:
            charge(ledger, each.spec, each.contract, each.plan, table)
    _attempt(place, "2024Q2")
    with closing(place.ledger()) as ledger:
        names = "visits-2024-Q1", "others-2024-Q2"
        assert [[each.status for each in ledger.charges(account=name)] for name in names] == [["opened"], ["opened"]]
        assert "gate_failed" not in {each.kind for each in ledger.journal()}


@pytest.mark.long
def test_gaps_tell_what_is_missing_and_keep_facts_about_the_data_apart(
    place: Periodic, capfd: pytest.CaptureFixture[str]
):
    """The public part is the same whether a period was never tried or failed at a gate."""
    _release(place, "2024Q1")
    periods = read_periods("2024Q1..2025Q3", "quarter")
    before = standings(place.spec, periods, place.workspace, today=TODAY)
    file = place.folder / "visits.csv"
    rows = file.read_text()
    file.write_text("ward,day\n")
    with pytest.raises(GateBroken):
        _attempt(place, "2025Q2")
    file.write_text(rows)
    after = standings(place.spec, periods, place.workspace, today=TODAY)
    assert _states(after) == {
        "2024-Q1": "published",
        **dict.fromkeys(("2024-Q2", "2024-Q3", "2024-Q4", "2025-Q1", "2025-Q2"), "missing"),
        "2025-Q3": "not over",
    }
    assert [each.description for each in before] == [each.description for each in after]
    words = {str(each.period): each.private_reason for each in after}
    assert "no rows" in words["2025-Q2"]
    assert words["2024-Q2"] == "never run"
    assert execute(["releases", "gaps", str(place.spec), "--workspace", str(place.workspace.root), "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert "private" not in told["periods"][0]
    refused = {each["period"]: each["told"] for each in told["periods"] if each["state"] == "refused"}
    assert "visits-2025-Q3" in refused["2025-Q3"]


def test_a_period_of_which_no_row_is_left_is_released_like_any_other(place: Periodic):
    """Whether somebody is there is for the noise to hide: one release, one charge, a row of counts."""
    _release(place, "2025Q2")
    assert place.charges() == {"visits-2025-Q2": 1}


def test_accounts_are_opened_for_many_periods_at_once(tmp_path: Path):
    place = make_periodic(tmp_path / "other")
    words = ["budget", "open", "ward-{period}", "--periods", QUARTERS, "--population", "wards", "--unit", "row"]
    words += ["--epsilon", "1", "--calculus", "pure", "--adjacency", "add_remove", "--json"]
    assert execute([*words, "--workspace", str(place.workspace.root)]) == 0
    with closing(place.ledger()) as ledger:
        names = [each.terms.name for each in ledger.accounts() if each.terms.population == "wards"]
    assert names == [f"ward-{period}" for period in read_periods(QUARTERS, "quarter")]


@pytest.mark.long
def test_a_version_of_a_period_is_evaluated_against_the_rows_of_that_period(
    place: Periodic, capfd: pytest.CaptureFixture[str]
):
    """Errors are of the period's rows alone; a spec with periods asks for one, and a file has none."""
    _release(place, "2024Q2")
    folder = place.workspace.releases / "visits-2024-q2" / "v1"
    at = ["--workspace", str(place.workspace.root), "--json"]
    against = ["evaluate", str(folder), "--against"]
    capfd.readouterr()
    assert execute([*against, str(place.spec), "--period", "2024Q2", "--show", *at]) == 0
    [errors] = json.loads(capfd.readouterr().out)["found"]["tables"].values()
    exact = {cell["labels"][0]: cell["exact"] for cell in errors["worst"]}
    assert {label: number for label, number in exact.items() if number} == dict(_rows(place, "2024Q2"))
    assert execute([*against, str(place.spec), *at]) == 2
    assert "period" in capfd.readouterr().out
    assert execute([*against, str(place.folder / "visits.csv"), "--period", "2024Q2", *at]) == 2
    assert "a period of the file" in capfd.readouterr().out
    assert (
        execute(["evaluate", str(folder), "--holdout", str(place.folder / "visits.csv"), "--period", "2024Q2", *at])
        == 2
    )
