"""The data of the neural benchmark, with public bins: Adult, ESR, ISOLET, MNIST and others of its form, Credit.

`--data DIR` holds adult/, esr/, isolet/, mnist/ and, for choosing options, bank/ and nist_acs/.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from benchmarks._neural_tables import Category, Column, Number, Picture, Table, Values, equal_bins, whole_bins
from contracts.contract.odcs import load_contract
from contracts.domains.categories import CategoryDomain
from contracts.domains.ordered import IntegerDomain

CONTRACT: Final = Path(__file__).parents[1] / "examples" / "adult" / "adult.odcs.yaml"
ADULT_ROWS: Final = 45_222
ESR_BOUND: Final = 2048
"""[microvolt], the range of the converter of 12 bits (Andrzejak et al. 2001): what can be declared without a look."""
ESR_NARROWER: Final = (1024, 512)
"""Measured beside it: 1 mV from peak to peak is what textbooks give for recordings on the brain (Malmivuo, Plonsey,
1995, chapter 13: 1 to 2). What is larger is clipped, and so are some seizures."""
_VOWELS: Final = "aeiou"
_NUMBERS_OF_BANK: Final[dict[str, Number]] = {
    "age": whole_bins([17, 25, 30, 35, 40, 45, 50, 55, 60, 65, 75, 100]),
    "campaign": whole_bins([1, 2, 3, 4, 5, 7, 10, 20, 60]),
    "previous": whole_bins([0, 1, 2, 3, 4, 8]),
    "pdays": whole_bins([0, 3, 6, 9, 12, 30, 999, 1000]),
    "euribor3m": equal_bins(0, 6, 12, whole=False),
    "cons.conf.idx": equal_bins(-60, -20, 10, whole=False),
    "nr.employed": equal_bins(4900, 5300, 10, whole=False),
}


_LISTED_OF_ACS: Final = (
    *("SEX", "MSP", "HISP", "RAC1P", "NOC", "NPF", "HOUSING_TYPE", "OWN_RENT"),
    *("INDP_CAT", "EDU", "DVET", "DREM", "DPHY", "DEYE", "DEAR"),
)


def adult(data: Path) -> Table:
    """Return the 45,222 rows of Adult without a missing value; bins and categories of the shipped contract."""
    rows = [row for row in _csv(data / "adult" / "adult_full.csv.gz") if "?" not in row.values()]
    columns: dict[str, Column] = {}
    values: dict[str, Values] = {}
    for declared in load_contract(CONTRACT).columns:
        found = [row[declared.name] for row in rows]
        if isinstance(declared.domain, IntegerDomain):
            ends = np.array(declared.domain.bins, dtype=np.float64)
            columns[declared.name] = Number(ends[:, 0], ends[:, 1], True)
            values[declared.name] = np.array(found, dtype=np.float64)
        else:
            assert isinstance(declared.domain, CategoryDomain)
            columns[declared.name], values[declared.name] = _listed(declared.domain.values, found)
    if len(rows) != ADULT_ROWS:
        raise SystemExit(f"adult: {len(rows)} complete rows, the paper's has {ADULT_ROWS}")
    income = columns["income"]
    assert isinstance(income, Category)
    return Table("adult", columns, values, "income", income.labels.index(">50K"))


def esr(data: Path, *, bins: int, bound: int = ESR_BOUND) -> Table:
    """Return the 11,500 rows of Epileptic Seizure Recognition: 178 samples, and whether it is a seizure (y = 1)."""
    rows = parquet.read_table(data / "esr" / "esr_11500_rebuilt.parquet")
    names = [f"X{place}" for place in range(1, 179)]
    samples = equal_bins(-bound, bound - 1, bins, whole=True)
    name = "esr" if bound == ESR_BOUND else f"esr within {bound}"
    seizure = (rows["y"].to_numpy() == 1).astype(np.int64)
    columns: dict[str, Column] = {**dict.fromkeys(names, samples), "seizure": Category(("no", "yes"))}
    return Table(name, columns, {**{name: rows[name].to_numpy() for name in names}, "seizure": seizure}, "seizure")


def isolet(data: Path, *, bins: int) -> Table:
    """Return the 1,560 rows of ISOLET that there are: 617 numbers in [-1, 1], and whether the letter is a vowel.

    The paper has 19.2 % positives and does not say which: five vowels of 26 letters are 19.2 %.
    """
    found = np.load(data / "isolet" / "isolet_1560.npz")
    names = [f"f{place}" for place in range(1, found["X"].shape[1] + 1)]
    vowel = np.isin(found["y"], [ord(letter) - ord("a") + 1 for letter in _VOWELS]).astype(np.int64)
    values: dict[str, Values] = {name: found["X"][:, place] / 10_000 for place, name in enumerate(names)}
    columns: dict[str, Column] = dict.fromkeys(names, equal_bins(-1, 1, bins, whole=False))
    columns["vowel"] = Category(("no", "yes"))
    return Table("isolet", columns, {**values, "vowel": vowel}, "vowel")


def pictures(path: Path, name: str) -> tuple[Table, Table]:
    """Return training and test rows of pictures, 28 × 28, in an .npz of x_train, y_train, x_test, y_test."""
    found = np.load(path)
    classes = tuple(str(number) for number in range(int(found["y_train"].max()) + 1))

    def table(part: str) -> Table:
        pixels: NDArray[np.uint8] = found[f"x_{part}"]
        pixels = pixels.reshape(len(pixels), -1)
        columns: dict[str, Column] = {"picture": Picture(pixels.shape[1]), "label": Category(classes)}
        return Table(name, columns, {"picture": pixels, "label": found[f"y_{part}"].astype(np.int64)}, "label", None)

    return table("train"), table("test")


def credit(path: Path, *, bins: int) -> Table:
    """Return Kaggle Credit Card Fraud (creditcard.csv): V1 to V28 and Amount, and whether it is fraud.

    The numbers are principal components; their bounds are not documented, so [-30, 30] and [0, 5,000] are declared.
    """
    opened = np.genfromtxt(path, delimiter=",", names=True, deletechars="", dtype=None, encoding="utf-8")
    known = {str(name).strip('"'): opened[name] for name in opened.dtype.names or ()}
    names = [f"V{place}" for place in range(1, 29)]
    columns: dict[str, Column] = dict.fromkeys(names, equal_bins(-30, 30, bins, whole=False))
    columns |= {"Amount": equal_bins(0, 5_000, bins, whole=False), "Class": Category(("no", "yes"))}
    values = {name: known[name].astype(np.float64) for name in [*names, "Amount"]}
    fraud = np.array([str(value).strip('"') == "1" for value in known["Class"]], dtype=np.int64)
    return Table("credit", columns, {**values, "Class": fraud}, "Class")


def bank(data: Path) -> Table:
    """Return Bank Marketing, 41,188 rows; for choosing options, not for the paper's tables.

    Left out: the duration of the call, which is known only afterwards, and two indices that follow from others.
    """
    rows = _csv(data / "bank" / "bank-additional-full.csv.gz", delimiter=";")
    left_out = {"duration", "emp.var.rate", "cons.price.idx"}
    columns: dict[str, Column] = {}
    values: dict[str, Values] = {}
    for name in (name for name in rows[0] if name not in left_out):
        found = [row[name] for row in rows]
        if name in _NUMBERS_OF_BANK:
            columns[name], values[name] = _NUMBERS_OF_BANK[name], np.array(found, dtype=np.float64)
        else:
            columns[name], values[name] = _listed(tuple(sorted(set(found))), found)
    return Table("bank", columns, values, "y")


def acs(data: Path) -> Table:
    """Return NIST's national excerpt of the American Community Survey: is the income in the top three deciles?

    For choosing options, not for the paper's tables. Left out: codes of hundreds of values, and income itself.
    """
    rows = _csv(data / "nist_acs" / "national2019.csv.gz")
    ages = whole_bins([0, 5, 15, 18, 21, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 99])
    columns: dict[str, Column] = {"AGEP": ages}
    values: dict[str, Values] = {"AGEP": np.array([row["AGEP"] for row in rows], dtype=np.float64)}
    for name in _LISTED_OF_ACS:
        found = [row[name] for row in rows]
        columns[name], values[name] = _listed(tuple(sorted(set(found))), found)
    high = [int(row["PINCP_DECILE"] not in ("N", "0", "1", "2", "3", "4", "5", "6")) for row in rows]
    return Table("acs", {**columns, "high": Category(("no", "yes"))}, {**values, "high": np.array(high)}, "high")


def _listed(labels: tuple[str, ...], found: list[str]) -> tuple[Category, NDArray[np.int64]]:
    code = {label: place for place, label in enumerate(labels)}
    return Category(tuple(labels)), np.array([code[value] for value in found], dtype=np.int64)


def _csv(path: Path, *, delimiter: str = ",") -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))
