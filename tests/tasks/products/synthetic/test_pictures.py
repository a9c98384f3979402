"""Columns of pictures: read by their contract, refused where they mean nothing, released and verified."""

import re
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pyarrow.parquet as pq
import pytest

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.errors import GateBroken, SpecRefused
from contracts.release.spec import Source
from flows.evaluation.evaluate import evaluate_version
from flows.request import read_request
from privacy.generators.class_pictures import DeformedDecoder
from privacy.generators.linear_decoder import ASKED_FOR
from privacy.learning.layout import row_layout
from privacy.marginals.portable import PostProcessingSeed
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import SnapshotRows
from tasks.ingest import ingest
from tasks.sample import published_model, sample
from tasks.storage.workspace.settings import Workspace
from tasks.validate import validate
from tests.tasks.intake import KEY
from tests.tasks.records.charts.test_page_pictures import picture
from tests.tasks.verification.forgery import Forgery, edit, forge, load, replay
from tests.worlds.pictures import (
    HEIGHT,
    PICTURE,
    SHAPE,
    SHAPES,
    WIDTH,
    PictureScenario,
    TwoPictureScenario,
    as_table,
    drawn,
)
from tests.worlds.tables import contract_yaml, spec_yaml
from tests.worlds.versions import Version, Worlds, broken

PLACES = HEIGHT * WIDTH
DATA = "data/shapes.parquet"


def contract_at(folder: Path, *, gates: str = "[]", properties: str = PICTURE + SHAPE) -> Contract:
    text = contract_yaml(
        "shapes", f"{{unit: {{kind: row, scope: block}}, adjacency: add_remove, gates: {gates}}}", properties
    )
    (folder / "shapes.odcs.yaml").write_text(text)
    return load_contract(folder / "shapes.odcs.yaml")


def taken_in(table: pa.Table, contract: Contract, folder: Path, select: str | None = None) -> PrivateTable:
    pq.write_table(table, folder / "shapes.parquet")
    source = Source(path=folder / "shapes.parquet", select=select)
    return ingest(source, contract, folder=folder / "run", key=KEY, memory_limit="256MB")


def _made(folder: Path) -> Path:
    (folder / "other").mkdir()
    return folder / "other"


def codes_of(table: PrivateTable, contract: Contract) -> np.ndarray:
    codes = SnapshotRows(table, contract).rows(["picture"])._read()
    assert codes.shape[1] == PLACES
    return codes


@pytest.mark.parametrize("fixed", [True, False])
def test_pictures_arrive_as_they_were_delivered(tmp_path: Path, fixed: bool):
    """Lists of fixed size and others; the snapshot keeps arrays of small numbers, and takes itself up again."""
    contract, (levels, which) = contract_at(tmp_path), drawn(300)
    table = taken_in(as_table(levels, which, fixed=fixed), contract, tmp_path)
    assert (codes_of(table, contract) == levels).all()
    with duckdb.connect(str(table.path), read_only=True) as connection:
        kinds = dict(row[:2] for row in connection.execute("DESCRIBE codes").fetchall())
    assert kinds["picture"] == f"UTINYINT[{PLACES}]"
    again = taken_in(as_table(levels, which, fixed=fixed), contract, tmp_path)
    assert again.keyed_hash == table.keyed_hash


def test_a_picture_that_does_not_fit_is_read_by_the_null_policy_and_stops_nothing(tmp_path: Path):
    """Law 3: another size, none at all, levels outside, levels that are missing or no whole numbers."""
    contract = contract_at(tmp_path)
    whole = [float(place % 16) for place in range(PLACES)]
    rows = [whole, whole[:-1], [*whole, 1.0], None, [99.0, -3.0, None, 1.5, float("nan"), *whole[5:]]]
    table = pa.table({"picture": pa.array(rows, pa.list_(pa.float64())), "shape": ["bar"] * 5})
    made = taken_in(table, contract, tmp_path)
    found = codes_of(made, contract)
    assert found[0].tolist() == [int(level) for level in whole]
    assert (found[1:4] == 2).all()
    assert found[4].tolist() == [15, 0, 2, 2, 2, *(int(level) for level in whole[5:])]
    outcomes = {each.name: each.passed for each in validate(made, contract, folder=tmp_path / "run")}
    assert outcomes["nulls:picture"] is outcomes["type:picture"] is False
    assert outcomes["domain:shape"] is True


