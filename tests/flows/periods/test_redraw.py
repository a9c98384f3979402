"""When a release is drawn again: each due date once and whatever the rows are, or only when somebody asks."""

import json
import os
import pty
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from shutil import rmtree

import pytest

from benchmarks._periodic_place import CONTRACT, SPEC, make_periodic, write_rows
from benchmarks.orchestration import release_plainly
from console.main import execute
from contracts.errors import Refused, SpecRefused
from contracts.periods.time_blocks import time_block
from contracts.release.spec import load_spec
from flows.periods.clock import DateMissing, check_due
from flows.periods.publications import SecondVersion, settled
from flows.periods.state import DateSpent
from flows.prefect_runs.deployment_checks import check_deployable
from flows.prefect_runs.scheduled_release import due_date
from flows.prepare import intake
from flows.request import read_request
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.ledger.entries import BudgetExceeded, LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms, Charge
from tasks.charge import charge
from tasks.products.charge_request import mark_of, request_for, run_key
from tasks.products.tables.table_measurement import measure
from tasks.records.record import published_explanation
from tasks.storage.workspace.run_folder import RunFolder, hold, run_name
from tasks.storage.workspace.settings import Workspace
from tasks.verify import verify
from tests.tasks.verification.forgery import forge
from tests.worlds.versions import Version, broken

PLAIN = """\
release: visits
contract: visits.odcs.yaml
source: {path: visits.csv}
charge: {account: visits, epsilon: 1, delta: 0}
product: {kind: tables, mechanism: laplace, tables: [[ward]], refine: {method: simplex}, total: noisy}
publish: {to: releases/}
"""
SCHEDULED = f"{PLAIN}redraw: on_schedule\n"
FIRST, NEXT = "2026-01-05", "2026-01-12"


@dataclass(frozen=True)
class Plain:
    """A workspace with one table, one account of ε 9, and a spec of one release."""

    workspace: Workspace
    folder: Path

    @property
    def spec(self) -> Path:
        return self.folder / "visits.yaml"

    def says(self, text: str) -> None:
        self.spec.write_text(text)

    def run(self, *, due: str | None = None, supersede: bool = False) -> None:
        """Make a release as the command does: what is published already is left alone."""
        request, run = read_request(self.spec, self.workspace, None, due), RunFolder(self.folder)
        check_due(request, date(2026, 3, 1), supersede=supersede)
        if settled(request, self.workspace, run, supersede=supersede) is None:
            release_plainly(self.spec, self.workspace.root, due=due, supersede=supersede)

    def charged(self, due: str, *, draw: bool = False) -> None:
        """Charge a date, draw if asked to, and stop, as a killed process does: its snapshot stays."""
        request = read_request(self.spec, self.workspace, None, due)
        spec, contract, plan = request.spec, request.contract, request.plan
        with (
            closing(self.ledger()) as ledger,
            hold(self.workspace.runs, run_name(spec.release, spec.run_digest), keep_snapshot=False) as run,
        ):
            table = intake(run, request, self.workspace)
            with run.charge_seen(ledger, run_key(spec, contract, table)):
                grant = charge(ledger, spec, contract, plan, table)
                if draw:
                    measure(grant, plan, table, contract)  # type: ignore[arg-type]

    def reserved(self, due: str | None) -> None:
        """Reserve the charge of a run, and stop before its grant opens."""
        request = read_request(self.spec, self.workspace, None, due)
        spec, contract, plan = request.spec, request.contract, request.plan
        table = intake(RunFolder(self.folder / "reserved"), request, self.workspace)
        with closing(self.ledger()) as ledger:
            key, mark = run_key(spec, contract, table), mark_of(spec, table)
            ledger.reserve(request_for(spec, contract, plan, run_key=key, snapshot_hash=mark, source=table.source))

    def ledger(self) -> Ledger:
        return self.workspace.open_ledger()

    def charges(self) -> list[Charge]:
        with closing(self.ledger()) as ledger:
            return list(ledger.charges(account="visits"))

    def versions(self) -> list[int]:
        with closing(self.ledger()) as ledger:
            return [each.number for each in ledger.versions("visits") if each.status != "allocated"]

    def folder_of(self, number: int) -> Path:
        return self.workspace.releases / "visits" / f"v{number}"

    def drawn(self, due: str) -> list[str]:
        """The digests of the values that a date drew."""
        key = next(each.request.run_key for each in self.charges() if each.request.due == due)
        with closing(self.ledger()) as ledger:
            return [entry.body["sha256"] for entry in ledger.entries_of(key) if entry.kind == "noise_drawn"]

    def other_rows(self) -> None:
        write_rows(self.folder / "visits.csv", [(2024, 1), (2024, 2), (2024, 3)])


