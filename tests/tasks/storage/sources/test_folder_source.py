"""A folder of files as one table: partitions, drift, double deliveries, and files that come and go meanwhile."""

import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.errors import GateBroken, Refused, SourceUnreadable
from contracts.release.source import Source
from tasks.storage import progress
from tests.tasks.intake import HEADER, ROWS, SECRET, make_contract, refusal, take_in
from tests.tasks.storage.during import During


def pack(text: str, name: str, folder: Path) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    packing = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    if packing is None:
        path.write_text(text)
    else:
        with pa.CompressedOutputStream(str(path), packing) as file:
            file.write(text.encode())
    return path


def csv_text(*rows: str, header: str = HEADER) -> str:
    return "\n".join((header, *rows)) + "\n"


def codes(folder: Path, source: Source) -> list[tuple[int, ...]]:
    table = take_in(source, make_contract(folder), folder)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        return connection.execute("SELECT * FROM codes").fetchall()


def single(folder: Path, *rows: str) -> list[tuple[int, ...]]:
    """The codes of the same rows out of one plain file."""
    (folder / "one").mkdir()
    return codes(folder / "one", Source(path=pack(csv_text(*rows), "one/people.csv", folder)))


def test_csv_files_plain_and_packed_are_one_table_in_the_order_of_their_paths(tmp_path: Path):
    pack(csv_text(ROWS[2]), "people/b/3.csv.zst", tmp_path)
    pack(csv_text(ROWS[1]), "people/b/2.csv.gz", tmp_path)
    pack(csv_text(ROWS[0]), "people/1.csv", tmp_path)
    pack(csv_text(ROWS[3]), "people/c.csv", tmp_path)
    pack("left over", "people/_SUCCESS", tmp_path)
    pack("left over", "people/_leftovers/0/1.csv", tmp_path)
    pack("left over", "people/.1.csv.crc", tmp_path)
    assert codes(tmp_path, Source(path=tmp_path / "people", files="csv")) == single(tmp_path, *ROWS)


