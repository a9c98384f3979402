"""Versions made from noisy sums over rows: what is published rebuilds what was added up, and forgeries are caught."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from contracts.canonical import readable_json
from privacy.learning.lattice import sha256
from privacy.learning.written_statistics import nearly, read_statistic, statistic_arrays, tidy_rows
from tasks.products.synthetic.row_checks import MODEL
from tasks.records.draws.draws import StatisticStatement
from tasks.records.files.write import write_arrays
from tasks.verification.draws.sensitivity_training import worst_moves_of_sum
from tasks.verification.fitted.model_distance import SHARE
from tests.privacy.learning.learning_rows import LAYOUT, all_statistics, random_rows
from tests.tasks.products.synthetic.test_verify_synthetic import model_of, resample, write_model
from tests.tasks.records.version_schemas import version_schemas
from tests.tasks.verification.forgeries import event
from tests.tasks.verification.forgery import (
    Change,
    Forgery,
    Json,
    assert_caught_by_deep,
    digest_of,
    draw_of,
    drawn,
    edit,
    forge,
    load,
    nothing,
    replay,
    restate_rows,
    set_cell,
    told,
)
from tests.worlds.synthetic_rows import gaussians, stretched
from tests.worlds.versions import Version, Worlds, broken, publish_version

ARRAYS = "measurements/statistics.parquet"
STATISTICS = "measurements/statistics.json"
DATA = "data/gaussians.parquet"
ALL = all_statistics()


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(gaussians())


@pytest.mark.long
def test_a_version_of_sums_verifies_and_its_model_is_estimated_again(published: Version):
    report = published.verify(deep=True)
    assert report.ok, report.findings
    assert [check.rule for check in report.checks] == list(range(1, 12))
    assert MODEL not in report.cannot_tell


@pytest.mark.long
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_version_under_any_relation_and_several_rows_a_unit_verifies(tmp_path: Path, relation: str):
    """Three rows a unit; the stated moves are those of the statistic, derived twice."""
    unit = "{kind: id, column: patient, scope: block, max_rows_per_unit: 3}"
    privacy = f"{{unit: {unit}, adjacency: {relation}, ZEROS}}"
    made = publish_version(replace(gaussians(), privacy=privacy, unit="patient"), tmp_path)
    made.assert_verifies(deep=True)


def test_the_rows_are_whole_and_keep_what_the_contract_declares(published: Version):
    """Decoded by the contract: types, bounds, constraints, missing values."""
    rows = pl.read_parquet(published.folder / DATA)
    assert [str(kind) for kind in rows.dtypes] == [
        *("Int64", "Date", "Date", "Categorical", "Int64", "Float64", "Boolean", "Categorical")
    ]
    assert abs(len(rows) - 3000) < 300
    assert rows["age"].null_count() > 0
    assert 0 <= rows["age"].min() <= rows["age"].max() <= 99  # type: ignore[operator]
    both_days = rows.filter(pl.col("arrived").is_not_null() & pl.col("left").is_not_null())
    assert (both_days["arrived"] <= both_days["left"]).all()
    text = pl.col("ward").cast(pl.String)
    assert rows.filter((text == "children") & (pl.col("age") >= 75)).is_empty()


def test_a_stranger_rebuilds_each_sum_from_the_published_files(published: Version):
    """Parameters and arrays give the digest and the natural values; these add up to what the tidy file says."""
    stated = load(published.folder / STATISTICS)
    table = pq.read_table(published.folder / ARRAYS)
    names, values = np.array(table.column("array").to_pylist()), table.column("value").to_numpy()
    assert len(stated) == 5
    for entry in stated:
        arrays = {name: values[names == name].reshape(shape) for name, shape in entry["shapes"].items()}
        statistic = read_statistic(entry["parameters"], arrays)
        assert statistic.digest == entry["digest"]
    name = next((published.folder / "measurements").glob("0004-*.parquet"))
    rows = pl.read_parquet(name)
    assert len(rows) == statistic.length
    blocks = statistic.blocks(rows["noisy"].to_numpy())
    counts = rows.filter(pl.col("part").cast(pl.String) == "counts")
    assert counts["value"].to_numpy() == pytest.approx(blocks.counts)
    assert counts["i"].null_count() == len(counts) == 4
    assert abs(counts["value"].sum() - 3000) < 150
    full = rows.filter(pl.col("part").cast(pl.String) == "full")
    at = [full[column].to_numpy() for column in ("group", "i", "j")]
    assert full["value"].to_numpy() == pytest.approx(blocks.squares[tuple(at)])


@pytest.mark.parametrize("name", ALL)
def test_what_is_published_of_a_statistic_is_the_statistic(name: str):
    """Every kind: through JSON and back it has its digest and its sums, and its tidy rows their natural units."""
    statistic = ALL[name]
    arrays = statistic_arrays(statistic)
    again = read_statistic(json.loads(json.dumps(statistic.public)), arrays)
    assert type(again) is type(statistic)
    assert (again.digest, again.length, again.move) == (statistic.digest, statistic.length, statistic.move)
    codes = random_rows(50)
    noisy = statistic.total(codes, LAYOUT)
    assert (again.total(codes, LAYOUT) == noisy).all()
    rows = tidy_rows(statistic)
    assert {len(column) for column in rows.values()} == {statistic.length}
    if name == "class moments":
        natural = statistic.blocks(noisy)
        parts = [natural.counts, natural.sums, natural.squares[:, *np.triu_indices(natural.sums.shape[1])]]
        assert noisy * rows["unit"] == pytest.approx(np.concatenate([part.reshape(-1) for part in parts]))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", ALL)
def test_the_auditor_derives_the_same_bound_by_another_way(name: str, relation: Any):
    """From the published parameters alone; the statistic's own moves are what the grant drew with."""
    statistic = ALL[name]
    shapes = {key: list(array.shape) for key, array in statistic_arrays(statistic).items()}
    stated = StatisticStatement(digest=statistic.digest, parameters=statistic.public, shapes=shapes)
    for rows in (1, 3):
        assert tuple(worst_moves_of_sum(stated, relation, rows)) == statistic.moves(relation, rows)
    assert worst_moves_of_sum(stated, relation, 2) != worst_moves_of_sum(stated, relation, 1)


