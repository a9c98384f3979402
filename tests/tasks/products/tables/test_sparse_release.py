"""Sparse tables from the spec to a version that verify replays, and forged ones that it refuses."""

import json
from collections.abc import Callable
from fractions import Fraction
from math import exp
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from contracts.errors import SpecRefused
from contracts.release.spec_checks import check_spec
from privacy.grant.grant import open_grant
from privacy.grant.queries.sparse_marginal import SparseMarginalQuery
from privacy.ledger.draw_files import listing_digest
from privacy.ledger.ledger import Ledger
from privacy.refine import sparse_depth
from tests.tasks.records.version_schemas import version_schemas
from tests.tasks.verification.forgery import (
    Change,
    Forgery,
    Json,
    as_published,
    assert_caught,
    draw_of,
    drawn,
    edit,
    forge,
    load,
    nothing,
    replay,
)
from tests.worlds.sparse_tables import small, sparse
from tests.worlds.tables import MadeUpCounts, made_up_rows
from tests.worlds.versions import Version, Worlds, broken, publish_version

LARGE = "c0_x_c1_x_c2"
SMALL = "c0_x_c1"


@pytest.fixture(scope="module")
def large(worlds: Worlds) -> Version:
    return worlds.published(sparse())


@pytest.fixture(scope="module")
def zeros(worlds: Worlds) -> Version:
    return worlds.published(small())


def marks(path: Path) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in pq.read_schema(path).metadata.items()}


def stated(version: Version, table: str) -> tuple[Json, Json]:
    replay = load(version.folder / "record.json")["replay"]
    draw = next(each for each in replay["draws"] if each["key"] == f"table:{table}")
    return draw, next(each for each in replay["tables"] if each["name"] == table)


@pytest.mark.long
def test_a_domain_of_a_thousand_million_cells_is_published_and_verified(large: Version):
    """3,000 rows in 10^9 cells: the table is sparse by itself, its small margin is dense; both are replayed."""
    large.assert_verifies()
    draw, table = stated(large, LARGE)
    assert draw["listed"]["cells"] == 10**9
    dense_draw, dense_table = stated(large, "c0")
    assert dense_draw["listed"] is None
    assert dense_table["listed"] is None
    noisy = pl.read_parquet(large.folder / f"measurements/{LARGE}.parquet")
    data = pl.read_parquet(large.folder / f"data/{LARGE}.parquet")
    assert (noisy.height, data.height) == (draw["listed"]["rows"], table["listed"]["rows"])
    assert noisy["noisy"].min() >= draw["listed"]["threshold"] >= 1
    assert data["count"].min() > 0
    drawn = pq.read_table(large.folder / "measurements/total.parquet")["noisy"][0].as_py()
    assert data["count"].sum() == drawn
    assert (data["lower"] <= data["count"]).all()
    assert (data["upper"] >= data["count"]).all()
    assert noisy.height < 200_000


def test_files_say_what_the_cells_are_that_they_do_not_list(large: Version):
    draw, _ = stated(large, LARGE)
    threshold = draw["listed"]["threshold"]
    measured = marks(large.folder / f"measurements/{LARGE}.parquet")
    assert measured["sudare_form"] == "sparse"
    assert (measured["sudare_cells"], measured["sudare_threshold"]) == (str(10**9), str(threshold))
    assert measured["sudare_absent"] == f"the noisy count of a cell that is not listed is below {threshold}"
    refined = marks(large.folder / f"data/{LARGE}.parquet")
    assert refined["sudare_absent"] == "the refined count of a cell that is not listed is 0"
    assert "sudare_form" not in marks(large.folder / "data/c0.parquet")
    labels = dict.fromkeys(("c0", "c1", "c2"), pl.String)
    csv = pl.read_csv(large.folder / f"data/{LARGE}.csv", schema_overrides=labels)
    assert csv.rows() == pl.read_parquet(large.folder / f"data/{LARGE}.parquet").rows()


