"""What a Parquet file unpacks to is read off its pages, whatever its footer says."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.verification.files.parquet_pages import MOST_NUMBERS, open_numbers, unpacked_size
from tests.tasks.verification.parquet_bombs import BOMB, bomb

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
def test_an_honest_file_unpacks_to_what_its_footer_says(compression: str, version: str, dictionary: bool) -> None:
    """Headers of pages count to a column's size, so the footer's word is the larger one, by a little."""
    how = {"data_page_version": version, "use_dictionary": dictionary, "row_group_size": 700, "data_page_size": 512}
    found, stated = size_of(written(TABLE, compression=compression, write_page_checksum=True, **how))
    assert found == stated


@pytest.mark.long
def test_a_page_that_unpacks_to_more_than_the_footer_says_counts_as_what_it_unpacks_to() -> None:
    data = bomb(TABLE)
    assert len(data) < 2**20
    found, stated = size_of(data)
    assert stated == 1
    assert found > BOMB
    with pytest.raises(ValueError, match="it unpacks to"):
        open_numbers(data)


@pytest.mark.long
def test_more_rows_than_memory_holds_are_not_read() -> None:
    """Rows of one number alone take next to no room in a file."""
    sink = io.BytesIO()
    piece = pa.table({"value": pa.array([7], pa.int64()).take(pa.array([0] * 2**20))})
    with pq.ParquetWriter(sink, piece.schema, compression="zstd") as writer:
        for _ in range(MOST_NUMBERS // 2**20 + 1):
            writer.write_table(piece)
    with pytest.raises(ValueError, match="are read"):
        open_numbers(sink.getvalue())


def test_whatever_stands_where_a_page_should_begin_is_refused_or_passed_over() -> None:
    """Each byte of a small file but its footer, set to each of four values: a number or a refusal, nothing else."""
    data = written(TABLE.slice(0, 20), compression="none", write_statistics=False)
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        metadata = file.metadata
        for place in range(4, len(data) - 8 - metadata.serialized_size):
            for value in (0, 21, 127, 255):
                changed = data[:place] + bytes([value]) + data[place + 1 :]
                with suppress(ValueError):
                    assert unpacked_size(changed, metadata) >= 0