@pytest.mark.long
def test_a_zst_file_is_read_and_a_cut_one_is_told(tmp_path: Path):
    text = csv_text(*[f"{number % 90},F,{number / 7},2020-01-01" for number in range(200_000)])
    path = pack(text, "people.csv.zst", tmp_path)
    assert len(codes(tmp_path, Source(path=path))) == 200_000
    whole = path.read_bytes()
    for number, (content, says) in enumerate(
        {
            whole[:-8]: "a file that ends too early",
            whole[: len(whole) // 2]: "a file that ends too early",
            b"no zst": "not a zstd file",
            b"": "an empty file",
        }.items()
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "people.csv.zst").write_bytes(content)
        assert says in refusal(folder, Source(path=folder / "people.csv.zst"), Refused)


def parquet(folder: Path, name: str, **columns: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def hive(folder: Path) -> Path:
    """Age and sex in the paths, encoded as Hive does it; one value is outside the domain, one is missing."""
    rows = {"wage": [10.5, 700.0], "since": ["2021-03-01", "2020-01-01"]}
    for number, (age, sex) in enumerate([("34", "F"), ("999", "F"), ("forty", "M"), ("17", "%46")]):
        parquet(folder, f"people/age={age}/sex={sex}/{number}.parquet", **rows)
    parquet(folder, "people/age=5/sex=__HIVE_DEFAULT_PARTITION__/x.parquet", **rows)
    parquet(folder, "people/age=5/sex=other%2Fsex/x.parquet", **rows)
    return folder / "people"


HIVE_ROWS = [("17", "F"), ("34", "F"), ("5", ""), ("5", "other/sex"), ("999", "F"), ("forty", "M")]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_partitions_are_columns_read_by_the_contract(tmp_path: Path, form: str):
    """A value outside its domain is clipped or missing, as in any column; it stops nothing."""
    folder = hive(tmp_path)
    if form == "csv":
        for path in folder.rglob("*.parquet"):
            duckdb.read_parquet(str(path)).select("wage, since").write_csv(str(path.with_suffix(".csv")))
            path.unlink()
    expected = [f"{age},{sex},{rest}" for age, sex in HIVE_ROWS for rest in ("10.5,2021-03-01", "700,2020-01-01")]
    assert codes(tmp_path, Source(path=folder, files=form)) == single(tmp_path, *expected)


def test_a_select_sees_partitions_as_texts(tmp_path: Path):
    select = "SELECT CAST(age AS INTEGER) + 1 AS age, sex, wage, since FROM source WHERE sex = 'F'"
    types = {"age": "text"}
    found = codes(tmp_path, Source(path=hive(tmp_path), files="parquet", select=select, types=types))
    ages = ["18", "35", "1000"]
    expected = [f"{age},F,{rest}" for age in ages for rest in ("10.5,2021-03-01", "700,2020-01-01")]
    assert found == single(tmp_path, *expected)


def test_a_folder_around_the_source_is_no_partition(tmp_path: Path):
    """A path above the folder that looks like one must not overwrite a column."""
    above = tmp_path / "age=55" / "sex=M"
    rows = {"age": [34], "sex": ["F"], "wage": [10.5], "since": ["2021-03-01"]}
    parquet(above, "people/a.parquet", **rows)
    parquet(above, "people/b.parquet", **{**rows, "wage": [11.5]})
    assert codes(tmp_path, Source(path=above / "people", files="parquet")) == [(3, 0, 0, 1)] * 2


def whole(**changed: object) -> dict[str, object]:
    return {"age": [34], "sex": ["F"], "wage": [10.5], "since": ["2021-03-01"], **changed}


def test_parquet_files_may_differ_in_widths_and_in_the_order_of_columns(tmp_path: Path):
    """The type that a writer picks may depend on one person's missing value: it must not stop a release."""
    columns = whole()
    parquet(tmp_path, "people/a.parquet", **columns)
    parquet(tmp_path, "people/b.parquet", **dict(reversed(whole(age=pa.array([34], pa.int8())).items())))
    parquet(
        tmp_path,
        "people/c.parquet",
        **whole(age=pa.array([34.0, None]), **{k: columns[k] * 2 for k in columns if k != "age"}),
    )
    parquet(tmp_path, "people/d.parquet", **whole(sex=pa.nulls(1)))
    assert codes(tmp_path, Source(path=tmp_path / "people", files="parquet")) == [
        (3, 0, 0, 1),
        (3, 0, 0, 1),
        (3, 0, 0, 1),
        (10, 0, 0, 1),
        (3, 2, 0, 1),
    ]


def new_column(folder: Path) -> None:
    parquet(folder, f"people/b-{SECRET}.parquet", **whole(), town=["x"])


def renamed_column(folder: Path) -> None:
    parquet(folder, f"people/b-{SECRET}.parquet", **{{"age": "years"}.get(k, k): v for k, v in whole().items()})


def retyped_column(folder: Path) -> None:
    instants = pa.array([0], pa.timestamp("us", "UTC"))
    parquet(folder, "people/a.parquet", **whole(since=pa.array([0], pa.date32())))
    parquet(folder, f"people/b-{SECRET}.parquet", **whole(since=instants))


def hard_link(folder: Path) -> None:
    os.link(folder / "people/a.parquet", folder / f"people/b-{SECRET}.parquet")


def symbolic_link(folder: Path) -> None:
    (folder / f"people/b-{SECRET}.parquet").symlink_to("a.parquet")


def linked_folder(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / f"people/{SECRET}").symlink_to(folder / "elsewhere")


def delivered_twice(folder: Path) -> None:
    (folder / f"people/b-{SECRET}.parquet").write_bytes((folder / "people/a.parquet").read_bytes())


def of_another_kind(folder: Path) -> None:
    (folder / f"people/b-{SECRET}.csv").write_text("age\n1\n")


def damaged(folder: Path) -> None:
    (folder / f"people/b-{SECRET}.parquet").write_bytes(b"PAR1 no parquet")


def partitioned(folder: Path) -> None:
    parquet(folder, f"people/town={SECRET}/b.parquet", **whole())


def column_in_both(folder: Path) -> None:
    (folder / "people/a.parquet").rename(folder / "a")
    for each in ("1", SECRET):
        parquet(folder, f"people/age={each}/b.parquet", **whole())


BAD: dict[Callable[[Path], None], tuple[type[Refused], str]] = {
    new_column: (GateBroken, "other columns than in the first file (new: town)"),
    renamed_column: (GateBroken, "(new: years; missing: age)"),
    retyped_column: (GateBroken, "column 'since' with timestamps with a time zone, where earlier files have dates"),
    hard_link: (SourceUnreadable, "a second name of"),
    symbolic_link: (SourceUnreadable, "a link"),
    linked_folder: (SourceUnreadable, "a link"),
    delivered_twice: (GateBroken, "the same bytes as"),
    of_another_kind: (SourceUnreadable, "a file of another kind"),
    damaged: (SourceUnreadable, "not a Parquet file"),
    partitioned: (SourceUnreadable, "the partition columns town"),
    column_in_both: (SourceUnreadable, "the column 'age' in the files and in their paths"),
}


LAKES = {
    "Delta": ("people/_delta_log/00000000000000000000.json", "a Delta table"),
    "Delta above": ("_delta_log/00000000000000000000.json", "a Delta table"),
    "Hudi": ("people/.hoodie/hoodie.properties", "a Hudi table"),
    "a partition of Hudi": ("people/.hoodie_partition_metadata", "a Hudi table"),
    "Iceberg": ("people/metadata/00001-9c.metadata.json", "an Iceberg table"),
    "Iceberg's data": ("metadata/v3.metadata.json", "an Iceberg table"),
    "Iceberg of Hadoop": ("people/metadata/version-hint.text", "an Iceberg table"),
    "Paimon": ("people/snapshot/snapshot-1", "a Paimon table"),
    "a stream": ("people/_spark_metadata/0", "the output of a Spark stream"),
    "DuckLake": ("people/ducklake-0197.parquet", "a DuckLake table"),
    "Hive": ("people/delta_0000001_0000001_0000/000000_0", "a Hive table with transactions"),
    "a task's leftovers": ("people/_temporary/0/task_1/part-0.parquet", "files of a writer that did not finish"),
    "an overwrite's leftovers": ("people/.spark-staging-1/a", "files of a writer that did not finish"),
    "a transaction's leftovers": ("people/_started_77", "files of a writer that did not finish"),
}


TOLD_BY_A_FOLDER = (
    "Delta",
    "Delta above",
    "Hudi",
    "Iceberg",
    "Iceberg's data",
    "Iceberg of Hadoop",
    "Paimon",
    "a stream",
)
FOLDERS_AND_FILES = [
    *((case, "people") for case in LAKES),
    *((case, "people/a.parquet") for case in TOLD_BY_A_FOLDER),
]


@pytest.mark.parametrize(("case", "path"), FOLDERS_AND_FILES)
def test_files_that_a_log_tells_more_of_are_no_table(tmp_path: Path, case: str, path: str):
    """Deleted and rewritten rows would come back; a single file of such a table is no table either."""
    mark, kind = LAKES[case]
    parquet(tmp_path, "people/a.parquet", **whole())
    (tmp_path / mark).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / mark).write_text(SECRET)
    source = Source(path=tmp_path / path, files=None if path.endswith("parquet") else "parquet")
    with pytest.raises(SourceUnreadable) as raised:
        take_in(source, make_contract(tmp_path), tmp_path)
    assert f"source.path\n    found: {kind}\n" in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("case", ["Delta", "Iceberg"])
def test_without_the_extension_that_reads_it_a_table_with_a_log_is_refused_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
):
    """The refusal names the extension; an address of such a table is refused by its name too."""
    monkeypatch.setattr("contracts.plug_ins.registered", lambda group: ())
    mark, kind = LAKES[case]
    parquet(tmp_path, "people/a.parquet", **whole())
    (tmp_path / mark).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / mark).write_text("{}")
    with pytest.raises(SourceUnreadable, match=kind) as raised:
        take_in(Source(path=tmp_path / "people", files="parquet"), make_contract(tmp_path), tmp_path)
    needed = "which needs the extension sudare_lakes, which is not installed"
    assert needed in str(raised.value)
    with pytest.raises(ValueError, match=needed):
        Source.model_validate({"path": f"{case.lower()}:///lake"})


