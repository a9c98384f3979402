"""What schedules rest on: which period is due, which runs were lost, what has arrived."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx
import pytest
from anyio import CapacityLimiter
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.logging import disable_run_logger

from benchmarks._periodic_place import SPEC, Periodic, make_periodic
from console.main import execute
from contracts.errors import SpecRefused
from contracts.periods.period import period_of, read_periods
from flows.entrance import make_release
from flows.order import ReleaseOrder
from flows.periods.arrivals import arrived
from flows.periods.clock import PeriodNotOver, check_over, today
from flows.prefect_runs.deployment import Terms, queue_of, standing_terms
from flows.prefect_runs.scheduled_release import due_period
from flows.prefect_runs.server import PrefectServer, is_outage, startable_runs
from flows.prefect_runs.worker import MOST_ATTEMPTS, how_it_ended, is_lost
from flows.release import Unattended
from flows.request import read_request
from tasks.storage.workspace.keys import write_secret
from tasks.storage.workspace.run_folder import alive, note_attempt, note_end, only_one, sign_of_life, take_end

NOW = datetime(2025, 5, 5, tzinfo=UTC)
GRACE = timedelta(seconds=60)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path) -> Periodic:
    made = make_periodic(tmp_path_factory.mktemp("visits"))
    shutil.copytree(prefect_home, made.workspace.prefect_home)
    return made


@pytest.mark.parametrize(
    ("length", "period"),
    [("day", "2025-05-04"), ("week", "2025-W18"), ("month", "2025-04"), ("quarter", "2025-Q1"), ("year", "2024")],
)
def test_the_last_period_that_is_over_is_due(tmp_path: Path, length: str, period: str):
    """On the first day of a period the one before is due, and still is on its last."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.replace("period: quarter", f"period: {length}"))
    assert due_period(spec, NOW) == period
    following = read_periods(period, length)[0].following  # type: ignore[arg-type]
    first, last = following.first, following.following.first - timedelta(days=1)
    for day in (first, last):
        assert due_period(spec, datetime(day.year, day.month, day.day, 23, 59, tzinfo=UTC)) == period


