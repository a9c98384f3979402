"""The grant's own code with a book that is kept in memory: for games of many fits, where a ledger each would be slow.

What is derived (sensitivity, event, scores) and what is drawn is `Grant`'s; what is left out is that it is durable.
The broken grants here are what negative controls are made of.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.events import PrivacyEvent
from privacy.arrays import Unsigned
from privacy.generators.generator import GeneratorPlan, SynthesisTask
from privacy.grant.durable_draws import parts_of
from privacy.grant.grant import Grant
from privacy.grant.measurement import DrawRequest as AskedDraw
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.query import DrawnValues, Progress, Query, silent
from privacy.grant.queries.sums import SumQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.learning.layout import PrivateRows
from privacy.ledger.draw_files import Draw, values_digest
from privacy.ledger.terms import Charge, ChargeRequest
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise
from privacy.noise.random_bytes import SecureBytes, SeededBytes
from privacy.private_table import snapshot_mark

HASH, CONTRACT = "c" * 64, "b" * 64
RUN: Final = "run"
ACCOUNT: Final = "people"
SOURCE: Final = "file:people.parquet"
_SPEC: Final = "a" * 64


class _Book:
    """Draws that nobody writes down."""

    def __init__(self) -> None:
        self._number = 0

    def drawn(
        self,
        asked: AskedDraw,
        private: Sequence[Any],
        read: Callable[[], Any],
        make: Callable[[Any], DrawnValues],
        **_reserve: Any,
    ) -> Draw:
        """Read and draw."""
        values, listing = parts_of(make(read()))
        event, number = asked.event.to_json(), self._number
        self._number += 1
        return Draw(
            asked.key, number, event, asked.clique, values, values_digest(values), "csprng", asked.about, listing
        )

    def sent(
        self,
        asked: AskedDraw,
        private: Sequence[Any],
        read: Callable[[], Any],
        make: Callable[[Any], DrawnValues],
        *,
        receipt: Any,
    ) -> Draw:
        """Read and draw what leaves once; nobody counts how often."""
        return self.drawn(asked, private, read, make)


class UnrecordedGrant(Grant):
    """A grant without a ledger.

    Args:
        asked: what a generator is asked for.
        plan: what it plans to spend.
    """

    def __init__(self, task: SynthesisTask, plan: GeneratorPlan) -> None:
        self._charge = Charge(_request(task, plan), (), "opened", "csprng")
        self._random_bytes = SecureBytes()
        self._once = _Book()  # type: ignore[assignment]


class UnrecordedSite(Grant):
    """A site's grant without a ledger, one row a unit, under add_remove.

    Args:
        events: what its draws cost.
    """

    def __init__(self, events: Sequence[PrivacyEvent]) -> None:
        request = request_of(events, epsilon=PICO, delta=ATTO // 10**6)
        self._charge = Charge(request, (), "opened", "csprng")
        self._random_bytes = SecureBytes()
        self._once = _Book()  # type: ignore[assignment]


class HalfNoise(UnrecordedGrant):
    """Draws noise of half the standard deviation, and says that it is the whole."""

    def draw(self, query: Query[Any], *, key: str, progress: Progress = silent) -> Any:
        """Draw with less noise than is told."""
        match query:
            case MarginalQuery() | SumQuery():
                told = super().draw(query, key=key)
                louder = replace(query, noise=_louder(query.noise))  # type: ignore[arg-type]
                return replace(told, values=super().draw(louder, key=key).values)
            case TrainingQuery(plan=plan):
                query = replace(query, plan=replace(plan, noise_multiplier=plan.noise_multiplier / 2))
        return super().draw(query, key=key, progress=progress)


class NotClipping(UnrecordedGrant):
    """Trains without clipping: to a norm 8 times as large, under the same noise."""

    def draw(self, query: Query[Any], *, key: str, progress: Progress = silent) -> Any:
        """Train with gradients that are hardly clipped."""
        if isinstance(query, TrainingQuery):
            norm, multiplier = 8 * query.plan.clipping_norm, query.plan.noise_multiplier / 8
            query = replace(query, plan=replace(query.plan, clipping_norm=norm, noise_multiplier=multiplier))
        return super().draw(query, key=key, progress=progress)


class SameBytes(UnrecordedGrant):
    """Draws the noise of every marginal from the same random bytes."""

    def draw(self, query: Query[Any], *, key: str, progress: Progress = silent) -> Any:
        """Measure with bytes that were used before."""
        if isinstance(query, MarginalQuery):
            self._seed = getattr(self, "_seed", secrets.randbits(60))
            self._random_bytes = SeededBytes(self._seed)
        return super().draw(query, key=key, progress=progress)


class PopulatedOnly(UnrecordedGrant):
    """Leaves cells without rows as they are: noise on populated cells only."""

    def draw(self, query: Query[Any], *, key: str, progress: Progress = silent) -> Any:
        """Measure what is there."""
        told = super().draw(query, key=key, progress=progress)
        if not isinstance(query, MarginalQuery):
            return told
        return replace(told, values=np.where(query.counts._count() > 0, told.values, 0))


class WishartAxes(UnrecordedGrant):
    """Draws Wishart noise of the whole charge on second moments, as P3GM's first version did."""

    def draw(self, query: Query[Any], *, key: str, progress: Progress = silent) -> Any:
        """Measure a second moment with noise that is positive definite."""
        told = super().draw(query, key=key, progress=progress)
        if not isinstance(query, SumQuery) or query.statistic.parts != ("full",):
            return told
        statistic, rows = query.statistic, query.rows
        size = statistic.embedding.dimension
        epsilon = self._charge.request.epsilon / PICO
        roots = np.random.default_rng().normal(size=(size, size + 1)) * 2.0**statistic.embedding.bits
        matrix = 1.5 / epsilon * roots @ roots.T
        on, above = np.triu_indices(size)
        weights = np.where(on == above, 5.0, 7.0)
        exact = statistic.total(rows._read(), rows.layout)
        return replace(told, values=exact + np.rint(matrix[on, above] * weights).astype(np.int64))