def test_statistics_that_differ_by_last_bits_are_nearly_the_same_and_others_are_not():
    """Axes are computed in floating point: one unit of 2^-20 is passed over, a hundredth is not; nor another form."""
    statistic = ALL["mixture"]
    embedded = statistic.embedding
    assert embedded.axes is not None
    for added, same in ((1, True), (10_000, False)):
        moved = replace(statistic, embedding=replace(embedded, axes=embedded.axes + added))
        assert nearly(moved, statistic, share=SHARE) is same
        assert moved.digest != statistic.digest
    for other in (
        replace(statistic, parts=("counts", "sums")),
        replace(statistic, embedding=replace(embedded, bits=5)),
        replace(statistic, embedding=replace(embedded, bound=Fraction(2, 3))),
        replace(statistic, groups=replace(statistic.groups, bits=5)),
        ALL["diagonal mixture"],
    ):
        assert not nearly(other, statistic, share=SHARE)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda p: p.update(kind="sum"), "kind"),
        (lambda p: p.update(more=1), "exactly"),
        (lambda p: p.pop("parts"), "exactly"),
        (lambda p: p.update(parts=["full", "counts"]), "order"),
        (lambda p: p.update(parts=[["full"]]), "not a statistic"),
        (lambda p: p.update(parts=7), "not a statistic"),
        (lambda p: p["embedding"].update(bound="1/0"), "bound"),
        (lambda p: p["embedding"].update(bound=0.5), "bound"),
        (lambda p: p["embedding"].update(bits=99), "bits"),
        (lambda p: p["embedding"].update(bits=True), "bits"),
        (lambda p: p["embedding"].update(columns="height"), "columns"),
        (lambda p: p["embedding"].update(columns=[1]), "names"),
        (lambda p: p["embedding"].update(centre="0" * 64), "no array"),
        (lambda p: p.update(groups={"kind": "some"}), "groups kind"),
        (lambda p: p.update(groups=None), "groups kind"),
        (lambda p: p["groups"].update(count=-1), "count"),
        (lambda p: p["groups"].update(column=None), "name"),
        (lambda p: p.update(embedding=[]), "embedding"),
    ],
)
def test_parameters_that_are_none_are_refused(change: Change, says: str):
    statistic = ALL["class moments"]
    public = json.loads(json.dumps(statistic.public))
    change(public)
    with pytest.raises(ValueError, match=says):
        read_statistic(public, statistic_arrays(statistic))


