"""Room beside the values of a file: whatever is put there is found, though its publisher signs it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tasks.verification.forgery import Json, forge
from tests.worlds.sparse_tables import small
from tests.worlds.synthetic_rows import aim, gaussians
from tests.worlds.tables import second
from tests.worlds.versions import Version, Worlds, broken, named

TEXT = "a register of names that nobody declared. " * 270  # 11 kB
TABLE, CSV = "data/pay.parquet", "data/pay.csv"


@pytest.fixture(scope="module")
def ours(worlds: Worlds) -> Version:
    """Two tables with CSV, written by the libraries that run here, and their record says so."""
    return worlds.published(second(), here=True)


@pytest.fixture
def version(ours: Version, tmp_path: Path) -> Version:
    return ours.copy(tmp_path / "v")


def written(table: pa.Table, path: Path, **options: Any) -> None:
    labels = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    pq.write_table(table, path, **{"compression": "zstd", "use_dictionary": labels, **options})


def in_metadata(path: Path) -> None:
    table = pq.read_table(path)
    written(table.replace_schema_metadata({**table.schema.metadata, b"note": TEXT.encode()}), path)


def in_a_mark(path: Path) -> None:
    table = pq.read_table(path)
    written(table.replace_schema_metadata({**table.schema.metadata, b"sudare_release": TEXT.encode()}), path)


def in_a_field(path: Path) -> None:
    table = pq.read_table(path)
    field = table.schema.field("count").with_metadata({"note": TEXT})
    written(table.set_column(table.column_names.index("count"), field, table.column("count")), path)


def relabelled(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    table = pq.read_table(path)
    name = next(field.name for field in table.schema if pa.types.is_dictionary(field.type))
    place, column = table.column_names.index(name), table.column(name).combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    labels = change(column.dictionary.to_pylist())
    codes = pa.array([labels.index(value) for value in column.to_pylist()], column.type.index_type)
    made = pa.DictionaryArray.from_arrays(codes, pa.array(labels, pa.string()))
    written(table.set_column(place, table.schema.field(name), made), path)


def as_the_writer(path: Path) -> None:
    content = path.read_bytes()
    name = re.search(rb"parquet-cpp-arrow version [0-9.]+", content)
    assert name is not None
    path.write_bytes(content.replace(name[0], b"read the fourth letter of each line"[: len(name[0])]))


PARQUET: dict[str, tuple[Callable[[Path], object], str]] = {
    "metadata of the file": (in_metadata, "metadata note"),
    "a mark": (in_a_mark, "metadata sudare_release"),
    "metadata of a field": (in_a_field, "count"),
    "unused labels": (lambda path: relabelled(path, lambda labels: [*labels, TEXT]), "labels of column"),
    "the order of labels": (lambda path: relabelled(path, lambda labels: labels[::-1]), "labels of column"),
    "the writer's name": (as_the_writer, "created_by"),
    "no compression": (lambda path: written(pq.read_table(path), path, compression="none"), "compression of column"),
    "gzip": (lambda path: written(pq.read_table(path), path, compression="gzip"), "compression of column"),
    "dictionaries of numbers": (
        lambda path: written(pq.read_table(path), path, use_dictionary=True),
        "dictionary|encodings",
    ),
    "more row groups": (lambda path: written(pq.read_table(path), path, row_group_size=3), "row groups"),
}


@pytest.mark.parametrize("trick", PARQUET)
@pytest.mark.parametrize("writer", ["that of this machine", "another"])
def test_room_in_a_parquet_file_is_found_whatever_wrote_it(version: Version, trick: str, writer: str):
    """By the bytes where the same libraries ran, by the structure where others did; values, digests, keys hold."""
    change, field = PARQUET[trick]
    path = version.folder / TABLE
    before = path.read_bytes()
    values = pq.read_table(path)
    change(path)
    assert path.read_bytes() != before
    assert pq.read_table(path).to_pylist() == values.to_pylist()
    report = forge(version, record=by_other_libraries if writer == "another" else lambda record: None).verify()
    assert (broken(report), named(report)) == ({9}, {TABLE})
    assert any(re.search(field, finding.field) for finding in report.findings)
    assert TEXT not in str(report.to_json())


def by_other_libraries(record: Json) -> None:
    record["declarations"]["software"]["packages"].update(pyarrow="25.0.0")


@pytest.mark.parametrize(
    ("trick", "change"),
    {
        "another level of zstd": lambda path: written(pq.read_table(path), path, compression_level=19),
        "smaller pages": lambda path: written(pq.read_table(path), path, data_page_size=16, write_batch_size=1),
        "pages of version 2": lambda path: written(pq.read_table(path), path, data_page_version="2.0"),
    }.items(),
)
def test_other_bytes_of_the_same_values_are_found_where_the_same_libraries_ran(
    version: Version, trick: str, change: Callable[[Path], object]
):
    before = (version.folder / TABLE).read_bytes()
    change(version.folder / TABLE)
    assert (version.folder / TABLE).read_bytes() != before
    report = forge(version).verify()
    assert (broken(report), named(report)) == ({9}, {TABLE})


TRICKS: dict[str, Callable[[bytes], bytes]] = {
    "Windows line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "one Windows line end": lambda data: data.replace(b"\n", b"\r\n", 1),
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "zeros in front": lambda data: re.sub(rb",([0-9])", rb",000\1", data, count=1),
    "zeros behind": lambda data: re.sub(rb"(\.[0-9]+)", rb"\g<1>000", data, count=1),
    "a sign": lambda data: re.sub(rb",([0-9])", rb",+\1", data, count=1),
    "an exponent": lambda data: re.sub(rb",([0-9]+),", rb",\1e0,", data, count=1),
    "quotes": lambda data: re.sub(rb",([a-z]+),", rb',"\1",', data, count=1),
    "an empty line": lambda data: data + b"\n",
    "no last line end": lambda data: data[:-1],
    "a space": lambda data: data.replace(b",", b", ", 1),
}


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("writer", ["that of this machine", "another"])
def test_room_in_a_csv_copy_is_found_whatever_wrote_it(version: Version, trick: str, writer: str):
    path = version.folder / CSV
    before = path.read_bytes()
    path.write_bytes(TRICKS[trick](before))
    assert path.read_bytes() != before
    report = forge(version, record=by_other_libraries if writer == "another" else lambda record: None).verify()
    assert (9 in broken(report), CSV in named(report)) == (True, True)


def test_what_other_libraries_wrote_passes_by_its_structure(version: Version):
    """Another writer's name, another length of its compression: the allow-list takes it."""
    path = version.folder / TABLE
    written(pq.read_table(path), path, compression_level=3)
    content = path.read_bytes()
    path.write_bytes(content.replace(pa.__version__.encode(), b"25.9.9"[: len(pa.__version__)]))
    forge(version, record=by_other_libraries)
    assert version.verify().findings == ()


@pytest.mark.long
@pytest.mark.parametrize("make", [aim, gaussians, small])
def test_versions_of_every_kind_are_written_again_to_the_same_bytes(make: Any, worlds: Worlds, tmp_path: Path):
    """Rows, sums, models, sparse tables; and a note is found: in each of all files, and in one alone."""
    version = worlds.published(make(), here=True).copy(tmp_path / "v")
    assert version.verify().findings == ()
    names = [name for name in version.files if name.endswith(".parquet")]
    for noted in (names, names[:1], names[-1:]):
        honest = {name: (version.folder / name).read_bytes() for name in noted}
        for name in noted:
            in_metadata(version.folder / name)
        report = forge(version).verify()
        assert 9 in broken(report), noted
        assert named(report) == set(noted)
        for name, content in honest.items():
            (version.folder / name).write_bytes(content)