def test_the_day_is_that_of_the_time_zone(tmp_path: Path):
    """At six in the morning in Tokyo a quarter is over that goes on in UTC; in New York it is the other way round."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    morning, evening = datetime(2025, 3, 31, 21, tzinfo=UTC), datetime(2025, 4, 1, 1, tzinfo=UTC)
    assert [due_period(spec, morning, zone) for zone in (None, "Asia/Tokyo")] == ["2024-Q4", "2025-Q1"]
    assert [due_period(spec, evening, zone) for zone in (None, "America/New_York")] == ["2025-Q1", "2024-Q4"]
    assert today("Asia/Tokyo", morning) == date(2025, 4, 1)
    assert abs(today() - datetime.now(UTC).date()) <= timedelta(days=1)


def test_a_period_that_is_not_over_is_not_released(place: Periodic, capfd: pytest.CaptureFixture[str]):
    """Its later rows would cost a second charge; the message says when it ends. A day later it may be."""
    request = read_request(place.spec, place.workspace, "2025Q1")
    with pytest.raises(PeriodNotOver, match="whose last day is 2025-03-31; today is 2025-03-31"):
        check_over(request, date(2025, 3, 31))
    check_over(request, date(2025, 4, 1))
    check_over(request, None)
    following = str(period_of(today(), "quarter"))
    assert execute(["run", str(place.spec), "--period", following, "--workspace", str(place.workspace.root)]) == 2
    assert "a period that is over" in capfd.readouterr().err
    order = ReleaseOrder(place.spec, following)
    with disable_run_logger(), pytest.raises(PeriodNotOver):
        make_release(order, place.workspace, Unattended(order))
    told = ["--period", following, "--early", "--workspace", str(place.workspace.root)]
    assert execute(["run", str(place.spec), *told]) == 4
    assert f"budget open visits-{following}" in capfd.readouterr().err


def _run(kind: StateType, *, age: float, attempts: int = 1) -> FlowRun:
    state = State(type=kind, timestamp=NOW - timedelta(seconds=age))  # type: ignore[call-arg]
    return FlowRun(id=uuid4(), flow_id=uuid4(), state=state, run_count=attempts)


def test_a_run_is_lost_when_its_process_died_or_never_came(tmp_path: Path):
    """A living one never is, whatever Prefect holds it for; a crashed one is at once; others after the grace."""
    running, crashed = _run(StateType.RUNNING, age=5), _run(StateType.CRASHED, age=5)
    late, tired = _run(StateType.PENDING, age=61), _run(StateType.CRASHED, age=5, attempts=MOST_ATTEMPTS)
    found = [is_lost(run, tmp_path, now=NOW, grace=GRACE) for run in (running, crashed, late, tired)]
    assert found == [False, True, True, False]
    with alive(tmp_path, str(late.id)), alive(tmp_path, str(crashed.id)):
        assert not is_lost(late, tmp_path, now=NOW, grace=GRACE)
        assert not is_lost(crashed, tmp_path, now=NOW, grace=GRACE)


@pytest.mark.services
def test_a_killed_process_leaves_a_sign_and_one_that_ends_does_not(tmp_path: Path):
    """The kernel lets go of the lock when the process is killed."""
    with alive(tmp_path, "ends"):
        assert sign_of_life(tmp_path, "ends") == "lives"
    assert sign_of_life(tmp_path, "ends") == "no sign"
    code = (
        "import sys, time; from pathlib import Path; from tasks.storage.workspace.run_folder import alive\n"
        "with alive(Path(sys.argv[1]), 'killed'): print('in', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert sign_of_life(tmp_path, "killed") == "lives"
        process.send_signal(signal.SIGKILL)
    assert sign_of_life(tmp_path, "killed") == "died"
    with only_one(tmp_path, "lock") as first, only_one(tmp_path, "lock") as second:
        assert (first, second) == (True, False)


def test_a_period_arrives_when_its_file_is_at_rest_and_newer_than_the_last_attempt(place: Periodic):
    """Not while it is written, not again after an attempt on the same file, and again once it was written."""
    file, periods = place.folder / "visits.csv", read_periods("2024Q1..2025Q3", "quarter")

    def ready() -> list[str]:
        quiet = timedelta(seconds=30)
        return [
            str(each.period)
            for each in arrived(place.spec, periods, place.workspace, today=date(2024, 7, 2), quiet=quiet)
        ]

    def written(seconds: float) -> None:
        at = (datetime.now(UTC) + timedelta(seconds=seconds)).timestamp()
        os.utime(file, (at, at))

    written(0)
    assert ready() == []
    written(-60)
    assert ready() == ["2024-Q1", "2024-Q2"]
    note_attempt(place.workspace.attempts, "visits-2024-q2", "GateBroken", error=None, charge=None)
    assert ready() == ["2024-Q1"]
    written(-31)
    assert ready() == ["2024-Q1"]
    file.rename(file.with_suffix(".away"))
    assert ready() == []
    file.with_suffix(".away").rename(file)


def test_the_key_of_an_arrival_tells_nobody_when_files_were_written(place: Periodic):
    """Prefect keeps it. One arrival has one key, other times have others; without the secret none can be tried."""
    file, secret = place.folder / "visits.csv", place.workspace.keys / "snapshot.key"

    def key(minutes: int) -> str:
        at = (NOW + timedelta(minutes=minutes)).timestamp()
        os.utime(file, (at, at))
        periods = read_periods("2024Q1", "quarter")
        (found,) = arrived(place.spec, periods, place.workspace, today=date(2024, 7, 2), quiet=timedelta())
        return found.key

    first, again, later, held = key(0), key(0), key(1), secret.read_bytes()
    write_secret(secret, bytes(32))
    elsewhere = key(0)
    write_secret(secret, held)
    assert first == again == key(0)
    assert len({first, later, elsewhere}) == 3
    assert all(re.fullmatch(r"visits-2024-q1: [0-9a-f]{64}", each) for each in (first, later, elsewhere))


def test_a_table_of_a_server_is_not_watched(place: Periodic, tmp_path: Path):
    """Nothing tells that somebody wrote to it; the remedy is a schedule or an event."""
    shutil.copy(place.folder / "visits.odcs.yaml", tmp_path)
    spec = tmp_path / "visits.yaml"
    spec.write_text(SPEC.replace("{path: visits.csv,", "{path: 'postgresql://localhost/x', table: visits,"))
    periods = read_periods("2024Q1", "quarter")
    with pytest.raises(SpecRefused, match="a table of a server") as refused:
        arrived(spec, periods, place.workspace, today=date(2024, 7, 2), quiet=timedelta())
    assert "--on-event" in str(refused.value)


def test_deploying_needs_a_server_and_a_cron_that_comes(place: Periodic, capfd: pytest.CaptureFixture[str]):
    """Both are refused as bad input, with what to do; nothing is started."""
    at = ("--workspace", str(place.workspace.root))
    assert execute(["deploy", str(place.spec), "--cron", "0 6 31 2 *", *at]) == 2
    assert "five fields" in capfd.readouterr().err
    assert execute(["deploy", str(place.spec), "--cron", "0 6 1 * *", *at]) == 2
    assert "prefect.api_url" in capfd.readouterr().err


def test_deploying_again_keeps_what_it_does_not_name(
    place: Periodic, served: PrefectServer, capfd: pytest.CaptureFixture[str]
):
    """The manual's two commands: `--cron` and then `--backfill` leave the schedule, and what changes is said."""
    at = ("--name", "kept", "--workspace", str(place.workspace.root), "--json")

    def deployed(*words: str) -> dict[str, Any]:
        capfd.readouterr()
        with served.connected():
            assert execute(["deploy", str(place.spec), *words, *at]) == 0
        told: dict[str, Any] = json.loads(capfd.readouterr().out)
        return told

    cron = "0 6 5 1,4,7,10 *"
    first = deployed("--cron", cron, "--timezone", "Europe/Oslo", "--on-event", "--supersede")
    assert (first["cron"], first["changes"]) == (cron, [])
    again = deployed("--backfill", "2024Q1..2024Q1")
    assert (again["cron"], again["changes"], again["submitted"]) == (cron, [], ["2024-Q1"])
    with served.connected():
        standing = asyncio.run(standing_terms(place.spec, name="kept"))
    assert standing == Terms("sudare", cron, "Europe/Oslo", on_event=True, supersede=True)
    assert deployed("--cron", "0 7 5 * *")["changes"] == [f"cron: {cron} → 0 7 5 * *"]
    gone = deployed("--cron", "none", "--no-supersede", "--no-on-event")
    assert (gone["cron"], len(gone["changes"])) == (None, 3)


