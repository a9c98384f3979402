"""A release at several resolutions, from the spec to a version that verify replays, and what it refuses."""

from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow.parquet as pq
import pytest

from privacy.grant.grant import open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.ledger import Ledger
from tasks.products.tables.table_refinement import refine
from tests.tasks.records.version_schemas import version_schemas
from tests.tasks.verification.forgeries import event
from tests.tasks.verification.forgery import Change, Forgery, both, digest_of, drawn, edit, load, raised, replay
from tests.worlds.hierarchies import mesh, nested
from tests.worlds.tables import counted, made_up_rows
from tests.worlds.versions import Version, Worlds, broken

SCENARIOS = {"mesh": mesh, "nested": nested}


@pytest.fixture(scope="module")
def trees(worlds: Worlds) -> dict[str, Version]:
    """A mesh of 64 x 64 cells with pure noise; places and months with Gaussian noise, a flat table and CSV."""
    return {name: worlds.published(make()) for name, make in SCENARIOS.items()}


def counts(version: Version, file: str, column: str = "count") -> np.ndarray:
    values: np.ndarray = pq.read_table(version.folder / file)[column].to_numpy()
    return values


def table(version: Version) -> Any:
    return load(version.folder / "record.json")["replay"]["tables"][0]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_release_at_several_resolutions_is_published_and_replayed(trees: dict[str, Version], name: str):
    """Every level has its data and its measurements, in its own cells; all of it is verified."""
    version = trees[name]
    version.assert_verifies()
    jsonschema.Draft202012Validator(version_schemas()["record"]).validate(load(version.folder / "record.json"))
    stated = table(version)
    total = counts(version, stated["data"]).sum()
    for level in stated["levels"]:
        assert counts(version, level["data"]).sum() == total
        assert counts(version, level["data"]).min() >= 0
        assert len(counts(version, level["measurements"], "noisy")) == len(counts(version, level["data"]))
    cells = {"mesh": [4, 16, 64, 256, 1024, 4096], "nested": [6, 18, 105]}[name]
    assert [len(counts(version, each["data"])) for each in (*stated["levels"], stated)] == cells