def test_whole_pictures_hold_every_check_and_a_level_outside_breaks_the_domain_alone(tmp_path: Path):
    contract, (levels, which) = contract_at(tmp_path), drawn(50)
    made = taken_in(as_table(levels, which), contract, tmp_path)
    assert all(each.passed for each in validate(made, contract, folder=tmp_path / "run"))
    levels[7, 3] = 16
    other = taken_in(as_table(levels, which), contract, tmp_path)
    outcomes = {each.name: each.passed for each in validate(other, contract, folder=tmp_path / "run")}
    assert [name for name, passed in outcomes.items() if not passed] == ["domain:picture"]


def test_a_gate_on_the_size_stops_the_release_without_a_value(tmp_path: Path):
    """Whoever wants varying sizes to stop a release declares that gate; the message names column and policy."""
    contract = contract_at(tmp_path, gates="['type:picture']")
    rows = [[1] * PLACES, [7] * 3]
    made = taken_in(
        pa.table({"picture": pa.array(rows, pa.list_(pa.uint8())), "shape": ["bar", "box"]}), contract, tmp_path
    )
    with pytest.raises(GateBroken) as refused:
        validate(made, contract, folder=tmp_path / "run")
    (finding,) = refused.value.findings
    assert "picture" in finding.where
    assert finding.field == "gate type:picture"
    assert finding.allowed == f"{PLACES} whole numbers in every row that has a value"
    assert "7" not in finding.found


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (pa.array([[[1, 2]], [[3, 4]]]), r"values of type BIGINT\[\]\[\]"),
        (pa.array([[True], [False]]), r"values of type BOOLEAN\[\]"),
        (pa.FixedSizeListArray.from_arrays(pa.array(range(12)), 6), "lists of 6 numbers"),
    ],
)
def test_a_column_that_holds_no_such_lists_is_refused_by_its_type(tmp_path: Path, values: pa.Array, found: str):
    contract = contract_at(tmp_path)
    with pytest.raises(GateBroken, match=found) as refused:
        taken_in(pa.table({"picture": values, "shape": ["bar", "box"]}), contract, tmp_path)
    (finding,) = refused.value.findings
    assert (finding.field, finding.allowed) == ("column 'picture'", f"lists of {PLACES} numbers")
    assert not (tmp_path / "run" / "snapshot.duckdb").exists()


@pytest.mark.parametrize("values", [pa.nulls(2), pa.array([float("nan"), None]), pa.array([3, 4])], ids=str)
def test_what_a_column_is_stored_as_where_nobody_has_a_picture_is_not_refused(tmp_path: Path, values: pa.Array):
    """Whether anybody has one may be a matter of one person; a number is one more picture that does not fit."""
    contract = contract_at(tmp_path)
    table = taken_in(pa.table({"picture": values, "shape": ["bar", "box"]}), contract, tmp_path)
    missing = taken_in(pa.table({"picture": pa.array([[], []]), "shape": ["bar", "box"]}), contract, _made(tmp_path))
    assert (codes_of(table, contract) == codes_of(missing, contract)).all()


def test_a_select_may_project_and_rename(tmp_path: Path):
    contract, (levels, which) = contract_at(tmp_path), drawn(20)
    table = as_table(levels, which).rename_columns(["scan", "shape"])
    made = taken_in(table, contract, tmp_path, "SELECT scan AS picture, shape FROM source WHERE shape <> 'dot'")
    assert (codes_of(made, contract) == levels[which != 2]).all()


