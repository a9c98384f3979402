"""The outlines of places, which maps are drawn of: of each label of a column, a path on a grid of a thousand squares.

They are the contract's, and public like all of it. What a map shows are released numbers.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from contracts.domains.domain import Frozen
from contracts.reading.scalars import Label, Problem, Text

SIDE: Final = 1000
"""Squares along the longer side of the grid."""
MOST_LETTERS: Final = 200_000
"""Of all paths of a column: they stand in every page that draws them."""
_POINT: Final = "[0-9]{1,4} [0-9]{1,4}"
OutlinePath = Annotated[str, StringConstraints(pattern=rf"^(M{_POINT}(L{_POINT}){{2,}}Z)+$", max_length=MOST_LETTERS)]


class Outline(Frozen):
    """One place.

    Args:
        label: which of the column's it is.
        path: its rings, as SVG writes paths: x to the east, y to the south.
    """

    label: Label
    path: OutlinePath


class PlaceShapes(Frozen):
    """The outlines of a column's places.

    Args:
        width, height: of the grid, in squares.
        attribution: whose shapes they are; it stands beside every map.
        outlines: a place each, in the order of the column's labels.
    """

    width: int = Field(ge=1, le=SIDE)
    height: int = Field(ge=1, le=SIDE)
    attribution: Text | None = None
    outlines: tuple[Outline, ...] = Field(min_length=1)


def shape_problems(shapes: PlaceShapes, labels: tuple[str, ...], *, named: bool) -> list[Problem]:
    """Say why shapes do not go with a column.

    Args:
        labels: the column's, in the order of its codes.
        named: whether its values are named, and no bins.
    """
    if not named:
        remedy = "drop `shapes:`, or list the places under `values:` or `labels:`"
        return [Problem("shapes of a column without named values", "shapes of a column of listed places", remedy)]
    drawn = [outline.label for outline in shapes.outlines]
    if drawn != [label for label in labels if label in set(drawn)]:
        return [Problem("outlines of other places, or in another order", "one a label, in the order of the labels")]
    if sum(len(outline.path) for outline in shapes.outlines) > MOST_LETTERS:
        remedy = "simplify the shapes: a page shows a thousand squares across"
        return [Problem(f"more than {MOST_LETTERS:,} letters of paths", "fewer points", remedy)]
    return []
