"""Parquet files that unpack to far more than their footer says."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

BOMB = 2**26
"""What one page unpacks to [bytes]."""


def bomb(table: pa.Table) -> bytes:
    """Put a label of 64 MB of one letter into a table, and let the footer say that all of it is small."""
    column = pa.array(["x" * BOMB, *table.column(0).cast(pa.string()).to_pylist()[1:]], pa.string())
    sink = io.BytesIO()
    pq.write_table(
        table.set_column(0, table.column_names[0], column), sink, compression="zstd", write_statistics=False
    )
    return with_small_footer(sink.getvalue())


def with_small_footer(data: bytes) -> bytes:
    """Write the least size that the footer may say into it: as a number in as many bytes, most of them empty."""
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        size, length = file.metadata.row_group(0).total_byte_size, file.metadata.serialized_size
    begin = len(data) - 8 - length
    said, footer = varint(2 * size), data[begin:]
    assert footer.count(said) == 1
    small = bytes([0x82, *[0x80] * (len(said) - 2), 0x00])  # one, folded: 2
    lying = data[:begin] + footer.replace(said, small)
    with pq.ParquetFile(pa.BufferReader(lying)) as file:
        assert file.metadata.row_group(0).total_byte_size == 1
    return lying


def varint(value: int) -> bytes:
    """Write a number of 7 bits a byte, least first."""
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