def test_a_layout_has_an_entry_a_place(tmp_path: Path):
    layout = row_layout(contract_at(tmp_path))
    column = layout.column("picture")
    assert (column.kind, column.length, layout.width, layout.code_width) == ("array", PLACES, PLACES + 3, PLACES + 1)
    assert column.table[:, 0].tolist() == [level / 15 for level in range(16)]


def refusals(folder: Path, product: str, formats: str = "[parquet]", charge: str = "1e-9") -> str:
    contract_at(folder)
    spec = spec_yaml(
        "shapes", "{path: shapes.parquet}", product, account="shapes", epsilon="1", delta=charge, formats=formats
    ).replace("contract.odcs.yaml", "shapes.odcs.yaml")
    (folder / "spec.yaml").write_text(spec)
    with pytest.raises(SpecRefused) as refused:
        read_request(folder / "spec.yaml")
    return str(refused.value)


@pytest.mark.parametrize("generator", ["aim", "mst", "privbayes", "independent"])
def test_generators_that_measure_marginals_refuse_pictures_in_the_plan(tmp_path: Path, generator: str):
    said = refusals(tmp_path, f"{{kind: synthetic, generator: {generator}}}")
    assert f"'picture' holds pictures, which '{generator}' cannot make" in said
    assert "class_pictures" in said


def test_tables_and_csv_refuse_pictures(tmp_path: Path):
    tables = "{kind: tables, mechanism: laplace, tables: [[shape], [shape, picture]]}"
    said = refusals(tmp_path, tables)
    assert "product.tables[1].columns[1]" in said
    assert "a picture has no cells to count" in said
    pictures = "{kind: synthetic, generator: class_pictures, options: {label: shape}}"
    assert "csv with 'picture', a column of pictures" in refusals(tmp_path, pictures, "[parquet, csv]")


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(PictureScenario())


@pytest.mark.long
def test_a_version_of_pictures_verifies(published: Version):
    published.assert_verifies(deep=True)


def test_the_pictures_are_lists_of_fixed_size_that_look_like_their_labels(published: Version):
    """Each label's mean picture is nearest to the form that rows of that label were drawn from."""
    table = pq.read_table(published.folder / DATA)
    assert str(table.schema.field("picture").type) == f"fixed_size_list<element: uint8>[{PLACES}]"
    levels = table.column("picture").combine_chunks().flatten().to_numpy().reshape(-1, PLACES)
    assert levels.max() <= 15
    shapes = np.array(table.column("shape").to_pylist())
    real, which = drawn(3000)
    for number, shape in enumerate(SHAPES):
        mine = levels[shapes == shape].mean(axis=0)
        distances = [np.linalg.norm(mine - real[which == other].mean(axis=0)) for other in range(3)]
        assert np.argmin(distances) == number, shape
    croissant = load(published.folder / "croissant.json")
    (rows,) = [each for each in croissant["recordSet"] if each["name"] == DATA.removesuffix(".parquet")]
    (field,) = [each for each in rows["field"] if each["name"] == "picture"]
    assert (field["dataType"], field["isArray"], field["arrayShape"]) == ("sc:Integer", True, str(PLACES))