def test_a_link_below_a_lake_table_is_no_way_around_its_log(tmp_path: Path):
    """To one of its partitions: deleted rows would come back from there too."""
    parquet(tmp_path, "lake/day=1/a.parquet", **whole())
    (tmp_path / "lake" / "_delta_log").mkdir()
    (tmp_path / "lake" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    (tmp_path / "elsewhere").symlink_to(tmp_path / "lake" / "day=1")
    with pytest.raises(SourceUnreadable, match="a Delta table"):
        take_in(Source(path=tmp_path / "elsewhere", files="parquet"), make_contract(tmp_path), tmp_path)


def test_one_commit_of_a_writer_is_a_table_and_two_may_not_be(tmp_path: Path):
    parquet(tmp_path, "people/a.parquet", **whole())
    for mark in ("_started_1", "_committed_1", "_SUCCESS"):
        (tmp_path / "people" / mark).write_text("")
    source = Source(path=tmp_path / "people", files="parquet")
    assert take_in(source, make_contract(tmp_path), tmp_path).path.exists()
    for mark in ("_started_2", "_committed_2"):
        (tmp_path / "people" / mark).write_text("")
    with pytest.raises(SourceUnreadable, match="files of several transactions"):
        take_in(source, make_contract(tmp_path), tmp_path)


TWINS = [
    (first, second)
    for first in ("a.csv", "a.csv.gz", "a.csv.zst")
    for second in ("a.csv", "b.csv", "a.csv.gz", "b.csv.gz", "a.csv.zst", "b.csv.zst", "c/b.csv.gz")
    if first < second
]


@pytest.mark.parametrize(("first", "second"), TWINS)
def test_rows_that_come_plain_and_packed_are_refused(tmp_path: Path, first: str, second: str):
    """By the name in one folder, whatever is in it; by the unpacked bytes anywhere in a partition."""
    folder = tmp_path / "people"
    for name in (first, second):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        packing = {".gz": "gzip", ".zst": "zstd"}.get(Path(name).suffix)
        with pa.output_stream(str(folder / name), compression=packing) as file:
            file.write("\n".join((HEADER, *ROWS, "")).encode())
    alike = second.partition(".")[0] == "a"
    with pytest.raises(SourceUnreadable if alike else GateBroken) as raised:
        take_in(Source(path=folder, files="csv"), make_contract(tmp_path), tmp_path)
    assert ("packed otherwise" if alike else "the same bytes as") in str(raised.value)


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__)
def test_a_bad_folder_is_refused_without_a_name_that_may_hold_a_value(tmp_path: Path, spoil: Callable[[Path], None]):
    kind, says = BAD[spoil]
    parquet(tmp_path, "people/a.parquet", **whole())
    spoil(tmp_path)
    assert says in refusal(tmp_path, Source(path=tmp_path / "people", files="parquet"), kind)


