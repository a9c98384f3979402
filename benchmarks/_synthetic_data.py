"""The two tables of the AIM evaluation (its table 1): categorical columns, rows without missing values.

Adult is the training part of UCI Adult, whose 32,561 rows stand first in the shipped example; 30,162 of them are
complete. Bank is UCI Bank Marketing with "unknown" as missing: 30,488 complete rows. The declared categories are the
documentation's, so that workclass has 8 values and month 12, though the complete rows hold 7 and 10.
"""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from contracts.contract.odcs import load_contract
from contracts.domains.categories import CategoryDomain
from contracts.release.spec import Source
from tasks.ingest import ingest

ADULT: Final = Path(__file__).parents[1] / "examples" / "adult"
ACS_FILE: Final = Path("nist_acs") / "national2019.csv.gz"
ACS_ROWS: Final = 9_000
BANK_FILE: Final = Path("bank") / "bank-additional-full.csv.gz"
TRAINING_ROWS: Final = 32_561
ADULT_SHAPE: Final = (8, 16, 7, 14, 6, 5, 2, 41, 2)
BANK_SHAPE: Final = (11, 3, 7, 2, 2, 2, 2, 12, 5, 3, 2)
ADULT_ROWS: Final = 30_162
BANK_ROWS: Final = 30_488
TEN_MILLION: Final = 10_000_000
SEED: Final = 1
WIDE_ROWS: Final = 50_000
WIDE_COLUMNS: Final = 120
WIDEST_COLUMNS: Final = 500
WIDE_FACTORS: Final = 12
_ADULT_COLUMNS: Final = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
    "income",
)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ACS_ENDS: Final[dict[str, tuple[float, ...]]] = {
    "AGEP": (3, 5, 10, 15, 18, 21, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85),
    "DENSITY": (50, 100, 250, 500, 1000, 2000, 4000, 8000, 16000),
    "INDP": (
        *(170, 370, 770, 1070, 3990, 4670, 6070, 6470, 6870, 7270),
        *(7860, 7870, 7970, 8370, 8660, 8770, 9290, 9370, 9670, 9920),
    ),
    "PINCP": (1e-4, 2500, 5000, 10000, 15000, 20000, 25000, 30000, 40000, 50000, 60000, 75000, 1e5, 1.5e5, 2.5e5),
    "POVPIP": (50, 100, 150, 200, 250, 300, 350, 400, 450, 501),
    "PWGTP": (20, 40, 60, 80, 100, 125, 150, 200, 300),
    "WGTP": (1, 20, 40, 60, 80, 100, 125, 150, 200, 300),
}
_YES_OR_NO: Final = ("no", "yes")
_BANK_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "job": (
        "admin.",
        "blue-collar",
        "entrepreneur",
        "housemaid",
        "management",
        "retired",
        "self-employed",
        "services",
        "student",
        "technician",
        "unemployed",
    ),
    "marital": ("divorced", "married", "single"),
    "education": (
        "basic.4y",
        "basic.6y",
        "basic.9y",
        "high.school",
        "illiterate",
        "professional.course",
        "university.degree",
    ),
    "default": _YES_OR_NO,
    "housing": _YES_OR_NO,
    "loan": _YES_OR_NO,
    "contact": ("cellular", "telephone"),
    "month": _MONTHS,
    "day_of_week": ("mon", "tue", "wed", "thu", "fri"),
    "poutcome": ("failure", "nonexistent", "success"),
    "y": _YES_OR_NO,
}


@dataclass(frozen=True)
class Categorical:
    """A table of categories.

    Args:
        name: its name.
        labels: the declared categories of each column, in the order of the columns.
        codes: one row a person, one column a column, whole numbers.
        target: the column that a classifier predicts.
    """

    name: str
    labels: dict[str, tuple[str, ...]]
    codes: NDArray[np.integer[Any]]
    target: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each column."""
        return tuple(len(labels) for labels in self.labels.values())

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write the codes as Parquet and the domain as JSON, which is what a peer's script reads."""
        rows, domain = folder / f"{self.name}.codes.parquet", folder / f"{self.name}.domain.json"
        write_codes(rows, self.columns, self.codes)
        domain.write_text(json.dumps(dict(zip(self.columns, self.shape, strict=True))))
        return rows, domain


def adult() -> Categorical:
    """Return the 30,162 complete training rows of Adult, 9 columns."""
    domains = {column.name: column.domain for column in load_contract(ADULT / "adult.odcs.yaml").columns}
    rows = parquet.read_table(ADULT / "adult.parquet")[:TRAINING_ROWS].drop_null()
    labels = {}
    for name in _ADULT_COLUMNS:
        domain = domains[name]
        assert isinstance(domain, CategoryDomain)
        labels[name] = tuple(domain.values)
    made = _coded("adult", labels, {name: rows[name].to_pylist() for name in labels}, "income")
    return _checked(made, ADULT_SHAPE, ADULT_ROWS)