def test_the_page_shows_a_contact_sheet_of_published_pictures(published: Version):
    """A row a label, from the first rows of the data, on white; the highest level is nearly white."""
    page = (published.folder / "record.html").read_text()
    (source,) = re.findall(r'<img src="(data:image/png;base64,[^"]+)"', page)
    pixels, _ = picture(source)
    assert pixels.shape == (3 * (HEIGHT + 2) - 2, 12 * (WIDTH + 2) - 2)
    table = pq.read_table(published.folder / DATA).slice(0, 8192)
    levels = table.column("picture").combine_chunks().flatten().to_numpy().reshape(-1, HEIGHT, WIDTH)
    first_box = levels[table.column("shape").to_pylist().index("box")].astype(int)
    assert (pixels[HEIGHT + 2 : 2 * HEIGHT + 2, :WIDTH] == first_box * 254 // 15).all()
    assert (pixels[HEIGHT : HEIGHT + 2] == 255).all()


def change_a_place(folder: Path) -> None:
    table = pq.read_table(folder / DATA)
    levels = table.column("picture").combine_chunks().flatten().to_numpy().copy()
    levels[3 * PLACES + 4] = (levels[3 * PLACES + 4] + 1) % 16
    kind = table.schema.field("picture").type
    lists = pa.FixedSizeListArray.from_arrays(pa.array(levels), type=kind)
    pq.write_table(table.set_column(0, table.schema.field("picture"), lists), folder / DATA, compression="zstd")


HIGHER = replay(lambda r: r["contract"]["columns"][0]["domain"].update(height=HEIGHT + 1))
FORGERIES = {
    "a changed place of a picture": Forgery({9}, files=change_a_place, says="column picture, row 4, place 5"),
    "pictures of another size in the contract": Forgery({5}, HIGHER),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_by_the_rule_it_breaks(version: Version, name: str):
    FORGERIES[name].check_found(version, alone=FORGERIES[name].rules == {9})


def test_further_pictures_come_from_the_model_as_parquet_alone(published: Version, tmp_path: Path):
    seed, to = PostProcessingSeed(5), tmp_path / "more.parquet"
    sample(published.folder, rows=40, where={"shape": ["bar"]}, seed=seed, to=to)
    assert set(pq.read_table(to).column("shape").to_pylist()) == {"bar"}
    with pytest.raises(SpecRefused, match="a column of pictures"):
        sample(published.folder, rows=4, where={}, seed=seed, to=tmp_path / "more.csv")
    with pytest.raises(Exception, match="a column of pictures"):
        sample(published.folder, rows=4, where={"picture": ["3"]}, seed=seed, to=tmp_path / "other.parquet")


MODEL = Path("model") / "model.json"
CLASSES = "{kind: synthetic, generator: class_pictures, options: {label: shape, dimensions: 8, frequencies: 12}}"


@pytest.fixture(scope="module")
def deformed(worlds: Worlds) -> Version:
    return worlds.published(PictureScenario(product=CLASSES))


@pytest.mark.long
def test_a_version_of_deformed_pictures_verifies_and_is_fitted_again(deformed: Version):
    stated = load(deformed.folder / MODEL)
    assert stated["kind"] == "deformed_decoder"
    assert stated["values"]["deformations"]["picture"]["height"] == 5
    deformed.assert_verifies(deep=True)


def test_other_deformations_than_the_spec_says_are_found_out(deformed: Version, tmp_path: Path):
    """9: the rows do not follow from the model; 11: the model does not follow from the sums."""
    version, at = deformed.copy(tmp_path / "v"), ("values", "deformations", "picture")
    edit(version.folder / MODEL, lambda m: m[at[0]][at[1]][at[2]].update(turn=m[at[0]][at[1]][at[2]]["turn"] + 1000))
    forge(version)
    assert {9, 11} <= broken(version.verify(deep=True))


def assert_other_options_are_found(version: Version, **options: object) -> None:
    """Other draws are planned with these."""
    report = forge(version, record=replay(lambda r: r["product"]["options"].update(options))).verify()
    assert "replay.product.generator" in {finding.field for finding in report.findings}, report.findings


@pytest.mark.long
def test_a_version_of_split_labels_verifies_and_is_fitted_again(worlds: Worlds, tmp_path: Path):
    """Five draws, each round's groups named by a digest of the mixture before; fewer rounds are other events."""
    product = CLASSES.replace("dimensions: 8", "dimensions: 4, components: 4")
    version = worlds.published(PictureScenario(product=product, rows=900))
    record = load(version.folder / "record.json")
    assert len([draw for draw in record["replay"]["draws"] if draw["kind"] == "sums"]) == 5
    model, _ = published_model(version.folder)
    assert isinstance(model, DeformedDecoder)
    assert model.labels.size > 3
    assert set(model.labels.tolist()) == {0, 1, 2}
    version.assert_verifies(deep=True)
    assert_other_options_are_found(version.copy(tmp_path / "v"), components=2)


@pytest.mark.long
def test_rows_of_two_columns_of_pictures_follow_from_the_published_model(worlds: Worlds):
    """Named against the alphabet, which is the order of keys in the published model."""
    version = worlds.published(TwoPictureScenario(product=CLASSES))
    assert list(load(version.folder / MODEL)["values"]["deformations"]) == ["back", "picture"]
    version.assert_verifies(deep=True)


def test_scores_of_pictures_are_refused_with_what_to_do(deformed: Version, tmp_path: Path):
    rows = tmp_path / "real.parquet"
    parquet.write_table(as_table(*drawn(20)), rows)
    workspace = Workspace.create(tmp_path / "place")
    with pytest.raises(SpecRefused, match=r"'picture', a column of pictures\n.*single values\n    do: train"):
        evaluate_version(deformed.folder, rows, target=None, workspace=workspace, at=datetime.now(UTC))


@pytest.mark.parametrize(
    ("options", "charge", "message"),
    [
        (
            "{label: nope}",
            "1e-9",
            "product.options.label\n    found: 'nope' is not among the columns\n    allowed: one of picture, shape",
        ),
        ("{label: shape, decoder: linear}", "1e-9", "do: drop it: it is an option of ae, p3gm"),
        ("{label: shape, dimension: 4}", "1e-9", "do: write 'dimensions' instead of 'dimension'"),
        ("{label: shape, spin: 1}", "1e-9", "one of label, dimensions, frequencies, clip, deform, components"),
        ("{label: shape, components: 17}", "1e-9", "a whole number from 1 to 16"),
        ("{label: shape, deform: 3}", "1e-9", "a number from 0 to 0.5\n    do: correct it, or drop it for 0.15"),
        (
            "{label: shape, clip: 1e-9}",
            "1e-9",
            "product.options.clip\n    found: '1e-9'\n    allowed: a number from 1e-06",
        ),
        ("{label: shape}", "0", "give the charge a delta"),
    ],
)
def test_options_that_mean_nothing_are_refused_by_the_spec(tmp_path: Path, options: str, charge: str, message: str):
    product = f"{{kind: synthetic, generator: class_pictures, options: {options}}}"
    assert message in refusals(tmp_path, product, charge=charge)


LINEAR = "{kind: synthetic, generator: p3gm, options: {label: shape, rows_about: 200, decoder: linear}}"


@pytest.fixture(scope="module")
def linear(worlds: Worlds) -> Version:
    return worlds.published(PictureScenario(product=LINEAR, release="linear"))


@pytest.mark.long
def test_a_version_that_was_not_trained_says_so_verifies_and_is_fitted_again(linear: Version):
    assert ASKED_FOR in load(linear.folder / "record.json")["replay"]["notes"]
    assert not list(linear.folder.glob("measurements/*checkpoint*"))
    linear.assert_verifies(deep=True)


def test_the_record_says_that_no_metric_was_computed_on_counts(linear: Version):
    """The record said that they came of the noise of 0 draws."""
    said = {each["metric"]: each["computed_on"] for each in linear.words["utility.computed_on"]}
    sums = len(load(linear.folder / "record.json")["replay"]["draws"])
    nothing = f"nothing: no cells of a table were counted; drawn were {sums} noisy sums over rows"
    assert said["expected_error"] == said["error_against_noisy"] == nothing


@pytest.mark.long
def test_sums_alone_need_no_coin_for_each_row(worlds: Worlds):
    """Rows that are exchanged move each of these sums by a known amount, and no training is there to refuse them."""
    privacy = "{unit: {kind: row, scope: block}, adjacency: replace_one}"
    version = worlds.published(PictureScenario(product=LINEAR, release="linear", privacy=privacy))
    version.assert_verifies(deep=True)


def test_another_choice_of_the_decoder_is_found_out(linear: Version, tmp_path: Path):
    """A training charges other events than sums alone."""
    assert_other_options_are_found(linear.copy(tmp_path / "v"), decoder="trained")
