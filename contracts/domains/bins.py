"""Bins of a numeric column: pairs that cover the bounds without gap or overlap.

Three ways to write them, one way to keep them (the pairs):

    edges: [17, 25, 90]      integers 17 to 24 and 25 to 90; decimals [17, 25) and [25, 90]
    width: 5                 equal bins from the lower bound on, the last one cut at the upper bound
    [[17, 24], [25, 90]]     integers: both ends belong to the bin; decimals: half-open, the last one closed
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

from pydantic_core import PydanticCustomError

from contracts.reading.scalars import FieldPath, Problem, nearest, parse_bound, parse_whole, refuse, show

MAX_CELLS = 2**20
ExactNumber = int | Decimal
Pairs = tuple[tuple[ExactNumber, ExactNumber], ...]
NumberRange = tuple[ExactNumber, ExactNumber]
_FORMS = "{edges: [...]}, {width: ...} or a list of pairs"


def bin_index(pairs: Sequence[tuple[Any, Any]], value: Any) -> int:
    """Return the bin that a value within the bounds lies in."""
    return min(bisect_right([low for low, _ in pairs], value), len(pairs)) - 1


@dataclass(frozen=True)
class BinReader:
    """Reads the bins of one kind of number; `step` is 1 for integers (bins are inclusive) and 0 for decimals."""

    parse: Callable[[object], ExactNumber]
    step: ExactNumber

    def read(self, written: object, bounds: NumberRange | None) -> Pairs:
        """Return the bins as pairs, or refuse them with every problem at once.

        Args:
            written: what stands under `bins:`.
            bounds: the column's bounds; None when these were refused themselves, then only the form is checked.
        """
        if isinstance(written, dict):
            return self._from_mapping(written, bounds)
        if isinstance(written, list | tuple):
            return self._from_pairs(written, bounds)
        refuse([Problem(show(written), _FORMS)])

    def _from_mapping(self, written: dict[object, object], bounds: NumberRange | None) -> Pairs:
        if list(written) == ["edges"]:
            return self._from_edges(written["edges"], bounds)
        if list(written) == ["width"]:
            return self._from_width(written["width"], bounds)
        unknown = [str(key) for key in written if key not in ("edges", "width")]
        if not unknown:
            refuse([Problem(show(written), f"one of {_FORMS}")])
        refuse([Problem(f"the key {key!r}", _FORMS, nearest(key, ("edges", "width")), (key,)) for key in unknown])

    def _number(self, value: object, at: FieldPath, problems: list[Problem]) -> ExactNumber | None:
        """Read one number; a refusal is added to the problems, at its place."""
        try:
            return self.parse(value)
        except PydanticCustomError as error:
            for problem in (error.context or {})["problems"]:
                problems.append(Problem(problem.found, problem.allowed, problem.remedy, at))
            return None

    def _from_edges(self, written: object, bounds: NumberRange | None) -> Pairs:
        if not isinstance(written, list | tuple) or len(written) < 2:
            refuse([Problem(show(written), "a list of at least two edges", at=("edges",))])
        problems: list[Problem] = []
        read = [self._number(edge, ("edges", place), problems) for place, edge in enumerate(written)]
        if problems:
            refuse(problems)
        edges = [edge for edge in read if edge is not None]
        for place in range(1, len(edges)):
            if edges[place] <= edges[place - 1]:
                found = f"{edges[place]} after {edges[place - 1]}"
                problems.append(Problem(found, "edges that increase", "sort them, each edge once", ("edges", place)))
        if not problems:
            problems = _uncovered(edges[0], edges[-1], bounds, (("edges", 0), ("edges", len(edges) - 1)))
        return self._checked(self._close(edges), problems)

    def _from_width(self, written: object, bounds: NumberRange | None) -> Pairs:
        problems: list[Problem] = []
        width = self._number(written, ("width",), problems)
        if width is not None and width <= 0:
            problems.append(Problem(show(written), "a width above zero", at=("width",)))
        if problems or width is None:
            refuse(problems)
        if bounds is None:
            return ()
        low, high = bounds
        with localcontext() as context:
            context.prec = 80
            whole, rest = divmod(high - low + self.step, width)
            count = int(whole) + (rest > 0)
        if count > MAX_CELLS:
            allowed = f"at most {MAX_CELLS} bins"
            refuse([Problem(f"{count} bins of width {width}", allowed, "choose a larger width", ("width",))])
        return self._checked(self._close((*self._ladder(low, width, count), high)), [])

    def _ladder(self, low: ExactNumber, width: ExactNumber, count: int) -> tuple[ExactNumber, ...]:
        """Return the lower ends of `count` bins of equal width."""
        with localcontext() as context:
            context.prec = 80
            return tuple(self.parse(low + place * width) for place in range(count))

    def _close(self, edges: Sequence[ExactNumber]) -> Pairs:
        """Turn edges into pairs; the last bin includes the last edge."""
        ends = [edge - self.step for edge in edges[1:-1]] + [edges[-1]]
        return tuple(zip(edges[:-1], ends, strict=True))

    def _from_pairs(self, written: Sequence[object], bounds: NumberRange | None) -> Pairs:
        if not written:
            refuse([Problem("an empty list", _FORMS)])
        problems: list[Problem] = []
        pairs: list[tuple[ExactNumber, ExactNumber]] = []
        for place, pair in enumerate(written):
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                problems.append(Problem(show(pair), "a pair [low, high]", at=(place,)))
                continue
            low, high = (self._number(pair[end], (place, end), problems) for end in (0, 1))
            if low is not None and high is not None:
                pairs.append((low, high))
        if problems:
            refuse(problems)
        problems = self._misfits(pairs)
        if not problems:
            problems = _uncovered(pairs[0][0], pairs[-1][1], bounds, ((0, 0), (len(pairs) - 1, 1)))
        return self._checked(tuple(pairs), problems)

    def _misfits(self, pairs: Sequence[tuple[ExactNumber, ExactNumber]]) -> list[Problem]:
        """Name every bin that is empty, and every gap or overlap between neighbours."""
        problems = []
        for place, (low, high) in enumerate(pairs):
            if high < low or (self.step == 0 and high == low):
                problems.append(Problem(f"[{low}, {high}]", "low before high", at=(place,)))
            if place == 0:
                continue
            before = pairs[place - 1]
            expected = before[1] + self.step
            if low != expected:
                what = "overlaps" if low < expected else "leaves a gap after"
                found = f"[{low}, {high}] {what} [{before[0]}, {before[1]}]"
                problems.append(
                    Problem(found, f"a bin that begins at {expected}", "bins cover the bounds once", (place,))
                )
        return problems

    def _checked(self, pairs: Pairs, problems: list[Problem]) -> Pairs:
        """Refuse the problems; refuse too many bins and bins that a double cannot tell apart."""
        if problems:
            refuse(problems)
        if len(pairs) > MAX_CELLS:
            refuse([Problem(f"{len(pairs)} bins", f"at most {MAX_CELLS} bins")])
        for low, high in pairs:
            if self.step == 0 and not float(low) < float(high):
                refuse([Problem(f"[{low}, {high}]", "bins that differ in double precision", "widen the bins")])
        return pairs


def _uncovered(
    first: ExactNumber, last: ExactNumber, bounds: NumberRange | None, at: tuple[FieldPath, FieldPath]
) -> list[Problem]:
    """Name the ends at which the bins miss the bounds."""
    if bounds is None:
        return []
    remedy = "bins and bounds must end at the same numbers"
    problems = []
    if first != bounds[0]:
        problems.append(Problem(f"bins from {first}", f"bins from the lower bound, {bounds[0]}", remedy, at[0]))
    if last != bounds[1]:
        problems.append(Problem(f"bins to {last}", f"bins to the upper bound, {bounds[1]}", remedy, at[1]))
    return problems


INTEGERS = BinReader(parse_whole, 1)
DECIMALS = BinReader(parse_bound, Decimal(0))