@pytest.fixture
def place(tmp_path: Path) -> Plain:
    (tmp_path / "visits.odcs.yaml").write_text(CONTRACT)
    (tmp_path / "visits.yaml").write_text(SCHEDULED)
    write_rows(tmp_path / "visits.csv", [(2024, 1), (2024, 2)])
    made = Plain(Workspace.create(tmp_path / "w"), tmp_path)
    with closing(made.ledger()) as ledger:
        terms = ("visits", "patients", "2024", "row", "add_remove", PureCalculus(), 9 * PICO, 0)
        ledger.open_account(AccountTerms(*terms))
        ledger.bind_source(str((tmp_path / "visits.csv").resolve()), "patients", time_block("2024"))
    return made


@pytest.mark.long
@pytest.mark.parametrize("changed", [False, True])
def test_each_due_date_is_charged_once_and_makes_a_version_whatever_the_rows_are(place: Plain, changed: bool):
    """Charges, versions and runs are the same for rows that changed and rows that did not: nothing tells which."""
    place.run(due=FIRST)
    if changed:
        place.other_rows()
    for _ in range(2):
        place.run(due=FIRST)
        place.run(due=NEXT)
    assert [(each.request.due, each.status) for each in place.charges()] == [
        (FIRST, "published"),
        (NEXT, "published"),
    ]
    assert place.versions() == [1, 2]
    first, second = (each.request.snapshot_hash for each in place.charges())
    assert first != second


@pytest.mark.long
def test_without_a_schedule_the_same_rows_make_no_version(place: Plain):
    """The wrong case: here a version more tells that rows changed, and the record says so."""
    place.says(f"{PLAIN}redraw: on_change\n")
    place.run()
    place.run()
    assert place.versions() == [1]
    place.other_rows()
    place.run()
    assert place.versions() == [1, 2]
    told = published_explanation(lambda name: (place.folder_of(2) / name).read_bytes()).values
    assert "tells that the encoded table changed" in told["guarantee.definition"]
    assert any("new version of a spec" in each for each in told["unprotected.run_time_facts"])
    assert told["identity.due"] == "none"


@pytest.mark.long
def test_a_date_that_was_interrupted_goes_on_with_its_snapshot_and_draws_nothing_twice(place: Plain):
    """Its rows are other ones by now, and another date has been released meanwhile from a folder of its own."""
    place.charged(FIRST, draw=True)
    drawn = place.drawn(FIRST)
    place.other_rows()
    place.run(due=NEXT)
    place.run(due=FIRST)
    assert place.drawn(FIRST) == drawn
    assert sorted(each.request.due or "" for each in place.charges()) == [FIRST, NEXT]
    assert place.versions() == [1, 2]


@pytest.mark.long
@pytest.mark.parametrize("changed", [False, True])
def test_a_date_whose_snapshot_is_gone_is_refused_before_a_row_is_read(place: Plain, changed: bool):
    """Whether the rows changed meanwhile makes no difference; another date is free."""
    place.charged(FIRST)
    for snapshot in place.workspace.runs.rglob("snapshot.duckdb"):
        snapshot.unlink()
    if changed:
        place.other_rows()
    with pytest.raises(DateSpent, match="the snapshot that it was charged for is gone"):
        place.run(due=FIRST)
    assert not list(place.workspace.runs.rglob("snapshot*"))
    place.run(due=NEXT)
    assert place.versions() == [1]


