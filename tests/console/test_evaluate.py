"""`sudare evaluate` of counts against the published ones, and the manual's recipe for a score to publish."""

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from benchmarks.orchestration import release_plainly
from tests.console.conftest import Place, Typed
from tests.worlds.spines import WARDS, SpineScenario, with_teams
from tests.worlds.versions import Version, Worlds

_REFINED = "  refine: {method: simplex, integers: true}   # no negative counts, whole numbers\n"
HELD = ((_REFINED, "  minimum_frequency: {k: 50, t: 5}\n"), ("epsilon: 1.0", "epsilon: 0.4"))
LISTED = (
    ("    - [marital-status, sex, income]\n", "    - {columns: [age, education, marital-status], form: sparse}\n"),
    (_REFINED, ""),
    ("epsilon: 1.0", "epsilon: 0.4"),
)


@pytest.fixture(scope="module")
def folder(shared: Place) -> Path:
    release_plainly(shared.spec("counted"), shared.workspace.root)
    return shared.workspace.releases / "counted" / "v1"


@pytest.mark.long
def test_the_errors_of_cells_are_those_against_the_exact_counts(shared: Place, folder: Path, typed: Typed):
    """Private, in the workspace, shown when asked only; nothing is charged and the version stays as it is."""
    before = typed("budget", "show", "adult-1994", "--json", at=shared.workspace).json
    source = shared.adult / "adult.parquet"
    said = typed("evaluate", str(folder), "--against", str(source), "--show", "--json", at=shared.workspace)
    assert said.code == 0, said.err
    assert said.json["class"] == "private"
    written = json.loads(Path(said.json["scores"]).read_bytes())
    assert written["tables"] == said.json["found"]["tables"]
    assert Path(said.json["scores"]).is_relative_to(shared.workspace.private)
    page = Path(said.json["page"]).read_text()
    assert "PRIVATE" in page
    for name, errors in written["tables"].items():
        assert errors["cells"] > 0
        assert 0 <= errors["mean_absolute"] <= errors["rmse"] <= errors["largest"] < 500
        assert errors["covered"] > 0.7
        assert f"<h2>{name}</h2>" in page
    [(name, errors)] = [each for each in written["tables"].items() if "sex" in each[1]["columns"]]
    for cell in errors["worst"]:
        values = zip(errors["columns"], cell["labels"], strict=True)
        chosen = " AND ".join(f"\"{column}\" = '{label}'" for column, label in values)
        assert duckdb.sql(f"SELECT count(*) FROM '{source}' WHERE {chosen}").fetchall() == [(cell["exact"],)]
        told = duckdb.sql(f"SELECT count FROM '{folder}/data/{name}.parquet' WHERE {chosen}").fetchall()
        assert told == [(cell["published"],)]
    assert typed("budget", "show", "adult-1994", "--json", at=shared.workspace).json == before


def test_the_numbers_are_not_printed_unasked_and_tables_have_no_target(shared: Place, folder: Path, typed: Typed):
    source = str(shared.adult / "adult.parquet")
    refused = typed("evaluate", str(folder), "--against", source, "--target", "income", at=shared.workspace)
    refused.assert_ended(2, "tables have no rows")
    missing = typed("evaluate", str(folder.parent), "--against", source, at=shared.workspace)
    missing.assert_ended(2, "name one version")


@pytest.mark.long
def test_cells_without_a_count_are_told_apart_from_zeros(shared: Place, typed: Typed):
    """Suppressed cells, and of a sparse table those that are not listed; the rows in them are counted."""
    for name, change in (("held", HELD), ("listed", LISTED)):
        release_plainly(shared.spec(name, *change), shared.workspace.root)
        folder = str(shared.workspace.releases / name / "v1")
        source = str(shared.adult / "adult.parquet")
        said = typed("evaluate", folder, "--against", source, "--show", "--json", at=shared.workspace)
        assert said.code == 0, said.err
        tables = said.json["found"]["tables"]
        assert any(errors["unpublished"] > 0 for errors in tables.values())
        assert all(errors["rows_unpublished"] >= 0 for errors in tables.values())


TEAMS = {"surgery": "day", "children": "night", 'x, "y"': "night", "(null)": "day"}


def stays(scenario: Any, folder: Path) -> tuple[Path, pl.DataFrame]:
    """The real rows in a file, and as the contract reads them."""
    rows: pl.DataFrame = scenario.frame()
    path = folder / "stays.parquet"
    rows.drop([] if scenario.unit else ["patient"]).write_parquet(path)
    read = rows.select(
        ward=pl.when(pl.col("ward") == "nowhere").then(pl.lit("(null)")).otherwise(pl.col("ward")),
        floor=pl.col("floor").replace_strict({1: "1", 2: "2"}, default="9", return_dtype=pl.String),
        insured=pl.when(pl.col("insured")).then(pl.lit("true")).otherwise(pl.lit("false")),
    )
    return path, read


def evaluated(version: Version, rows: Path, place: Place, typed: Typed) -> dict[str, Any]:
    said = typed("evaluate", str(version.folder), "--against", str(rows), "--show", "--json", at=place.workspace)
    assert said.code == 0, said.err
    assert said.json["class"] == "private"
    found: dict[str, Any] = said.json["found"]["tables"]
    return found


def covered(version: Version, name: str, read: pl.DataFrame, columns: list[str]) -> float:
    """The share of intervals that hold the exact count."""
    table = pl.read_parquet(version.folder / "data" / f"{name}.parquet")
    held = [
        row["lower"] <= read.filter(**{column: row[column] for column in columns}).height <= row["upper"]
        for row in table.iter_rows(named=True)
    ]
    return sum(held) / len(held)


