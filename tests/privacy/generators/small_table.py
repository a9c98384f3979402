"""A small table with dependent columns, its counts, and fits through a real ledger; for the tests of generators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._no_seed import no_seed
from contracts.contract.contract import Adjacency
from contracts.contract.impossible_cells import Clique
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import PureCalculus, RenyiCalculus
from privacy.accounting.events import PrivacyEvent, Pure, ZeroConcentrated, event_from_json
from privacy.accounting.renyi import share
from privacy.generators.generator import FitProgress, Fitted, Generator, GeneratorPlan, SynthesisTask
from privacy.grant.grant import open_grant
from privacy.learning.layout import PrivateRows, RowLayout
from privacy.ledger.ledger import Ledger
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.graph import CellDomain
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, bind, request, terms

DOMAIN = CellDomain(("job", "pay", "home", "age"), (5, 4, 3, 6))
DELTA = Fraction(1, 10**9)


def table(rows: int = 4000) -> NDArray[np.int64]:
    """Rows whose columns depend on each other: pay on job, home on pay, age on home; always the same ones."""
    generator = np.random.default_rng(7)
    job = generator.integers(0, 5, rows)
    pay = np.where(generator.random(rows) < 0.8, np.minimum(job, 3), generator.integers(0, 4, rows))
    home = np.where(generator.random(rows) < 0.8, pay % 3, generator.integers(0, 3, rows))
    age = np.where(generator.random(rows) < 0.7, 2 * home, generator.integers(0, 6, rows))
    return np.stack([job, pay, home, age], axis=1)


@dataclass
class RowsOf:
    layout: RowLayout
    codes: NDArray[Any]

    def rows(self, chosen: Sequence[str] | None = None) -> PrivateRows:
        layout = self.layout.select(tuple(chosen or self.layout.names))
        return PrivateRows(layout, KEYED_HASH, "b" * 64, lambda: self.layout.selected(self.codes, layout.names))

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        raise AssertionError("no marginal is asked for")


def domain_of(layout: RowLayout) -> CellDomain:
    return CellDomain(layout.names, tuple(column.table.shape[0] for column in layout.columns))


@dataclass
class CountedTable:
    rows: NDArray[np.int64]
    domain: CellDomain = DOMAIN
    counted: list[Clique] = field(default_factory=list)

    def exact(self, clique: Clique) -> NDArray[np.int64]:
        sizes = self.domain.sizes(clique)
        columns = tuple(self.rows[:, self.domain.place(name)] for name in clique)
        cells = np.ravel_multi_index(columns, sizes) if clique else np.zeros(len(self.rows), dtype=np.int64)
        return np.bincount(cells, minlength=int(np.prod(sizes))).reshape(sizes).astype(np.int64)

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        return tuple(self._handle(clique) for clique in cliques)

    def _handle(self, clique: Clique) -> PrivateCounts:
        def count() -> NDArray[np.int64]:
            self.counted.append(clique)
            return self.exact(clique)

        return PrivateCounts(clique, self.domain.sizes(clique), KEYED_HASH, "b" * 64, count)


def asked(
    domain: CellDomain = DOMAIN,
    *,
    epsilon: Fraction = Fraction(1),
    delta: Fraction = DELTA,
    adjacency: Adjacency = "add_remove",
    public_total: int | None = None,
    impossible: Mapping[Clique, NDArray[np.bool_]] | None = None,
) -> SynthesisTask:
    return SynthesisTask(domain, impossible or {}, adjacency, 1, epsilon, delta, public_total)


def quiet(_done: float, _what: str) -> None:
    """Progress that nobody looks at."""


class Stopped(Exception):
    """The process dies here."""


def stopping_after(calls: int) -> FitProgress:
    left = iter(range(calls))

    def told(_done: float, _what: str) -> None:
        if next(left, None) is None:
            raise Stopped

    return told


@dataclass
class Run:
    ledger: Ledger
    generator: Generator[Any]
    asked: SynthesisTask
    options: Any
    plan: GeneratorPlan
    run_key: str

    def fit(self, counts: CountedTable, progress: FitProgress = quiet) -> Fitted:
        grant = open_grant(self.ledger, self.run_key)
        return self.generator.fit(self.asked, self.options, self.plan, counts, grant, progress, no_seed)

    def drawn(self) -> list[PrivacyEvent]:
        entries = self.ledger.entries_of(self.run_key)
        return [event_from_json(entry.body["event"]) for entry in entries if entry.kind == "noise_drawn"]

    def spent(self) -> Fraction:
        budget = ZeroConcentrated(Fraction(1)) if self.asked.delta else Pure(Fraction(1))
        return sum((share(budget, event) for event in self.drawn()), Fraction(0))


def start(
    place: Place, generator: Generator[Any], question: SynthesisTask, run_key: str = "run-1", **options: Any
) -> Run:
    chosen = generator.options(**options)
    plan = generator.plan(question, chosen)
    calculus = RenyiCalculus(Fraction(12)) if question.delta else PureCalculus()
    ledger = place.open()
    ledger.open_account(terms(calculus, epsilon=1000, adjacency=question.adjacency))
    bind(ledger, "2024")
    ledger.reserve(
        request(
            run_key,
            events=plan.events,
            epsilon=int(question.epsilon * PICO),
            delta=int(question.delta * ATTO),
            adjacency=question.adjacency,
            public_total=question.public_total,
        )
    )
    return Run(ledger, generator, question, chosen, plan, run_key)


def error(counts: CountedTable, fitted: Fitted, order: int = 2) -> float:
    """Return the mean over all marginals of that order of the L1 error of the model's counts, over the rows."""
    cliques = list(combinations(counts.domain.columns, order))
    distances = [np.abs(counts.exact(c) - fitted.model.marginal(c)).sum() for c in cliques]
    return float(np.mean(distances)) / max(1, len(counts.rows))
