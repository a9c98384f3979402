"""Charges of periods: the clock before them, what a period's run may begin from, what Prefect is told of a gate."""

import os
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from time import time

import pytest

from benchmarks._periodic_place import Periodic, make_periodic, write_rows
from benchmarks.orchestration import release_plainly
from contracts.errors import Finding, GateBroken
from contracts.periods.period import read_periods
from flows.periods.arrivals import arrived
from flows.periods.clock import ClockAhead, check_clock
from flows.periods.publications import attempt_noted, settled, standings
from flows.periods.state import TRANSITIONS, WORDS, PeriodChange, PeriodSpent, PeriodState, may_run
from flows.prepare import intake
from flows.request import read_request
from flows.steps import as_task
from privacy.ledger.ledger import Ledger
from privacy.private_table import PrivateTable
from tasks.charge import charge
from tasks.products.charge_request import run_key
from tasks.storage.workspace.run_folder import RunFolder, hold, run_name
from tasks.storage.workspace.settings import FILE, Workspace

TODAY = date(2025, 8, 1)
PERIOD = "2024Q1"


@pytest.fixture
def place(tmp_path: Path) -> Periodic:
    return make_periodic(tmp_path)


def _charged(place: Periodic, *, supersede: bool = False) -> PrivateTable:
    """Charge the period and stop, as a killed process does: its snapshot stays."""
    request = read_request(place.spec, place.workspace, PERIOD)
    name = run_name(request.spec.release, request.spec.digest)
    with closing(place.ledger()) as ledger, hold(place.workspace.runs, name, keep_snapshot=False) as run:
        table = intake(run, request, place.workspace, supersede=supersede)
        with run.charge_seen(ledger, run_key(request.spec, request.contract, table)):
            charge(ledger, request.spec, request.contract, request.plan, table)
    assert table.path.exists()
    return table


def _asked(place: Periodic, *, supersede: bool = False) -> RunFolder:
    """Take the period in again, as cron, watch and backfill do without being asked to supersede."""
    request = read_request(place.spec, place.workspace, PERIOD)
    name = run_name(request.spec.release, request.spec.digest)
    with hold(place.workspace.runs, name, keep_snapshot=False) as run, attempt_noted(request, place.workspace, run):
        assert settled(request, place.workspace, run, supersede=supersede) is None
        try:
            intake(run, request, place.workspace, supersede=supersede)
        except PeriodSpent:
            assert not run.resumable
            raise
    return run


def _state(place: Periodic) -> str:
    [found] = standings(place.spec, read_periods(PERIOD, "quarter"), place.workspace, today=TODAY)
    return found.state


def _epsilons(place: Periodic) -> int:
    return place.charges()["visits-2024-Q1"]


def _late_rows(place: Periodic) -> None:
    write_rows(place.folder / "visits.csv", [(2024, 1), (2024, 1), (2024, 2)])


@pytest.mark.long
@pytest.mark.parametrize("becomes", ["changed", "gone"])
def test_a_charged_period_is_completed_whatever_has_become_of_its_source(place: Periodic, becomes: str):
    """The snapshot that was charged for is taken up; other rows would be another run, charged once more."""
    _charged(place)
    if becomes == "changed":
        _late_rows(place)
    else:
        (place.folder / "visits.csv").unlink()
    assert _state(place) == "charged"
    release_plainly(place.spec, place.workspace.root, period=PERIOD)
    assert (_epsilons(place), _state(place)) == (1, "published")


def test_a_second_charge_of_a_period_is_asked_for(place: Periodic):
    """With its snapshot gone and other rows there, the message says what was spent; the rows do not stay."""
    table = _charged(place)
    table.path.unlink()
    _late_rows(place)
    os.utime(place.folder / "visits.csv", (before := time() - 60, before))
    with pytest.raises(
        PeriodSpent, match=r"(?s)a loss of 1 taken from account visits-2024-Q1 .*--supersede"
    ) as refused:
        _asked(place)
    assert refused.value.exit_code == 4
    assert _epsilons(place) == 1
    assert not table.path.exists()
    again = arrived(place.spec, read_periods(PERIOD, "quarter"), place.workspace, today=TODAY, quiet=timedelta())
    assert again == [], "an attempt on the same rows would end as the last"
    _charged(place, supersede=True)
    assert _epsilons(place) == 2


@pytest.mark.long
def test_the_same_rows_go_on_without_their_snapshot(place: Periodic):
    _charged(place).path.unlink()
    release_plainly(place.spec, place.workspace.root, period=PERIOD)
    assert (_epsilons(place), _state(place)) == (1, "published")


@pytest.mark.long
def test_an_edited_spec_is_a_second_charge_too_and_reads_nothing(place: Periodic):
    """The period was paid for under another spec; its snapshot stays, in case that comes back."""
    table, spec = _charged(place), place.spec.read_text()
    place.spec.write_text(spec.replace("simplex", "none"))
    (place.folder / "visits.csv").rename(place.folder / "visits.away")
    with pytest.raises(PeriodSpent):
        _asked(place)
    assert table.path.exists()
    place.spec.write_text(spec)
    release_plainly(place.spec, place.workspace.root, period=PERIOD)
    assert _epsilons(place) == 1


