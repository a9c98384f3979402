"""Finished runs of statistics by keys that nobody declared: the real contract, plan, ledger, ingest and grant."""

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import polars as pl

from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus
from tests.worlds.statistics import StatisticsScenario
from tests.worlds.synthetic_rows import STAY
from tests.worlds.tables import property_yaml

NOTE = property_yaml(
    "note",
    "string",
    "{kind: text, max_bytes: 40, nulls: {policy: category}, missing: [none], provenance: {kind: declared}}",
)
COMMON = ("broken arm", "=1+1", "café", 'x, "y"', "  spaced  ")
"""Notes of many stays each, among them a formula, and one with spaces around it."""
UNFIT = ("long " * 2000, "bell\x07", "right\u202eleft", "(others)", "a; =1+1")
"""Notes of many stays that can be no keys: 10,000 bytes, control characters, the label of all others."""
MISSING = ("", "none", "(null)", None)
TABLES = """[
  {by: [note], keys: private, of: [count, {mean: bill}, {quantiles: [0.5], of: age}], weight: 2},
  {by: [ward], of: [count]}]"""


@dataclass
class KeyScenario(StatisticsScenario):
    """What a finished run is made from: the hospital's stays, each with a note in somebody's own words."""

    privacy: str = "{unit: {kind: row, scope: block}, adjacency: add_remove}"
    product: str = f"{{kind: statistics, mechanism: laplace, tables: {TABLES}}}"
    epsilon: str = "8"
    delta: str = "1e-6"
    calculus: Calculus = field(default_factory=lambda: PureCalculus(ATTO // 10**5))
    cap: tuple[int, int] = (20 * PICO, ATTO // 10**5)
    rows: int = 4000
    formats: str = "[parquet, csv], formulas: neutralised"
    release: str = "notes"
    properties: str = STAY + NOTE

    def frame(self) -> pl.DataFrame:
        """Add notes: a few common ones, some that can be no keys or are missing, and many that one stay has alone."""
        random = np.random.default_rng(self.rows + 1)
        words = [*COMMON * 3, *UNFIT, *MISSING]
        drawn = [words[place] for place in random.integers(0, len(words), self.rows)]
        notes = [f"rare {number}" if number % 7 == 0 else note for number, note in enumerate(drawn)]
        return super().frame().with_columns(pl.Series("note", notes, dtype=pl.String))


def pure() -> KeyScenario:
    """Laplace noise on a pure account that sets δ aside; Parquet and CSV."""
    return KeyScenario()


def gaussian() -> KeyScenario:
    """Gaussian noise under a Rényi account, three rows a unit, another column beside the text; Parquet in parts."""
    selected = "{by: [insured, note], keys: private, of: [count, {sum: bill, clip: [0, 500]}]}"
    tables = f"[{selected}, {{by: [], of: [{{mean: age}}]}}]"
    return replace(
        pure(),
        privacy="{unit: {kind: id, scope: block, column: patient, max_rows_per_unit: 3}, adjacency: add_remove}",
        unit="patient",
        product=f"{{kind: statistics, mechanism: gaussian, tables: {tables}}}",
        calculus=RenyiCalculus(Fraction(12), ATTO // 10**5),
        cap=(40 * PICO, 2 * ATTO // 10**5),
        formats="[parquet, parts]",
        release="notes-of-units",
    )


def counted() -> KeyScenario:
    """Keys that one draw selects and counts; another table beside."""
    tables = "[{by: [note], keys: private, of: [count]}, {by: [ward], of: [count]}]"
    return replace(pure(), product=f"{{kind: statistics, tables: {tables}}}", release="counted-notes")


def counted_units() -> KeyScenario:
    """The same for units of three rows, beside Gaussian noise and different values of each key."""
    tables = "[{by: [note], keys: private, of: [count, {distinct: ward}]}]"
    return replace(
        gaussian(), product=f"{{kind: statistics, mechanism: gaussian, tables: {tables}}}", release="counted-units"
    )


def few_groups() -> KeyScenario:
    """Units of three rows of which each has at most one key; people of each key beside its counts and means."""
    selected = "{by: [note], keys: private, at_most_groups: 1, of: [count, units, {mean: bill}, {distinct: ward}]}"
    return replace(
        gaussian(), product=f"{{kind: statistics, mechanism: gaussian, tables: [{selected}]}}", release="few-keys"
    )
