"""Parquet files: what they unpack to, footers that lie to engines, and files that are exactly ours."""

import hashlib
import io
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.records.files.tidy_tables import Tidy
from tasks.verification.data_files.parquet_footer import check_footer
from tasks.verification.data_files.rewriting import exact_values
from tasks.verification.files.parquet_pages import MOST_NUMBERS, open_numbers, unpacked_size
from tests.tasks.verification.forgery import forge
from tests.tasks.verification.parquet_bombs import BOMB, bomb
from tests.worlds.versions import Version, broken

TABLE = pa.table(
    {
        "label": pa.array([f"label {n % 7}" for n in range(5000)]),
        "number": pa.array(range(5000), pa.int64()),
        "real": pa.array([n / 3 for n in range(5000)], pa.float64()),
        "flag": pa.array([n % 3 == 0 for n in range(5000)]),
    }
)


def written(table: pa.Table, **how: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **how)
    return sink.getvalue()


def size_of(data: bytes) -> tuple[int, int]:
    """What the pages say, and what the footer says."""
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        groups = range(file.metadata.num_row_groups)
        return unpacked_size(data, file.metadata), sum(file.metadata.row_group(n).total_byte_size for n in groups)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_an_honest_file_unpacks_to_what_its_footer_says(compression: str, version: str, dictionary: bool):
    """Headers of pages count to a column's size, so the footer's word is the larger one, by a little."""
    how = {"data_page_version": version, "use_dictionary": dictionary, "row_group_size": 700, "data_page_size": 512}
    found, stated = size_of(written(TABLE, compression=compression, write_page_checksum=True, **how))
    assert found == stated


@pytest.mark.long
def test_a_page_that_unpacks_to_more_than_the_footer_says_counts_as_what_it_unpacks_to():
    data = bomb(TABLE)
    assert len(data) < 2**20
    found, stated = size_of(data)
    assert stated == 1
    assert found > BOMB
    with pytest.raises(ValueError, match="it unpacks to"):
        open_numbers(data)