def test_an_array_under_another_s_digest_is_refused():
    statistic = ALL["class moments"]
    swapped = {name: array * 2 for name, array in statistic_arrays(statistic).items()}
    with pytest.raises(ValueError, match="another digest"):
        read_statistic(statistic.public, swapped)


def parameters(place: int, change: Change) -> Change:
    return lambda record: change(draw_of(record, place)["statistic"]["parameters"])


def restated(folder: Path) -> None:
    draws = load(folder / "record.json")["replay"]["draws"]
    listed = [{"key": draw["key"], "number": draw["number"], **draw["statistic"]} for draw in draws]
    (folder / STATISTICS).write_bytes(readable_json(listed))


def file_of(folder: Path, place: int) -> Path:
    (found,) = (folder / "measurements").glob(f"{place:04d}-*.parquet")
    return found


def spoil(column: str, value: Any, place: int = 4, row: int = 1) -> Any:
    return lambda folder: set_cell(file_of(folder, place), column, row, value)


def swap_numbers(folder: Path) -> None:
    """Exchange two noisy values with their natural ones; the sums stay the same."""
    path = file_of(folder, 4)
    for column in ("noisy", "value"):
        values = pq.read_table(path).column(column).to_numpy().copy()
        set_cell(path, column, 0, values[1])
        set_cell(path, column, 1, values[0])


def other_axes(folder: Path) -> None:
    """Turn an array of the statistics by a little; its name stays."""
    table = pq.read_table(folder / ARRAYS)
    set_cell(folder / ARRAYS, "value", 0, int(table.column("value")[0].as_py()) + 1)


def renamed(version: Version, place: int, part: str, member: str, change_array: Any) -> None:
    """Exchange an array of one sum, and state digest, parameters and file consistently."""
    table = pq.read_table(version.folder / ARRAYS)
    names, values = np.array(table.column("array").to_pylist()), table.column("value").to_numpy().copy()
    record = load(version.folder / "record.json")
    old = draw_of(record, place)["statistic"]["parameters"][part][member]
    kept = {name: values[names == name] for name in dict.fromkeys(names)}
    made = np.ascontiguousarray(change_array(kept[old].reshape(draw_of(record, place)["statistic"]["shapes"][old])))
    new = sha256(made)
    others = [draw_of(record, each)["statistic"]["shapes"] for each in range(len(record["replay"]["draws"]))]
    if sum(old in shapes for shapes in others) == 1:
        del kept[old]
    kept[new] = made.reshape(-1)
    marks = {key.decode(): text.decode() for key, text in pq.read_schema(version.folder / ARRAYS).metadata.items()}
    write_arrays(kept, version.folder / ARRAYS, marks=marks)

    def change(record: Json) -> None:
        stated = draw_of(record, place)["statistic"]
        stated["parameters"][part][member] = new
        del stated["shapes"][old]
        stated["shapes"][new] = list(made.shape)
        arrays = {name: kept[name].reshape(shape) for name, shape in stated["shapes"].items()}
        stated["digest"] = read_statistic(stated["parameters"], arrays).digest

    edit(version.folder / "record.json", change)
    restate_rows(version.folder, ARRAYS)
    restated(version.folder)