@pytest.mark.long
@pytest.mark.parametrize("changed", [False, True])
def test_a_date_whose_charge_was_given_back_is_charged_again_whatever_the_rows_are(place: Plain, changed: bool):
    """Nothing was drawn for it. A refusal of other rows would tell that they are others."""
    place.reserved(FIRST)
    [key] = [each.request.run_key for each in place.charges()]
    with closing(place.ledger()) as ledger:
        ledger.return_charge(key)
    if changed:
        place.other_rows()
    place.run(due=FIRST)
    assert [(each.request.run_key, each.status) for each in place.charges()] == [(key, "published")]
    signer = place.workspace.signer()
    assert verify(place.folder_of(1), public_key=signer.public_key).ok
    with closing(place.ledger()) as ledger:
        assert ledger.verify(public_key=signer.public_key) == []


def test_a_charge_that_was_given_back_is_for_the_same_rows_where_no_date_is_the_key(place: Plain):
    """The wrong case: a key that is made of the rows stands for them, so others under it are refused."""
    place.says(PLAIN)
    place.reserved(None)
    [charge] = place.charges()
    with closing(place.ledger()) as ledger:
        ledger.return_charge(charge.request.run_key)
        with pytest.raises(LedgerRefusal, match="another spec, contract, snapshot or plan under this key"):
            ledger.reserve(replace(charge.request, snapshot_hash="0" * 64))


def test_a_date_whose_version_was_withdrawn_is_neither_made_nor_copied_again(place: Plain):
    """A schedule that starts it again does not fail: it is told how the version stands."""
    place.says(SCHEDULED.replace("to: releases/", "to: postgresql://nobody/releases"))
    release_plainly(place.spec, place.workspace.root, due=FIRST)
    with closing(place.ledger()) as ledger:
        ledger.withdraw("visits", 1, reason="a ward was mislabelled")
    request = read_request(place.spec, place.workspace, None, FIRST)
    outcome = settled(request, place.workspace, RunFolder(place.folder), supersede=False)
    assert outcome is not None
    assert (outcome.status, outcome.copy, outcome.repeated) == ("withdrawn", None, True)


@pytest.mark.long
@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("later", [False, True])
def test_a_date_whose_version_is_lost_from_the_store_is_refused_before_a_row_is_read(
    place: Plain, changed: bool, later: bool
):
    """Whether the rows changed makes no difference, nor whether a later date superseded the version."""
    place.run(due=FIRST)
    if later:
        place.run(due=NEXT)
    rmtree(place.folder_of(1))
    if changed:
        place.other_rows()
    with pytest.raises(DateSpent, match="its version is not in the release store") as refused:
        place.run(due=FIRST)
    assert refused.value.exit_code == 4
    assert not list(place.workspace.runs.rglob("snapshot*"))
    place.run(due="2026-01-19")
    assert [each.status for each in place.charges()] == ["published"] * (3 if later else 2)


@pytest.mark.long
def test_the_record_says_what_the_guarantee_is_of_and_verify_works_out_the_run_s_key(place: Plain, tmp_path: Path):
    """A key with rows in it, or another date, does not pass for a run that does not depend on the rows."""
    place.run(due=FIRST)
    folder, signer = place.folder_of(1), place.workspace.signer()
    published = Version(folder, signer)
    report = verify(folder, public_key=published.key)
    assert report.ok, report.findings
    record = json.loads((folder / "record.json").read_bytes())
    told = published.words
    definition = told["guarantee.definition"]
    assert f"It was due on {FIRST}, and is charged and made whatever the rows are." in definition
    assert not any("new version of a spec" in each for each in told["unprotected.run_time_facts"])
    assert record["replay"]["due"] == told["identity.due"] == FIRST
    other = forge(published.copy(tmp_path / "date"), record=lambda value: value["replay"].update(due=NEXT))
    assert broken(other.verify()) == {5}

    def keyed_by_rows(entries: list[dict[str, object]]) -> None:
        for entry in entries:
            body = entry["body"]
            if isinstance(body, dict) and "run_key" in body:
                body["run_key"] = f"visits-{'0' * 24}"

    other = forge(published.copy(tmp_path / "key"), journal=keyed_by_rows)
    told = {finding.field for finding in other.verify().findings}
    assert "the run's key, by its due date" in told


