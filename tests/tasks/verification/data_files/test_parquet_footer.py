"""Footers of Parquet files that lie to engines: values untouched, digests and signatures made to hold."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.verification.data_files.parquet_footer import check_footer
from tests.tasks.verification.forgery import forge
from tests.worlds.versions import Version, broken


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
) -> None:
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
    forge(version)
    report = version.verify()
    assert broken(report) == {9}
    [finding] = report.findings
    assert finding.where == "data/age.parquet"
    assert finding.field.startswith(field)


def test_honest_footers_of_all_kinds_of_columns_pass(tmp_path: Path) -> None:
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
def test_ends_that_arrow_takes_of_an_unused_label_pass_and_no_others(unused: str, times: int) -> None:
    """Beside a null, Arrow states the ends of all labels where one is unused; where none is null that is a lie."""
    labels = ["a", "b", "c"]
    places = [place for place, label in enumerate(labels) if label != unused]
    for nulls in ([None], []):
        column = pa.DictionaryArray.from_arrays(pa.array((places + nulls) * times, pa.int8()), labels)
        data = written(column)
        stated = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(0).statistics
        assert ((stated.min, stated.max) == ("a", "c")) == bool(nulls)
        assert list(check_footer(data, where="honest")) == []
    [true] = {label for label in ("a", "c") if label != unused}
    assert len(list(check_footer(with_ends(data, true, unused), where="a lie"))) == 1


def written(column: pa.Array) -> bytes:
    """Write a file of one column."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": column}), sink, compression="zstd", use_dictionary=["x"])
    return bytes(sink.getvalue().to_pybytes())


def with_ends(data: bytes, true: str, false: str) -> bytes:
    """State both ends of a column of one letter a value as those of all labels, in the footer alone."""
    rows, footer, end = parts_of(data)
    assert footer.count(b"\x01b") >= 1
    assert footer.count(b"\x01" + true.encode()) >= 1
    return rows + footer.replace(b"\x01b", b"\x01" + false.encode()) + end
