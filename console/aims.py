"""Accuracy that is asked for, and the least epsilon that reaches it.

An aim is "±50", "±5% where count >= 1000", "age: ±50" or "age.mean_hours: ±0.5 where count >= 1000". It asks that
the 95 % interval of a statistic reaches so far at most: of one table and one statistic, or of the counts of all
tables. Half widths follow from the noise alone, and shares stay those of the spec. They fall as epsilon grows, so
the least epsilon of three digits is found by halving.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import floor, log10
from pathlib import Path
from typing import Any, Final, NoReturn

from console.products.product_view import ExpectedWidth
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import nearest, plain_text, word_list
from contracts.release.spec import LARGEST_EPSILON, SMALLEST_EPSILON

COUNT: Final = "count"
_FORM: Final = re.compile(
    r"(?:(?P<named>[^:]+?)\s*:\s*)?(?:±|\+-|\+/-)\s*(?P<number>[0-9][0-9_,]*(?:\.[0-9]+)?|\.[0-9]+)\s*(?P<per_cent>%)?"
    r"(?:\s+at\s+(?P<confidence>[0-9]+(?:\.[0-9]+)?)\s*%)?(?:\s+where\s+count\s*(?:>=|≥)\s*(?P<rows>[0-9][0-9_,]*))?"
)
_ALLOWED: Final = "[TABLE[.STATISTIC]:] ±NUMBER[%] [at 95%] [where count >= ROWS]"
_EXAMPLE: Final = 'write it like "±5% where count >= 1000" or "age: ±50"'
_DIGITS: Final = 3
"""Of the epsilon that is found."""
_LEAST: Final = Decimal("1e-6")


Widths = Callable[[Decimal], Sequence[ExpectedWidth]]
"""The half widths of all statistics at an epsilon."""


@dataclass(frozen=True)
class AccuracyAim:
    """How far a 95 % interval may reach.

    Args:
        written: as it was typed.
        named: a table, or a table and a statistic; None for the counts of all tables.
        reach: half of the interval's length at most [the statistic's units].
        rows: rows of the smallest cell that it is asked for; None where size does not matter.
    """

    written: str
    named: str | None
    reach: float
    rows: int | None


@dataclass(frozen=True)
class Reached:
    """An aim and the statistic that is farthest from it.

    Args:
        aim: what is asked for.
        width: the statistic whose interval is longest beside the aim.
        half_width: of that interval, in a cell of the aim's rows [the statistic's units].
    """

    aim: AccuracyAim
    width: ExpectedWidth
    half_width: float

    @property
    def holds(self) -> bool:
        """Whether the aim is reached."""
        return self.half_width <= self.aim.reach

    @property
    def ratio(self) -> float:
        """The half width beside what it may be."""
        return self.half_width / self.aim.reach


def read_aims(texts: Sequence[str], spec: Path) -> tuple[AccuracyAim, ...]:
    """Read aims as they are typed.

    Raises:
        SpecRefused: a text is none, asks for another confidence than 95 %, or for a share of an unknown count.
    """
    return tuple(_read_aim(text, spec) for text in texts)


def reached(aims: Sequence[AccuracyAim], widths: Sequence[ExpectedWidth], spec: Path) -> tuple[Reached, ...]:
    """Hold each aim against the half widths of a plan.

    Raises:
        SpecRefused: an aim names what the spec does not publish, or asks of a mean without the rows of its cell.
    """
    return tuple(max(all_of(aim, widths, spec), key=lambda each: each.half_width) for aim in aims)


def least_epsilon(aims: Sequence[AccuracyAim], widths: Widths, spec: Path) -> Decimal:
    """Return the least epsilon of three digits at which all aims are reached.

    Args:
        aims: what is asked for, one at least.
        widths: the half widths at an epsilon, which fall as it grows.
        spec: the spec's file, for refusals.
    Returns:
        The least one from 10^-6 on: less tells nothing, and could be computed by no noise.
    Raises:
        SpecRefused: no epsilon that may be charged reaches an aim.
    """

    def falls_short(epsilon: Decimal) -> bool:
        return not all(each.holds for each in reached(aims, widths(epsilon), spec))

    high = Decimal(1)
    while falls_short(high):
        high *= 10
        if high > LARGEST_EPSILON:
            _refuse_out_of_reach(aims, widths, spec)
    while high > _LEAST and not falls_short(high / 10):
        high /= 10
    if high <= _LEAST:
        return _LEAST
    # Ten times less falls short: all epsilons of three digits between are steps of one size.
    step, low, many = high / 10**_DIGITS, 10 ** (_DIGITS - 1), 10**_DIGITS
    while many - low > 1:
        middle = (many + low) // 2
        low, many = (middle, many) if falls_short(step * middle) else (low, middle)
    return (step * many).normalize()


def curve(aims: Sequence[AccuracyAim], widths: Widths, least: Decimal, spec: Path) -> list[dict[str, Any]]:
    """Return what the aims would come to at a quarter, a half, twice and four times of an epsilon."""
    found = []
    for times in ("0.25", "0.5", "1", "2", "4"):
        epsilon = three_digits(least * Decimal(times))
        if SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
            half_widths = [each.half_width for each in reached(aims, widths(epsilon), spec)]
            found.append({"epsilon": plain_text(epsilon), "half_widths": half_widths})
    return found


def three_digits(number: Decimal) -> Decimal:
    """Round a positive number to three digits."""
    return round(number, _DIGITS - 1 - floor(log10(number)))


def _read_aim(text: str, spec: Path) -> AccuracyAim:
    found = _FORM.fullmatch(text.strip())
    if found is None:
        _refuse(spec, text, _ALLOWED, _EXAMPLE)
    number, rows = float(_digits(found["number"])), int(_digits(found["rows"])) if found["rows"] else None
    if found["confidence"] is not None and float(found["confidence"]) != 95:
        _refuse(spec, text, "at 95%: all published intervals are of 95 %", "drop `at`")
    if number == 0 or rows == 0:
        _refuse(spec, text, "numbers above 0", "no noise hides nothing: allow for some error")
    if found["per_cent"] and rows is None:
        _refuse(spec, text, "a share of counts from a size on", f"write ±{found['number']}% where count >= 1000")
    if found["per_cent"] and "." in (found["named"] or ""):
        _refuse(spec, text, "% of counts alone", "write how far it may be off, in the statistic's own units")
    reach = number / 100 * rows if found["per_cent"] and rows else number
    return AccuracyAim(text.strip(), found["named"], reach, rows)


def _digits(text: str) -> str:
    return text.replace(",", "").replace("_", "")


def all_of(aim: AccuracyAim, widths: Sequence[ExpectedWidth], spec: Path) -> list[Reached]:
    """Return the statistics that an aim is about, each with its half width in a cell of the aim's rows.

    Raises:
        SpecRefused: as `reached`.
    """
    names = {f"{each.table}.{each.statistic}": each for each in widths}
    meant = [each for name, each in names.items() if aim.named in (None, each.table) and name.endswith(f".{COUNT}")]
    meant = [names[aim.named]] if aim.named in names else meant
    if not widths:
        _refuse(
            spec, aim.written, "tables or statistics: how far off rows and models are depends on the data", "drop it"
        )
    if not meant:
        own = [name for name, each in names.items() if each.table == aim.named]
        if own:
            remedy = f"name a statistic of it: {word_list(own[:20])}"
            _refuse(spec, aim.written, "a table with counts, or TABLE.STATISTIC", remedy)
        known = [*dict.fromkeys(each.table for each in widths), *names]
        remedy = nearest(aim.named or "", known) or f"names are {word_list(known[:20])}"
        _refuse(spec, aim.written, "a table whose counts the spec publishes, or TABLE.STATISTIC", remedy)
    if aim.rows is None and any(each.by_rows for each in meant):
        remedy = f"write {aim.written} where count >= 1000"
        _refuse(spec, aim.written, "the rows of the smallest cell that matters: a larger one is nearer", remedy)
    return [
        Reached(aim, each, each.half_width / (aim.rows or 1) if each.by_rows else each.half_width) for each in meant
    ]


def _refuse_out_of_reach(aims: Sequence[AccuracyAim], widths: Widths, spec: Path) -> NoReturn:
    worst = max(reached(aims, widths(Decimal(LARGEST_EPSILON)), spec), key=lambda each: each.ratio)
    found = f"{worst.width.table}.{worst.width.statistic} is within ±{worst.half_width:,.4g}"
    allowed = f"an aim that epsilon {LARGEST_EPSILON}, the largest, reaches: {found}"
    _refuse(spec, worst.aim.written, allowed, "allow for more error, or ask for fewer tables")


def _refuse(spec: Path, found: str, allowed: str, remedy: str) -> NoReturn:
    raise SpecRefused([Finding(f"sudare plan {spec}", "--for", repr(found), allowed, remedy)])