def test_the_record_says_form_threshold_and_that_the_number_of_rows_is_released(large: Version):
    record = load(large.folder / "record.json")
    Draft202012Validator(version_schemas()["record"]).validate(record)
    entries = {entry["table"]: entry for entry in large.words["product.tables"]}
    draw, table = stated(large, LARGE)
    listed = entries[LARGE]["listed"]
    assert entries[LARGE]["form"] == "sparse"
    assert not {"form", "listed"} & set(entries["c0"])
    assert (listed["cells"], listed["threshold"]) == (10**9, draw["listed"]["threshold"])
    assert (listed["listed_noisy"], listed["listed_refined"]) == (draw["listed"]["rows"], table["listed"]["rows"])
    assert listed["absent_noisy"] == f"the noisy count is below {draw['listed']['threshold']}"
    assert listed["absent_interval"][1] >= draw["listed"]["threshold"] - 1
    assert "too high on average" in entries[LARGE]["known_bias"]
    assert "Not fixed, but released" in large.words["output.row_count_origin"]
    assert "no cell is left out for its true count" in large.words["product.suppression"]
    rows = {file["path"]: file["rows"] for file in record["files"]}
    assert rows[f"measurements/{LARGE}.parquet"] == draw["listed"]["rows"]
    catalogue = load(large.folder / "croissant.json")
    told = {part["name"]: part["description"] for part in catalogue["recordSet"]}
    assert "reached the threshold" in told[f"measurements/{LARGE}"]
    assert "count of every other cell" in told[f"data/{LARGE}"]


def test_the_page_explains_a_sparse_table(large: Version):
    page = (large.folder / "record.html").read_text(encoding="utf-8")
    draw, _ = stated(large, LARGE)
    assert "1,000,000,000 cells" in page
    assert f"Every other cell reads below {draw['listed']['threshold']:,}" in page
    assert "a sparse table lists some, and says what the others are" in page
    falls, rows = exp(-float(Fraction(draw["event"]["inverse_scale"]))), draw["listed"]["rows"]
    empty = 10**9 * falls ** draw["listed"]["threshold"] / (1 + falls)
    assert f"{rows:,} cells; were all cells empty, noise alone would list about {round(empty):,}." in page
    assert len(page) < 300_000


REFINED = [
    "{method: none}",
    "{method: simplex}",
    "{method: simplex, integers: false}",
    "{method: negative_l2, lambda: 0.3, integers: false}",
    "{method: negative_l2, lambda: auto}",
]


@pytest.mark.long
@pytest.mark.parametrize("refine", REFINED)
def test_each_refinement_of_a_sparse_table_is_published_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refine: str
):
    """Structural zeros; the first threshold is set where 2 empty cells are expected, so that it has to be lowered."""
    monkeypatch.setattr(sparse_depth, "FALSE_HITS", 2)
    version = publish_version(small(refine, epsilon="1"), tmp_path)
    version.assert_verifies()
    _, table = stated(version, SMALL)
    noisy = pl.read_parquet(version.folder / f"measurements/{SMALL}.parquet")
    data = pl.read_parquet(version.folder / f"data/{SMALL}.parquet")
    impossible = noisy.filter(pl.col("structural_zero")).select("c0", "c1")
    assert data.join(impossible, on=["c0", "c1"], how="semi").height == 0
    entry = version.words["product.tables"][0]
    assert "38 cells declared impossible" not in str(entry["steps"])
    assert "26 cells declared impossible" in str(entry["steps"])
    if refine == "{method: none}":
        kept = noisy.filter(~pl.col("structural_zero"))
        assert data["count"].to_list() == kept["noisy"].to_list()
        assert "Whoever reads absent cells as 0" in entry["known_bias"]
    else:
        drawn = pq.read_table(version.folder / "measurements/total.parquet")["noisy"][0].as_py()
        assert data["count"].sum() == pytest.approx(drawn)
        assert entry["total"] == drawn
    assert (table["chosen"] is not None) == ("auto" in refine)


def test_a_public_total_is_kept_under_replace_one(tmp_path: Path):
    version = publish_version(small("{method: simplex}", total="invariant"), tmp_path)
    assert version.verify().ok
    assert pl.read_parquet(version.folder / f"data/{SMALL}.parquet")["count"].sum() == 400


