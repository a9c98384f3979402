"""`sudare metrics`: what a monitoring system may see of a workspace, and example rules that watch it."""

import json
import re
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from console.workspace import Gauge, gauges_of
from flows.prefect_runs.server import PrefectServer
from privacy.ledger.entries import SEALED
from tests.console.conftest import Place, Typed

RULES = Path(__file__).parents[2] / "deploy" / "alerts.yaml"
LABEL = r'[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"'
LINE = re.compile(rf"sudare_[a-z_]+(\{{{LABEL}(?:,{LABEL})*\}})? -?[0-9.e+-]+")
NOW = datetime(2026, 11, 25, 12)


def schedule(place: Place, *entries: tuple[str, str]) -> None:
    file = place.workspace.root / "sudare.toml"
    lines = [f'"{spec}" = "{cron}"' for spec, cron in entries]
    file.write_text(file.read_text().partition("[schedule]")[0] + "\n".join(["[schedule]", *lines]) + "\n")


@pytest.fixture(scope="module")
def published(shared: Place, prefect_server: PrefectServer) -> Place:
    """One version is published, and the same spec is scheduled, beside one that is not there."""
    spec = shared.spec("monthly", ("epsilon: 1.0", "epsilon: 0.1"))
    done = shared.type_on(prefect_server, "run", str(spec))
    assert done.code == 0, done.err
    schedule(shared, (str(spec), "0 6 1 * *"), ("nowhere.yaml", "0 6 1 * *"))
    return shared


def values_of(place: Place) -> dict[str, dict[tuple[str, ...], float]]:
    ledger = place.workspace.open_ledger()
    try:
        found = tuple(gauges_of(ledger, place.workspace.__class__.open(place.workspace.root), now=NOW))
    finally:
        ledger.close()
    return {each.name: {tuple(labels.values()): value for labels, value in each.samples} for each in found}


def test_what_is_left_is_what_the_ledger_says(published: Place, typed: Typed):
    account = typed("budget", "show", "adult-1994", "--json", at=published.workspace).json
    values = values_of(published)
    loss = {name: float(account["loss"][name]) for name in ("remaining", "cap")}
    assert values["account_left_ratio"] == {("adult-1994",): pytest.approx(loss["remaining"] / loss["cap"])}
    fits = {("adult-1994", noise): float(text) for noise, text in account["fits"].items()}
    assert values["account_fits_epsilon"] == pytest.approx(fits)
    assert values["account_open"] == {("adult-1994",): 1}
    assert values["charges"] == {("published",): 1}
    assert values["versions"] == {("published",): 1}
    left = {each["spec"]: each["runs_left"] for each in account["schedule"]}
    assert {spec: left_ for (spec, _), left_ in values["schedule_runs_left"].items()} == left
    assert sorted(values["schedule_trouble"].values()) == [0, 1]


def test_times_are_those_of_the_journal_and_of_the_schedule(published: Place, typed: Typed):
    """Publications to the hour; due dates in the machine's local time, the last one and the next."""
    entries = typed("budget", "history", "--json", at=published.workspace).json["entries"]
    [at] = [datetime.fromisoformat(each["at"]).timestamp() for each in entries if each["kind"] == "version_published"]
    values = values_of(published)
    assert at % 3600 == 0
    assert values["checkpoint_timestamp_seconds"] == {(): at}
    assert values["release_published_timestamp_seconds"] == {("monthly",): at}
    assert not any("journal" in name for name in values)  # its length would count failed gates, which are sealed
    assert set(values["schedule_was_due_timestamp_seconds"].values()) == {datetime(2026, 11, 1, 6).timestamp()}
    assert set(values["schedule_due_timestamp_seconds"].values()) == {datetime(2026, 12, 1, 6).timestamp()}


def test_the_text_is_prometheuss_and_a_file_is_replaced_at_once(published: Place, typed: Typed, tmp_path: Path):
    told = typed("metrics", at=published.workspace)
    lines = told.out.splitlines()
    assert told.code == 0
    assert all(line.startswith(("# HELP sudare_", "# TYPE sudare_")) or LINE.fullmatch(line) for line in lines)
    file = tmp_path / "sudare.prom"
    file.write_text("older")
    said = typed("metrics", "--to", str(file), at=published.workspace)
    assert (said.code, said.out) == (0, f"12 metrics are in {file}\n")
    steady = [line for line in lines if not line.startswith("sudare_written")]
    assert [line for line in file.read_text().splitlines() if not line.startswith("sudare_written")] == steady
    assert [each.name for each in tmp_path.iterdir()] == [file.name]
    assert json.loads(typed("metrics", "--json", at=published.workspace).out)["metrics"]["account_open"] == [
        {"account": "adult-1994", "value": 1.0}
    ]


def test_nothing_is_told_that_is_sealed_or_follows_from_rows(published: Place, typed: Typed):
    """No source, no gate, no length of a run: the only times are hours, due dates, and that of the writing."""
    text = typed("metrics", at=published.workspace).out
    private = (
        "adult.parquet",
        str(published.adult.parent / "adult" / "adult"),
        "seconds_sum",
        "duration",
        "rows",
        *SEALED,
    )
    assert not [word for word in private if word in text]
    times = [name for name in values_of(published) if name.endswith("_seconds")]
    assert sorted(times) == [
        "checkpoint_timestamp_seconds",
        "release_published_timestamp_seconds",
        "schedule_due_timestamp_seconds",
        "schedule_was_due_timestamp_seconds",
        "written_timestamp_seconds",
    ]


def test_names_cannot_break_out_of_their_quotes():
    *_, line = Gauge("charges", "About.", (({"status": 'a"} 1\nsudare_x{b="\\'}, 2.0),)).lines()
    assert line == 'sudare_charges{status="a\\"} 1\\nsudare_x{b=\\"\\\\"} 2'
    assert LINE.fullmatch(line)


def test_a_place_that_cannot_be_written_is_refused(published: Place, typed: Typed, tmp_path: Path):
    said = typed("metrics", "--to", str(tmp_path / "no" / "sudare.prom"), at=published.workspace)
    said.assert_ended(2, "no such folder")


def test_the_example_rules_watch_metrics_that_there_are(published: Place):
    """Each name in an expression is one that is written, and each rule says what to type."""
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    written = {f"sudare_{name}" for name in values_of(published)}
    assert len(rules) == 6
    for rule in rules:
        assert set(re.findall(r"sudare_[a-z_]+", rule["expr"])) <= written, rule["alert"]
        assert rule["annotations"]["do"].startswith("sudare ")
