"""A draw is made once: covered by the charge, written durably with its event, entered, and from then on replayed.

Which private numbers are read and which noise is added, the grant says; this module keeps the order of the steps
(`grant`), whatever crashes in between.

A draw that takes long (an interval of a training) may be interrupted by a crash and made again, as often as its
reserve says. That it was begun is marked durably before a private number is read. What was begun and never finished
is entered as lost, with its event: it is paid like one that was finished, and the new attempt out of the reserve.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from contracts.errors import Finding
from privacy.accounting.amounts import pico_to_text
from privacy.accounting.calculus import Calculus
from privacy.accounting.events import PrivacyEvent, UnsupportedEvent, event_from_json
from privacy.accounting.renyi import budget_of, limit, share, unplanned
from privacy.counting_engine import CountsUnavailable
from privacy.federation.rounds import AttemptBroken, AttemptLost, SiteAnswers
from privacy.grant.draw_replay import LOST, SPOILED, check_replay, spoiled_draw
from privacy.grant.measurement import DrawRequest
from privacy.grant.queries.query import DrawnValues, Handle
from privacy.ledger.draw_files import Draw, DrawFiles, Listing, draw_digest, values_digest
from privacy.ledger.entries import GrantExceeded, LedgerCorrupt, refusal
from privacy.ledger.store import schema
from privacy.ledger.store.database import Store
from privacy.ledger.store.journal import Journal
from privacy.ledger.store.ledger_rows import draws_of, existing_charge, to_text
from privacy.ledger.terms import Charge
from privacy.private_table import snapshot_mark
from privacy.refine.sparse import SparseTable

# --- Whether what a charge has left covers one more draw.


Costs = Callable[[PrivacyEvent], Mapping[str, int]]
"""From an event to what it costs each account, by name [10^-12 units of its calculus]."""


def check_covered(
    charge: Charge, event: PrivacyEvent, drawn: Sequence[PrivacyEvent], costs: Costs, *, key: str, where: str
) -> None:
    """Refuse a draw that the charge neither planned nor has a budget for.

    Args:
        charge: the opened charge.
        event: what is to be drawn.
        drawn: the run's draws so far.
        costs: what an event costs each account.
        key: name of the draw.
        where: whose grant it is.
    Raises:
        GrantExceeded: nothing was drawn.
    """
    planned = charge.request.events
    left = Counter(planned)
    left.subtract(drawn)
    if left[event] > 0:
        chosen = Counter(unplanned(planned, drawn))
        _check_parts(charge, event, list((Counter(drawn) - chosen).elements()), costs, key=key, where=where)
        return
    budget = budget_of(planned)
    if budget is None:
        found = f"draw {key!r}: {event.kind} that is not planned, or drawn as often as planned"
        raise GrantExceeded([Finding(where, "plan", found, "the planned events; nothing was drawn")])
    spent = sum((share(budget, before) for before in unplanned(planned, drawn)), Fraction(0))
    try:
        wanted, room = share(budget, event), limit(budget) - spent
    except UnsupportedEvent as refused:
        found = f"draw {key!r}: {event.kind} that is not planned, or drawn as often as planned"
        raise GrantExceeded(
            [Finding(where, "plan", found, f"the planned events, and what {budget.kind} holds; nothing was drawn")]
        ) from refused
    if wanted > room:
        found = f"draw {key!r} takes {float(wanted):.12g} of the {budget.kind} budget"
        allowed = f"at most {float(room):.12g}, what is left of it; nothing was drawn"
        raise GrantExceeded([Finding(where, "budget", found, allowed)])


def _check_parts(
    charge: Charge, event: PrivacyEvent, drawn: Sequence[PrivacyEvent], costs: Costs, *, key: str, where: str
) -> None:
    """Refuse a planned draw that some account's part of the charge does not hold."""
    for part in charge.parts:
        left = part.amount - sum(costs(before)[part.account] for before in drawn)
        cost = costs(event)[part.account]
        if cost > left:
            found = f"draw {key!r} costs {pico_to_text(cost)} of account {part.account}"
            allowed = f"at most {pico_to_text(left)}; nothing was drawn"
            raise GrantExceeded([Finding(where, "sub-budget", found, allowed)])


_ExactT = TypeVar("_ExactT")


@dataclass(frozen=True)
class Reserve:
    """How often draws that belong together may be interrupted and made again.

    Args:
        prefix: what their keys begin with.
        interruptions: how many are paid for.
    """

    prefix: str
    interruptions: int


def parts_of(values: DrawnValues) -> tuple[NDArray[np.int64], Listing | None]:
    """Return the values that are written down, and of a sparse table which cells they are of."""
    if isinstance(values, SparseTable):
        return values.values, Listing(values.codes, values.threshold, values.cells)
    return values, None