FORGERIES = {
    "a noisy value": Forgery({8}, files=spoil("noisy", 7), says="as it was entered when it was drawn"),
    "two noisy values exchanged": Forgery({8}, files=swap_numbers, says="as it was entered when it was drawn"),
    "a natural value": Forgery({8}, files=spoil("value", 0.5), says="column value, row 2"),
    "less variance": Forgery({8}, files=spoil("variance", 1e-9), says="column variance, row 2"),
    "a value of another group": Forgery({8}, files=spoil("group", 3, row=0), says="column group, row 1"),
    "an array of the statistics": Forgery({8}, files=other_axes, says="another digest"),
    "the statistics' file alone": Forgery(
        {8},
        files=lambda f: edit_list(f / STATISTICS, lambda s: s[0].update(key="else")),
        says="statistics of the record",
    ),
    "another digest": Forgery({8}, record=drawn(0, "statistic", digest="0" * 64), says="where the record says"),
    "a smaller bound": Forgery(
        {8}, record=parameters(3, lambda p: p["embedding"].update(bound="1/2")), says="where the record says"
    ),
    "fewer parts": Forgery({6}, record=parameters(4, lambda p: p.update(parts=["full"])), says="moves"),
    "coarser steps, so smaller moves": Forgery(
        {6}, record=parameters(4, lambda p: p["embedding"].update(bits=11)), says="moves"
    ),
    "groups that nobody knows": Forgery(
        {6}, record=parameters(4, lambda p: p["groups"].update(kind="friends")), says="friends"
    ),
    "a column that is not the product's": Forgery(
        {6}, record=parameters(0, lambda p: p["embedding"].update(columns=["salary"])), says="salary"
    ),
    "parameters that are none": Forgery({6}, record=drawn(0, "statistic", parameters={}), says="parameters of a sum"),
    "a sum that is said to be a marginal": Forgery(
        {6},
        record=lambda r: (draw_of(r, 0).pop("statistic"), draw_of(r, 0).update(kind="marginal")),
        says="the whole declared domain",
    ),
    "a sum without what was added up": Forgery(
        {5}, record=lambda r: draw_of(r, 0).pop("statistic"), says="statistic"
    ),
    "a kind that nobody knows": Forgery({5}, record=drawn(0, kind="sum"), says="kind"),
    "one move less": Forgery({6, 7}, *event(4, moves=[83886080] * 2), says="moves"),
    "smaller moves": Forgery({6, 7}, *event(3, moves=[1]), says="moves"),
    "less noise": Forgery({7, 8}, *event(3, sigma_squared="1000"), says="variance"),
    "sums in another's file": Forgery({5, 6}, record=drawn(0, measurements=ARRAYS), says="a file of its own"),
    "another order": Forgery({6}, record=replay(lambda r: r["draws"].reverse()), says="as the journal says"),
    "another model told": Forgery(
        {5}, record=lambda r: told(r, "fields.product.measured", []), says="product.measured"
    ),
}


def edit_list(path: Path, change: Change) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_bytes(readable_json(value))


def test_the_forger_s_tools_alone_change_nothing(version: Version):
    restated(version.folder)
    forge(version).assert_verifies()


@pytest.mark.parametrize("name", FORGERIES)
def test_a_consistent_forgery_is_caught_by_the_rule_it_breaks(version: Version, name: str):
    caught(version, FORGERIES[name])


def caught(version: Version, forgery: Forgery) -> None:
    def fitting(folder: Path) -> None:
        draws = load(folder / "record.json")["replay"]["draws"]
        if forgery.record is not nothing and all("statistic" in draw for draw in draws):
            restated(folder)

    forgery.check_caught(version, fitting)


def bend_model(folder: Path) -> None:
    """Move the means of the latents."""
    _, arrays = model_of(folder)
    write_model(folder, {**arrays, "latent-means": arrays["latent-means"] + 2**14})


def test_a_model_that_fits_its_rows_but_not_the_sums_is_caught_by_deep_alone(version: Version):
    bend_model(version.folder)
    resample(version.folder)
    assert_caught_by_deep(forge(version), "latent-means")


def test_a_number_of_the_model_without_its_rows_is_caught(version: Version):
    bend_model(version.folder)
    assert 9 in broken(forge(version).verify())


def test_sums_along_other_axes_than_the_generator_asks_for_are_caught_by_deep(version: Version):
    """Whoever turns the axes and states all of it consistently claims a draw that this generator does not make."""
    renamed(version, 4, "embedding", "axes", lambda axes: -axes[:, ::-1])
    assert_caught_by_deep(forge(version), "another statistic")


@pytest.mark.long
@pytest.mark.parametrize("name", [ARRAYS, STATISTICS, "measurements/0000-counts-sums-everyone.parquet"])
def test_a_file_that_is_spoilt_or_gone_never_raises(version: Version, name: str):
    """Unsigned bytes are not opened; signed nonsense is a finding of its file."""
    path = version.folder / name
    original = path.read_bytes()
    path.write_bytes(original[:-7])
    assert not version.verify().ok
    path.write_bytes(b"{}\n" if name.endswith("json") else b"nonsense")
    assert 8 in broken(forge(version).verify())
    path.unlink()
    assert not version.verify().ok


