"""Rows as opaque handles: anybody may ask for one, only a grant can open it.

The handle knows how its rows lie in vectors (public) and how to read them; it shows no value, refuses pickling, and
has no public way to the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn

from privacy.arrays import Unsigned
from privacy.learning.layout import RowLayout


@dataclass(frozen=True, repr=False, eq=False)
class PrivateRows:
    """The rows of a snapshot, not yet read and not to be seen.

    Args:
        layout: how their codes lie in vectors; public.
        keyed_hash: private hash of the snapshot.
        contract_digest: digest of the contract that encoded it.
    """

    layout: RowLayout
    keyed_hash: str
    contract_digest: str
    _read: Callable[[], Unsigned]

    @classmethod
    def of_nobody(cls, layout: RowLayout) -> PrivateRows:
        """Return a handle behind which there are no rows, for who plans or adds up what others have."""
        return cls(layout, "", "", _nothing)

    def with_layout(self, layout: RowLayout) -> PrivateRows:
        """Return the handle on the same codes, which lie in vectors in another public way.

        Args:
            layout: of the same columns, with as many cells and codes.
        Raises:
            ValueError: other columns.
        Privacy: a sum or a training is bounded by its clipping, whatever the layout; draws are named by its digest.
        """
        if _codes_of(layout) != _codes_of(self.layout):
            raise ValueError("another layout must have the same columns, cells and codes")
        return replace(self, layout=layout)

    def __repr__(self) -> str:
        """Show how many columns there are."""
        return f"PrivateRows({len(self.layout.columns)} columns)"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling: rows stay in this process."""
        raise TypeError("PrivateRows cannot be pickled: private rows stay in this process")


def _codes_of(layout: RowLayout) -> list[tuple[str, int, int]]:
    return [(column.name, column.table.shape[0], column.length) for column in layout.columns]


def _nothing() -> NoReturn:
    raise TypeError("there are no rows behind this handle")
