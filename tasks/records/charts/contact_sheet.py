"""Contact sheets: the first published pictures, class by class, as one picture in the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.column import Column
from contracts.domains.domain import NULL_LABEL
from tasks.records.charts.charts import address, png

MOST_CLASSES: Final = 24
_LOOKED_AT: Final = 8192
_A_CLASS: Final = 12
_WIDEST: Final = 1344
_GAP: Final = 2
_WHITE: Final = 255


@dataclass(frozen=True)
class ContactSheet:
    """Published pictures of one column.

    Args:
        column: the column.
        of: the column whose labels are the classes; empty without one.
        labels: of the rows of the sheet, from the top.
        shown: pictures a row.
        source: the sheet as an address of a PNG.
        width, height: of the sheet [pixels].
    """

    column: str
    of: str
    labels: tuple[str, ...]
    shown: int
    source: str
    width: int
    height: int


def contact_sheets(columns: Sequence[Column], label: str | None, data: bytes) -> list[ContactSheet]:
    """Draw a sheet for each column of pictures.

    Args:
        columns: the columns of the rows.
        label: the column whose labels are the classes; None where any may be.
        data: the published rows, Parquet.
    Privacy: reads published rows only.
    """
    pictures = [column for column in columns if len(column.domain.shape) == 2]
    if not pictures:
        return []
    classes = [c for c in columns if c.length == 1 and not c.ordered and 2 <= c.size <= MOST_CLASSES]
    classes.sort(key=lambda column: column.name != label)
    by = classes[0] if classes else None
    names = [column.name for column in pictures] + ([] if by is None else [by.name])
    batch = next(pq.ParquetFile(pa.BufferReader(data)).iter_batches(_LOOKED_AT, columns=names), None)
    if batch is None or not batch.num_rows:
        return []
    labels = None if by is None else _labels(batch.column(by.name).to_pylist())
    return [_sheet(column, batch.column(column.name), by, labels) for column in pictures]


def _sheet(column: Column, values: object, by: Column | None, labels: list[str] | None) -> ContactSheet:
    """Put the first pictures of each class in a row."""
    levels = np.asarray(values.flatten().to_numpy()).reshape(-1, *column.domain.shape)  # type: ignore[attr-defined]
    shown = max(1, min(_A_CLASS, _WIDEST // (levels.shape[2] + _GAP)))
    named: tuple[str, ...] = ()
    rows = [levels[start : start + shown] for start in range(0, min(4 * shown, len(levels)), shown)]
    if by is not None and labels is not None:
        named = tuple(label for label in by.labels if label in set(labels))
        rows = [levels[np.flatnonzero(np.array(labels) == label)[:shown]] for label in named]
    grey = _tiled(rows, levels.shape[1:], column.size, shown)
    colours = [(level, level, level) for level in range(256)]
    height, width = grey.shape
    of = "" if by is None else by.name
    return ContactSheet(column.name, of, named, shown, address(png(grey, colours)), width, height)


def _tiled(rows: list[NDArray[np.uint8]], shape: tuple[int, ...], size: int, shown: int) -> NDArray[np.uint8]:
    """Lay pictures out in a grid on white; the highest level is just below white."""
    height, width = shape
    high, wide = height + _GAP, width + _GAP
    sheet = np.full((len(rows) * high - _GAP, shown * wide - _GAP), _WHITE, dtype=np.uint8)
    for down, pictures in enumerate(rows):
        for across, levels in enumerate(pictures):
            scaled = levels.astype(np.int64) * (_WHITE - 1) // (size - 1)
            top, left = down * high, across * wide
            sheet[top : top + height, left : left + width] = scaled
    return sheet


def _labels(values: list[object]) -> list[str]:
    return [NULL_LABEL if value is None else _label(value) for value in values]


def _label(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
