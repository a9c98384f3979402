"""Released numbers of places as a map: each place in a shade, with its number and interval for who points at it.

The outlines of a column stand once in a page; maps refer to them. A place without a number, or with one that noise
may have made, is hatched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.contract.shapes import PlaceShapes
from contracts.message import message
from privacy.arrays import Numbers
from tasks.records.charts.charts import HEAT_LEVELS, Drawing, heat_levels

_HATCH: Final = (
    '<pattern id="hatch" width="12" height="12" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path class="hatch" d="M0 0V12"/></pattern>'
)


@dataclass(frozen=True)
class PlaceMap:
    """A map for the page.

    Args:
        drawing: the places.
        ends: the numbers of the lightest and the darkest shade.
        roots: whether shades grow with the square root; else evenly.
        hatched: whether a place is hatched.
        attribution: whose shapes these are; None where nobody has to be named.
    """

    drawing: Drawing
    ends: tuple[str, str]
    roots: bool
    hatched: bool
    attribution: str | None


def outlines(contract: Contract) -> Markup:
    """Draw the outlines of all columns, out of sight; the maps of the same page refer to them."""
    drawn = "".join(
        f'<path id="{_anchor(number, place)}" d="{outline.path}"/>'
        for number, column in enumerate(contract.columns)
        for place, outline in enumerate(() if column.shapes is None else column.shapes.outlines)
    )
    if not drawn:
        return Markup()
    return Markup(f'<svg class="outlines" aria-hidden="true" width="0" height="0"><defs>{_HATCH}{drawn}</defs></svg>')


def shapes_of(contract: object, columns: Sequence[str]) -> PlaceShapes | None:
    """Return the shapes that a table can be drawn with: one column of the contract, as fine as it declares it."""
    if not isinstance(contract, Contract) or len(columns) != 1:
        return None
    return contract.column(columns[0]).shapes


def place_map(
    contract: Contract,
    name: str,
    values: Numbers,
    *,
    known: NDArray[np.bool_],
    from_zero: bool,
    texts: Sequence[str],
    what: str,
    ends: tuple[str, str],
) -> PlaceMap:
    """Draw the numbers of a column's places.

    Args:
        contract: has the column, whose shapes there are.
        name: of the column.
        values: one a label.
        known: of which labels the number is one, same shape.
        from_zero: whether the lightest shade is zero, and shades grow with the square root; else it is the least.
        texts: number and interval of each label.
        what: the numbers are, in words.
        ends: how the numbers of the lightest and the darkest shade read.
    """
    column = contract.column(name)
    shapes, number = column.shapes, contract.columns.index(column)
    if shapes is None:
        raise ValueError(f"{name} has no shapes")
    levels, drawn = _levels(values, known, from_zero=from_zero), []
    codes = [column.labels.index(outline.label) for outline in shapes.outlines]
    for place, code in enumerate(codes):
        title = escape(f"{column.labels[code]}: {texts[code]}").replace("{", "{{").replace("}", "}}")
        shade = f'class="h{levels[code]}"' if known[code] else 'class="unknown" fill="url(#hatch)"'
        drawn.append(f'<use href="#{_anchor(number, place)}" {shade}><title>{title}</title></use>')
    view = f'viewBox="-2 -2 {shapes.width + 6} {shapes.height + 6}"'
    template = f'<svg class="places" role="img" aria-label="{{0}}" {view}>{"".join(drawn)}</svg>'
    said = {"what": what, "name": name, "low": ends[0], "high": ends[1]}
    label = message("Map of {what} by {name}: from {low} to {high}.", **said)
    hatched = not all(known[code] for code in codes)
    return PlaceMap(Drawing(template, (label,)), ends, from_zero, hatched, shapes.attribution)


def _levels(values: Numbers, known: NDArray[np.bool_], *, from_zero: bool) -> NDArray[np.int64]:
    """Sort numbers into the shades 0 to `HEAT_LEVELS`."""
    told = np.where(known, values, 0.0)
    if from_zero:
        return heat_levels(told)
    low, high = float(values[known].min(initial=np.inf)), float(values[known].max(initial=-np.inf))
    share = (told - low) / (high - low) if high > low else np.zeros(told.shape)
    return 1 + np.clip(np.floor(HEAT_LEVELS * share), 0, HEAT_LEVELS - 1).astype(np.int64)


def _anchor(column: int, place: int) -> str:
    return f"outline-{column}-{place}"