@pytest.mark.parametrize(("due", "says"), [(None, "--due 20"), ("2026-03-02", "today is 2026-03-01")])
def test_a_run_by_hand_names_a_date_that_is_reached(place: Plain, due: str | None, says: str):
    with pytest.raises(DateMissing, match=says) as refused:
        place.run(due=due)
    assert refused.value.exit_code == 2
    assert place.charges() == []


@pytest.mark.parametrize("due", ["tomorrow", "2026-1-5", "2026-02-30", "20260105"])
def test_what_is_no_date_is_refused(place: Plain, due: str):
    with pytest.raises(SpecRefused, match="a day as YYYY-MM-DD"):
        load_spec(place.spec, due=due)


def test_a_date_for_a_spec_that_goes_by_its_rows_is_refused(place: Plain):
    place.says(PLAIN)
    with pytest.raises(SpecRefused, match="without `redraw: on_schedule`"):
        load_spec(place.spec, due=FIRST)


def test_when_a_release_is_drawn_again_is_no_part_of_what_is_computed(place: Plain):
    """Writing `redraw: on_change` into a spec that is published makes no other run of it; a schedule is one."""
    place.says(PLAIN)
    digest = load_spec(place.spec).digest
    place.says(f"{PLAIN}redraw: on_change\n")
    assert load_spec(place.spec).digest == digest
    place.says(SCHEDULED)
    spec = load_spec(place.spec, due=FIRST)
    assert spec.digest == load_spec(place.spec, due=NEXT).digest != digest
    assert spec.run_digest != load_spec(place.spec, due=NEXT).run_digest


def test_the_date_of_a_scheduled_run_is_that_of_its_schedule_in_its_zone(place: Plain):
    """Of periods and of specs without a schedule there is none: a period has its own."""
    late = datetime(2026, 1, 5, 23, 30, tzinfo=UTC)
    assert [due_date(place.spec, late, zone) for zone in (None, "Asia/Tokyo")] == ["2026-01-05", "2026-01-06"]
    place.says(PLAIN)
    assert due_date(place.spec, late) is None
    place.says(f"{SPEC}redraw: on_schedule\n")
    assert due_date(place.spec, late) is None


@pytest.mark.long
def test_a_period_on_a_schedule_is_due_the_day_after_its_last_and_superseded_on_a_date_of_its_own(tmp_path: Path):
    """Backfill, watch and queue need name nothing; another version names its date."""
    place = make_periodic(tmp_path, spec=f"{SPEC}redraw: on_schedule\n")
    own, other = "2024-04-01", "2024-06-01"
    assert load_spec(place.spec, "2024Q1").due == own
    for _ in range(2):
        release_plainly(place.spec, place.workspace.root, period="2024Q1")
    assert place.charges() == {"visits-2024-Q1": 1}
    run = RunFolder(tmp_path)
    with pytest.raises(DateMissing, match="first version was due"):
        settled(read_request(place.spec, place.workspace, "2024Q1"), place.workspace, run, supersede=True)
    asked = read_request(place.spec, place.workspace, "2024Q1", other)
    with pytest.raises(DateMissing, match="which is due on 2024-04-01"):
        check_due(asked, date(2026, 1, 1), supersede=False)
    check_due(asked, date(2026, 1, 1), supersede=True)
    assert settled(asked, place.workspace, run, supersede=True) is None
    release_plainly(place.spec, place.workspace.root, period="2024Q1", due=other, supersede=True)
    assert place.charges() == {"visits-2024-Q1": 2}