def test_counts_by_place_are_compared_at_every_level_of_every_tree(
    shared: Place, worlds: Worlds, typed: Typed, tmp_path: Path
):
    """Exact counts of the worst cells by hand; the public totals are not off."""
    scenario: SpineScenario = with_teams()
    path, rows = stays(scenario, tmp_path)
    version = worlds.published(scenario, here=True)
    found = evaluated(version, path, shared, typed)
    places = {
        "hospital": dict.fromkeys(WARDS, "hospital"),
        "wing": WARDS,
        "team": TEAMS,
        "ward": {ward: ward for ward in WARDS},
    }
    assert len(found) == 12
    for name, errors in found.items():
        above = places[name.rsplit(".", 1)[1]]
        read = rows.with_columns(ward=pl.col("ward").replace_strict(above))
        for cell in errors["worst"]:
            chosen = dict(zip(errors["columns"], cell["labels"], strict=True))
            assert read.filter(**chosen).height == cell["exact"]
        assert errors["unpublished"] == 0
        assert errors["covered"] == pytest.approx(covered(version, name, read, errors["columns"]))
    assert (found["rows.wing"]["largest"], found["rows.wing"]["covered"]) == (0, 1)
    assert found["floor_x_insured.team"]["largest"] > 0


def test_a_target_is_refused(shared: Place, worlds: Worlds, typed: Typed, tmp_path: Path):
    """Counts have no rows to predict of."""
    path, _ = stays(with_teams(), tmp_path)
    folder = str(worlds.published(with_teams(), here=True).folder)
    said = typed("evaluate", folder, "--against", str(path), "--target", "floor", at=shared.workspace)
    said.assert_ended(2, "counts have no rows")


PAGE = (Path(__file__).parents[2] / "docs" / "evaluate.md").read_text(encoding="utf-8")
RECIPE = PAGE.partition("## A score that may be published")[2].partition("\n## ")[0]
[SPEC] = re.findall(r"```yaml\n(.*?)```", RECIPE, re.DOTALL)
[QUERY] = re.findall(r"```sql\n(.*?)```", RECIPE, re.DOTALL)
DEVIATIONS = 7


@pytest.mark.long
def test_the_score_of_the_manual_is_that_against_the_exact_counts(shared: Place, typed: Typed):
    """It lies within seven of its standard errors, of the exact rows and of rows in which 500 men became women.

    False alarm < 1e-9: a distance of seven standard errors, which grow with the score themselves.
    """
    path = shared.adult / "adult-score.yaml"
    path.write_text(SPEC)
    release_plainly(path, shared.workspace.root)
    folder = shared.workspace.releases / "adult-score" / "v1"
    assert typed("verify", str(folder), "--key", str(shared.workspace.public_key_file)).code == 0
    source, made = shared.adult / "adult.parquet", shared.adult / "made.parquet"
    duckdb.sql(f"SELECT race, sex FROM '{source}'").create("real_rows")
    for moved in (0, 500):
        duckdb.sql(
            f"COPY (SELECT race, CASE WHEN row_number() OVER (PARTITION BY sex) <= {moved} THEN 'Female' ELSE sex "
            f"END AS sex FROM real_rows) TO '{made}'"
        )
        exact = _exact(str(made))
        score, error = _score(str(made), str(folder))
        assert error > 0
        assert abs(score - exact) <= DEVIATIONS * error
        if moved:
            assert score > 4 * error
    duckdb.sql("DROP TABLE real_rows")


def test_noise_is_taken_off_the_score(tmp_path: Path):
    """4,000 cells whose exact counts are those of the rows: the score is 0 within its error, over 40 times.

    Mean of the scores over their errors: deviation 0.16, six of them (false alarm < 1e-8). Without taking the
    variance off, each score would be 45 standard errors too large.
    """
    random = np.random.default_rng(11)
    (tmp_path / "measurements").mkdir()
    made = tmp_path / "made.parquet"
    cells = "SELECT 'r' || (i // 2) AS race, 's' || (i % 2) AS sex, i FROM range(4000) t(i)"
    duckdb.sql(f"COPY (SELECT race, sex FROM ({cells}) c, range(3)) TO '{made}'")
    ratios = []
    for _ in range(40):
        table = pa.table({"i": range(4000), "noisy": 3 + np.rint(random.normal(0, 10, 4000)).astype(np.int64)})
        duckdb.register("drawn", table)
        duckdb.sql(
            f"COPY (SELECT race, sex, noisy, 100 + 1/12 AS variance, false AS structural_zero FROM ({cells}) c "
            f"JOIN drawn USING (i)) TO '{tmp_path}/measurements/score.parquet'"
        )
        score, error = _score(str(made), str(tmp_path))
        ratios.append(score / error)
    assert abs(np.mean(ratios)) < 0.96


def _score(made: str, folder: str) -> tuple[float, float]:
    query = QUERY.replace("releases/adult-synthetic/v1/data/adult-synthetic.parquet", made)
    [row] = duckdb.sql(query.replace("releases/adult-score/v1", folder)).fetchall()
    return float(row[0]), float(row[1])


def _exact(made: str) -> float:
    """The mean squared distance of the exact counts from those of the rows that are scored."""
    counts = "SELECT race, sex, count(*) AS n FROM {} GROUP BY ALL"
    [row] = duckdb.sql(
        f"SELECT avg((coalesce(r.n, 0) - coalesce(m.n, 0)) ** 2) FROM ({counts.format('real_rows')}) r "
        f"FULL JOIN ({counts.format(repr(made))}) m USING (race, sex)"
    ).fetchall()
    return float(row[0])
