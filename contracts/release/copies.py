"""Several copies of synthetic rows, from which an analysis gets an interval: `copies: 20` below `product:`.

Each copy comes of a model of its own, so that what differs between copies shows what the noise does to a result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

from contracts.contract.contract import Contract
from contracts.reading.scalars import FieldPath, Problem, parse_whole, refuse, show
from contracts.release.product import MOST_ROWS, SyntheticModifier

LEAST_COPIES: Final = 2
"""One copy has nothing that it could differ from."""
MOST_COPIES: Final = 100
"""The interval of 100 copies is 2 % wider than that of any number of them."""
_ALLOWED: Final = f"a whole number from {LEAST_COPIES} to {MOST_COPIES}"


def _parse_copies(written: object) -> int:
    try:
        copies = parse_whole(written)
    except ValueError:
        refuse([Problem(show(written), _ALLOWED, "write how many copies, such as `copies: 20`")])
    if copies < LEAST_COPIES:
        remedy = "drop the key for one table; copies differ by what the noise does, and 20 show it well"
        refuse([Problem(str(copies), _ALLOWED, remedy)])
    if copies > MOST_COPIES:
        remedy = "write 20: more make an interval a little narrower, and cost a fit, memory and disk each"
        refuse([Problem(str(copies), _ALLOWED, remedy)])
    return copies


CopyCount = Annotated[
    int,
    BeforeValidator(_parse_copies),
    WithJsonSchema({"type": "integer", "minimum": LEAST_COPIES, "maximum": MOST_COPIES}),
]


class CopiesModifier(SyntheticModifier):
    """Copies of the rows."""

    def asked(self, product: Any) -> bool:
        """Say whether there are copies."""
        return product.copies is not None

    def problems(
        self, product: Any, names: tuple[str, ...], contract: Contract
    ) -> Iterator[tuple[FieldPath, Problem]]:
        """Yield too few rows for a regression on a copy, and more rows of all copies than may be."""
        if product.copies is None or not names:
            return
        rows, copies = product.rows if isinstance(product.rows, int) else None, product.copies
        # A regression on all columns has an intercept, and a coefficient for each cell of a column but its first.
        least = 1 + sum(contract.column(name).size - 1 for name in names)
        if rows is not None and rows < least:
            allowed = f"at least {least}, one for each cell of a column but its first"
            yield ("rows",), Problem(f"{rows} rows of each copy", allowed, "write more rows, or `rows: estimated`")
        known = rows or (contract.total and contract.total.value)
        if known and known * copies > MOST_ROWS:
            found = f"{copies} copies of {known:,} rows"
            fewer = f"write at most {MOST_ROWS // known} copies, or fewer rows"
            remedy = fewer if MOST_ROWS // known >= LEAST_COPIES else "write fewer rows"
            yield ("copies",), Problem(found, f"at most {MOST_ROWS:,} rows of all copies together", remedy)


def rows_of_copy(rows: int, copies: int) -> int:
    """Return how many rows each copy has: as many as the rows that are published once, as far as all of them fit."""
    return min(rows, MOST_ROWS // copies)


def copy_path(data: str, number: int) -> str:
    """Name the file of a copy beside that of the rows: `data/adult.parquet` has `data/adult.1.parquet`."""
    return f"{data.removesuffix('.parquet')}.{number}.parquet"