@pytest.mark.long
def test_more_rows_than_memory_holds_are_not_read():
    """Rows of one number alone take next to no room in a file."""
    sink = io.BytesIO()
    piece = pa.table({"value": pa.array([7], pa.int64()).take(pa.array([0] * 2**20))})
    with pq.ParquetWriter(sink, piece.schema, compression="zstd") as writer:
        for _ in range(MOST_NUMBERS // 2**20 + 1):
            writer.write_table(piece)
    with pytest.raises(ValueError, match="are read"):
        open_numbers(sink.getvalue())


def test_whatever_stands_where_a_page_should_begin_is_refused_or_passed_over():
    """Each byte of a small file but its footer, set to each of four values: a number or a refusal, nothing else."""
    data = written(TABLE.slice(0, 20), compression="none", write_statistics=False)
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        metadata = file.metadata
        for place in range(4, len(data) - 8 - metadata.serialized_size):
            for value in (0, 21, 127, 255):
                changed = data[:place] + bytes([value]) + data[place + 1 :]
                with suppress(ValueError):
                    assert unpacked_size(changed, metadata) >= 0


def parts_of(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Split a file before its footer, and behind it."""
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length], data[-8 - length : -8], data[-8:]


def lowered_maximum(data: bytes) -> bytes:
    rows, footer, end = parts_of(data)
    largest = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(1).statistics.max
    packed = struct.pack("<q", largest)
    assert packed in footer
    return rows + footer.replace(packed, struct.pack("<q", largest // 2)) + end


def hidden_bytes(data: bytes) -> bytes:
    rows, footer, end = parts_of(data)
    return rows + b"whatever somebody wants to hide" + footer + end


FORGED: dict[str, Callable[[bytes], bytes]] = {"statistics": lowered_maximum, "layout": hidden_bytes}


@pytest.mark.parametrize("field", FORGED)
def test_a_footer_that_lies_is_caught_where_all_values_digests_and_signatures_hold(
    versions: dict[str, Version], tmp_path: Path, field: str
):
    """An engine leaves rows out by it, which it shows: they are in the file."""
    version = versions["town"].copy(tmp_path / "v")
    path = version.folder / "data" / "age.parquet"
    honest = path.read_bytes()
    values = pq.read_table(path)
    path.write_bytes(FORGED[field](honest))
    assert pq.read_table(path).equals(values)
    if field == "statistics":
        largest = max(values["count"].to_pylist())
        [[found]] = duckdb.sql(f"select count(*) from '{path}' where count = {largest}").fetchall()
        assert found == 0 < values["count"].to_pylist().count(largest)
    report = forge(version).verify()
    assert broken(report) == {9}
    [finding] = report.findings
    assert finding.where == "data/age.parquet"
    assert finding.field.startswith(field)


def test_honest_footers_of_all_kinds_of_columns_pass(tmp_path: Path):
    """Texts, dates, truth values, numbers with gaps, pictures; several row groups; no rows."""
    table = pa.table(
        {
            "text": pa.array(["b", "a", None, "ü", "a"]).dictionary_encode(),
            "day": pa.array([3, 1, 2, None, 0], pa.date32()),
            "yes": pa.array([True, None, False, True, True]),
            "number": pa.array([0.5, -0.0, None, 1e300, 0.0]),
            "whole": pa.array([5, 4, 3, 2, 1], pa.uint8()),
            "picture": pa.array([[1, 2], [3, 4], [5, 6], [7, 8], [9, 0]], pa.list_(pa.uint8(), 2)),
            "missing": pa.array([None] * 5, pa.int64()),
        }
    )
    for name, rows, size in (("all", table, 5), ("groups", table, 2), ("none", table.slice(0, 0), 5)):
        pq.write_table(rows, tmp_path / name, row_group_size=size, compression="zstd")
        assert list(check_footer((tmp_path / name).read_bytes(), where=name)) == []
    pq.write_table(table, tmp_path / "index", write_page_index=True)
    [finding] = check_footer((tmp_path / "index").read_bytes(), where="index")
    assert finding.field == "layout"


@pytest.mark.parametrize("times", [1, 3_000])
@pytest.mark.parametrize("unused", ["a", "c"])
def test_ends_that_arrow_takes_of_an_unused_label_pass_and_no_others(unused: str, times: int):
    """Beside a null, Arrow states the ends of all labels where one is unused; where none is null that is a lie."""
    labels = ["a", "b", "c"]
    places = [place for place, label in enumerate(labels) if label != unused]
    for nulls in ([None], []):
        column = pa.DictionaryArray.from_arrays(pa.array((places + nulls) * times, pa.int8()), labels)
        data = written(pa.table({"x": column}), compression="zstd", use_dictionary=["x"])
        stated = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(0).statistics
        assert ((stated.min, stated.max) == ("a", "c")) == bool(nulls)
        assert list(check_footer(data, where="honest")) == []
    [true] = {label for label in ("a", "c") if label != unused}
    assert len(list(check_footer(with_ends(data, true, unused), where="a lie"))) == 1


def with_ends(data: bytes, true: str, false: str) -> bytes:
    """State both ends of a column of one letter a value as those of all labels, in the footer alone."""
    rows, footer, end = parts_of(data)
    assert footer.count(b"\x01b") >= 1
    assert footer.count(b"\x01" + true.encode()) >= 1
    return rows + footer.replace(b"\x01b", b"\x01" + false.encode()) + end


MARKS = {"sudare_release": "wards"}
LABELS = {"ward": ("north", "south", "(null)"), "sex": ("F", "M")}
CLIQUE = ("ward", "sex")


@dataclass(frozen=True)
class Axis:
    """The labels of a column."""

    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.labels)


class Cells:
    """The cells of two columns."""

    def column(self, name: str) -> Axis:
        return Axis(LABELS[name])

    def shape(self, clique: Any) -> tuple[int, ...]:
        return tuple(len(LABELS[name]) for name in clique)

    def cells(self, clique: Any) -> int:
        return int(np.prod(self.shape(clique)))


NOISY = np.array([[4, -1], [0, 7], [2, 3]])


def written_table(folder: Path, values: Any = NOISY) -> Path:
    tidy = Tidy(Cells(), CLIQUE, {"noisy": np.asarray(values)})  # type: ignore[arg-type]
    tidy.write(folder, "measurements/a.parquet", draw="a", marks=MARKS)
    return folder / "measurements" / "a.parquet"


def found(path: Path) -> Any:
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    terms: dict[str, Any] = {"cells": Cells(), "clique": CLIQUE, "values": {"noisy": "int64"}, "marks": MARKS}
    return exact_values(data, sha256=digest, **terms)


def test_a_file_of_ours_gives_its_values(tmp_path: Path):
    """The digest of what would be written is that of what was written, and the values come back."""
    path = written_table(tmp_path)
    values = found(path)
    assert values is not None
    assert values["noisy"].tolist() == NOISY.reshape(-1).tolist()
    tidy = Tidy(Cells(), CLIQUE, {"noisy": NOISY})  # type: ignore[arg-type]
    assert tidy.digest(MARKS) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert tidy.digest({}) != tidy.digest(MARKS)


def _again(path: Path, change: Callable[[Any], Any], **options: Any) -> None:
    pq.write_table(change(pq.read_table(path)), path, **options)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: _again(path, lambda table: table, compression="snappy"),
        lambda path: _again(path, lambda table: table.replace_schema_metadata({"sudare_release": "other"})),
        lambda path: _again(path, lambda table: table.slice(0, 5)),
        lambda path: _again(path, lambda table: table.take([1, 0, 2, 3, 4, 5])),
        lambda path: _again(path, lambda table: table.rename_columns(["ward", "sex", "count"])),
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    ],
    ids=["compression", "marks", "rows", "order", "names", "cut", "longer"],
)
def test_any_other_file_is_looked_at_in_another_way(tmp_path: Path, change: Callable[[Path], None]):
    """Another byte anywhere, and it is no file of ours: None, and no error."""
    path = written_table(tmp_path)
    change(path)
    assert found(path) is None
