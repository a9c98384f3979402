"""What generators and trainers see of a grant, apart from the books in which its draws are entered.

`Grant` is what draws. The checker has another that draws nothing and hands out what was published; neither it nor a
generator needs the ledger, the samplers of noise or the database for that.
"""

from __future__ import annotations

from typing import Protocol

from privacy.grant.queries.query import Progress, Query, ResultT


class Draws(Protocol):
    """The draws that one charge pays for."""

    def draw(self, query: Query[ResultT], *, key: str, progress: Progress = ...) -> ResultT:
        """Return what a query asks for; the meaning stands in `Grant.draw`."""
        ...

    def holds(self, key: str) -> bool:
        """Say whether a draw of that name was made already; the meaning stands in `Grant.holds`."""
        ...
