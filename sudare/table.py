"""A published table: noisy numbers with their intervals, as Polars, pandas or Arrow, and drawn in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from contracts.errors import Finding, SourceUnreadable
from sudare import html
from sudare.words import call

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

MOST_ROWS: Final = 20
_ENDS: Final = (("lower", "upper"), ("low", "high"))


class Table:
    """A table of a version, read from its published Parquet file whenever it is asked for.

    Args:
        name: its name.
        file: the Parquet file.
        made: of what it is, in a word, for people.
    """

    def __init__(self, name: str, file: Path, made: str = "table") -> None:
        self.name, self._file, self._made = name, file, made

    @property
    def file(self) -> Path:
        """The Parquet file."""
        return self._file

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its columns."""
        return tuple(call(lambda: self._read(columns=[]).schema.names))

    def __len__(self) -> int:
        """How many rows it has: cells of a table, or synthetic rows."""
        return int(call(lambda: self._read(columns=[]).metadata.num_rows))

    def to_arrow(self) -> pa.Table:
        """Return it as an Arrow table."""
        return call(lambda: self._read().read())

    def to_polars(self) -> pl.DataFrame:
        """Return it as a Polars DataFrame."""
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_pandas(self) -> pd.DataFrame:
        """Return it as a pandas DataFrame."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def _read(self, columns: Sequence[str] | None = None) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(self._file)
        except (OSError, pa.ArrowException):
            found, allowed = "no Parquet file that can be read", "a file as it was published"
            remedy = "check the version: release.verify()"
            raise SourceUnreadable([Finding(str(self._file), "table", found, allowed, remedy)]) from None

    def __repr__(self) -> str:
        """Name it, with its size and columns."""
        return f"<{self._made} {self.name!r}: {len(self):,} rows, columns {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        whole = self.to_arrow()
        names, rows = whole.schema.names, whole.slice(0, MOST_ROWS).to_pylist()
        ends = {name: found for name in names if (found := _interval(name, names)) is not None}
        hidden = {end for pair in ends.values() for end in pair}
        headings: list[str] = []
        drawn: list[list[Any]] = [[] for _ in rows]
        for name in (each for each in names if each not in hidden):
            headings += [name, "95 %", ""] if name in ends else [name]
            for cells, added in zip(drawn, _cells(rows, name, ends.get(name)), strict=True):
                cells += added
        numbers = [name for name in names if rows and isinstance(rows[0][name], int | float)]
        more = f"{whole.num_rows:,} rows" + (f", the first {MOST_ROWS}" if whole.num_rows > MOST_ROWS else "")
        return html.table(headings, drawn, numbers=numbers) + html.note(f"{self._made} {self.name}: {more}")


def _interval(name: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns that hold the ends of a number's interval; those beside a label are of its bin."""
    if f"{name}_order" in names:
        return None
    for low, high in _ENDS:
        beside = f"{name}_{low}", f"{name}_{high}"
        if beside[0] in names and beside[1] in names:
            return beside
    return ("lower", "upper") if name == "count" and {"lower", "upper"} <= set(names) else None


def _scale(values: Sequence[Any]) -> tuple[float, float]:
    """Return the numbers at the ends of the bars: from 0 to the largest that is shown."""
    known = [float(each) for each in values if each is not None and isfinite(each)]
    return min([0.0, *known]), max([1e-9, *known])


def _cells(rows: Sequence[dict[str, Any]], name: str, ends: tuple[str, str] | None) -> list[list[Any]]:
    """Return what each row shows of a column: its value and, where it has an interval, that in words and drawn."""
    if ends is None:
        return [[_text(row[name])] for row in rows]
    low, high = ends
    scale = _scale([row[each] for row in rows for each in (name, low, high)])
    shown: list[list[Any]] = []
    for row in rows:
        numbers = row[low], row[name], row[high]
        if None in numbers:
            shown.append([_text(row[name]), "–", ""])
            continue
        words = f"{_text(row[low])} to {_text(row[high])}"
        bar = html.whisker(float(row[low]), float(row[name]), min(float(row[high]), scale[1]), scale)
        shown.append([_text(row[name]), words, bar])
    return shown


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "–" if value is None else str(value)
