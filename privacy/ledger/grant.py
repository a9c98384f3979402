"""The grant: the one door through which noise is drawn (law 1).

Order of a draw, and each step must have happened before the next begins:
    1. the charge is reserved and `opened` is committed          (ledger, before this object exists)
    2. the sensitivity is derived from the marginal, the adjacency and the contribution bound
    3. the event's cost is checked against what is left of this grant, on every account that was charged
    4. the exact counts are read, noise is drawn, and the sum is written and fsynced with its event
    5. the event is entered in the journal
    6. the caller sees the noisy values
A crash before 4 has let nothing out; a crash after 4 leaves a file that step 5 adopts on the next run, and the values
are replayed. Nothing is ever drawn a second time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from contracts.errors import Finding
from privacy.accounting.amounts import pico_to_text
from privacy.accounting.calculus import Calculus
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, Event, event_from_json
from privacy.ledger import schema
from privacy.ledger.draws import Draw, DrawFiles, values_digest
from privacy.ledger.errors import GrantExceeded, LedgerCorrupt, refusal
from privacy.ledger.journal import Journal
from privacy.ledger.rows import draws_of, known_charge, to_text
from privacy.ledger.store import Store
from privacy.ledger.terms import Charge, Part
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
        with self._database.reading() as connection:
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
            self._check_cost(event, key, [event_from_json(json.loads(row.event)) for row in rows])
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

    def _check_permission(self, charge: Charge, counts: PrivateCounts) -> None:
        """Refuse when the durable charge is not the one that was granted, or the counts are of another snapshot."""
        request = self._charge.request
        granted = set(self._charge.parts) <= set(charge.parts)  # an account opened meanwhile adds a part
        if not granted or (charge.request, charge.security) != (request, self._charge.security):
            raise LedgerCorrupt(f"run {request.run_key}: its charge in the database is not the one that was granted")
        if charge.status == "returned":
            raise refusal(repr(self), "charge", "returned", "an opened charge")
        charged = (request.snapshot_hash, request.contract_digest)
        if (snapshot_mark(counts.keyed_hash, request.spec_digest), counts.contract_digest) != charged:
            raise refusal(repr(self), "counts", "counts of another snapshot or contract", "those that were charged")

    def _check_cost(self, event: NoiseEvent, key: str, drawn: Sequence[Event]) -> None:
        """Refuse a draw that the charge did not plan, or that some account's part of it does not hold."""
        left = Counter(self._charge.request.events)
        left.subtract(drawn)
        if left[event] < 1:
            found = f"draw {key!r}: {event.kind} that is not planned, or drawn as often as planned"
            raise GrantExceeded([Finding(repr(self), "plan", found, "the planned events; nothing was drawn")])
        for part in self._charge.parts:
            spent = sum(self._cost(before)[part.account] for before in drawn)
            cost = self._cost(event)[part.account]
            if spent + cost > part.amount:
                raise self._too_much(part, key, cost=cost, left=part.amount - spent)

    def _too_much(self, part: Part, key: str, *, cost: int, left: int) -> GrantExceeded:
        found = f"draw {key!r} costs {pico_to_text(cost)} of account {part.account}"
        allowed = f"at most {pico_to_text(left)}; nothing was drawn"
        return GrantExceeded([Finding(repr(self), "sub-budget", found, allowed)])

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