@pytest.mark.long
def test_a_charge_that_came_to_nothing_does_not_keep_a_published_period_open(place: Periodic):
    """The second charge was asked for and published; what the first left is spent, and leads to no third."""
    _charged(place).path.unlink()
    _late_rows(place)
    _charged(place, supersede=True)
    release_plainly(place.spec, place.workspace.root, period=PERIOD)
    write_rows(place.folder / "visits.csv", [(2024, 1)] * 3)
    request = read_request(place.spec, place.workspace, PERIOD)
    found = settled(request, place.workspace, RunFolder(place.folder), supersede=False)
    assert found is not None
    assert found.repeated
    assert (_epsilons(place), _state(place)) == (2, "published")


@pytest.mark.long
def test_a_correction_that_was_interrupted_goes_on_while_its_snapshot_is_kept(place: Periodic):
    """It is charged already; without the snapshot the period is what was published before."""
    release_plainly(place.spec, place.workspace.root, period=PERIOD)
    _late_rows(place)
    table = _charged(place, supersede=True)
    assert _state(place) == "charged"
    kept = table.path.rename(table.path.with_name("kept"))
    assert _state(place) == "published"
    request = read_request(place.spec, place.workspace, PERIOD)
    assert settled(request, place.workspace, RunFolder(place.folder), supersede=False) is not None
    kept.rename(table.path)
    write_rows(place.folder / "visits.csv", [(2024, 1)] * 3)
    release_plainly(place.spec, place.workspace.root, period=PERIOD)
    with closing(place.ledger()) as ledger:
        assert [(each.number, each.status) for each in ledger.versions()] == [(1, "superseded"), (2, "published")]
        assert ledger.verify() == []
    assert _epsilons(place) == 2


def _break(gate: str) -> None:
    raise GateBroken(
        [Finding("visits.csv", gate, "no row of 2024-Q1", "at least one row", "run it when they are there")]
    )


@pytest.mark.parametrize("gate", ["rows of the period", "delivery", "people", "rows"])
def test_prefect_is_not_told_which_gate_of_a_period_broke(tmp_path: Path, gate: str):
    """All gates read alike; whoever ran the command is told which. Of one release the gate is named, as before."""
    task = as_task(_break, name="ingest")
    run = RunFolder(tmp_path, of_period=True)
    with pytest.raises(GateBroken) as told:
        task.fn(run, gate)
    assert [finding.field for finding in told.value.findings] == ["a gate"]
    assert "when they are there" not in str(told.value)
    assert "2024-Q1" not in str(told.value)
    assert run.refusal is not None
    assert gate in str(run.refusal)
    with pytest.raises(GateBroken, match=gate):
        task.fn(RunFolder(tmp_path), gate)


S, C = PeriodState, PeriodChange


def test_a_run_begins_where_something_is_missing():
    """Unasked it does nothing to a period that is published, withdrawn, going on or not over."""
    assert {state for state in S if may_run(state)} == {S.MISSING, S.REFUSED, S.CHARGED}
    assert {state for state in S if may_run(state, supersede=True)} - {state for state in S if may_run(state)} == {
        S.PUBLISHED,
        S.WITHDRAWN,
    }


def test_every_state_leads_to_a_publication_and_only_a_run_publishes():
    reached = {S.PUBLISHED}
    for _ in S:
        reached |= {before for (before, _), after in TRANSITIONS.items() if after in reached}
    assert reached == set(S)
    assert {before for (before, change), after in TRANSITIONS.items() if after is S.PUBLISHED} == {S.RUNNING}
    assert {change for (_, change), after in TRANSITIONS.items() if after is S.CHARGED} == {C.CHARGE}
    assert {change for _, change in TRANSITIONS} == set(C)


def test_a_period_that_is_not_over_runs_only_where_that_was_asked_for():
    assert {change for before, change in TRANSITIONS if before is S.NOT_OVER} == {C.ENDS, C.EARLY}


def test_every_state_has_words():
    assert set(WORDS) == set(S)


def test_a_clock_far_ahead_of_the_journal_has_to_be_confirmed(tmp_path: Path):
    """Else one run at 2031 would leave every honest one until then behind. How far is a setting of the workspace."""
    made = Workspace.create(tmp_path / "w")
    now = ["2026-01-01T00:00:00Z"]
    ledger = Ledger(made.ledger_url, draws=made.draws, clock=lambda: now[0])
    with closing(ledger):
        check_clock(ledger, made.clock_ahead, accepted=False)
        now[0] = "2027-02-05T00:00:00Z"
        check_clock(ledger, made.clock_ahead, accepted=False)
        now[0] = "2027-02-06T00:00:00Z"
        with pytest.raises(ClockAhead) as refused:
            check_clock(ledger, made.clock_ahead, accepted=False)
        check_clock(ledger, made.clock_ahead, accepted=True)
    [finding] = refused.value.findings
    assert (finding.found, refused.value.exit_code) == (now[0], 4)
    assert "400 days after 2026-01-01T00:00:00Z" in finding.allowed
    settings = made.root / FILE
    settings.write_text(settings.read_text().replace('ahead = "400 days"', 'ahead = "3 days"'))
    assert Workspace.open(made.root).clock_ahead == 3