def test_queues_are_named_after_accounts():
    assert queue_of("visits/2024 Q1") == "account-visits-2024-Q1"


def test_a_worker_says_in_a_line_how_a_run_ended(tmp_path: Path):
    """With its version and exit code, where the run noted them; an end that nobody noted is said as well."""
    assert take_end(tmp_path, "run") is None
    note_end(tmp_path / "live", "run", "visits v3 is published", 0)
    end = take_end(tmp_path / "live", "run")
    assert how_it_ended("visits", end, 0) == "visits: visits v3 is published, exit 0"
    assert how_it_ended("visits", end, 1).endswith("the Prefect server was away at its end, and hears of it later")
    assert take_end(tmp_path / "live", "run") is None
    assert how_it_ended("visits", ("not published (BudgetExceeded)", 4), 1).endswith("(BudgetExceeded), exit 4")
    assert "ended with -9 before it could say why" in how_it_ended("visits", None, -9)


def test_an_outage_is_told_from_an_error():
    """Of a group all must be of the server; a refusal of the server, and any error of ours, are none."""
    away = httpx.ConnectError("refused")
    asked = httpx.Request("GET", "http://127.0.0.1/api")
    busy, refused = (httpx.HTTPStatusError("", request=asked, response=httpx.Response(code)) for code in (503, 401))
    assert all(map(is_outage, (away, busy, RuntimeError("Service exceeded error threshold."))))
    assert is_outage(ExceptionGroup("both", [away, ExceptionGroup("inner", [busy])]))
    assert not any(map(is_outage, (refused, RuntimeError("other"), ExceptionGroup("both", [away, KeyError()]))))


def test_a_worker_starts_no_run_whose_process_it_still_has():
    """One that is put back while its process is telling Prefect its end waits; Prefect's worker would die of it."""
    first, second = uuid4(), uuid4()
    asked = [SimpleNamespace(flow_run=SimpleNamespace(id=each)) for each in (first, second)]
    assert [each.flow_run.id for each in startable_runs(asked, {first})] == [second]
    assert startable_runs(asked, ()) == asked

    async def given_twice() -> None:
        limiter = CapacityLimiter(2)
        limiter.acquire_on_behalf_of_nowait(first)
        assert startable_runs(asked, limiter.statistics().borrowers) == asked[1:]
        limiter.acquire_on_behalf_of_nowait(first)

    with pytest.raises(RuntimeError, match="already holding"):
        asyncio.run(given_twice())