def test_the_record_tells_in_plain_words_what_was_added_up(published: Version):
    """Bound, axes, groups and noise; it follows its schema; the page shows it; digests are those of the files."""
    record = load(published.folder / "record.json")
    Draft202012Validator(version_schemas()["record"]).validate(record)
    measured = published.words["product.measured"]
    assert "the number of rows and the sum of their vectors, for all rows together" in measured[0]["sums"]
    assert "for each of the 4 cells of ward" in measured[4]["sums"]
    assert "on 6 released or public axes; clipped to norm" in measured[4]["vectors"]
    assert set(measured[4]["deviation"]) == {"counts", "sums", "full"}
    assert digest_of(file_of(published.folder, 0), "noisy") == record["replay"]["draws"][0]["sha256"]
    page = (published.folder / "record.html").read_text()
    assert "for each of the 4 cells of ward" in page
    assert "marginal" not in page.split("What was measured")[1].split("</section>")[0]


@pytest.fixture(scope="module")
def stretching(worlds: Worlds) -> Version:
    return worlds.published(stretched())


@pytest.fixture
def stretched_version(stretching: Version, tmp_path: Path) -> Version:
    return stretching.copy(tmp_path / "v")


@pytest.mark.long
def test_a_version_of_stretched_numbers_verifies_and_tells_how_they_were_counted(stretching: Version):
    """The factor follows from the published counts: `--deep` asks for the same sums, and finds the same model."""
    report = stretching.verify(deep=True)
    assert report.ok, report.findings
    assert MODEL not in report.cannot_tell
    record = load(stretching.folder / "record.json")
    measured = stretching.words["product.measured"]
    assert len(measured) == 8
    assert (
        "the number of rows, for the rows in each of 37 shells, by the norms of their vectors" in measured[1]["sums"]
    )
    assert measured[1]["columns"] == measured[3]["columns"] == "bill"
    assert draw_of(record, 1)["event"]["moves"] == [1]
    assert "released or public axes" not in measured[0]["vectors"] + measured[1]["vectors"]
    assert "released or public axes" in measured[4]["vectors"]  # the entries times their factors
    rows = pl.read_parquet(file_of(stretching.folder, 1))
    assert rows["part"].cast(pl.String).unique().to_list() == ["counts"]
    assert abs(rows["value"].sum() - 3000) < 2000


SHELLS = {
    "a noisy count": Forgery({8}, files=spoil("noisy", 700, place=1), says="as it was entered when it was drawn"),
    "a count of another shell": Forgery({8}, files=spoil("group", 3, place=1, row=0), says="column group, row 1"),
    "all rows instead of shells": Forgery(
        {8}, record=parameters(1, lambda p: p.update(groups={"kind": "everyone"})), says="statistic"
    ),
    "sums beside the counts": Forgery(
        {6}, record=parameters(1, lambda p: p.update(parts=["counts", "sums"])), says="moves"
    ),
    "no move": Forgery({6, 7}, *event(3, moves=[0]), says="moves"),
    "less noise": Forgery({7, 8}, *event(1, sigma_squared="1"), says="variance"),
}


@pytest.mark.parametrize("name", SHELLS)
def test_forged_shells_are_caught_by_the_rule_that_they_break(stretched_version: Version, name: str):
    caught(stretched_version, SHELLS[name])


@pytest.mark.parametrize("place", [1, 3])
def test_shells_with_other_edges_than_the_generator_asks_for_are_caught_by_deep(
    stretched_version: Version, place: int
):
    """Whoever moves the edges and states all of it consistently would choose the factor."""
    renamed(stretched_version, place, "groups", "edges", lambda edges: edges // 2)
    assert_caught_by_deep(forge(stretched_version), "another statistic")


def test_stretching_by_another_factor_is_caught_by_deep(stretched_version: Version):
    """The factors stand in the axes of what is measured afterwards."""
    renamed(stretched_version, 4, "embedding", "axes", lambda axes: axes * 2)
    assert_caught_by_deep(forge(stretched_version))
