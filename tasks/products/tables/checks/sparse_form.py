"""Sparse tables: is the form the one that spec and contract lead to, and what must be refined from the listed cells?

1. a draw and its table list cells exactly where the product's table is sparse over this contract
2. the domain that a draw names is the contract's
The threshold itself is replayed with the refinement: from the first one, which follows from the domain and the noise,
over the listed cells, to the last. A list that was drawn to another threshold does not end there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from contracts.contract.cell_codes import ImpossibleCells
from contracts.errors import Finding
from contracts.release.tables.tables import form_of_table
from privacy.accounting.events import DiscreteLaplace
from privacy.refine.sparse import SparseTable
from privacy.refine.tables import RefinedCells, refine_sparse_table
from tasks.records.model.version_statements import Replay
from tasks.verification.record_identity import differences
from tasks.verification.table_meaning import Meaning

MOST_LISTED: Final = 2**26
"""Rows that are read of one file: what memory holds."""
_SAYS: Final = "as product and contract say"


def check_sparse_form(replay: Replay, meaning: Meaning, *, where: str) -> list[Finding]:
    """Check which draws and tables list cells, and over which domain; draws and tables are those of the product."""
    pairs: list[tuple[str, object, object]] = []
    draws = {draw.key: (place, draw) for place, draw in enumerate(replay.draws)}
    for place, (stated, table) in enumerate(zip(replay.tables, meaning.tables, strict=True)):
        form = form_of_table(table, meaning.product, meaning.contract)
        number, draw = draws[f"table:{table.name}"]
        pairs += [
            (f"replay.draws[{number}], form", "dense" if draw.listed is None else "sparse", form),
            (f"replay.tables[{place}], form", "dense" if stated.listed is None else "sparse", form),
        ]
        if draw.listed is not None:
            cells = meaning.contract.cells(table.columns)
            pairs.append((f"replay.draws[{number}].listed.cells", draw.listed.cells, cells))
    pairs += [
        (f"replay.draws[{number}], form", "sparse", "dense")
        for number, draw in draws.values()
        if draw.key == "total" and draw.listed is not None
    ]
    return list(differences(pairs, where=where, allowed=_SAYS))


def listing_sha256(
    codes: NDArray[np.int64], values: NDArray[np.int64] | NDArray[np.float64], terms: Mapping[str, int]
) -> str:
    """Return the SHA-256 (hex) of a list of cells: a line that says its terms and length, codes, values."""
    kind = "<i8" if values.dtype.kind == "i" else "<f8"
    said = canonical_json({**terms, "listed": codes.size, "of": "cells"})
    parts = (said, b"\n", codes.astype("<i8").tobytes(), values.astype(kind).tobytes())
    return hashlib.sha256(b"".join(parts)).hexdigest()


def refined_again(
    table: SparseTable, columns: Sequence[str], meaning: Meaning, *, total: int | None, event: DiscreteLaplace
) -> RefinedCells:
    """Refine listed cells again as the product says, and follow the threshold again.

    Args:
        table: the published noisy cells.
        columns: the table's columns.
        meaning: contract and product.
        total: the total that the record states [units].
        event: the event of the table's noise.
    Raises:
        ValueError: no such refinement is possible, or the threshold is another one.
    """
    impossible, refine = ImpossibleCells.of(meaning.contract, columns), meaning.product.refine
    with np.errstate(all="ignore"):
        try:
            return refine_sparse_table(table, refine, impossible=impossible, total=total, event=event)
        except (ArithmeticError, IndexError) as error:  # values that no run has, on the way through a search
            raise ValueError(str(error)) from error