class DurableDraws:
    """The draws of one charge.

    Args:
        database: the ledger's database.
        files: where noisy values are written.
        journal: where events are written.
        charge: the opened charge.
        calculi: calculus of each account that is charged, by name.
        where: whose draws they are, for messages.
    """

    def __init__(
        self,
        database: Store,
        files: DrawFiles,
        journal: Journal,
        charge: Charge,
        calculi: Mapping[str, Calculus],
        *,
        where: str,
    ) -> None:
        self._database = database
        self._files = files
        self._journal = journal
        self._charge = charge
        self._calculi = dict(calculi)
        self._costs: dict[bytes, dict[str, int]] = {}
        self._where = where

    def drawn(
        self,
        draw_request: DrawRequest,
        private: Sequence[Handle],
        read: Callable[[], _ExactT],
        make: Callable[[_ExactT], DrawnValues],
        *,
        reserve: Reserve | None = None,
        attempts_of: str = "",
    ) -> Draw:
        """Replay a draw; or check that it is covered, read what is exact, make the draw of it, and enter it.

        With a reserve, the draw is marked as begun before anything is read, and may be made again if it is lost.
        Where `attempts_of` is what keys of attempts begin with, another attempt that was written and not entered
        before a crash is entered first: of the same plan, or of another phase of the run.
        """
        request = self._charge.request
        with self._database.reading() as connection:
            rows = draws_of(connection, request.run_key)
            charge = existing_charge(connection, request.run_key)
        self._check_charge(charge)
        of_snapshot = [one for one in private if not isinstance(one, SiteAnswers)]
        for mark in {(one.keyed_hash, one.contract_digest) for one in of_snapshot}:
            self._check_snapshot(*mark)
        known = next((row for row in rows if row.key == draw_request.key), None)
        draw = self._files.read(request.run_key, known.number if known is not None else len(rows))
        if known is None and (self._lost(draw, len(rows)) or self._left(draw, draw_request, attempts_of)):
            return self.drawn(draw_request, private, read, make, reserve=reserve, attempts_of=attempts_of)
        if draw is not None:
            self._check_replay(draw, draw_request)
            if known is not None and known.sha256 != draw.sha256:
                raise LedgerCorrupt(
                    f"draw {draw_request.key!r} of run {request.run_key}: not the values that were entered"
                )
        elif known is not None:
            raise LedgerCorrupt(
                f"draw {draw_request.key!r} of run {request.run_key} was entered, but its file is gone"
            )
        else:
            drawn = [event_from_json(json.loads(row.event)) for row in rows]
            check_covered(
                self._charge, draw_request.event, drawn, self._cost, key=draw_request.key, where=self._where
            )
            if reserve is not None:
                self._check_reserve(reserve, [row.key for row in rows])
                self._files.begin(request.run_key, len(rows), draw_request.to_json())
            again = reserve is not None or bool(attempts_of)
            draw = self._written(
                draw_request, len(rows), self._read_and_draw(draw_request, len(rows), read, make, again=again)
            )
        if known is None:
            self._enter(draw, draw_request.event)
        return draw

    def holds(self, key: str) -> bool:
        """Say whether a draw is entered, or written and about to be."""
        run_key = self._charge.request.run_key
        with self._database.reading() as connection:
            rows = draws_of(connection, run_key)
        if any(row.key == key for row in rows):
            return True
        written = self._files.read(run_key, len(rows))
        return written is not None and written.key == key

    def sent(
        self,
        request: DrawRequest,
        private: Sequence[Handle],
        read: Callable[[], _ExactT],
        make: Callable[[_ExactT], DrawnValues],
        *,
        receipt: NDArray[np.int64],
    ) -> Draw:
        """Make what leaves once, unless it left before; its file holds a receipt in its place.

        An attempt whose receipt was written when a site was killed, and not entered, is paid, and is sent to nobody;
        phases of one run have keys that begin alike, so that the next phase's first attempt pays it as well.

        Raises:
            LedgerRefusal: it left before.
        """
        made: list[DrawnValues] = []

        def receipted(exact: _ExactT) -> NDArray[np.int64]:
            made.append(make(exact))
            return receipt

        draw = self.drawn(request, private, read, receipted, attempts_of=f"{request.key.partition('/')[0]}/")
        if not made or not np.array_equal(draw.values, receipt):
            found, allowed = "answered already", "an attempt that is new: what a site sends leaves it once"
            raise refusal(f"draw {request.key!r}", "attempt", found, allowed, "make another attempt")
        return replace(draw, values=parts_of(made[0])[0])

    def _lost(self, draw: Draw | None, number: int) -> bool:
        """Enter what was begun as draw `number` and never finished; say whether there was such a thing."""
        run_key = self._charge.request.run_key
        if draw is None:
            begun = self._files.begun(run_key, number)
            if begun is None:
                return False
            asked = DrawRequest.from_json(begun)
            lost = replace(asked, key=f"{asked.key}/{LOST}-{number}", about={**asked.about, LOST: True})
            draw = self._written(lost, number, np.empty(0, np.int64))
        if LOST not in draw.about:
            return False
        self._enter(draw, event_from_json(dict(draw.event)))
        return True

    def _left(self, draw: Draw | None, request: DrawRequest, attempts_of: str) -> bool:
        """Enter another attempt that is in its file and not in the journal; say whether there was such a thing."""
        if draw is None or not attempts_of or draw.key == request.key or not draw.key.startswith(attempts_of):
            return False
        phases = {each.key.rsplit("/", 2)[0] for each in (draw, request)}
        if len(phases) == 1 and draw.about.get("plan") != request.about.get("plan"):
            return False
        if draw.security != (self._charge.security or "none"):
            return False
        self._enter(draw, event_from_json(dict(draw.event)))
        return True

    def _check_reserve(self, reserve: Reserve, keys: Sequence[str]) -> None:
        """Refuse another attempt when more were lost than the reserve pays for."""
        lost = sum(key.startswith(f"{reserve.prefix}/") and f"/{LOST}-" in key for key in keys)
        if lost > reserve.interruptions:
            found = f"{lost} interrupted attempts of {reserve.prefix!r}"
            allowed = f"at most {reserve.interruptions}, which its reserve pays for; nothing more is drawn"
            remedy = "start another release, with a larger reserve where runs are often interrupted"
            raise GrantExceeded([Finding(self._where, "reserve", found, allowed, remedy)])

    def _read_and_draw(
        self,
        request: DrawRequest,
        number: int,
        read: Callable[[], _ExactT],
        make: Callable[[_ExactT], DrawnValues],
        *,
        again: bool,
    ) -> DrawnValues:
        """Read and draw. Should either fail, the draw is spoiled: whether it does may depend on rows, and so is paid.

        An engine that does not answer spoils nothing: counts are fetched whole before noise is drawn, the charge
        stays open, and the run that resumes makes the draw. Once noise is drawn no error is let through, by whatever
        name. A spoiled draw stands in its file and in the journal with its event, and is never made again: a caller
        who could try until it works would have asked something new each time.

        Args:
            again: whether the draw was marked as begun, so that a lost attempt at it is paid and may be followed.
        """
        begun = False
        try:
            exact = read()
            begun = True
            return make(exact)
        except Exception as error:  # whatever it is, it may depend on the counts
            if isinstance(error, CountsUnavailable) and not begun:
                raise  # the draw has not begun
            if isinstance(error, AttemptLost | AttemptBroken) and again:
                raise  # entered as lost when it is made again
            spoiled = replace(request, about={**request.about, SPOILED: True})
            self._enter(self._written(spoiled, number, np.empty(0, np.int64)), request.event)
            kind = type(error).__name__
        raise spoiled_draw(
            self._where, request.key, kind
        )  # outside of the handler: no context whose frames hold rows

    def _written(self, request: DrawRequest, number: int, drawn_values: DrawnValues) -> Draw:
        """Write noisy values durably before anybody sees them."""
        values, listing = parts_of(drawn_values)
        sha256 = values_digest(values) if listing is None else draw_digest(values, listing)
        event, security = request.event.to_json(), self._charge.security or "none"
        draw = Draw(request.key, number, event, request.clique, values, sha256, security, request.about, listing)
        run_key = self._charge.request.run_key
        try:
            self._files.write(run_key, draw)
        except FileExistsError:
            # Another holder of this grant was first; what it wrote is the draw, ours was never seen.
            return self._first(run_key, number, request)
        return draw

    def _first(self, run_key: str, number: int, request: DrawRequest) -> Draw:
        draw = self._files.read(run_key, number)
        if draw is None:
            raise LedgerCorrupt(f"draw {number} of run {run_key} was there and is gone")
        self._check_replay(draw, request)
        return draw

    def _enter(self, draw: Draw, event: PrivacyEvent) -> None:
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

    def _cost(self, event: PrivacyEvent) -> dict[str, int]:
        """Return what an event costs each account, by name."""
        known = canonical_json(event.to_json())
        if known not in self._costs:
            self._costs[known] = {name: calculus.cost((event,)) for name, calculus in self._calculi.items()}
        return self._costs[known]

    def _check_charge(self, charge: Charge) -> None:
        """Refuse when the durable charge is not the one that was granted."""
        request = self._charge.request
        granted = set(self._charge.parts) <= set(charge.parts)  # an account opened meanwhile adds a part
        if not granted or (charge.request, charge.security) != (request, self._charge.security):
            raise LedgerCorrupt(f"run {request.run_key}: its charge in the database is not the one that was granted")
        if charge.status == "returned":
            raise refusal(self._where, "charge", "returned", "an opened charge")

    def _check_snapshot(self, keyed_hash: str, contract_digest: str) -> None:
        """Refuse a handle on another snapshot than the one that was charged."""
        request = self._charge.request
        charged = (request.snapshot_hash, request.contract_digest)
        mark = snapshot_mark(keyed_hash, request.spec_digest, request.due)
        if (mark, contract_digest) != charged:
            raise refusal(self._where, "counts", "of another snapshot or contract", "those that were charged")

    def _check_replay(self, draw: Draw, request: DrawRequest) -> None:
        check_replay(draw, request, security=self._charge.security, where=self._where)