def test_a_table_without_a_listed_cell_is_published_and_replayed(tmp_path: Path):
    """One row, one cell in 10^9, little noise budget: nothing reaches the first threshold, or next to nothing."""
    scenario = sparse(tables="[[c0, c1, c2]]", refine="{method: simplex}", rows=1, epsilon="0.5")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_depth, "default_threshold", lambda cells, scale, *, false_hits: 10**6)
        version = publish_version(scenario, tmp_path)
        report = version.verify()
    assert report.ok, report.findings
    assert pq.read_table(version.folder / f"data/{LARGE}.parquet").num_rows == 0
    assert (version.folder / f"data/{LARGE}.csv").read_text() == "c0,c1,c2,count,lower,upper\n"


def test_a_run_that_resumes_publishes_the_list_that_was_drawn(tmp_path: Path):
    """Killed after the draw: the grant replays the file, and the version has its digest."""
    scenario = small()
    scenario.seeded = False
    first = scenario.run(tmp_path)
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", draws=tmp_path / "draws", clock=lambda: scenario.clock)
    grant = open_grant(ledger, first.run_key)
    draw = first.plan.draw(f"table:{SMALL}")
    assert draw.sparse is not None
    counts = MadeUpCounts(first.contract, made_up_rows(first.contract, scenario.rows))
    total = int(first.total.values) if first.total is not None else None
    again = grant.draw(
        SparseMarginalQuery(counts.sparse(draw.clique), draw.noise, draw.sparse.depth(total)), key=draw.key
    )
    ledger.close()
    drawn = first.tables[0].measurement
    assert again.sha256 == drawn.sha256
    assert np.array_equal(again.table.codes, drawn.table.codes)  # type: ignore[union-attr]


def test_a_domain_beyond_64_bits_is_refused_and_names_its_columns(tmp_path: Path):
    scenario = sparse((10_000,) * 5, tables="[[c0, c1, c2, c3, c4]]")
    spec, contract = scenario.written(tmp_path)
    (finding,) = check_spec(spec, contract)
    assert finding.found.startswith("c0 x c1 x c2 x c3 x c4: 10000 x 10000")
    assert "2^63 - 1" in finding.allowed
    with pytest.raises((SpecRefused, ValueError)):
        scenario.run(tmp_path / "run")


# --- forgeries by a publisher with the right key ------------------------------------------------------------------


def table_of(path: Path) -> tuple[pa.Table, np.ndarray]:
    """A sparse Parquet file of the small table, and the codes of its cells."""
    table = pq.read_table(path)
    digits = [
        table.column(name).cast(pa.string()).to_numpy(zero_copy_only=False).astype(int) - 1 for name in ("c0", "c1")
    ]
    return table, digits[0] * 30 + digits[1]


def restated(version: Version, *, measured: bool = True) -> None:
    """Write the digests and numbers of the files as they stand everywhere, then sign all of it again."""
    noisy, codes = table_of(version.folder / f"measurements/{SMALL}.parquet")
    data, kept = table_of(version.folder / f"data/{SMALL}.parquet")

    def record(value: Json) -> None:
        draw = draw_of(value, f"table:{SMALL}")
        table = next(each for each in value["replay"]["tables"] if each["name"] == SMALL)
        draw["listed"]["rows"] = noisy.num_rows
        table["listed"]["rows"] = data.num_rows
        table["sha256"] = listing_digest(kept, data.column("count").to_numpy(), {"cells": 600})
        if measured:
            draw["sha256"] = digest(draw["listed"]["threshold"])

    def digest(threshold: int) -> str:
        terms = {"cells": 600, "threshold": threshold}
        return listing_digest(codes, noisy.column("noisy").to_numpy(), terms)

    def journal(entries: list[Json]) -> None:
        threshold = stated(version, SMALL)[0]["listed"]["threshold"]
        for entry in entries:
            if measured and entry["kind"] == "noise_drawn" and entry["body"]["key"] == f"table:{SMALL}":
                entry["body"]["sha256"] = digest(threshold)

    forge(version, record=record, journal=journal)


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    table = pq.read_table(path)
    as_published(change(table).replace_schema_metadata(table.schema.metadata), path)


