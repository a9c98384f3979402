"""The grant: the one door through which noise is drawn (law 1).

Order of a draw, and each step must have happened before the next begins:
    1. the charge is reserved and `opened` is committed          (ledger, before this object exists)
    2. the sensitivity is derived from the marginal, the adjacency and the contribution bound
    3. the event's cost is checked against what is left of this grant
    4. the exact counts are read, noise is drawn, and the sum is written and fsynced with its event
    5. the event is entered in the journal
    6. the caller sees the noisy values
A crash before 4 has let nothing out; a crash after 4 leaves a file that step 5 adopts on the next run, and the values
are replayed. Nothing is ever drawn a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.accounting.amounts import pico_to_text
from privacy.accounting.calculus import Calculus
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, event_from_json
from privacy.ledger import store
from privacy.ledger.draws import Draw, DrawFiles, values_digest
from privacy.ledger.errors import GrantExceeded, LedgerCorrupt, refusal
from privacy.ledger.journal import Journal
from privacy.ledger.rows import draws_of, known_charge, to_text
from privacy.ledger.terms import Charge
from privacy.marginals.counts import Clique, PrivateCounts
from privacy.marginals.sensitivity import Noise, NoiseEvent, noise_event
from privacy.marginals.uncertainty import variance
from privacy.noise.discrete_gaussian import discrete_gaussian
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import RandomBytes
from privacy.private_table import snapshot_mark


@dataclass(frozen=True)
class Measurement:
    """A noisy marginal with what it cost; released, no longer private.

    Args:
        key: name of the draw inside its run.
        clique: columns of the marginal.
        values: noisy counts, int64, in the marginal's shape [rows].
        event: the event, with the scale of the noise and the sensitivity.
        variance: variance of each cell's noise [rows²].
        number: order of the draw inside its run.
        sha256: digest of the values.
    """

    key: str
    clique: Clique
    values: NDArray[np.int64]
    event: NoiseEvent
    variance: float
    number: int
    sha256: str


class Grant:
    """The live permission to spend one charge; made by `Ledger.open_grant` only.

    Args:
        database: the ledger's database.
        files: where noisy values are written.
        journal: where events are written.
        charge: the opened charge.
        calculus: the account's calculus.
        random_bytes: source of the noise.
    """

    def __init__(
        self,
        database: store.Store,
        files: DrawFiles,
        journal: Journal,
        charge: Charge,
        calculus: Calculus,
        random_bytes: RandomBytes,
    ) -> None:
        self._database = database
        self._files = files
        self._journal = journal
        self._charge = charge
        self._calculus = calculus
        self._random_bytes = random_bytes

    def __repr__(self) -> str:
        """Show whose grant it is."""
        return f"Grant({self._charge.request.run_key})"

    def measure(self, counts: PrivateCounts, *, noise: Noise, key: str) -> Measurement:
        """Draw the noisy marginal, or replay it if this run has drawn it already.

        Args:
            counts: handle on the exact marginal.
            noise: the kind of noise and its cost.
            key: name of the draw, unique inside the run.
        Returns:
            Measurement: noisy counts in the marginal's shape, written down durably with their event.
        Raises:
            GrantExceeded: the event costs more than is left of this grant; nothing was drawn.
            LedgerRefusal: the run has drawn something else under this key.
        Privacy: the event's cost in the account's calculus, inside what the charge has reserved.
        """
        request = self._charge.request
        event = noise_event(noise, adjacency=request.adjacency, rows_per_unit=request.rows_per_unit)
        with self._database.transaction() as connection:
            rows = draws_of(connection, request.run_key)
            charge = known_charge(connection, request.run_key)
        self._check_permission(charge, counts)
        known = next((row for row in rows if row.key == key), None)
        draw = self._files.read(request.run_key, known.number if known is not None else len(rows))
        if draw is not None:
            self._check_replay(draw, key, counts.clique, event)
            if known is not None and known.sha256 != draw.sha256:
                raise LedgerCorrupt(f"draw {key!r} of run {request.run_key}: not the values that were entered")
        elif known is not None:
            raise LedgerCorrupt(f"draw {key!r} of run {request.run_key} was entered, but its file is gone")
        else:
            self._check_cost(event, key, sum(row.cost for row in rows))
            draw = self._draw(counts, event, key, len(rows))
        if known is None:
            self._enter(draw, event)
        return Measurement(key, draw.clique, draw.values, event, variance(event), draw.number, draw.sha256)

    def _draw(self, counts: PrivateCounts, event: NoiseEvent, key: str, number: int) -> Draw:
        """Read the exact counts, add noise, and write the sum durably; the counts go no further."""
        exact = counts._count()
        size = exact.size
        match event:
            case DiscreteLaplace(inverse_scale=inverse_scale):
                noise = discrete_laplace(size, inverse_scale=inverse_scale, source=self._random_bytes)
            case DiscreteGaussian(sigma_squared=sigma_squared):
                noise = discrete_gaussian(size, sigma_squared=sigma_squared, source=self._random_bytes)
            case _:
                assert_never(event)
        values = exact + noise.reshape(exact.shape)
        digest = values_digest(values)
        draw = Draw(key, number, event.to_json(), counts.clique, values, digest, self._charge.security or "none")
        run_key = self._charge.request.run_key
        try:
            self._files.write(run_key, draw)
        except FileExistsError:
            # Another holder of this grant was first; what it wrote is the draw, ours was never seen.
            return self._first(run_key, number, key, counts.clique, event)
        return draw

    def _first(self, run_key: str, number: int, key: str, clique: Clique, event: NoiseEvent) -> Draw:
        draw = self._files.read(run_key, number)
        if draw is None:
            raise LedgerCorrupt(f"draw {number} of run {run_key} was there and is gone")
        self._check_replay(draw, key, clique, event)
        return draw

    def _enter(self, draw: Draw, event: NoiseEvent) -> None:
        run_key = self._charge.request.run_key
        cost = self._calculus.cost((event,))
        body = {
            "run_key": run_key,
            "key": draw.key,
            "number": draw.number,
            "event": dict(draw.event),
            "cost": cost,
            "sha256": draw.sha256,
        }
        with self._database.transaction() as connection:
            if any(row.number == draw.number for row in draws_of(connection, run_key)):
                return
            values = {**body, "event": to_text(body["event"])}
            connection.execute(store.draws.insert().values(**values))
            self._journal.append(connection, "noise_drawn", body)

    def _check_permission(self, charge: Charge, counts: PrivateCounts) -> None:
        """Refuse when the durable charge is not the one that was granted, or the counts are of another snapshot."""
        request = self._charge.request
        if (charge.request, charge.amount, charge.security) != (request, self._charge.amount, self._charge.security):
            raise LedgerCorrupt(f"run {request.run_key}: its charge in the database is not the one that was granted")
        if charge.status == "returned":
            raise refusal(repr(self), "charge", "returned", "an opened charge")
        granted = (request.snapshot_hash, request.contract_digest)
        if (snapshot_mark(counts.keyed_hash, request.spec_digest), counts.contract_digest) != granted:
            raise refusal(repr(self), "counts", "counts of another snapshot or contract", "those that were charged")

    def _check_cost(self, event: NoiseEvent, key: str, spent: int) -> None:
        cost = self._calculus.cost((event,))
        if spent + cost > self._charge.amount:
            left = pico_to_text(self._charge.amount - spent)
            found = f"draw {key!r} costs {pico_to_text(cost)}"
            raise GrantExceeded([Finding(repr(self), "sub-budget", found, f"at most {left}; nothing was drawn")])

    def _check_replay(self, draw: Draw, key: str, clique: Clique, event: NoiseEvent) -> None:
        asked = (key, clique, event, self._charge.security)
        written = (draw.key, draw.clique, event_from_json(dict(draw.event)), draw.security)
        if asked != written:
            raise refusal(
                repr(self),
                f"draw {draw.number}",
                f"{key!r} of {'×'.join(clique) or 'total'}",
                f"{draw.key!r} of {'×'.join(draw.clique) or 'total'}, as it was drawn before",
                "a run that resumes asks for the same draws in the same order",
            )
