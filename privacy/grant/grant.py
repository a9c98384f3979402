"""The grant: the one door through which noise is drawn (law 1).

Order of a draw, and each step must have happened before the next begins:
    1. the charge is reserved and `opened` is committed          (ledger, before this object exists)
    2. the sensitivity is derived from what is measured, the adjacency and the contribution bound
    3. the event is one that the charge planned and has not drawn yet, and every charged account's part holds its
       cost; or it fits into what is left of the charge's budget for draws that are chosen on the way
    4. the exact counts are read, noise is drawn, and the sum is written and fsynced with its event
    5. the event is entered in the journal
    6. the caller sees the noisy values
A crash before 4 has let nothing out; a crash after 4 leaves a file that step 5 adopts on the next run, and the values
are replayed. Nothing is ever drawn a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.release.tables.minimum_frequency import MinimumFrequency
from privacy.accounting.calculus import Calculus
from privacy.accounting.events import DiscreteLaplace, ExponentialMechanism
from privacy.grant.arguments.exact_types import (
    candidates_digest,
    check_candidates,
    check_counts,
    check_depth,
    check_noise,
    check_sums,
    rebuilt,
)
from privacy.grant.arguments.training_arguments import checked_training
from privacy.grant.durable_draws import DrawnValues, DurableDraws
from privacy.grant.measurement import (
    DrawRequest,
    Measurement,
    ParameterMeasurement,
    Selection,
    SparseMeasurement,
    SumMeasurement,
)
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.query import Handle, Query, Relation, ResultT
from privacy.grant.samplers.kinds import SAMPLERS
from privacy.grant.samplers.marginal import choice
from privacy.grant.samplers.parameters import OnEpoch, perturbed, silent
from privacy.grant.samplers.row_sums import noisy_sums
from privacy.grant.samplers.sparse_marginal import draw_listed
from privacy.grant.sites.site_draws import FederatedDraws
from privacy.learning.execution import Execution
from privacy.learning.learners import Learner
from privacy.learning.moments import Moments, sum_event
from privacy.learning.perturbed import Perturbation
from privacy.learning.plan import TrainingPlan
from privacy.learning.rows import PrivateRows
from privacy.learning.trained import Trained
from privacy.ledger.draw_files import DrawFiles, Listing
from privacy.ledger.errors import LedgerCorrupt
from privacy.ledger.journal.journal import Journal
from privacy.ledger.ledger import Ledger
from privacy.ledger.store.database import Store
from privacy.ledger.terms import Charge
from privacy.marginals.counts import PrivateCounts, SparseCounts
from privacy.marginals.scores import Candidate, score_of
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise, noise_event
from privacy.marginals.uncertainty import variance
from privacy.noise.random_bytes import RandomBytes, SecureBytes, SeededBytes
from privacy.refine.sparse import SparseTable
from privacy.refine.sparse_depth import Depth

_SOURCES: Final[Mapping[str, type]] = {"csprng": SecureBytes, "seeded": SeededBytes}
"""The one source of noise for each kind that a charge can be opened for."""


def open_grant(ledger: Ledger, run_key: str, *, seeded: SeededBytes | None = None) -> Grant:
    """Open (or open again) the grant of a reserved charge; `opened` is committed before this returns.

    Args:
        ledger: the books in which the charge stands.
        run_key: the charge's key.
        seeded: for tests: draw from these instead of from the CSPRNG; such a run is never published.
    Raises:
        LedgerRefusal: no such charge, or it was returned, or its noise came from another kind of source.
    Privacy: from here on the charge is spent, whatever happens.
    """
    opened = ledger.open_charge(run_key, security="csprng" if seeded is None else "seeded")
    source = SecureBytes() if seeded is None else seeded
    return Grant(opened.database, opened.files, opened.journal, opened.charge, opened.calculi, source)


class Grant(FederatedDraws):
    """The live permission to spend one charge; which `open_grant` alone opens.

    Args:
        database: the ledger's database.
        files: where noisy values are written.
        journal: where events are written.
        charge: the opened charge.
        calculi: calculus of each account that is charged, by name.
        random_bytes: source of the noise.
    Raises:
        TypeError: a source that is not of the kind that the charge was opened for.
    """

    def __init__(
        self,
        database: Store,
        files: DrawFiles,
        journal: Journal,
        charge: Charge,
        calculi: Mapping[str, Calculus],
        random_bytes: RandomBytes,
    ) -> None:
        if type(random_bytes) is not _SOURCES.get(charge.security or ""):
            raise TypeError(f"{type(random_bytes).__name__} is no {charge.security} source of noise")
        self._charge = charge
        self._random_bytes = random_bytes
        self._once = DurableDraws(database, files, journal, charge, calculi, where=repr(self))

    def __repr__(self) -> str:
        """Show whose grant it is."""
        return f"Grant({self._charge.request.run_key})"

    def draw(self, query: Query[ResultT], *, key: str) -> ResultT:
        """Draw what a query asks for, or replay it if this run has drawn it already.

        Args:
            query: of a kind that a sampler is registered for; the grant draws for a copy of it.
            key: name of the draw, unique inside the run.
        Raises:
            ValueError: a query of another making; nothing was drawn.
            GrantExceeded: the event costs more than is left of this grant; nothing was drawn.
            LedgerRefusal: the run has drawn something else under this key.
        Privacy: the cost of `query.event` in the account's calculus, inside what the charge has reserved.
        """
        own = rebuilt("query", query, tuple(SAMPLERS))
        sampler, request = SAMPLERS[type(own)], self._charge.request
        relation = Relation(request.adjacency, request.rows_per_unit)
        event = own.event(relation)
        asked = DrawRequest(key, own.clique, event, own.identity(relation))
        made = partial(sampler.sample, own, event=event, source=self._random_bytes)
        draw = self._once.drawn(asked, own.handles, lambda: tuple(map(_opened, own.handles)), made)
        answer: ResultT = sampler.result(own, event, draw)
        return answer

    def measure(
        self,
        counts: PrivateCounts,
        *,
        noise: Noise,
        key: str,
        minimum_frequency: MinimumFrequency | None = None,
    ) -> Measurement:
        """Draw the noisy marginal, or replay it if this run has drawn it already.

        Args:
            counts: handle on the exact marginal, at its own or at a coarser resolution.
            noise: the kind of noise and its cost.
            key: name of the draw, unique inside the run.
            minimum_frequency: the rule under which small noisy counts are suppressed before they are written down.
        Returns:
            Measurement: noisy counts in the marginal's shape, written down durably with their event.
        Raises:
            GrantExceeded: the event costs more than is left of this grant; nothing was drawn.
            LedgerRefusal: the run has drawn something else under this key.
        Privacy: the event's cost in the account's calculus, inside what the charge has reserved.
        """
        return self.draw(MarginalQuery(counts, noise, minimum_frequency), key=key)

    def measure_sparse(
        self, counts: SparseCounts, *, noise: LaplaceNoise, key: str, until: Depth
    ) -> SparseMeasurement:
        """Draw the cells of a noisy marginal that reach a threshold, or replay them; the others are never drawn.

        Args:
            counts: handle on the populated cells.
            noise: the cost of the noise, as for the whole marginal.
            key: name of the draw, unique inside the run.
            until: the first threshold, and how it is lowered, from public parameters and released values.
        Returns:
            SparseMeasurement: the listed cells, written down durably with their event.
        Raises:
            ValueError: `until` was made for other noise.
            GrantExceeded, LedgerRefusal: as for `measure`.
        Privacy: the cost of the whole noisy marginal, of which this is post-processing (`sparse_drawing`).
        """
        check_counts(counts, SparseCounts)
        check_noise(noise)
        request, source = self._charge.request, self._random_bytes
        event = noise_event(noise, adjacency=request.adjacency, rows_per_unit=request.rows_per_unit)
        if not isinstance(event, DiscreteLaplace):
            raise ValueError("noise of a sparse table must be discrete Laplace")
        check_depth(until, event.inverse_scale)
        asked = DrawRequest(key, counts.clique, event, {"listed_from_cells": counts.cells})

        def listed(exact: tuple[NDArray[np.int64], NDArray[np.int64]]) -> DrawnValues:
            table = draw_listed(exact, cells=counts.cells, event=event, until=until, source=source)
            return table.values, Listing(table.codes, table.threshold, table.cells)

        draw = self._once.drawn(asked, (counts,), counts._count, listed)
        if draw.listing is None:
            raise LedgerCorrupt(f"draw {key!r} of run {request.run_key} lists no cells")
        table = SparseTable(draw.listing.codes, draw.values, draw.listing.threshold, draw.listing.cells)
        return SparseMeasurement(key, draw.clique, table, event, variance(event), draw.number, draw.sha256)

    def measure_sums(
        self, rows: PrivateRows, statistic: Moments, *, noise: GaussianNoise, key: str
    ) -> SumMeasurement:
        """Draw noisy sums of bounded vectors over rows, or replay them if this run has drawn them already.

        Args:
            rows: handle on the rows.
            statistic: what is added up; of the closed set in `privacy.learning.moments`.
            noise: the cost of the noise.
            key: name of the draw, unique inside the run.
        Returns:
            SumMeasurement: one number for each of the statistic's, written down durably with their event.
        Raises:
            ValueError: rows, a statistic or noise of another making, or a statistic of other rows.
            GrantExceeded, LedgerRefusal: as for `measure`.
        Privacy: as for `measure`; the bound of a change is derived from the statistic, adjacency and contribution.
        """
        statistic, layout = check_sums(rows, statistic, noise)
        request, source = self._charge.request, self._random_bytes
        event = sum_event(statistic, noise, adjacency=request.adjacency, rows_per_unit=request.rows_per_unit)
        asked = DrawRequest(key, (), event, {"statistic": statistic.digest, "layout": layout.digest})
        made = partial(noisy_sums, statistic=statistic, layout=layout, event=event, source=source)
        draw = self._once.drawn(asked, (rows,), rows._read, made)
        return SumMeasurement(key, statistic, draw.values, event, variance(event), draw.number, draw.sha256)

    def train(
        self,
        rows: PrivateRows,
        learner: Learner,
        *,
        plan: TrainingPlan,
        key: str,
        execution: Execution,
        progress: Callable[[int, int], None] = lambda done, steps: None,
    ) -> Trained:
        """Train by DP-SGD, from the last durable checkpoint on if this run has some.

        Args:
            rows: handle on the rows.
            learner: what is trained; of the closed set in `privacy.learning.learners`.
            plan: sampling, clipping, noise and event; the charge holds `plan.events`.
            key: what the keys of its draws begin with, unique inside the run.
            execution: device and memory; changes nothing of what is drawn.
            progress: told how many steps of how many are done.
        Returns:
            Trained: the parameters, released, with the keys of their draws.
        Raises:
            CannotTrain, ValueError: rows, a learner or a plan that cannot be trained; nothing was drawn.
            TrainingDiverged: the parameters are of no use; what was drawn stays charged.
            GrantExceeded: the charge does not hold it, or more intervals were interrupted than the reserve pays for.
            LedgerRefusal: the run has trained something else under this key.
        Privacy: Poisson-sampled Gaussian, `plan.events`, under add_remove with one row a unit; exact but for the
            rounding of float32 gradients (docs/derivations.md, section 4).
        """
        training = checked_training(rows, learner, plan, execution, self._charge.request)
        from privacy.grant.samplers.private_training import train  # torch takes seconds to import

        return train(rows, training, key=key, once=self._once, source=self._random_bytes, progress=progress)

    def perturb(
        self, rows: PrivateRows, perturbation: Perturbation, *, noise: Noise, key: str, progress: OnEpoch = silent
    ) -> tuple[ParameterMeasurement, ...]:
        """Train with noise on every parameter, or on every change of one, from the last durable checkpoint on.

        Args:
            rows: handle on the rows.
            perturbation: what is trained, and where the noise comes in; `ParameterRelease` or `DeltaTraining`.
            noise: epsilon of each parameter by itself (Laplace), or rho of all together (Gaussian).
            key: what the keys of its draws begin with, unique inside the run.
            progress: told how many draws of how many are done.
        Returns:
            tuple: the draws in order, written down durably with their events; the last one holds the parameters.
        Raises:
            CannotTrain, ValueError: rows, a training or noise that cannot be used; nothing was drawn.
            GrantExceeded, LedgerRefusal: as for `measure`.
        Privacy: `perturbation.event` a draw: the joint loss of all parameters, in either relation.
        """
        return perturbed(
            rows, perturbation, noise, key, self._charge.request, self._once, self._random_bytes, progress
        )

    def select(self, candidates: Sequence[Candidate], *, epsilon: Fraction, key: str) -> Selection:
        """Choose a marginal by the exponential mechanism, or replay the choice if this run has made it already.

        Args:
            candidates: the marginals to choose from, each with its score; at least one.
            epsilon: what the choice costs, > 0 [dimensionless].
            key: name of the draw, unique inside the run.
        Returns:
            Selection: which candidate, written down durably with the event.
        Raises:
            ValueError: no candidates, or a score of the caller's own making.
            GrantExceeded: the event costs more than is left of this grant; nothing was drawn.
            LedgerRefusal: the run has chosen among others under this key.
        Privacy: epsilon-bounded range, inside what the charge has reserved; the sensitivity is the largest of the
            scores', derived here from clique, weight, adjacency and contribution bound.
        """
        request, source, candidates = self._charge.request, self._random_bytes, tuple(candidates)
        check_candidates(candidates, epsilon, request)
        event = ExponentialMechanism(epsilon)
        terms = request.adjacency, request.rows_per_unit
        sensitivity = max(candidate.score.sensitivity(*terms) for candidate in candidates)
        asked = DrawRequest(key, (), event, {"candidates": candidates_digest(candidates)})
        draw = self._once.drawn(
            asked,
            [candidate.counts for candidate in candidates],
            lambda: [score_of(candidate.score, candidate.counts._count()) for candidate in candidates],
            partial(choice, epsilon=epsilon, sensitivity=sensitivity, source=source),
        )
        index = int(draw.values[0])
        return Selection(key, index, candidates[index].clique, event, draw.number, draw.sha256)


def _opened(handle: Handle) -> Any:
    """Return the exact numbers behind a handle; here and nowhere else (law 1)."""
    return handle._read() if isinstance(handle, PrivateRows) else handle._count()
