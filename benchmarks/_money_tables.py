"""Made-up tables with columns of money, for `benchmarks.money`: who defaults on a loan, who leaves a bank.

Amounts span several powers of ten, and some are 0 for most people. Their bins grow: a bin of 0 alone, then edges
at 1, 2 and 5 times the powers of ten. Bounds and edges are written here and look at no row. Labels
depend on ratios and thresholds of amounts, on whether they are 0, and on categories.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._neural_tables import Category, Column, Number, Table, Values, whole_bins

ROWS: Final = 20_000
_STEPS: Final = (1, 2, 5)
Reals = NDArray[np.float64]


def amounts(lowest: int, highest: int, *, zero: bool) -> Number:
    """Return bins with edges at 1, 2 and 5 times the powers of ten, and one of 0 alone where 0 is frequent."""
    powers = range(len(str(highest)) + 1)
    edges = [step * 10**power for power in powers for step in _STEPS if lowest < step * 10**power < highest]
    return whole_bins([*([0, 1] if zero else [0]), *edges, highest])


def loans(seed: int, rows: int = ROWS) -> Table:
    """Return borrowers with five columns of money, and whether they default: about an eighth of them do."""
    random = np.random.default_rng(seed)
    skill = random.normal(size=rows)
    income = _lognormal(random, 38_000, 0.6, 0.6 * skill)
    savings = _lognormal(random, 4_000, 1.4, 0.7 * skill) * (random.random(rows) < _chance(0.4 + 0.9 * skill))
    debt = _lognormal(random, 9_000, 1.1, 0.3 * skill) * (random.random(rows) < 0.6)
    amount = _lognormal(random, 8_000, 0.8, 0.4 * skill)
    overdue = _lognormal(random, 350, 1.2, -0.2 * skill) * (random.random(rows) < _chance(-2.2 - 0.7 * skill))
    home = _category(random, np.stack([0.0 * skill, 0.4 + 0.5 * skill, 0.6 - 0.4 * skill], axis=1))
    purpose = _category(random, np.tile([1.0, 0.5, 0.0, -0.5, -0.7], (rows, 1)))
    burden = np.log((debt + 2 * amount) / income)
    risk = -3.3 + 1.1 * burden + 1.7 * (overdue > 0) + 0.5 * (overdue > 1_000) + 0.9 * (savings == 0)
    risk += 0.6 * (home == 2) + 0.7 * (purpose == 3) - 0.5 * (savings > 20_000) + 0.8 * (income < 18_000)
    default = random.random(rows) < _chance(risk)
    columns: dict[str, Column] = {
        "income": amounts(1_000, 1_000_000, zero=False),
        "savings": amounts(10, 2_000_000, zero=True),
        "debt": amounts(100, 1_000_000, zero=True),
        "amount": amounts(500, 200_000, zero=False),
        "overdue": amounts(10, 100_000, zero=True),
        "home": Category(("owned", "mortgaged", "rented")),
        "purpose": Category(("car", "house", "study", "business", "other")),
        "default": Category(("no", "yes")),
    }
    found = (income, savings, debt, amount, overdue)
    values: dict[str, Values] = {name: np.floor(each) for name, each in zip(columns, found, strict=False)}
    values |= {"home": home, "purpose": purpose, "default": default.astype(np.int64)}
    return Table(f"loans {seed}", columns, values, "default")


def accounts(seed: int, rows: int = ROWS) -> Table:
    """Return customers with five columns of money and their years, and whether they leave: about an eighth do."""
    random = np.random.default_rng(seed + 1_000)
    wealth = random.normal(size=rows)
    balance = _lognormal(random, 2_500, 1.2, 0.8 * wealth)
    salary = _lognormal(random, 2_800, 0.4, 0.4 * wealth) * (random.random(rows) < 0.7)
    spent = _lognormal(random, 1_300, 0.6, 0.5 * wealth)
    invested = _lognormal(random, 12_000, 1.3, 0.6 * wealth) * (random.random(rows) < _chance(-1.2 + 0.9 * wealth))
    credit = _lognormal(random, 5_000, 1.0, 0.2 * wealth) * (random.random(rows) < 0.35)
    years = np.minimum(random.exponential(7.0, rows), 49.0)
    risk = -1.1 + 0.9 * np.log(spent / (balance + 500)) - 1.3 * (invested > 0) + 1.2 * (salary == 0)
    risk += 0.8 * (credit > 15_000) - 0.08 * years + 0.8 * (balance < 300)
    leaves = random.random(rows) < _chance(risk)
    columns: dict[str, Column] = {
        "balance": amounts(10, 1_000_000, zero=False),
        "salary": amounts(200, 100_000, zero=True),
        "spent": amounts(50, 100_000, zero=False),
        "invested": amounts(100, 5_000_000, zero=True),
        "credit": amounts(100, 500_000, zero=True),
        "years": whole_bins([0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50]),
        "leaves": Category(("no", "yes")),
    }
    found = (balance, salary, spent, invested, credit, years)
    values: dict[str, Values] = {name: np.floor(each) for name, each in zip(columns, found, strict=False)}
    return Table(f"accounts {seed}", columns, values | {"leaves": leaves.astype(np.int64)}, "leaves")


def _lognormal(random: np.random.Generator, median: float, deviation: float, moved: Reals) -> Reals:
    return np.asarray(median * np.exp(deviation * random.normal(size=moved.size) + moved))


def _chance(logit: Reals) -> Reals:
    return np.asarray(1 / (1 + np.exp(-logit)))


def _category(random: np.random.Generator, logits: Reals) -> NDArray[np.int64]:
    """Draw a category a row, by Gumbel's trick."""
    return np.asarray(np.argmax(logits + random.gumbel(size=logits.shape), axis=1), dtype=np.int64)
