"""A release of statistics as people type it: planned, run, found again, verified; and what is refused of its spec."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from flows.prefect_runs.server import PrefectServer
from tests.console.conftest import Place, Said, Typed


def statistics(place: Place, name: str, *changes: tuple[str, str]) -> Path:
    """Write the example of statistics under another name, with other texts in it."""
    text = (place.adult / "statistics.yaml").read_text().replace("release: adult-statistics", f"release: {name}")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path = place.adult / f"{name}.yaml"
    path.write_text(text)
    return path


def charges(place: Place) -> int:
    with closing(sqlite3.connect(place.workspace.private / "ledger.sqlite")) as ledger:
        return int(ledger.execute("select count(*) from charges").fetchone()[0])


@pytest.fixture(scope="module")
def released(shared: Place, prefect_server: PrefectServer) -> Said:
    """The example by the Prefect flow; the account adds up Rényi losses."""
    return shared.type_on(
        prefect_server, "run", str(statistics(shared, "told", ("epsilon: 0.5", "epsilon: 0.4"))), "--json"
    )


@pytest.mark.usefixtures("served")
def test_the_example_runs_is_found_again_and_verifies(shared: Place, released: Said, typed: Typed):
    """One step each, ten rules; a second run draws and charges nothing."""
    assert released.code == 0, released.err
    for step in ("ingest", "validate", "measure", "report", "publish"):
        assert step in released.err
    folder = released.json["folder"]
    verified = typed("verify", folder, "--key", released.json["public_key_file"], "--json", at=shared.workspace)
    assert verified.code == 0, verified.err
    assert [check["rule"] for check in verified.json["checks"]] == list(range(1, 11))
    assert all(check["passed"] for check in verified.json["checks"])
    before = charges(shared)
    again = typed("run", str(shared.adult / "told.yaml"), "--json", at=shared.workspace)
    assert again.code == 0, again.err
    assert (again.json["repeated"], again.json["folder"]) == (True, folder)
    assert again.json["remaining"] == released.json["remaining"]
    assert charges(shared) == before
    assert sorted(path.name for path in (Path(folder) / "data").iterdir()) == [
        *("education.csv", "education.parquet", "sex_x_race.csv", "sex_x_race.parquet")
    ]


def test_a_version_of_statistics_is_evaluated_and_not_sampled(
    shared: Place, released: Said, typed: Typed, tmp_path: Path
):
    """The numbers stay in a private file unless they are asked for; only synthetic rows are sampled."""
    folder, source = released.json["folder"], str(shared.adult / "adult.parquet")
    said = typed("evaluate", folder, "--against", source, at=shared.workspace)
    assert (said.code, "numbers   not shown here" in said.out) == (0, True)
    shown = typed("evaluate", folder, "--against", source, "--show", at=shared.workspace)
    assert "of intervals hold" in shown.out
    said = typed("sample", folder, "--rows", "5", "--to", str(tmp_path / "rows.csv"))
    said.assert_ended(2, "a release of kind synthetic")


def test_a_plan_tells_each_statistic_and_its_interval(shared: Place, typed: Typed):
    """Data-free, for people and as JSON; the error of a mean falls with the rows of its cell."""
    spec = str(statistics(shared, "planned"))
    plan = typed("plan", spec, "--json", at=shared.workspace).json
    assert (plan["kind"], plan["mechanism"], plan["epsilon"], plan["delta"]) == ("statistics", "laplace", "0.5", "0")
    assert [(draw["key"], draw["cells"], draw["share"]) for draw in plan["draws"]] == [
        ("table:sex_x_race/hours-per-week", 10, 0.5),
        ("table:education/capital-gain", 16, 0.5),
    ]
    assert [draw["event"]["moves"] for draw in plan["draws"]] == [[98], [99999]]
    hours, gains = plan["statistics"]
    assert [each["statistic"] for each in hours["expected"]] == ["count", *["mean_hours-per-week"] * 3]
    errors = {each["rows"]: each["half_width_95"] for each in hours["expected"][1:]}
    assert errors[100] == pytest.approx(10 * errors[1000]) == pytest.approx(100 * errors[10000])
    assert gains["expected"][1]["clip"] == 99999
    printed = typed("plan", spec, at=shared.workspace).out
    for told in ("2 for 2 tables", "sex × race", "sum_capital-gain", "1,000 rows", "data read  none", "[0, 99999]"):
        assert told in printed
    for told in ("sex_x_race/hours-per-week", "[1, 99]", "50.0%"):
        assert told in printed
    little = str(statistics(shared, "little", ("epsilon: 0.5", "epsilon: 0.01")))
    assert "the whole clip" in typed("plan", little, at=shared.workspace).out


def test_a_plan_tells_optimal_shares(shared: Place, typed: Typed):
    """Of the expected errors alone, with the word for it."""
    spec = str(statistics(shared, "shared", ("mechanism: laplace", "mechanism: laplace\n  split: optimal")))
    plan = typed("plan", spec, "--json", at=shared.workspace).json
    counted, summed = (draw["share"] for draw in plan["draws"])
    assert plan["split"] == "optimal"
    # 10 cells of 2 + 1/2, 16 cells of 1 + 1/2: cube roots of 25 and 24
    assert (counted / summed) ** 3 == pytest.approx(25 / 24)
    printed = typed("plan", spec, at=shared.workspace).out
    for told in ("optimal: the sum of all squared errors", f"{counted:.1%}", f"{summed:.1%}"):
        assert told in printed


def test_a_plan_tells_from_which_noisy_counts_on_cells_are_published(shared: Place, typed: Typed):
    """Of two draws of one table, and the probability of both together; quantiles are refused with what to do."""
    rule = "mechanism: laplace", "mechanism: laplace\n  minimum_frequency: {k: 10, t: auto, at_most: 0.01}"
    mean = "{mean: hours-per-week}"
    spec = str(
        statistics(shared, "small-cells", rule, (mean, f"{mean}\n        - {{mean: capital-gain, clip: [0, 20000]}}"))
    )
    told = typed("plan", spec, "--json", at=shared.workspace).json["statistics"][0]["minimum_frequency"]
    assert [each["draw"] for each in told["draws"]] == [
        *("table:sex_x_race/hours-per-week", "table:sex_x_race/capital-gain")
    ]
    assert 0 < float(told["published_although_below_k"]) <= 0.01
    assert all(10 < each["threshold"] == 10 + each["t"] < told["mostly_published_from"] for each in told["draws"])
    printed = " ".join(typed("plan", spec, at=shared.workspace).out.split())
    both = " and ".join(f"{each['threshold']:,} (draw {each['draw']}, t {each['t']:,})" for each in told["draws"])
    assert f"a cell is published from a noisy count of {both} on. Of fewer than 10 rows" in printed
    tree = str(
        statistics(shared, "small-nodes", rule, (mean, "{quantiles: [0.5], of: hours-per-week, method: tree}"))
    )
    said = typed("plan", tree, at=shared.workspace)
    said.assert_ended(2, "a tree publishes counts of intervals of the column, small ones too")


def test_a_plan_tells_what_a_private_clip_costs_and_intervals_for_some_clips(shared: Place, typed: Typed):
    """The whole of the bounds first, then a quarter, a 16th and a 256th of them; the charge is the same for all."""
    change = "{sum: capital-gain}", "{sum: capital-gain, clip: private}"
    spec = str(statistics(shared, "found", change))
    plan = typed("plan", spec, "--json", at=shared.workspace).json
    [clip, *draws] = plan["draws"]
    assert (clip["key"], clip["cells"], clip["event"]["moves"]) == ("clip:capital-gain/1", 1, [1])
    assert clip["share"] + sum(draw["share"] for draw in draws) == pytest.approx(1)
    assert plan["epsilon"] == "0.5"
    sums = [each for each in plan["statistics"][1]["expected"] if each["statistic"] == "sum_capital-gain_clipped"]
    assert [each.get("if") for each in sums] == [
        *(None, "clip 1/4 of the bounds", "clip 1/16 of the bounds", "clip 1/256 of the bounds")
    ]
    widths = [each["half_width_95"] for each in sums]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] / widths[3] == pytest.approx(99_999 / 512, rel=0.3)
    printed = typed("plan", spec, at=shared.workspace).out
    for told in ("clip of capital-gain", "found by a noisy histogram for 5.0% of the charge", "1/256 of the bounds"):
        assert told in " ".join(printed.split()), printed


def test_gaussian_noise_is_planned_at_its_delta(shared: Place, typed: Typed):
    changes = ("mechanism: laplace", "mechanism: gaussian"), ("delta: 0", "delta: 1e-9")
    plan = typed("plan", str(statistics(shared, "normal", *changes)), "--json", at=shared.workspace).json
    assert (plan["mechanism"], plan["delta"]) == ("gaussian", "1e-9")
    assert 0.49 < float(plan["epsilon"]) <= 0.5
    assert {draw["event"]["kind"] for draw in plan["draws"]} == {"discrete_gaussian"}


HOURS = "{mean: hours-per-week}"
BAD = [
    (HOURS, "{mean: hours-per-week, clip: [0, 99]}", "[0, 99]", "within the bounds"),
    (HOURS, "{mean: hours-per-week, clip: [40, 20]}", "[40, 20]", "a lower end below the upper end"),
    (HOURS, "{mean: sex}", "'sex', a column without bounds", "one of age, fnlwgt"),
    (HOURS, "{mean: hours-a-week}", "the column 'hours-a-week'", "write 'hours-per-week'"),
    (HOURS, "{median: age}", "the keys median", "count, {sum: COLUMN}, {mean: COLUMN}"),
    (HOURS, "{mean: age, step: 5}", "[17, 90] in steps of 5", "a whole number of steps"),
    (
        "[sex, race]",
        "[age, fnlwgt, occupation, education, native-country, workclass, race, relationship, sex]",
        "cells of age",
        "at most 16,777,216",
    ),
    ("mechanism: laplace", "mechanism: gaussian", "delta 0 with mechanism gaussian", "a delta above 0"),
    ("epsilon: 0.5", "epsilon: 1e-12", "1e-12 for 2 draws", "take a larger `step:`"),
]


@pytest.mark.services
@pytest.mark.parametrize(("old", "new", "found", "told"), BAD)
def test_a_spec_that_cannot_be_followed_is_refused_before_anything_is_charged(
    shared: Place, typed: Typed, old: str, new: str, found: str, told: str
):
    """Exit 2 with file, line, what was found, what is allowed; by plan and by run alike."""
    spec, before = str(statistics(shared, "wrong", (old, new))), charges(shared)
    for command in ("plan", "run"):
        said = typed(command, spec, at=shared.workspace)
        assert said.code == 2, said.err
        assert "wrong.yaml:" in said.err
        for text in ("found:", "allowed:", "do:", found, told):
            assert text in said.err
    assert charges(shared) == before


def test_a_federation_makes_no_statistics(typed: Typed, tmp_path: Path):
    """The message names the key that no federation has, and those that it has."""
    spec = tmp_path / "federation.yaml"
    spec.write_text("federation: town\nproduct: {kind: statistics, tables: [{of: [count]}]}\n")
    said = typed("federation", "plan", str(spec))
    assert said.code == 2
    told = said.err[said.err.index("federation.yaml:2: product") :]
    assert "found:   the unknown key 'product'" in told
    assert "tables" in told[told.index("allowed:") :].splitlines()[0]