@pytest.mark.long
@pytest.mark.parametrize("what", ["rows", "spec", "contract"])
def test_a_second_version_of_a_release_is_asked_for(place: Plain, what: str):
    """Other rows, spec or contract under a name that is taken: nothing is charged until somebody says --supersede."""
    place.says(PLAIN)
    place.run()
    if what == "rows":
        place.other_rows()
    elif what == "spec":
        place.says(PLAIN.replace("epsilon: 1", "epsilon: 2"))
    else:
        contract = place.folder / "visits.odcs.yaml"
        contract.write_text(contract.read_text().replace("version: 1.0.0", "version: 1.0.1"))
    with pytest.raises(SecondVersion, match="--supersede") as refused:
        place.run()
    assert refused.value.exit_code == 4
    assert ("rows" in refused.value.findings[0].found) == (what == "rows")
    assert len(place.charges()) == 1
    place.run(supersede=True)
    place.run()
    assert place.versions() == [1, 2]
    assert len(place.charges()) == 2


def _deployed(place: Plain, *, cron: str | None = "0 6 * * 1", supersede: bool = False) -> str:
    return check_deployable(place.spec, place.workspace, cron=cron, timezone=None, supersede=supersede)


def test_a_schedule_says_when_it_draws_again(place: Plain):
    """Without a word its second run would stop and ask nobody; on demand it may be deployed without one."""
    assert "it fits 9 times" in _deployed(place)
    with pytest.raises(SpecRefused, match="several times a day"):
        _deployed(place, cron="0 6,18 * * *")
    place.says(f"{PLAIN}redraw: on_change\n")
    assert "it fits 9 times" in _deployed(place, cron="0 6,18 * * *")
    place.says(PLAIN)
    with pytest.raises(SpecRefused, match="on_schedule") as refused:
        _deployed(place)
    assert (refused.value.exit_code, refused.value.findings[0].field) == (2, "redraw")
    assert "it fits 9 times" in _deployed(place, supersede=True)
    assert "it fits 9 times" in _deployed(place, cron=None)


@pytest.mark.parametrize(
    ("old", "new", "error", "says"),
    [
        ("contract: visits.odcs.yaml", "contract: nowhere.yaml", Refused, "no such file"),
        ("epsilon: 1,", "epsilon: 10,", BudgetExceeded, "epsilon"),
        ("account: visits", "account: nobody", LedgerRefusal, "nobody"),
    ],
)
def test_what_could_never_run_is_not_deployed(place: Plain, old: str, new: str, error: type[Exception], says: str):
    """A contract that is not there, an ε beyond the whole cap, an account that nobody opened."""
    place.says(SCHEDULED.replace(old, new))
    with pytest.raises(error, match=says):
        _deployed(place)


def test_a_pattern_is_deployed_before_its_accounts_are_open_and_the_command_says_so(tmp_path: Path):
    """What no account could ever pay is refused of a pattern as well, where the last period has its account."""
    place = make_periodic(tmp_path)
    told = check_deployable(place.spec, place.workspace, cron="0 6 1 * *", timezone=None, supersede=False)
    assert "would be refused as things stand" in told
    (place.folder / "visits.odcs.yaml").unlink()
    with pytest.raises(Refused, match="no such file"):
        check_deployable(place.spec, place.workspace, cron="0 6 1 * *", timezone=None, supersede=False)


@pytest.mark.usefixtures("served")
def test_somebody_at_a_terminal_is_asked_and_nobody_else(place: Plain, capfd: pytest.CaptureFixture[str]):
    """Typed at a pseudo-terminal: no is exit 4 and no charge, yes is a second version; without one it is exit 4."""
    place.says(PLAIN)
    place.run()
    place.other_rows()
    assert _typed(place, "n") == 4
    assert len(place.charges()) == 1
    capfd.readouterr()
    assert execute(["run", str(place.spec), "--workspace", str(place.workspace.root)]) == 4
    assert "add --supersede" in capfd.readouterr().err
    assert len(place.charges()) == 1
    assert _typed(place, "y") == 0
    assert place.versions() == [1, 2]


def _typed(place: Plain, answer: str) -> int:
    command = [sys.executable, "-c", "from console.main import main; main()", "run", str(place.spec)]
    command += ["--workspace", str(place.workspace.root)]
    primary, terminal = pty.openpty()
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        os.write(primary, f"{answer}\n".encode())
        said = b""
        with suppress(OSError):  # the kernel's word for the end of a terminal
            while read := os.read(primary, 65536):
                said += read
        os.close(primary)
    assert b"Make another version" in said
    return process.returncode
