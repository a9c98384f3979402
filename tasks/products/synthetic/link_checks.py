"""Do the rows of two published tables belong together? By code of its own, from the values alone.

1. keys of parents are whole numbers, each once
2. every child's key is that of a parent
3. every parent has as many children as its column of sizes says
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.errors import Finding
from contracts.release.linked_rows import table_pair
from tasks.records.model.synthetic_statements import SyntheticRowsStatement
from tasks.records.strict_json import printable
from tasks.verification.fitted_meaning import SyntheticMeaning

_BROKEN: Final = "the rows of the two tables do not belong together: do not use them"


def check_links(
    children: bytes, parents: bytes, stated: SyntheticRowsStatement, meaning: SyntheticMeaning
) -> list[Finding]:
    """Check keys and sizes of two tables that were found to be what model and seed give.

    Args:
        children, parents: bytes of the Parquet files.
        stated: what the record says of the rows.
        meaning: contract and product.
    """
    above = stated.parents
    if above is None:
        return []
    size = table_pair(meaning.names, meaning.contract).size
    keys, sizes = _columns(parents, above.key, size)
    (owners,) = _columns(children, above.child_key)
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    if (np.diff(ranked) == 0).any():
        return [Finding(above.data, f"column {printable(above.key)}", "a key twice", "each key once", _BROKEN)]
    place = np.searchsorted(ranked, owners)
    found = ranked[np.minimum(place, max(0, ranked.size - 1))] if ranked.size else np.full(owners.shape, -1)
    strays = np.flatnonzero(found != owners)
    if strays.size:
        field = f"column {printable(above.child_key)}, row {int(strays[0]) + 1}"
        return [Finding(stated.data, field, "a key that no parent has", f"a key of {above.data}", _BROKEN)]
    wrong = np.flatnonzero(np.bincount(place, minlength=keys.size) != sizes[order])
    if wrong.size:
        field = f"column {printable(size)}, row {int(order[wrong[0]]) + 1}"
        return [Finding(above.data, field, "another number", f"how many rows of {stated.data} it has", _BROKEN)]
    return []


def _columns(data: bytes, *names: str) -> list[NDArray[np.int64]]:
    """Read columns of whole numbers without missing values."""
    table = pq.read_table(pa.BufferReader(data), columns=list(names))
    return [table.column(name).to_numpy().astype(np.int64) for name in names]
