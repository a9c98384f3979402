"""The manual's recipe for a score that may be published: its spec runs, and its query gives what it says."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from benchmarks.orchestration import release_plainly
from tests.console.conftest import Place, Typed

PAGE = (Path(__file__).parents[2] / "docs" / "evaluate.md").read_text(encoding="utf-8")
RECIPE = PAGE.partition("## A score that may be published")[2].partition("\n## ")[0]
[SPEC] = re.findall(r"```yaml\n(.*?)```", RECIPE, re.DOTALL)
[QUERY] = re.findall(r"```sql\n(.*?)```", RECIPE, re.DOTALL)
DEVIATIONS = 7


@pytest.mark.long
def test_the_score_of_the_manual_is_that_against_the_exact_counts(shared: Place, typed: Typed) -> None:
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


def test_noise_is_taken_off_the_score(tmp_path: Path) -> None:
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
