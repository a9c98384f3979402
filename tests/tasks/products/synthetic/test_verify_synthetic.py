"""Forged synthetic versions: whoever owns the key can sign anything, but rows, model, draws and seed must add up."""

import hashlib
import json
from dataclasses import replace
from datetime import date
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.canonical import readable_json
from contracts.contract.contract import Contract
from privacy.evaluation.against_noisy import distance
from privacy.generators.generator import Model
from privacy.generators.rows import read_model, synthetic_rows
from privacy.marginals.counts import coarser_counts
from privacy.marginals.portable import PostProcessingSeed
from tasks.products.synthetic.row_checks import MODEL, SEED
from tasks.records.draws.marginal import MarginalDraw
from tasks.records.files.write import arrow_array, write_arrays
from tests.tasks.verification.forgery import (
    Change,
    Forgery,
    Json,
    as_published,
    assert_caught_by_deep,
    digest_of,
    drawn,
    edit,
    forge,
    load,
    moved,
    nothing,
    of_kind,
    replay,
    restate_rows,
    told,
)
from tests.worlds.synthetic_rows import aim
from tests.worlds.versions import Version, Worlds, broken, publish_version

DATA = "data/stays.parquet"


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(aim())


def first_of(draws: list[Json], kind: str) -> int:
    return next(place for place, draw in enumerate(draws) if (draw["kind"] == "choice") == (kind == "choice"))


def chosen(change: Change) -> Change:
    return replay(lambda r: change(r["draws"][first_of(r["draws"], "choice")]))


def choices(record: Json) -> list[Json]:
    return [
        {
            "key": draw["key"],
            "number": draw["number"],
            "columns": draw["clique"],
            "index": draw["index"],
            "epsilon": draw["event"]["epsilon"],
        }
        for draw in record["replay"]["draws"]
        if draw["kind"] == "choice"
    ]


def choices_file(folder: Path) -> None:
    (folder / "measurements" / "choices.json").write_bytes(readable_json(choices(load(folder / "record.json"))))


def swap_rows(folder: Path) -> None:
    """Exchange two rows that differ, in both copies."""
    table = pq.read_table(folder / DATA)
    order = np.arange(table.num_rows)
    other = next(row for row in range(1, table.num_rows) if table.slice(row, 1) != table.slice(0, 1))
    order[[0, other]] = other, 0
    write_rows(folder, table.take(pa.array(order)))


def write_rows(folder: Path, table: pa.Table, name: str = DATA) -> None:
    import polars as pl

    as_published(table, folder / name)
    pl.DataFrame(table).write_csv((folder / name).with_suffix(".csv"))


def model_of(folder: Path) -> tuple[Json, dict[str, np.ndarray]]:
    stated = load(folder / "model" / "model.json")
    table = pq.read_table(folder / "model" / "arrays.parquet")
    names, values = np.array(table.column("array").to_pylist()), table.column("value").to_numpy()
    return stated, {name: values[names == name].reshape(shape) for name, shape in stated["shapes"].items()}


