"""What generators and trainers see of a grant, apart from the books in which its draws are entered.

`Grant` is what draws. The checker has another that draws nothing and hands out what was published; neither it nor a
generator needs the ledger, the samplers of noise or the database for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from privacy.grant.queries.query import Progress, Query, ResultT, silent


class Draws(Protocol):
    """The draws that one charge pays for."""

    def draw(self, query: Query[ResultT], *, key: str, progress: Progress = ...) -> ResultT:
        """Return what a query asks for; the meaning stands in `Grant.draw`."""
        ...

    def holds(self, key: str) -> bool:
        """Say whether a draw of that name was made already; the meaning stands in `Grant.holds`."""
        ...


@dataclass(frozen=True)
class PrefixedDraws:
    """A grant's draws under names of their own, so that the parts of a fit do not meet in one name.

    Args:
        grant: draws.
        prefix: what each name begins with.
    """

    grant: Draws
    prefix: str

    def draw(self, query: Query[ResultT], *, key: str, progress: Progress = silent) -> ResultT:
        """Draw under the prefixed name; as `Grant.draw`."""
        return self.grant.draw(query, key=self.prefix + key, progress=progress)

    def holds(self, key: str) -> bool:
        """Say whether a draw of the prefixed name was made; as `Grant.holds`."""
        return self.grant.holds(self.prefix + key)