def with_value(column: str, row: int, by: int) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table.column(column).to_numpy().copy()
        values[row] += by
        return table.set_column(table.column_names.index(column), table.schema.field(column), pa.array(values))

    return change


def moved(table: pa.Table) -> pa.Table:
    """Raise the first noisy count by one, with its interval."""
    for column in ("noisy", "lower", "upper"):
        table = with_value(column, 0, 1)(table)
    return table


def below(table: pa.Table) -> pa.Table:
    """Lower the first noisy count to 0, with its interval: what a populated cell below the threshold would show."""
    by = -int(table.column("noisy")[0].as_py())
    for column in ("noisy", "lower", "upper"):
        table = with_value(column, 0, by)(table)
    return table


def dropped(table: pa.Table) -> pa.Table:
    return table.slice(1)


MEASURED, DATA = f"measurements/{SMALL}.parquet", f"data/{SMALL}.parquet"


@pytest.mark.parametrize("name", ["zeros", "large"])
def test_the_forger_s_tools_alone_change_nothing(request: pytest.FixtureRequest, tmp_path: Path, name: str):
    version = request.getfixturevalue(name).copy(tmp_path / "v")
    if name == "zeros":
        rewrite(version.folder / MEASURED, lambda table: table)
        restated(version)
    else:
        forge(version)
    version.assert_verifies()


def reordered(first: list[int], then: int) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.take([*first, *range(then, table.num_rows)])


