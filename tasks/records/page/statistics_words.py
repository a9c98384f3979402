"""Numbers of statistics in words: as many digits as an interval supports, and what a lattice does to values."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from math import ceil, floor, isinf, log10
from typing import Final

from contracts.contract.contract import Contract
from contracts.domains.lattice import ValueLattice
from contracts.message import joined, message
from contracts.reading.scalars import plain_text
from contracts.release.statistics import DISTINCTS, EFFECTIVE_SIZE, QUANTILES, Statistic

OPEN: Final = message("no upper end")


def statistic_name(statistic: Statistic) -> str:
    """Name a statistic in words; one of clipped values says so, as its column does."""
    named = _plain_name(statistic)
    return message("{statistic} (clipped)", statistic=named) if statistic.is_clipped else named


def _plain_name(statistic: Statistic) -> str:
    if statistic.what in DISTINCTS:
        return distinct_name(statistic.column)
    if statistic.column is None:
        return message("count")
    if statistic.over is not None:
        return message("{column} per {over}", column=statistic.column, over=statistic.over.column)
    if statistic.what == "sum":
        return message("sum of {column}", column=statistic.column)
    if statistic.what == QUANTILES:
        shares = joined([f"{plain_text(100 * share)} %" for share in statistic.quantiles])
        return message("{shares} quantile of {column}", shares=shares, column=statistic.column)
    if statistic.what == EFFECTIVE_SIZE:
        return message("effective sample size")
    if statistic.what == "variance":
        return message("variance of {column}", column=statistic.column)
    if statistic.what == "sd":
        return message("standard deviation of {column}", column=statistic.column)
    return message("mean of {column}", column=statistic.column)


def distinct_name(column: str | None) -> str:
    """Name a distinct count in words; that of no column is of privacy units."""
    if column is None:
        return message("privacy units")
    return message("different values of {column}", column=column)


def most_spread(statistic: Statistic, lattice: ValueLattice) -> float:
    """Return the largest variance or standard deviation of a clip: of values at both of its ends."""
    half = float(lattice.high - lattice.low) / 2
    return half * half if statistic.what == "variance" else half


def readable(value: float, low: float, high: float, *, whole: bool) -> tuple[str, str, str]:
    """Write a number and the ends of its interval with as many digits as the interval supports.

    The last digit is the second one of half the interval's width; ends are rounded outwards. Counts stay as they are.
    An end at infinity is none.
    """
    if isinf(high):
        text = plain_number(Decimal(f"{low:.3g}"))
        return ("–" if isinf(value) else plain_number(Decimal(f"{value:.3g}"))), text, OPEN
    half = (high - low) / 2
    power = 0 if whole else max(-6, floor(log10(half)) - 1) if half > 0 else -6
    unit = Decimal(1).scaleb(power)
    roundings = ((value, ROUND_HALF_EVEN), (low, ROUND_FLOOR), (high, ROUND_CEILING))
    # Twelve digits are published numbers without what floats add at their end.
    found = [
        (Decimal(f"{number:.12g}") / unit).quantize(Decimal(1), rounding) * unit for number, rounding in roundings
    ]
    texts = [f"{number:,.{max(0, -power)}f}" for number in found]
    if half <= 0:
        texts = [text.rstrip("0").rstrip(".") if "." in text else text for text in texts]
    return texts[0].replace("-", "−"), texts[1].replace("-", "−"), texts[2].replace("-", "−")


def round_end(end: float) -> float:
    """Round the end of a scale away from 0, to two digits."""
    if end == 0:
        return 0.0
    unit = 10.0 ** (floor(log10(abs(end))) - 1)
    return float(f"{(ceil if end > 0 else floor)(end / unit) * unit:.6g}")


def lattice_words(lattice: ValueLattice, contract: Contract) -> list[str]:
    """Say which values count as which, and how missing ones do."""
    low, high, step = (plain_number(each) for each in (lattice.low, lattice.high, lattice.step))
    clip = message(
        "values below {low} count as {low}, values above {high} as {high}; values are rounded to steps of {step}",
        low=low,
        high=high,
        step=step,
    )
    if lattice.counts_missing:
        missing = message("rows without a value are counted as rows, but enter no sum and no mean")
    else:
        to = contract.column(lattice.column).domain.nulls.to
        missing = message("a missing value counts as {value}", value=to)
    return [clip, missing] if lattice.weight is None else [clip, missing, weight_words(lattice.weight)]


def weight_words(weight: ValueLattice) -> str:
    """Say that every row counts as often as its weight says."""
    high, step = plain_number(weight.high), plain_number(weight.step)
    terms: dict[str, str] = {"column": weight.column, "high": high, "step": step}
    return message(
        "every row counts as often as {column} says: weights above {high} count as {high}, and all are rounded to "
        "steps of {step}",
        **terms,
    )


def quota_words(per_unit: str) -> str:
    """Say that all rows of one unit add at most so much, which cuts the sums of units with more."""
    return message(
        "all rows of one privacy unit together add at most {most} to this sum, over all cells; what is beyond that "
        "is cut off",
        most=plain_number(Decimal(per_unit)),
    )


def plain_number(number: Decimal) -> str:
    """Write a number with separators and a minus sign."""
    return f"{number:,f}".replace("-", "−")


def within_rows(width: float, rows: int, most: float, *, weighed: bool = False, spread: bool = False) -> str:
    """Say how wide an interval is in a cell of so many rows, or of that weight.

    `most` is the length of the clip, or the most spread.
    """
    size = message("{rows} rows", rows=f"{rows:,}") if not weighed else message("weight {rows}", rows=f"{rows:,}")
    if 2 * width >= most:
        whole = message("all that is possible") if spread else message("the whole clip")
        return message("{width} in a cell of {size}", width=whole, size=size)
    return message("±{width} in a cell of {size}", width=brief(width), size=size)


def brief(width: float) -> str:
    """Write a width with two digits, or whole."""
    return f"{width:,.0f}" if width >= 10 else f"{width:.2g}"