def test_the_blocks_of_the_mesh_are_the_sums_of_its_cells(trees: dict[str, Version]):
    """Summed by hand, from the published files alone."""
    fine = counts(trees["mesh"], "data/mesh.parquet").reshape(64, 64)
    for size in (2, 4, 8, 16, 32):
        blocks = fine.reshape(64 // size, size, 64 // size, size).sum(axis=(1, 3))
        np.testing.assert_array_equal(counts(trees["mesh"], f"data/mesh.{size}x{size}.parquet"), blocks.reshape(-1))


def test_the_tables_beside_a_hierarchy_keep_the_same_estimated_total(trees: dict[str, Version]):
    """And groups of places and months add up, by label."""
    version = trees["nested"]
    replay = load(version.folder / "record.json")["replay"]
    total = replay["total"]["value"]
    assert replay["total"]["kind"] == "estimated"
    assert counts(version, "data/sex.parquet").sum() == counts(version, "data/moves.parquet").sum() == total
    fine = pq.read_table(version.folder / "data/moves.parquet").to_pandas().astype({"place": str, "moved": str})
    coarse = pq.read_table(version.folder / "data/moves.region_x_year.parquet").to_pandas()
    inside = fine[
        fine.place.isin(["Aoba", "Izumi", "Natori", "Sakata", "Tsuruoka"]) & fine.moved.str.startswith("2024")
    ]
    there = coarse[(coarse.place == "Tohoku") & (coarse.moved == "2024")]
    assert inside["count"].sum() == there["count"].item()
    csv = (version.folder / "data/moves.region_x_year.csv").read_text().splitlines()
    assert csv[0] == "place,moved,count,lower,upper"
    assert len(csv) == 1 + 6


def test_the_record_lists_the_levels_with_share_noise_and_expected_error(trees: dict[str, Version]):
    version = trees["mesh"]
    record = load(version.folder / "record.json")
    [told] = version.words["product.tables"]
    assert [level["level"] for level in told["levels"]] == ["32x32", "16x16", "8x8", "4x4", "2x2", "mesh"]
    assert told["total_from"] == "levels"
    for level in told["levels"]:
        assert float(level["variance_when_consistent"]) < float(level["variance"])
    draws = version.words["ledger.draws"]
    assert [draw["level"] for draw in draws] == ["32x32", "16x16", "8x8", "4x4", "2x2", "none"]
    assert all(draw["l1_sensitivity"] == 1 for draw in draws)
    assert {d["coarsening"]["level"] for d in record["replay"]["draws"][:-1]} == {d["level"] for d in draws[:-1]}
    page = (version.folder / "record.html").read_text(encoding="utf-8")
    assert "Its resolutions, which all add up" in page
    assert 'href="data/mesh.16x16.parquet"' in page
    assert "estimated from its noisy levels" in page


def test_a_run_that_resumes_replays_its_levels_and_publishes_the_same(tmp_path: Path):
    """Again from the opened grant, with other rows: nothing is drawn again, and the refined levels are the same."""
    scenario = mesh()
    first = scenario.run(tmp_path)
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", draws=tmp_path / "draws", clock=lambda: scenario.clock)
    grant, contract = open_grant(ledger, first.run_key), first.contract
    rows = made_up_rows(contract, 10)
    measured = [
        grant.draw(
            MarginalQuery(counted(contract, draw.clique, rows).coarser(draw.coarsening), draw.noise), key=draw.key
        )
        for draw in first.plan.draws
    ]
    (table,), (before,) = refine(first.spec.product, first.plan, contract, measured), first.tables
    entries = ledger.entries_of(first.run_key)
    ledger.close()
    assert [entry.kind for entry in entries].count("noise_drawn") == len(measured) == 6
    for again, known in zip(
        (*table.refined.coarser, table.refined), (*before.refined.coarser, before.refined), strict=True
    ):
        np.testing.assert_array_equal(again.values, known.values)
        np.testing.assert_array_equal(again.intervals.upper, known.intervals.upper)


def two_rows_moved(folder: Path) -> None:
    """Between two blocks, every checksum and signature made to agree."""
    path = folder / "data" / "mesh.32x32.parquet"
    raised("data/mesh.32x32.parquet", "count", 0, 2)(folder)
    raised("data/mesh.32x32.parquet", "count", 1, -2)(folder)
    digest = digest_of(path, "count")
    edit(folder / "record.json", lambda r: r["replay"]["tables"][0]["levels"][0].update(sha256=digest))


def csv_forged(folder: Path) -> None:
    path = folder / "data" / "moves.region_x_year.csv"
    lines = path.read_text().splitlines()
    for row, by in ((1, -1), (2, 1)):
        place, moved, count, *ends = lines[row].split(",")
        lines[row] = ",".join([place, moved, str(int(count) + by), *ends])
    path.write_text("\n".join(lines) + "\n")


def table_stating(change: Change) -> Change:
    return replay(lambda r: change(r["tables"][0]))


def grouping(change: Change) -> Change:
    return replay(lambda r: change(r["product"]["tables"][0]["hierarchy"]["nested"][0]["levels"][0]["groups"]))


LOST = grouping(lambda groups: groups[0][1].remove("Natori"))
FORGED_MESH = {
    "a level": Forgery({9}, files=two_rows_moved, says="data/mesh.32x32.parquet: column count, row 1"),
    "a noisy value of a level": Forgery(
        {8, 9},
        files=raised("measurements/mesh.16x16.parquet", "noisy", 3, 40),
        says="measurements/mesh.16x16.parquet: SHA-256 of column noisy",
    ),
    "a level with less noise than it cost": Forgery({7, 8}, *event(0, inverse_scale="1/5")),
}
FORGED_PLACES = {
    "a CSV of a level": Forgery({9}, files=csv_forged, says="data/moves.region_x_year.csv"),
    "other groups": Forgery(
        {6}, both(LOST, grouping(lambda groups: groups[1][1].append("Natori"))), says="coarsening"
    ),
    "a label in no group": Forgery({5}, LOST, says="no group has the label 'Natori'"),
    "a level less": Forgery({5}, table_stating(lambda t: t["levels"].pop()), says="levels"),
    "another file": Forgery(
        {5}, table_stating(lambda t: t["levels"][0].update(data="data/sex.parquet")), says="levels.data"
    ),
    "another digest of the sums": Forgery({6}, drawn(1, "coarsening", sha256="0" * 64), says="coarsening"),
    "a draw of the table itself": Forgery({6}, drawn(1, coarsening=None), says="coarsening"),
    "another shape": Forgery({6}, drawn(1, shape=[6]), says="shape"),
    "another method": Forgery({5}, table_stating(lambda t: t.update(method="simplex")), says="hierarchy"),
    "no hierarchy": Forgery({5}, replay(lambda r: r["product"]["tables"][0].update(hierarchy=None)), says="levels"),
}
FILES_ALONE = {"a level", "a CSV of a level"}
"""Found by the rule of the files and by no other."""


@pytest.mark.parametrize(
    ("name", "what"), [*(("mesh", what) for what in FORGED_MESH), *(("nested", what) for what in FORGED_PLACES)]
)
def test_a_forged_hierarchy_is_found_by_the_rule_it_breaks(
    trees: dict[str, Version], tmp_path: Path, name: str, what: str
):
    forgery = (FORGED_MESH if name == "mesh" else FORGED_PLACES)[what]
    forgery.check_found(trees[name].copy(tmp_path / "v"), alone=what in FILES_ALONE)


def test_a_file_of_a_level_that_is_gone_is_missed(trees: dict[str, Version], tmp_path: Path):
    version = trees["mesh"].copy(tmp_path / "v")
    (version.folder / "measurements" / "mesh.8x8.parquet").unlink()
    report = version.verify()
    assert 1 in broken(report)
    skipped = [skip for check in report.checks for skip in check.skipped]
    assert any("data/mesh.parquet: its measurements" in skip for skip in skipped)
