"""Several copies of synthetic rows, from which an analysis gets an interval: `copies: 20` below `product:`.

Each copy comes of a model of its own, so that what differs between copies shows what the noise does to a result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import BeforeValidator, WithJsonSchema

from contracts.contract.contract import Contract
from contracts.reading.scalars import FieldPath, Problem, parse_whole, refuse, show

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


def copies_problems(
    copies: int,
    rows: int | None,
    names: tuple[str, ...],
    contract: Contract,
    *,
    tested: bool,
    looked_into: bool,
    begins_public: bool,
    most_rows: int,
) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what in a product does not go with its copies, with its place in the product.

    Args:
        copies: how many.
        rows: of each copy, where the product says it.
        names: its columns.
        contract: gives their cells, and perhaps the number of rows.
        tested: whether models are tested, and the first that passes is published.
        looked_into: whether rows are counted inside bins.
        begins_public: whether the model may begin with public rows.
        most_rows: how many rows all copies may have together.
    """
    if tested:
        remedy = "drop `copies:`, or name a generator in place of `accept:`"
        found = f"copies: {copies} beside accept: a model that was tested is published alone, as it was tested"
        yield ("copies",), Problem(found, "copies beside a generator", remedy)
    if looked_into:
        remedy = "drop `copies:`, or `inside_bins:`"
        found = f"copies: {copies} beside counts inside bins, which copies would all have alike"
        yield ("copies",), Problem(found, "copies whose bins are filled uniformly", remedy)
    if begins_public:
        remedy = "drop `copies:`, or `prior:`"
        found = f"copies: {copies} beside a prior: what copies differ by would not show how far the prior is off"
        yield ("copies",), Problem(found, "copies of a model of the released marginals alone", remedy)
    # A regression on all columns has an intercept, and a coefficient for each cell of a column but its first.
    least = 1 + sum(contract.column(name).size - 1 for name in names)
    if rows is not None and rows < least:
        allowed = f"at least {least}, one for each cell of a column but its first"
        yield ("rows",), Problem(f"{rows} rows of each copy", allowed, "write more rows, or `rows: estimated`")
    known = rows or (contract.total and contract.total.value)
    if known and known * copies > most_rows:
        found, allowed = f"{copies} copies of {known:,} rows", f"at most {most_rows:,} rows of all copies together"
        fewer = f"write at most {most_rows // known} copies, or fewer rows"
        yield (
            ("copies",),
            Problem(found, allowed, fewer if most_rows // known >= LEAST_COPIES else "write fewer rows"),
        )


def rows_of_copy(rows: int, copies: int, most_rows: int) -> int:
    """Return how many rows each copy has: as many as the rows that are published once, as far as all of them fit."""
    return min(rows, most_rows // copies)


def copy_path(data: str, number: int) -> str:
    """Name the file of a copy beside that of the rows: `data/adult.parquet` has `data/adult.1.parquet`."""
    return f"{data.removesuffix('.parquet')}.{number}.parquet"
