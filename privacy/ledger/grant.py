"""The grant: the one door through which noise is drawn (law 1).

Order of a draw, and each step must have happened before the next begins:
    1. the charge is reserved and `opened` is committed          (ledger, before this object exists)
    2. the sensitivity is derived from the marginal, the adjacency and the contribution bound
    3. the event is one that the charge planned and has not drawn yet, and every charged account's part holds its
       cost; or it fits into what is left of the charge's budget for draws that are chosen on the way
    4. the exact counts are read, noise is drawn, and the sum is written and fsynced with its event
    5. the event is entered in the journal
    6. the caller sees the noisy values
A crash before 4 has let nothing out; a crash after 4 leaves a file that step 5 adopts on the next run, and the values
are replayed. Nothing is ever drawn a second time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from contracts.minimum_frequency import MinimumFrequency
from privacy.accounting.calculus import Calculus
from privacy.accounting.events import DiscreteLaplace, Event, ExponentialMechanism, event_from_json
from privacy.learning.rows import PrivateRows
from privacy.learning.statistics import Statistic, sum_event
from privacy.ledger import schema
from privacy.ledger.allowance import check_covered
from privacy.ledger.drawing import choice, noisy_counts
from privacy.ledger.draws import Draw, DrawFiles, Listing, draw_digest, values_digest
from privacy.ledger.entrance import (
    candidates_digest,
    check_candidates,
    check_counts,
    check_depth,
    check_noise,
    check_rule,
    check_sums,
)
from privacy.ledger.errors import LedgerCorrupt, refusal
from privacy.ledger.journal import Journal
from privacy.ledger.measurement import Asked, DrawnEvent, Measurement, Selection, SparseMeasurement, SumMeasurement
from privacy.ledger.replaying import SPOILED, check_replay, spoiled_draw
from privacy.ledger.rows import draws_of, known_charge, to_text
from privacy.ledger.sparse_drawing import draw_listed
from privacy.ledger.store import Store
from privacy.ledger.sum_drawing import noisy_sums
from privacy.ledger.terms import Charge
from privacy.marginals.counts import PrivateCounts, SparseCounts
from privacy.marginals.scores import Candidate, score_of
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise, noise_event
from privacy.marginals.suppression import threshold_for
from privacy.marginals.uncertainty import variance
from privacy.noise.random_bytes import RandomBytes
from privacy.private_table import snapshot_mark
from privacy.refine.sparse import SparseTable
from privacy.refine.sparse_depth import Depth

__all__ = ["Grant", "Measurement", "Selection", "SparseMeasurement", "SumMeasurement"]

Values = NDArray[np.int64] | tuple[NDArray[np.int64], Listing]
"""What a draw makes: a value for every cell, or one for each listed cell."""

Private = PrivateCounts | SparseCounts | PrivateRows
"""Handles on what only a grant reads."""

_ExactT = TypeVar("_ExactT")


class Grant:
    """The live permission to spend one charge; made by `Ledger.open_grant` only.

    Args:
        database: the ledger's database.
        files: where noisy values are written.
        journal: where events are written.
        charge: the opened charge.
        calculi: calculus of each account that is charged, by name.
        random_bytes: source of the noise.
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
        self._database = database
        self._files = files
        self._journal = journal
        self._charge = charge
        self._calculi = dict(calculi)
        self._costs: dict[bytes, dict[str, int]] = {}
        self._random_bytes = random_bytes

    def __repr__(self) -> str:
        """Show whose grant it is."""
        return f"Grant({self._charge.request.run_key})"

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
        check_counts(counts, PrivateCounts)
        check_noise(noise)
        check_rule(minimum_frequency)
        request, source = self._charge.request, self._random_bytes
        event = noise_event(noise, adjacency=request.adjacency, rows_per_unit=request.rows_per_unit)
        threshold = None if minimum_frequency is None else threshold_for(minimum_frequency, event)
        about: dict[str, Any] = {} if threshold is None else {"published_from": threshold.value}
        if counts.coarsening is not None:
            about["coarsening"] = counts.coarsening.to_json()
        asked = Asked(key, counts.clique, event, about)
        made = partial(noisy_counts, event=event, threshold=threshold, source=source)
        draw = self._drawn_once(asked, (counts,), counts._count, made)
        return Measurement(key, draw.clique, draw.values, event, variance(event), draw.number, draw.sha256, threshold)

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
        asked = Asked(key, counts.clique, event, {"listed_from_cells": counts.cells})

        def populated() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            check_depth(until, event.inverse_scale)
            return counts._count()

        def listed(exact: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Values:
            table = draw_listed(exact, cells=counts.cells, event=event, until=until, source=source)
            return table.values, Listing(table.codes, table.threshold, table.cells)

        draw = self._drawn_once(asked, (counts,), populated, listed)
        if draw.listing is None:
            raise LedgerCorrupt(f"draw {key!r} of run {request.run_key} lists no cells")
        table = SparseTable(draw.listing.codes, draw.values, draw.listing.threshold, draw.listing.cells)
        return SparseMeasurement(key, draw.clique, table, event, variance(event), draw.number, draw.sha256)

    def measure_sums(
        self, rows: PrivateRows, statistic: Statistic, *, noise: GaussianNoise, key: str
    ) -> SumMeasurement:
        """Draw noisy sums of bounded vectors over rows, or replay them if this run has drawn them already.

        Args:
            rows: handle on the rows.
            statistic: what is added up; of the closed set in `privacy.learning.statistics`.
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
        asked = Asked(key, (), event, {"statistic": statistic.digest, "layout": layout.digest})
        made = partial(noisy_sums, statistic=statistic, layout=layout, event=event, source=source)
        draw = self._drawn_once(asked, (rows,), rows._read, made)
        return SumMeasurement(key, statistic, draw.values, event, variance(event), draw.number, draw.sha256)

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
        asked = Asked(key, (), event, {"candidates": candidates_digest(candidates)})
        draw = self._drawn_once(
            asked,
            [candidate.counts for candidate in candidates],
            lambda: [score_of(candidate.score, candidate.counts._count()) for candidate in candidates],
            partial(choice, epsilon=epsilon, sensitivity=sensitivity, source=source),
        )
        index = int(draw.values[0])
        return Selection(key, index, candidates[index].clique, event, draw.number, draw.sha256)

    def _drawn_once(
        self,
        asked: Asked,
        private: Sequence[Private],
        read: Callable[[], _ExactT],
        make: Callable[[_ExactT], Values],
    ) -> Draw:
        """Replay a draw; or check that it is covered, read what is exact, make the draw of it, and enter it."""
        request = self._charge.request
        with self._database.reading() as connection:
            rows = draws_of(connection, request.run_key)
            charge = known_charge(connection, request.run_key)
        for each in {(one.keyed_hash, one.contract_digest): one for one in private}.values():
            self._check_permission(charge, each)
        known = next((row for row in rows if row.key == asked.key), None)
        draw = self._files.read(request.run_key, known.number if known is not None else len(rows))
        if draw is not None:
            self._check_replay(draw, asked)
            if known is not None and known.sha256 != draw.sha256:
                raise LedgerCorrupt(f"draw {asked.key!r} of run {request.run_key}: not the values that were entered")
        elif known is not None:
            raise LedgerCorrupt(f"draw {asked.key!r} of run {request.run_key} was entered, but its file is gone")
        else:
            drawn = [event_from_json(json.loads(row.event)) for row in rows]
            check_covered(self._charge, asked.event, drawn, self._cost, key=asked.key, where=repr(self))
            exact = read()
            draw = self._written(asked, len(rows), self._made(asked, len(rows), partial(make, exact)))
        if known is None:
            self._enter(draw, asked.event)
        return draw

    def _made(self, asked: Asked, number: int, make: Callable[[], Values]) -> Values:
        """Draw. Should it fail, the draw is spoiled: whether it does may depend on the counts, and so is paid.

        A spoiled draw stands in its file and in the journal with its event, and is never made again: a caller who
        could try until it works would have asked something new each time.
        """
        try:
            return make()
        except Exception as error:  # noqa: BLE001 - whatever it is, it may depend on the counts
            spoiled = replace(asked, about={**asked.about, SPOILED: True})
            self._enter(self._written(spoiled, number, np.empty(0, np.int64)), asked.event)
            raise spoiled_draw(repr(self), asked.key, type(error).__name__) from None

    def _written(self, asked: Asked, number: int, made: Values) -> Draw:
        """Write noisy values durably before anybody sees them."""
        values, listing = made if isinstance(made, tuple) else (made, None)
        sha256 = values_digest(values) if listing is None else draw_digest(values, listing)
        event, security = asked.event.to_json(), self._charge.security or "none"
        draw = Draw(asked.key, number, event, asked.clique, values, sha256, security, asked.about, listing)
        run_key = self._charge.request.run_key
        try:
            self._files.write(run_key, draw)
        except FileExistsError:
            # Another holder of this grant was first; what it wrote is the draw, ours was never seen.
            return self._first(run_key, number, asked)
        return draw

    def _first(self, run_key: str, number: int, asked: Asked) -> Draw:
        draw = self._files.read(run_key, number)
        if draw is None:
            raise LedgerCorrupt(f"draw {number} of run {run_key} was there and is gone")
        self._check_replay(draw, asked)
        return draw

    def _enter(self, draw: Draw, event: DrawnEvent) -> None:
        run_key = self._charge.request.run_key
        values = {"run_key": run_key, "key": draw.key, "number": draw.number, "sha256": draw.sha256}
        with self._database.writing() as transaction:
            entered = [r for r in draws_of(transaction.connection, run_key) if r.number == draw.number]
            if entered and (entered[0].key, entered[0].sha256) != (draw.key, draw.sha256):
                raise LedgerCorrupt(
                    f"draw {draw.number} of run {run_key} was entered from another folder of draws: two copies of "
                    "one workspace draw for the same run; stop one of them"
                )
            if entered:
                return
            insert = schema.draws.insert().values(**values, event=to_text(dict(draw.event)))
            transaction.connection.execute(insert)
            body = {**values, "event": dict(draw.event), "costs": self._cost(event)}
            self._journal.append(transaction, "noise_drawn", body, subject=run_key)

    def _cost(self, event: Event) -> dict[str, int]:
        """Return what an event costs each account, by name."""
        known = canonical_json(event.to_json())
        if known not in self._costs:
            self._costs[known] = {name: calculus.cost((event,)) for name, calculus in self._calculi.items()}
        return self._costs[known]

    def _check_permission(self, charge: Charge, private: Private) -> None:
        """Refuse when the durable charge is not the one that was granted, or a handle is on another snapshot."""
        request = self._charge.request
        granted = set(self._charge.parts) <= set(charge.parts)  # an account opened meanwhile adds a part
        if not granted or (charge.request, charge.security) != (request, self._charge.security):
            raise LedgerCorrupt(f"run {request.run_key}: its charge in the database is not the one that was granted")
        if charge.status == "returned":
            raise refusal(repr(self), "charge", "returned", "an opened charge")
        charged = (request.snapshot_hash, request.contract_digest)
        if (snapshot_mark(private.keyed_hash, request.spec_digest), private.contract_digest) != charged:
            raise refusal(repr(self), "counts", "of another snapshot or contract", "those that were charged")

    def _check_replay(self, draw: Draw, asked: Asked) -> None:
        check_replay(draw, asked, security=self._charge.security, where=repr(self))