def write_model(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    path = folder / "model" / "arrays.parquet"
    marks = {key.decode(): value.decode() for key, value in pq.read_schema(path).metadata.items()}
    write_arrays(arrays, path, marks=marks)
    digests = {name: hashlib.sha256(array.astype("<i8").tobytes()).hexdigest() for name, array in arrays.items()}
    edit(folder / "record.json", replay(lambda r: r["model"].update(sha256=digests)))


def bend_model(folder: Path) -> None:
    """Make the first label of the first potential with some much likelier, within the model's form."""
    _, arrays = model_of(folder)
    name = next(name for name in arrays if arrays[name].size > 3)
    bent = np.maximum(arrays[name] - 2**21, -(2**40))
    bent = np.where(arrays[name] < -(2**41), arrays[name], bent)
    bent.reshape(-1)[0] = 0
    write_model(folder, {**arrays, name: bent})


def resample(folder: Path) -> None:
    record, (stated, arrays) = load(folder / "record.json"), model_of(folder)
    model = read_model(stated["kind"], stated["values"], arrays)
    rows = record["replay"]["rows"]
    contract = Contract.model_validate(record["replay"]["contract"])
    (piece,) = synthetic_rows(model, contract, PostProcessingSeed(int(rows["seed"], 16)), rows["number"])
    restate_distances(folder, model)
    schema = pq.read_schema(folder / rows["data"])
    write_rows(folder, pa.Table.from_arrays([arrow_array(each) for each in piece], schema=schema), rows["data"])


def restate_distances(folder: Path, model: Model) -> None:
    """Tell people how far this model lies from the noisy marginals."""

    def change(record: Json) -> None:
        draws = {draw["key"]: draw for draw in record["replay"]["draws"]}
        contract = Contract.model_validate(record["replay"]["contract"])
        for key, stated in record["replay"]["distances"].items():
            draw = draws[key]
            noisy = pq.read_table(folder / draw["measurements"]).column("noisy").to_numpy()
            resolution = MarginalDraw.model_validate(draw).resolution(contract)
            expected = coarser_counts(resolution, model.marginal(tuple(draw["clique"])))
            stated.update(distance(expected, noisy).to_json())

    edit(folder / "record.json", change)


def break_order(folder: Path) -> None:
    """Give one row an arrival after its leaving."""
    table = pq.read_table(folder / DATA)
    arrived, left = (table.column(name).to_pylist() for name in ("arrived", "left"))
    row = next(
        r
        for r, pair in enumerate(zip(arrived, left, strict=True))
        if None not in pair and pair[0] < pair[1] <= date(2024, 12, 31)
    )
    arrived[row], left[row] = left[row], arrived[row]
    for name, values in (("arrived", arrived), ("left", left)):
        place = table.column_names.index(name)
        table = table.set_column(place, table.schema.field(name), pa.array(values, pa.date32()))
    write_rows(folder, table)


def spoil_measurement(folder: Path) -> None:
    """Move one row between two cells of the first measurement, and state its digest in the record."""
    name = str(sorted((folder / "measurements").glob("*.parquet"))[0])
    moved(name, 0, 1)(folder)
    moved(name, 1, -1)(folder)


def seed(text: str) -> Change:
    return replay(lambda r: r["rows"].update(seed=text))


FINER = drawn(0, "event", sigma_squared="1"), lambda e: of_kind(e, "noise_drawn")["event"].update(sigma_squared="1")
FORGERIES = {
    "two rows exchanged": Forgery({9}, files=swap_rows, says="sampled again"),
    "a row against the declared order": Forgery({9}, files=break_order, says="arrived <= left"),
    "the model bent, the rows kept": Forgery({9}, files=bend_model, says="sampled again"),
    "the model's digest left": Forgery(
        {9}, record=replay(lambda r: r["model"]["sha256"].update({"potential-0000": "0" * 64})), says="SHA-256"
    ),
    "another seed, the rows kept": Forgery({9}, record=seed("0" * 32), says="sampled again"),
    "a seed that is none": Forgery({5}, record=seed("zz"), says="seed"),
    "fewer rows said": Forgery(
        {5, 9}, record=replay(lambda r: r["rows"].update(number=100)), says="as product, contract and model say"
    ),
    "another model's number of rows": Forgery(
        {5, 9}, record=replay(lambda r: r["model"].update(rows=1)), says="rows"
    ),
    "a measurement changed": Forgery({8}, files=spoil_measurement, says="as it was entered when it was drawn"),
    "a choice of another place": Forgery(
        {6},
        record=chosen(lambda d: d.update(index=d["index"] + 1)),
        says="as it was entered when the choice was made",
    ),
    "a choice that is never measured": Forgery(
        {6}, record=chosen(lambda d: d.update(clique=["age", "bill", "one"])), says="measured afterwards"
    ),
    "a choice left out of its file": Forgery(
        {8}, files=lambda f: (f / "measurements" / "choices.json").write_bytes(b"[]\n"), says="choices"
    ),
    "less noise than was planned": Forgery({6, 7, 8}, record=FINER[0], journal=FINER[1], says="zero_concentrated"),
    "a smaller budget than was drawn": Forgery(
        {6, 7},
        journal=lambda e: of_kind(e, "charge_reserved")["events"][0].update(rho="1/1000"),
        says="zero_concentrated",
    ),
    "a draw left out of the record": Forgery(
        {5, 6}, record=lambda record: record["replay"]["draws"].pop(), says="number of draws in the journal"
    ),
    "another sensitivity": Forgery({6}, record=drawn(0, "event", moves=[1, 1]), says="moves"),
    "other options told": Forgery(
        {5}, record=lambda r: told(r, "fields.product.options", {"degree": 3}), says="product.options"
    ),
    "another product": Forgery({5}, record=replay(lambda r: r["product"].update(rows=7)), says="rows"),
    "a marginal of another shape": Forgery({6}, record=drawn(0, shape=[1]), says="the whole declared domain"),
    "a marginal elsewhere": Forgery({5, 6}, record=drawn(0, measurements="data/stays.parquet"), says="measurements"),
    "a kind of model that nobody knows": Forgery(
        {9}, record=replay(lambda r: r["model"].update(kind="oracle")), says="oracle"
    ),
}


def test_the_forger_s_tools_alone_change_nothing(version: Version):
    forge(version).assert_verifies()


@pytest.mark.parametrize("name", FORGERIES)
def test_a_consistent_forgery_is_caught_by_the_rule_it_breaks(version: Version, name: str):
    stated = choices_file if name.startswith(("a choice of", "a choice that")) else nothing
    FORGERIES[name].check_caught(version, stated)


@pytest.mark.long
def test_a_model_and_its_rows_that_fit_each_other_but_no_measurement_are_caught_by_deep_alone(version: Version):
    """Bent, sampled again and stated consistently, it passes the quick rules; estimated again, it is another."""
    bend_model(version.folder)
    resample(version.folder)
    assert_caught_by_deep(forge(version), "L1 distance")


def test_a_bent_model_whose_distance_is_not_restated_is_caught_without_deep(version: Version):
    """What people are told of the model beside the noisy marginals is computed again from both."""
    before = load(version.folder / "record.json")["replay"]["distances"]
    bend_model(version.folder)
    resample(version.folder)
    edit(version.folder / "record.json", lambda record: record["replay"].update(distances=before))
    report = forge(version).verify()
    assert broken(report) == {9}, report.findings
    assert "replay.distances" in str(report.findings[0])


@pytest.mark.long
def test_a_version_whose_model_s_cap_left_choices_out_verifies(tmp_path: Path):
    """One edge of a tree of three was chosen and measured; the draws that were planned beside it are paid for."""
    columns = "columns: [age, arrived, left, ward], options: {max_model_megabytes: 0.0003}"
    free = "{unit: {kind: row, scope: block}, adjacency: add_remove}"
    made = publish_version(
        replace(aim(), privacy=free, product=f"{{kind: synthetic, generator: mst, {columns}}}"), tmp_path
    )
    (note,) = load(made.folder / "record.json")["replay"]["notes"]
    assert note["parameters"] == {"missing": 2, "edges": 3}
    assert "left no pair for 2 of the 3 edges" in (made.folder / "record.html").read_text()
    made.assert_verifies(deep=True)
    edit(made.folder / "record.json", replay(lambda r: r["draws"].insert(0, r["draws"].pop())))
    assert 6 in broken(forge(made).verify())


@pytest.mark.long
def test_a_note_that_the_generator_did_not_leave_is_the_publishers_word_until_deep_fits_again(version: Version):
    """What is noted of a fit follows from the noisy values, by fitting again."""
    edit(version.folder / "record.json", replay(lambda r: r.update(notes=["all pairs were measured"])))
    quick = forge(version).verify()
    assert quick.ok, quick.findings
    assert "replay.notes" in quick.word
    deep = version.verify(deep=True)
    assert broken(deep) == {11}, deep.findings
    assert [finding.field for finding in deep.findings] == ["replay.notes"]
    assert "replay.notes" not in deep.word


def enlarge_model(folder: Path) -> None:
    """Add a larger clique, of which the potential is flat: no marginal changes, what it could hold is free."""
    stated, arrays = model_of(folder)
    columns = stated["values"]["domain"]["columns"]
    cliques = stated["values"]["cliques"]
    clique = next(list(each) for each in combinations(columns, 3) if list(each) not in cliques)
    shape = [stated["values"]["domain"]["shape"][columns.index(name)] for name in clique]
    name = f"potential-{len(cliques):04d}"

    def add(model: Json) -> None:
        model["values"]["cliques"].append(clique)
        model["shapes"][name] = shape

    edit(folder / "model" / "model.json", add)
    write_model(folder, {**arrays, name: np.zeros(shape, dtype=np.int64)})


@pytest.mark.long
def test_a_model_of_larger_cliques_than_were_measured_is_caught_by_deep(version: Version):
    """Its marginals are those of the measurements; what it could hold beside them would be paid by nobody."""
    enlarge_model(version.folder)
    restate_rows(version.folder, "model/arrays.parquet")
    resample(version.folder)
    quick = forge(version).verify()
    assert quick.ok, quick.findings
    assert MODEL in quick.cannot_tell
    report = version.verify(deep=True)
    assert broken(report) == {11}, report.findings
    assert report.findings[0].field == "cliques"
    assert MODEL not in report.cannot_tell
    assert SEED in report.cannot_tell


def test_rows_of_another_seed_pass_if_it_is_the_stated_one(version: Version):
    """The seed is public and free to choose: what verify checks is that the rows are those of the stated one."""
    edit(version.folder / "record.json", seed("5" * 32))
    resample(version.folder)
    forge(version).assert_verifies()


@pytest.mark.long
def test_a_choice_s_columns_that_were_not_at_its_place_are_caught_by_deep(version: Version):
    """The journal knows the place of what was chosen; which columns stood there, the generator run again tells."""

    def swap(record: Json) -> None:
        draws = record["replay"]["draws"]
        place = first_of(draws, "choice")
        later = next(
            d["clique"] for d in draws[place + 2 :] if d["kind"] != "choice" and d["clique"] != draws[place]["clique"]
        )
        draws[place]["clique"] = later

    edit(version.folder / "record.json", swap)
    choices_file(version.folder)
    assert_caught_by_deep(forge(version), "candidate")


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["model/model.json", "model/arrays.parquet", "data/stays.csv", DATA, "measurements/choices.json"]
)
def test_a_file_that_is_spoilt_or_gone_never_raises(version: Version, name: str):
    """Unsigned bytes are not opened; signed nonsense is a finding of its file."""
    path = version.folder / name
    original = path.read_bytes()
    path.write_bytes(original[:-7])
    assert not version.verify().ok
    path.write_bytes(b"{}\n" if name.endswith("json") else b"nonsense")
    report = forge(version).verify()
    assert not report.ok
    assert broken(report) & {8, 9}
    path.unlink()
    assert not version.verify().ok


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["values"].update(rows=-1),
        lambda m: m["values"].update(rows=10**30),
        lambda m: m["values"]["domain"].update(columns=["age"]),
        lambda m: m["values"].update(cliques=[["nobody"]]),
        lambda m: m["shapes"].update({"potential-0000": [2**40]}),
        lambda m: m["shapes"].update({"potential-0000": [-1]}),
        lambda m: m["shapes"].update({"potential-0000": "big"}),
        lambda m: m.update(values=[]),
        lambda m: m.update(extra=1),
    ],
)
def test_a_model_that_is_none_is_a_finding(version: Version, change: Change):
    edit(version.folder / "model" / "model.json", change)
    report = forge(version).verify()
    assert 9 in broken(report)
    assert any(finding.where.startswith("model/") for finding in report.findings)


def test_digests_in_this_file_are_those_of_the_record(version: Version):
    """The forger's digest is the one that verify recomputes."""
    draw = load(version.folder / "record.json")["replay"]["draws"][0]
    assert digest_of(version.folder / draw["measurements"], "noisy") == draw["sha256"]
    assert json.dumps(choices(load(version.folder / "record.json")))