def private_rows(task: SynthesisTask, codes: Unsigned, names: Sequence[str] | None = None) -> PrivateRows:
    """Return a handle on rows, of all columns or some."""
    if task.layout is None:
        raise ValueError("the question has no layout")
    layout = task.layout.select(names or task.layout.names)
    whole = task.layout
    return PrivateRows(layout, HASH, CONTRACT, lambda: whole.selected(codes, layout.names))


def _louder(noise: Noise) -> Noise:
    if isinstance(noise, LaplaceNoise):
        return LaplaceNoise(2 * noise.epsilon)
    return GaussianNoise(4 * noise.rho)


def _request(task: SynthesisTask, plan: GeneratorPlan) -> ChargeRequest:
    request = request_of(plan.events, epsilon=int(task.epsilon * PICO), delta=int(Fraction(task.delta) * ATTO))
    relation = {"adjacency": task.adjacency, "rows_per_unit": task.rows_per_unit}
    return replace(request, **relation, public_total=task.public_total)


def request_of(events: Sequence[PrivacyEvent], *, epsilon: int, delta: int) -> ChargeRequest:
    """Return what a game asks a ledger for: one row a unit, under add_remove.

    Args:
        events: what the draws cost.
        epsilon, delta: of the charge, in the ledger's units.
    """
    return ChargeRequest(
        run_key=RUN,
        account=ACCOUNT,
        source=SOURCE,
        release="game",
        spec_digest=_SPEC,
        contract_digest=CONTRACT,
        snapshot_hash=snapshot_mark(HASH, _SPEC),
        adjacency="add_remove",
        unit="row",
        scope="block",
        rows_per_unit=1,
        events=tuple(events),
        epsilon=epsilon,
        delta=delta,
    )
