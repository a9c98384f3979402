"""Ledgers, accounts and handles for the tests; real ones, on SQLite in a temporary folder."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms, ChargeRequest
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.sensitivity import LaplaceNoise, Noise, noise_event
from privacy.private_table import snapshot_mark

CALCULI: tuple[Calculus, ...] = (PureCalculus(), RenyiCalculus(Fraction(12)))
KEYED_HASH = "c" * 64
HALF = LaplaceNoise(Fraction(1, 2))


def open_ledger(folder: Path) -> Ledger:
    return Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", draws=folder / "draws")


def terms(calculus: Calculus | None = None, *, epsilon: int = 3, name: str = "people-2024") -> AccountTerms:
    calculus = calculus or PureCalculus()
    delta = 0 if calculus.kind == "pure" else ATTO // 10**9
    return AccountTerms(name, "people", "2024", "row", "add_remove", calculus, epsilon * PICO, delta)


def request(run_key: str = "run-1", *, noise: tuple[Noise, ...] = (HALF, HALF), **changed: object) -> ChargeRequest:
    events = tuple(noise_event(part, adjacency="add_remove", rows_per_unit=1) for part in noise)
    made = ChargeRequest(
        run_key=run_key,
        account="people-2024",
        source="file:people.parquet",
        release="people-tables",
        spec_digest="a" * 64,
        contract_digest="b" * 64,
        snapshot_hash=snapshot_mark(KEYED_HASH, "a" * 64),
        adjacency="add_remove",
        unit="row",
        rows_per_unit=1,
        events=events,
        epsilon=PICO,
        delta=0,
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def ledger_with_account(folder: Path, calculus: Calculus | None = None, *, epsilon: int = 3) -> Ledger:
    ledger = open_ledger(folder)
    ledger.open_account(terms(calculus, epsilon=epsilon))
    ledger.bind_source("file:people.parquet", "people", "2024")
    return ledger


class Counted:
    """A handle on exact counts that remembers how often it was opened."""

    def __init__(
        self, counts: NDArray[np.int64], clique: tuple[str, ...] = ("age",), keyed_hash: str = KEYED_HASH
    ) -> None:
        self.opened = 0
        self._counts = counts
        self.handle = PrivateCounts(clique, counts.shape, keyed_hash, "b" * 64, self._count)

    def _count(self) -> NDArray[np.int64]:
        self.opened += 1
        return self._counts