CHANGED: dict[str, tuple[str, Callable[[pa.Table], pa.Table], bool, set[int], str]] = {
    "a noisy value, and nothing entered anew": (MEASURED, moved, False, {8}, "when it was drawn"),
    "a noisy value below the threshold, entered anew": (MEASURED, below, True, {8}, "the threshold"),
    "a listed cell dropped, and nothing entered anew": (MEASURED, dropped, False, {8}, "when it was drawn"),
    "listed cells in another order": (MEASURED, reordered([1, 0], 2), True, {8}, "row-major order"),
    "a cell that is listed twice": (MEASURED, reordered([0, 0], 1), True, {8}, "each once"),
    "a narrower interval": (MEASURED, with_value("upper", 2, -1), True, {8}, "column upper, row 3"),
    "a refined value": (DATA, with_value("count", 1, 7), True, {9}, "column count, row 2"),
    "a refined cell dropped": (DATA, dropped, True, {9}, "replayed by negative_l2"),
    "a refined interval": (DATA, with_value("lower", 0, -1), True, {9}, "column lower, row 1"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_forged_list_is_caught_by_the_rule_it_breaks(zeros: Version, tmp_path: Path, name: str):
    file, change, measured, rules, says = CHANGED[name]
    version = zeros.copy(tmp_path / "v")
    rewrite(version.folder / file, change)
    restated(version, measured=measured)
    assert rules <= broken(version.verify())
    assert_caught(version, rules, says)


def test_a_row_added_below_the_threshold_is_caught(zeros: Version, tmp_path: Path):
    """The threshold in record, file and journal stays: whatever lies below it must not be there."""
    version = zeros.copy(tmp_path / "v")
    table, codes = table_of(version.folder / MEASURED)
    absent = int(np.setdiff1d(np.arange(600), codes)[0])
    assert stated(version, SMALL)[0]["event"]["kind"] == "discrete_laplace"
    width = table.column("noisy")[0].as_py() - table.column("lower")[0].as_py()
    row = {
        "c0": [str(absent // 30 + 1)],
        "c1": [str(absent % 30 + 1)],
        "noisy": [0],
        "variance": [table.column("variance")[0].as_py()],
        "lower": [-width],
        "upper": [width],
        "structural_zero": [False],
    }
    place = int((codes < absent).sum())
    plain = table.cast(pa.schema([(f.name, pa.string() if f.name in ("c0", "c1") else f.type) for f in table.schema]))
    extra = pa.table(row, schema=plain.schema.remove_metadata())
    whole = pa.concat_tables(
        [plain.slice(0, place).replace_schema_metadata(None), extra, plain.slice(place).replace_schema_metadata(None)]
    )
    as_published(whole.replace_schema_metadata(table.schema.metadata), version.folder / MEASURED)
    restated(version)
    assert_caught(version, {8}, "whatever is below it must not be listed")


@pytest.mark.parametrize("by", [-1, 1])
def test_another_threshold_is_caught_wherever_it_is_written(zeros: Version, tmp_path: Path, by: int):
    """Stated in record, file and journal alike, with the rows that it would list: the replay ends elsewhere."""
    version = zeros.copy(tmp_path / "v")
    threshold = stated(version, SMALL)[0]["listed"]["threshold"] + by
    if threshold < 1:
        threshold = stated(version, SMALL)[0]["listed"]["threshold"] + 2
    path = version.folder / MEASURED
    table = pq.read_table(path)
    kept = table.filter(pa.compute.greater_equal(table.column("noisy"), threshold))
    metadata = dict(table.schema.metadata)
    metadata[b"sudare_threshold"] = str(threshold).encode()
    metadata[b"sudare_absent"] = f"the noisy count of a cell that is not listed is below {threshold}".encode()
    as_published(kept.replace_schema_metadata(metadata), path)
    edit(version.folder / "record.json", drawn(f"table:{SMALL}", "listed", threshold=threshold))
    restated(version)
    assert_caught(version, {9}, "threshold must be where the draw of these cells ends", alone=True)


def listed(change: Change) -> Change:
    """State something else of the cells that the draw lists."""
    return lambda record: change(draw_of(record, f"table:{SMALL}")["listed"])


def of_table(change: Change) -> Change:
    return replay(lambda r: change(r["tables"][0]))


def absent_unknown(folder: Path) -> None:
    for name in (MEASURED, DATA):
        table = pq.read_table(folder / name)
        changed = {**table.schema.metadata, b"sudare_absent": b"unknown"}
        as_published(table.replace_schema_metadata(changed), folder / name)


def line_lost(folder: Path) -> None:
    lines = (folder / f"data/{SMALL}.csv").read_text().splitlines()
    (folder / f"data/{SMALL}.csv").write_text("\n".join([lines[0], *lines[2:], ""]))


RECORDS = {
    "a dense draw, they say": Forgery({6}, lambda r: draw_of(r, f"table:{SMALL}").pop("listed"), says="form"),
    "a dense table, they say": Forgery({6}, of_table(lambda t: t.pop("listed")), says="form"),
    "a smaller domain": Forgery({6}, listed(lambda stated: stated.update(cells=599)), says="listed.cells"),
    "another end of the interval of unlisted cells": Forgery(
        {9}, of_table(lambda t: t["listed"].update(absent_upper=0)), says="absent_upper"
    ),
    "more rows than there are": Forgery(
        {8}, listed(lambda stated: stated.update(rows=10**9)), says="at most 67108864"
    ),
    "a threshold in the record alone": Forgery(
        {8}, listed(lambda stated: stated.update(threshold=stated["threshold"] + 1))
    ),
    "absent cells called something else": Forgery({8, 9}, files=absent_unknown, says="metadata sudare_absent"),
    "a line of the CSV copy": Forgery({9}, files=line_lost, where={f"data/{SMALL}.csv"}),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_version_that_says_otherwise_is_caught(zeros: Version, tmp_path: Path, name: str):
    RECORDS[name].check_found(zeros.copy(tmp_path / "v"), alone=RECORDS[name].record is nothing)


def test_nothing_private_is_written_beside_the_list(tmp_path: Path):
    """The draws' folder holds its identity and one file per draw; the sparse one is as long as its list."""
    scenario = small()
    scenario.seeded = False
    files = sorted((tmp_path / "draws" / scenario.run(tmp_path).run_key).iterdir())
    assert [file.name for file in files] == ["000000.draw", "000001.draw", "000002.draw", "folder.json"]
    assert sorted(json.loads(files[3].read_bytes())) == ["id", "ledger", "run_key"]
    header, _, rest = files[1].read_bytes().partition(b"\n")
    assert json.loads(header)["listing"]["cells"] == 600
    assert len(rest) == 16 * json.loads(header)["shape"][0]
