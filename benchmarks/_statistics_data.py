"""The tables of the statistics benchmark: whole numbers by region and sex, clipped to declared bounds.

`--data DIR` holds adult/ and nist_acs/. Adult is all 48,842 rows by race and sex, 10 cells of 155 to 28,735 rows.
ACS is NIST's national excerpt by public use microdata area and sex, 40 cells of 334 to 1,326 rows; income is that of
the 23,006 rows that have one, 285 in the smallest cell. The bounds need no look at the rows: hours of a week, the
coding limit of the gain, Adult's ages as its documentation has them (17 to 90, far from 0), an age in years, and an
income cut at a round number, above which 5 % of the rows lie.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from contracts.domains.addends import ValueMoments, moments_of
from contracts.domains.lattice import ValueLattice

ADULT: Final = Path("adult") / "adult_full.csv.gz"
ACS: Final = Path("nist_acs") / "national2019.csv.gz"
MISSING: Final = "N"
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Measured:
    """A column of whole numbers by region and sex.

    Args:
        name: of the table and the column, in words.
        unit: of the values.
        regions: one label a row.
        sexes: one label a row.
        values: as they are, int64, shape (rows,) [unit].
        low: the lower clip [unit].
        high: the upper clip [unit].
    """

    name: str
    unit: str
    regions: tuple[str, ...]
    sexes: tuple[str, ...]
    values: Integers
    low: int
    high: int

    @property
    def width(self) -> int:
        """The steps from low to high; a step is 1."""
        return self.high - self.low

    @cached_property
    def cells(self) -> tuple[tuple[str, str], ...]:
        """The declared keys: every region with every sex."""
        return tuple((region, sex) for region in sorted(set(self.regions)) for sex in sorted(set(self.sexes)))

    @cached_property
    def counts(self) -> Integers:
        """Rows of each cell, shape (cells,)."""
        return self._added(np.ones_like(self.values))

    @cached_property
    def above(self) -> Integers:
        """Steps from low up to the clipped values, added up in each cell, shape (cells,)."""
        return self._added(np.clip(self.values, self.low, self.high) - self.low)

    @property
    def below(self) -> Integers:
        """Steps from the clipped values up to high, added up in each cell, shape (cells,)."""
        return self.width * self.counts - self.above

    @property
    def lattice(self) -> ValueLattice:
        """The clipped values in steps of 1, none missing."""
        return ValueLattice("value", Decimal(self.low), Decimal(self.high), Decimal(1), counts_missing=False)

    @property
    def form(self) -> ValueMoments:
        """The form in which moments are added up, one row a unit."""
        return moments_of(self.lattice, 1)

    @cached_property
    def moments(self) -> Integers:
        """Moments of the clipped values in each cell, shape (cells, 3); squares are whole numbers of any size."""
        above = (np.clip(self.values, self.low, self.high) - self.low).astype(object)
        ends = [(away * away * self.form.whole) // self.width**2 for away in (self.width - above, above)]
        at_low, at_high = (self._added(each.astype(np.int64)) for each in ends)
        return np.stack([at_low, self.form.whole * self.counts - at_low - at_high, at_high], axis=-1)

    @property
    def exact(self) -> dict[str, NDArray[np.float64]]:
        """Counts, sums, means and variances of the clipped values: what all programs' answers are compared with."""
        sums = (self.above + self.low * self.counts).astype(np.float64)
        above = np.clip(self.values, self.low, self.high) - self.low
        variances = self._added(above * above) / self.counts - (self.above / self.counts) ** 2
        found = {"count": self.counts.astype(np.float64), "sum": sums, "mean": sums / self.counts}
        return found | {"variance": variances}

    def write(self, folder: Path) -> Path:
        """Write the rows as a peer's script reads them."""
        path = folder / f"{self.name.replace(' ', '-')}.parquet"
        columns = {"region": list(self.regions), "sex": list(self.sexes), "value": self.values}
        parquet.write_table(pa.table(columns), path)
        return path

    def _added(self, steps: Integers) -> Integers:
        """Add whole numbers up in each cell."""
        place = {cell: number for number, cell in enumerate(self.cells)}
        places = np.array([place[cell] for cell in zip(self.regions, self.sexes, strict=True)])
        added = np.zeros(len(self.cells), np.int64)
        np.add.at(added, places, steps)
        return added


def tables(data: Path) -> list[Measured]:
    """Return the five columns; `data` holds adult/ and nist_acs/."""
    adult, acs = list(_rows(data / ADULT)), list(_rows(data / ACS))
    with_income = [row for row in acs if row["PINCP"] != MISSING]
    return [
        _measured("Adult hours-per-week", "hours", adult, ("race", "sex", "hours-per-week"), 1, 99),
        _measured("Adult capital-gain", "USD", adult, ("race", "sex", "capital-gain"), 0, 99_999),
        _measured("Adult age", "years", adult, ("race", "sex", "age"), 17, 90),
        _measured("ACS age", "years", acs, ("PUMA", "SEX", "AGEP"), 0, 99),
        _measured("ACS income", "USD", with_income, ("PUMA", "SEX", "PINCP"), 0, 200_000),
    ]


def _measured(
    name: str, unit: str, rows: list[dict[str, Any]], columns: tuple[str, str, str], low: int, high: int
) -> Measured:
    region, sex, value = ([row[column] for row in rows] for column in columns)
    values = np.array([float(text) for text in value])
    whole = values.astype(np.int64)
    if not np.array_equal(values, whole):
        raise SystemExit(f"{name}: the column has values that are no whole numbers")
    return Measured(name, unit, tuple(region), tuple(sex), whole, low, high)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read a compressed table."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