@pytest.mark.parametrize("spoilt", [1, 2])
def test_damaged_pages_name_the_file_by_its_number(tmp_path: Path, spoilt: int):
    """A name could hold a value; the first file's would also be that of a whole one."""
    for number in (1, 2):
        ages = [str(number * place) for place in range(20_000)]
        others = {"sex": ["F"] * 20_000, "wage": ["1"] * 20_000, "since": ["2020-01-01"] * 20_000}
        parquet(tmp_path, f"people/town={SECRET}/{number}-{SECRET}.parquet", age=ages, **others)
    path = tmp_path / f"people/town={SECRET}/{spoilt}-{SECRET}.parquet"
    content = bytearray(path.read_bytes())
    content[50:20_000] = b"\xff" * 19_950
    path.write_bytes(content)
    select = "SELECT age, sex, wage, since FROM source"
    message = refusal(tmp_path, Source(path=tmp_path / "people", files="parquet", select=select), GateBroken)
    assert f"people: file {spoilt} by name: rows\n    found: damaged Parquet data" in message


def test_a_drifting_csv_and_a_broken_row_name_the_file_by_its_number(tmp_path: Path):
    source = Source(path=tmp_path / "people", files="csv")
    pack(csv_text(ROWS[0]), "people/1.csv", tmp_path)
    late = pack(csv_text(ROWS[0], f"{SECRET},F"), f"people/2-{SECRET}.csv", tmp_path)
    assert "people: file 2 by name:3: row\n    found: 2 fields" in refusal(tmp_path, source, GateBroken)
    late.write_text(csv_text("F,34,1,2020-01-01", header="sex,age,wage,since"))
    assert "file 2 by name: columns\n    found: other columns" in refusal(tmp_path, source, GateBroken)


