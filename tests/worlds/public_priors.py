"""Releases of synthetic rows with a public prior: the file is made up of other people, and lies beside the spec."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from contracts.contract.contract import Contract
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import PureCalculus
from privacy.ledger.ledger import Ledger
from tests.worlds.synthetic_rows import SyntheticScenario

OLD = "stays-2004.parquet"
BECAUSE = "Published by the office in 2006, with its yearbook."
PRIOR = f"prior: {{path: {OLD}, public_because: '{BECAUSE}'}}"


def old_rows(rows: int = 2000) -> pl.DataFrame:
    """Rows of other people: each column leans on the same number, as those of the release do."""
    rng = np.random.default_rng(11)
    shared = rng.random(rows)

    def places(size: int) -> np.ndarray:
        leaning = np.clip(shared + rng.normal(0, 0.3, rows), 0, 0.999)
        return (leaning * size).astype(np.int64)

    return pl.DataFrame(
        {
            "ward": np.array(["surgery", "children", 'x, "y"'])[places(3)],
            "floor": np.array(["1", "2", "9"])[places(3)],
            "age": places(100),
            "bill": np.array([3.0, 50.0, 700.0])[places(3)],
            "unread": np.zeros(rows, dtype=np.int64),
        }
    )


@dataclass
class PriorScenario(SyntheticScenario):
    """A release of four columns with a prior.

    Args:
        old: the rows of the file.
    """

    privacy: str = "{unit: {kind: row, scope: block}, adjacency: add_remove}"
    product: str = f"{{kind: synthetic, generator: aim, columns: [ward, floor, age, bill], {PRIOR}}}"
    release: str = "begun"
    epsilon: str = "1"
    old: pl.DataFrame | None = None

    def prepared_of(self, folder: Path, kind: Any) -> tuple[Any, Contract, Any, Ledger]:
        folder.mkdir(parents=True, exist_ok=True)
        (old_rows() if self.old is None else self.old).write_parquet(folder / OLD)
        return super().prepared_of(folder, kind)


def with_prior() -> PriorScenario:
    """A prior near the rows, under add_remove, Gaussian."""
    return PriorScenario()


def with_prior_of(generator: str, options: str = "") -> PriorScenario:
    """The same with another generator."""
    chosen = f"generator: {generator}, {options}columns"
    return PriorScenario(product=PriorScenario.product.replace("generator: aim, columns", chosen), release=generator)


def with_prior_pure() -> PriorScenario:
    """Under replace_one with a public total, Laplace; the prior lacks a column, and the spec says so."""
    product = (
        "{kind: synthetic, generator: aim, columns: [ward, floor, age, bill], "
        f"prior: {{path: {OLD}, public_because: '{BECAUSE}', columns: [ward, floor, age]}}}}"
    )
    privacy = (
        "{unit: {kind: row, scope: block}, adjacency: replace_one, "
        'invariants: [{kind: total, value: 3000, reference: "yearbook"}]}'
    )
    return PriorScenario(
        privacy=privacy,
        product=product,
        delta="0",
        calculus=PureCalculus(),
        cap=(20 * PICO, 0),
        release="begun-pure",
        old=old_rows().drop("bill"),
    )