def adult_of_15_columns() -> Categorical:
    """Return all 48,842 rows of Adult, its 15 columns binned as the example's contract declares."""
    contract = load_contract(ADULT / "adult.odcs.yaml")
    with TemporaryDirectory() as folder:
        source = Source(path=ADULT / "adult.parquet")
        table = ingest(source, contract, folder=Path(folder) / "run", key=bytes(32), memory_limit="1GB")
        with duckdb.connect(str(table.path), read_only=True) as connection:
            found = connection.execute("SELECT * FROM codes").fetchnumpy()
    labels = {column.name: tuple(column.labels) for column in contract.columns}
    return Categorical("adult15", labels, np.stack([found[name] for name in labels], axis=1), "income")


def ten_million(table: Categorical) -> Categorical:
    """Draw 10 million rows from a table, with replacement and a fixed seed."""
    drawn = np.random.default_rng(SEED).integers(0, len(table.codes), TEN_MILLION)
    return Categorical(f"{table.name}-ten-million", table.labels, table.codes[drawn], table.target)


def acs(data: Path) -> Categorical:
    """Return 9,000 rows of NIST's excerpt of the American Community Survey, all 24 columns; `data` holds nist_acs/.

    Listed values as they are; numbers of more than 20 values between ends that the files of the survey's tables use.
    """
    rows = _acs_rows(data / ACS_FILE)
    labels = _acs_labels(rows)
    codes = _acs_codes(rows, labels)
    drawn = np.random.default_rng(SEED).permutation(len(rows))[:ACS_ROWS]
    return Categorical("acs", labels, codes[drawn], "OWN_RENT")


def _acs_rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _acs_labels(rows: list[dict[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return the cells of each column: those between ends by number, the others by their values."""
    return {
        name: tuple(str(code) for code in range(len(_ACS_ENDS[name]) + 2))
        if name in _ACS_ENDS
        else tuple(sorted({row[name] for row in rows}))
        for name in rows[0]
    }


def _acs_codes(rows: list[dict[str, str]], labels: dict[str, tuple[str, ...]]) -> NDArray[np.int64]:
    columns = []
    for name, known in labels.items():
        found = [row[name] for row in rows]
        if name in _ACS_ENDS:
            ends = _ACS_ENDS[name]
            codes = np.full(len(found), len(ends) + 1)
            numbers = [float(value) for value in found if value != "N"]
            codes[[value != "N" for value in found]] = np.digitize(numbers, ends)
        else:
            place = {label: code for code, label in enumerate(known)}
            codes = np.array([place[value] for value in found])
        columns.append(codes)
    return np.stack(columns, axis=1).astype(np.int64)


def wide(width: int = WIDE_COLUMNS) -> Categorical:
    """Return 50,000 made-up rows of many columns of 2 to 11 cells: each mixes two of 12 normal factors and noise."""
    random = np.random.default_rng(SEED)
    factors = random.normal(size=(WIDE_ROWS, WIDE_FACTORS))
    labels, columns = {}, []
    for number in range(width):
        cells = int(random.integers(2, 12))
        one, other = random.choice(WIDE_FACTORS, 2, replace=False)
        mixed = factors[:, one] + 0.5 * factors[:, other] + 0.7 * random.normal(size=WIDE_ROWS)
        # Cells of unequal size, as categories are.
        ends = np.sort(np.quantile(mixed, random.beta(1.0, 1.5, cells - 1)))
        columns.append(np.searchsorted(ends, mixed))
        labels[f"c{number:03d}"] = tuple(str(code) for code in range(cells))
    return Categorical(
        "wide" if width == WIDE_COLUMNS else f"wide-{width}", labels, np.stack(columns, axis=1), "c000"
    )


def bank(data: Path) -> Categorical:
    """Return the 30,488 complete rows of Bank Marketing, 11 columns; `data` holds bank/."""
    with gzip.open(data / BANK_FILE, "rt", encoding="utf-8", newline="") as file:
        complete = [row for row in csv.DictReader(file, delimiter=";") if "unknown" not in row.values()]
    values = {name: [row[name] for row in complete] for name in _BANK_VALUES}
    return _checked(_coded("bank", _BANK_VALUES, values, "y"), BANK_SHAPE, BANK_ROWS)


def read_codes(path: Path, columns: tuple[str, ...]) -> NDArray[np.int64]:
    """Read rows of codes."""
    table = parquet.read_table(path)
    return np.stack([table[name].to_numpy().astype(np.int64) for name in columns], axis=1)


def write_codes(path: Path, columns: tuple[str, ...], codes: NDArray[np.integer[Any]]) -> None:
    """Write rows of codes."""
    parquet.write_table(pa.table({name: codes[:, place] for place, name in enumerate(columns)}), path)


def _coded(name: str, labels: dict[str, tuple[str, ...]], values: dict[str, list[Any]], target: str) -> Categorical:
    columns = []
    for column, known in labels.items():
        code = {label: place for place, label in enumerate(known)}
        columns.append(np.array([code[value] for value in values[column]], dtype=np.int64))
    return Categorical(name, dict(labels), np.stack(columns, axis=1), target)


def _checked(table: Categorical, shape: tuple[int, ...], rows: int) -> Categorical:
    """Refuse a table that is not the paper's."""
    found = (table.shape, len(table.codes))
    if found != (shape, rows):
        raise SystemExit(f"{table.name}: {found[1]} rows of shape {found[0]}, the paper's has {rows} of {shape}")
    return table