def test_an_empty_folder_and_files_without_rows_are_told(tmp_path: Path):
    source = Source(path=tmp_path / "people", files="csv")
    assert "found: no such folder" in refusal(tmp_path, source, SourceUnreadable)
    source.path.mkdir()
    assert "found: no csv file" in refusal(tmp_path, source, SourceUnreadable)
    pack(csv_text(), "people/1.csv", tmp_path)
    assert "found: no rows" in refusal(tmp_path, source, GateBroken)
    pack(csv_text() + "\n", "people/2.csv", tmp_path)
    assert "found: no rows" in refusal(tmp_path, source, GateBroken)
    pack(csv_text(ROWS[0]), "people/3.csv", tmp_path)
    assert len(codes(tmp_path, source)) == 1


def added(folder: Path) -> None:
    parquet(folder, "people/z.parquet", **whole(wage=[3.0]))


def removed(folder: Path) -> None:
    (folder / "people/b.parquet").unlink()


def rewritten(folder: Path) -> None:
    parquet(folder, "people/a.parquet", **whole(wage=[4.0]))


def gone(folder: Path) -> None:
    (folder / "people").rename(folder / "elsewhere")


@pytest.mark.parametrize("change", [added, removed, rewritten, gone])
def test_a_folder_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, change: Callable[[Path], None], request: pytest.FixtureRequest
):
    """The list of files is the same before and after, or nothing of it is taken; the next run reads anew."""
    source = Source(path=tmp_path / "people", files="parquet")
    parquet(tmp_path, "people/a.parquet", **whole())
    parquet(tmp_path, "people/b.parquet", **whole(wage=[2.0]))
    request.addfinalizer(lambda: progress.watch(None))
    progress.watch(During(lambda: change(tmp_path)))
    assert "a file that changed while it was read" in refusal(tmp_path, source, SourceUnreadable)
    progress.watch(None)
    if change is not gone:
        assert len(codes(tmp_path, source)) == {added: 3, removed: 1, rewritten: 2}[change]


@pytest.mark.long
def test_files_that_vanish_before_their_turn_are_no_damaged_files(tmp_path: Path, request: pytest.FixtureRequest):
    """What the reading stumbles over is explained by the source that went: exit 2, and no gate is entered."""
    source, rows = Source(path=tmp_path / "people", files="parquet"), 400_000
    for number in range(12):
        wages = [float(number), *([1.0] * (rows - 1))]
        parquet(
            tmp_path,
            f"people/{number:02}.parquet",
            **{name: [*values] * rows for name, values in whole().items()} | {"wage": wages},
        )
    request.addfinalizer(lambda: progress.watch(None))
    progress.watch(During(lambda: (tmp_path / "people").rename(tmp_path / "elsewhere")))
    assert "a file that changed while it was read" in refusal(tmp_path, source, SourceUnreadable)


def test_a_second_look_finds_the_snapshot_and_a_new_file_does_not(tmp_path: Path):
    source, contract = Source(path=tmp_path / "people", files="parquet"), make_contract(tmp_path)
    parquet(tmp_path, "people/a.parquet", **whole())
    first = take_in(source, contract, tmp_path)
    made = first.path.stat().st_mtime_ns
    assert take_in(source, contract, tmp_path).path.stat().st_mtime_ns == made
    parquet(tmp_path, "people/b.parquet", **whole(wage=[2.0]))
    assert take_in(source, contract, tmp_path).keyed_hash != first.keyed_hash
