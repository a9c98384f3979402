"""How much a Parquet file unpacks to, by the headers of its own pages: the footer's word for it can lie.

A page of a few kilobytes may unpack to two gigabytes. A reader allots what the page's header says. So that is added
up here before any value is read, by a walk from header to header. Headers are Thrift structs in the compact protocol:
    a field     one byte: the step from the field before (4 bits), and its type (4 bits); a whole number follows its
                step as a varint of 7 bits a byte, least first, folded so that small negative ones are short
    PageHeader  1 type, 2 bytes unpacked, 3 bytes packed, then structs about the page's kind, which are passed over
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

MOST_NUMBERS: Final = 2**28
"""Rows that are read of a file of numbers: what memory holds."""
_BYTES_PER_NUMBER: Final = 128
_SPARE_BYTES: Final = 2**22
_UNPACKED, _PACKED = 2, 3
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_WHOLE: Final = (4, 5, 6)
_DEEPEST: Final = 8
_MOST_HEADER: Final = 2**16


def open_numbers(data: bytes, *, labels: Sequence[str] = ()) -> Any:
    """Open a Parquet file of numbers, if reading it takes no more memory than its rows can need.

    Args:
        data: its bytes.
        labels: columns of text, which stay numbers and a list.
    Raises:
        ValueError: it has more rows than are read, or unpacks to more than they can need.
        pyarrow.ArrowException: it is no Parquet file.
    """
    file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(labels))
    rows = file.metadata.num_rows
    if rows > MOST_NUMBERS:
        raise ValueError(f"{rows} rows; at most {MOST_NUMBERS} are read")
    unpacked, most = unpacked_size(data, file.metadata), rows * _BYTES_PER_NUMBER + _SPARE_BYTES
    if unpacked > most:
        raise ValueError(f"it unpacks to {unpacked} bytes; its {rows} rows can need at most {most}")
    return file


def unpacked_size(data: bytes, metadata: Any) -> int:
    """Add up what all pages of a file say that they unpack to, or what its footer says where that is more.

    Args:
        data: bytes of a Parquet file.
        metadata: its footer, as Arrow read it.
    Returns:
        int: what a reader would allot for its pages [bytes].
    Raises:
        ValueError: no page begins where the footer says, or it does not end within its column.
    """
    total = stated = 0
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        stated += row_group.total_byte_size
        for place in range(row_group.num_columns):
            column = row_group.column(place)
            if column.total_compressed_size:
                begin = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
                total += _column_size(data, begin, begin + column.total_compressed_size)
    return max(total, stated)


def _column_size(data: bytes, at: int, end: int) -> int:
    """Walk the pages of one column; return what they unpack to."""
    if not 0 <= at <= end <= len(data):
        raise ValueError("a column that does not lie within the file")
    total = 0
    while at < end:
        header = _Header(data, at, min(end, at + _MOST_HEADER))
        sizes = header.struct(0)
        unpacked, packed = sizes.get(_UNPACKED, -1), sizes.get(_PACKED, -1)
        if unpacked < 0 or packed < 0 or header.at + packed > end:
            raise ValueError("a page that does not end within its column")
        total += unpacked
        at = header.at + packed
    return total


class _Header:
    """One Thrift struct that is read or passed over byte by byte."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data, self.at, self._end = data, at, end

    def struct(self, depth: int) -> dict[int, int]:
        """Read a struct; return its whole numbers by their field, those of structs inside it left out."""
        numbers: dict[int, int] = {}
        field = 0
        while (head := self._byte()) != _STOP:
            step, kind = head >> 4, head & 15
            field = field + step if step else self._read_integer()
            if kind in _WHOLE:
                numbers[field] = self._read_integer()
            elif kind not in (_TRUE, _FALSE):
                self._skip(kind, depth + 1)
        return numbers

    def _skip(self, kind: int, depth: int) -> None:
        """Pass over a value of a kind."""
        if depth > _DEEPEST:
            raise ValueError("a page header that is too deeply nested")
        if kind in _WHOLE:
            self._read_integer()
        elif kind in (_TRUE, _FALSE, _BYTE):
            self._move(1)
        elif kind == _DOUBLE:
            self._move(8)
        elif kind == _BINARY:
            self._move(self._varint())
        elif kind in (_LIST, _SET):
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                self._skip(head & 15, depth + 1)
        elif kind == _STRUCT:
            self.struct(depth)
        else:
            raise ValueError(f"a page header with a field of type {kind}")

    def _read_integer(self) -> int:
        folded = self._varint()
        return (folded >> 1) ^ -(folded & 1)

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a page header with a number of more than 64 bits")

    def _byte(self) -> int:
        self._move(1)
        return self._data[self.at - 1]

    def _move(self, size: int) -> None:
        if self.at + size > self._end:
            raise ValueError("a page header that does not end")
        self.at += size
