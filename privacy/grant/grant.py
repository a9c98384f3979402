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
are replayed. Only a draw with a reserve is made again where it was interrupted, and its reserve pays for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from privacy.accounting.calculus import Calculus
from privacy.grant.durable_draws import DurableDraws, Reserve
from privacy.grant.exact_types import rebuilt
from privacy.grant.measurement import DrawRequest
from privacy.grant.queries.kinds import query_kinds
from privacy.grant.queries.query import DrawStage, Handle, Progress, Query, Relation, ResultT, silent
from privacy.grant.sampled_noise import SampledNoise
from privacy.ledger.draw_files import Draw, DrawFiles
from privacy.ledger.ledger import Ledger
from privacy.ledger.store.database import Store
from privacy.ledger.store.journal import Journal
from privacy.ledger.terms import Charge
from privacy.marginals.counts import PrivateCounts, SparseCounts
from privacy.noise.random_bytes import RandomBytes, SecureBytes, SeededBytes

_SOURCES: Final[Mapping[str, type]] = {"csprng": SecureBytes, "seeded": SeededBytes}
"""The one source of noise for each kind that a charge can be opened for."""


def open_grant(ledger: Ledger, run_key: str, *, seeded: SeededBytes | None = None) -> Grant:
    """Open (or open again) the grant of a reserved charge; `opened` is committed before this returns.

    Args:
        ledger: the books in which the charge stands.
        run_key: the charge's key.
        seeded: for tests: draw from these instead of from the CSPRNG; such a run is never published.
    Raises:
        LedgerRefusal: no such charge, or it was returned, or its noise came from another kind of source, or its draws
            are in another folder.
    Privacy: from here on the charge is spent, whatever happens.
    """
    opened = ledger.open_charge(run_key, security="csprng" if seeded is None else "seeded")
    source = SecureBytes() if seeded is None else seeded
    return Grant(opened.database, opened.files, opened.journal, opened.charge, opened.calculi, source)


class Grant:
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

    def draw(self, query: Query[ResultT], *, key: str, progress: Progress = silent) -> ResultT:
        """Draw what a query asks for, or replay what this run has drawn of it already.

        Args:
            query: of a kind in `query_kinds`; the grant draws for a copy of it.
            key: name of the draw, or what the names of its draws begin with; unique inside the run.
            progress: told how many steps of how many are done, where the query has several.
        Returns:
            What the kind answers with; written down durably with its events.
        Raises:
            ValueError: a query of another making, or parts that do not fit together; nothing was drawn.
            GrantExceeded: an event costs more than is left of this grant, or more draws were interrupted than the
                query's reserve pays for; nothing more was drawn.
            LedgerRefusal: the run has drawn something else under this key.
        Privacy: the cost of `query.event` a draw in the account's calculus, inside what the charge has reserved.
        """
        own = rebuilt("query", query, query_kinds())
        request = self._charge.request
        relation = Relation(request.adjacency, request.rows_per_unit, request.public_total)
        own.check(relation)
        if not own.counts_parents and any(getattr(each, "parents", None) is not None for each in own.handles):
            raise ValueError(f"a draw of kind {own.kind} counts the rows of the base, not those of a parent table")
        drawn: list[Draw] = []
        for place, name in enumerate(own.names(key)):
            told = DelayedProgress(progress)
            stage = DrawStage(relation, place, drawn[-1].values if drawn else None, told.tell)
            drawn.append(self._drawn(own, name, stage, prefix=key))
            told.raise_what_it_raised()
            own.inspect(drawn[-1], place)
        answer: ResultT = own.result(own.event(relation), tuple(drawn))
        return answer

    def holds(self, key: str) -> bool:
        """Say whether this run has drawn something of that name already, and would replay it.

        Privacy: that a draw was made is released with it; nothing is drawn and nothing private is read.
        """
        return self._once.holds(key)

    def _drawn(self, own: Query[Any], name: str, stage: DrawStage, *, prefix: str) -> Draw:
        """Make, or replay, one draw of a query that is the grant's own."""
        event = own.event(stage.relation)
        asked = DrawRequest(name, own.clique, event, own.identity(stage.relation, stage.place))
        noise = SampledNoise(self._random_bytes)
        sample = partial(own.sample, event=event, noise=noise, stage=stage)
        reserve = None if own.reserve is None else Reserve(prefix, own.reserve)
        read = partial(_opened, own.handles)
        if own.leaves_once:
            receipt = noise.take(16).view("<i8").astype(np.int64)
            return self._once.sent(asked, own.handles, read, sample, receipt=receipt)
        return self._once.drawn(asked, own.handles, read, sample, reserve=reserve)


class DelayedProgress:
    """Passes progress on; what the caller's function raises waits until the draw is written down."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._raised: Exception | None = None

    def tell(self, done: int, steps: int) -> None:
        """Tell that so many of so many steps are done."""
        if self._raised is None:
            try:
                self._progress(done, steps)
            except Exception as error:  # noqa: BLE001 - raised again as soon as nothing is lost by it
                self._raised = error

    def raise_what_it_raised(self) -> None:
        """Raise what the caller's function raised, if it did."""
        if self._raised is not None:
            raise self._raised


def _opened(handles: tuple[Handle, ...]) -> tuple[Any, ...]:
    """Return the exact numbers behind handles; here and nowhere else (law 1)."""
    counted = (PrivateCounts, SparseCounts)
    return tuple(each._count() if isinstance(each, counted) else each._read() for each in handles)
