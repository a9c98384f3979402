"""Clips that a run found in noisy histograms, as a record states them: their ends, and how many rows they cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contracts.domains.addends import NarrowedLattice, ValueMagnitudes
from contracts.domains.lattice import ValueLattice
from contracts.message import message
from contracts.reading.scalars import parse_bound, plain_text
from contracts.release.statistics import StatisticsTable
from privacy.marginals.count_noise import half_width
from privacy.statistics.clips import FoundClip
from privacy.statistics.plan import StatisticsDraw, StatisticsPlan, WantedDraw
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.model.statement import StatedText, Statement, Value


class FoundClipStatement(Statement):
    """A clip that the run found: for which draw, in which histogram, from where to where.

    `rows` are the rows with a value, `below` and `above` those that count as the ends of the clip: noisy numbers of
    the histogram, added up.
    """

    draw: StatedText
    histogram: StatedText
    low: StatedText
    high: StatedText
    rows: Value
    below: Value
    above: Value


def stated_clips(plan: StatisticsPlan, clips: Mapping[str, FoundClip]) -> list[dict[str, Any]]:
    """State the clips in the order of their draws."""
    return [_stated(draw, clips[draw.key]) for draw in plan.draws if draw.key in clips]


def _stated(draw: StatisticsDraw, clip: FoundClip) -> dict[str, Any]:
    ends = {"low": plain_text(clip.lattice.low), "high": plain_text(clip.lattice.high)}
    rows = {"rows": clip.rows, "below": clip.below, "above": clip.above}
    return {"draw": draw.key, "histogram": draw.clip, **ends, **rows}


def read_clips(statements: Sequence[FoundClipStatement], plan: StatisticsPlan) -> dict[str, FoundClip]:
    """Read stated clips, as those of a plan's draws.

    Raises:
        ValueError: a clip of a draw that has none, not of its bounds or not between ends of bins, or one is missing.
    """
    draws = {draw.key: draw for draw in plan.draws if draw.clip is not None}
    if [each.draw for each in statements] != list(draws):
        raise ValueError(f"clips of {[each.draw for each in statements]}, and not of {list(draws)}")
    found = {}
    for each in statements:
        lattice = found_lattice(draws[each.draw], each.low, each.high)
        found[each.draw] = FoundClip(lattice, each.rows, each.below, each.above)
    return found


def found_lattice(draw: StatisticsDraw | WantedDraw, low: str, high: str) -> NarrowedLattice:
    """Return the part of a draw's lattice between two ends.

    Raises:
        ValueError: no such part, or an end that is not in its one form.
    """
    magnitudes = histogram_of(draw)
    whole, ends = magnitudes.lattice, (parse_bound(low), parse_bound(high))
    steps = [(end - whole.low) / whole.step for end in ends]
    if any(plain_text(end) != text for end, text in zip(ends, (low, high), strict=True)):
        raise ValueError(f"ends are written in one form, and not as {low!r} and {high!r}")
    if any(step != int(step) for step in steps):
        raise ValueError(f"{low} and {high} are not whole steps of the bounds")
    return magnitudes.narrowed(*map(int, steps))


def histogram_of(draw: StatisticsDraw | WantedDraw) -> ValueMagnitudes:
    """Return the histogram in which the clip of a draw is found.

    Raises:
        ValueError: its clip is not private.
    """
    addends = draw.addends
    if draw.clip is None or not isinstance(addends, ValueLattice):
        raise ValueError(f"{draw.key} has no private clip")
    return ValueMagnitudes(addends.encoded if isinstance(addends, NarrowedLattice) else addends.lattice)


def described_clips(
    tables: Sequence[StatisticsTable], plan: StatisticsPlan, clips: Mapping[str, FoundClip]
) -> list[dict[str, Any]]:
    """Describe for people how each clip was found, what it cost, and how many rows it cuts."""
    return [
        _described(draw, clips[draw.key], plan)
        for table in tables
        for draw in plan.of_table(table.name)
        if draw.key in clips
    ]


def _described(draw: StatisticsDraw, clip: FoundClip, plan: StatisticsPlan) -> dict[str, Any]:
    [histogram] = [each for each in plan.clips if each.key == draw.clip]
    lattice, whole = clip.lattice, clip.lattice.encoded
    ends = f"[{plain_text(lattice.low)}, {plain_text(lattice.high)}]"
    bounds = f"[{plain_text(whole.low)}, {plain_text(whole.high)}]"
    return {
        "table": draw.table,
        "column": lattice.column,
        "clip": ends,
        "contract_bounds": bounds,
        "found_by": histogram.key,
        "share_of_the_charge": f"{float(histogram.share):.4g}",
        "rows": clip.rows,
        "rows_below": clip.below,
        "rows_above": clip.above,
        "outside": outside_words(clip.rows, clip.below, clip.above),
        "half_width_95_of_a_bin": half_width(histogram.event, CONFIDENCE),
    }


def outside_words(rows: int, below: int, above: int) -> str:
    """Say which share of the rows with a value lie outside a clip, by noisy numbers."""
    if rows <= 0:
        return message("an unknown share of the rows: their noisy number is not above 0")
    share = min(1.0, max(0.0, (below + above) / rows))
    return message("about {share} of the rows", share=f"{100 * share:.2g} %")
