"""The ε of a release on a scale with those of known releases, each with its unit of privacy and its source.

An ε says nothing without its unit, so the page names the unit beside each number and warns of comparing others. A
release stands here only with a published value of ε and a published unit; docs/record.md lists the sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

from contracts.message import joined, message
from tasks.records.charts import drawing as svg
from tasks.records.page.words import at_most

_SIDE: Final = 4
"""Room at each end of the scale [per cent of the width]."""


@dataclass(frozen=True)
class KnownRelease:
    """A release of somebody else, as its publisher or the literature describes it.

    Args:
        letter: its place in the drawing and in the list below.
        epsilon: as published.
        name: what was released.
        unit: whose ε this is.
        source: where it says so.
    """

    letter: str
    epsilon: str
    name: str
    unit: str
    source: str


KNOWN: Final = (
    KnownRelease(
        "a",
        "1",
        message("Wikipedia, page views by country, about this much every day, at δ = 1e-7"),
        message("the first 10 page views of one device on one day"),
        "Wikimedia Foundation, README of country_project_page, 2023",
    ),
    KnownRelease(
        "b",
        "4",
        message("Apple, emoji suggestions, every day; the noise is added on the device"),
        message("one user on one day"),
        "D. Desfontaines, A list of real-world uses of differential privacy, 2021",
    ),
    KnownRelease(
        "c",
        "9.98",
        message("Israel, synthetic rows of the births of 2014"),
        message("one mother with her newborn"),
        "S. Hod, R. Canetti, arXiv 2405.00267, 2024",
    ),
    KnownRelease(
        "d",
        "17.14",
        message("United States, census of 2020, redistricting data, the part about persons"),
        message("one person"),
        "U.S. Census Bureau, Key Parameters to Protect Privacy in 2020 Census Results, 9 June 2021",
    ),
)
"""By their ε."""


def epsilon_scale(epsilon: str) -> svg.Drawing:
    """Draw the ε of a release below a logarithmic axis, and those of known releases above it.

    Args:
        epsilon: as the record writes it, > 0.
    Returns:
        A drawing; the axis reaches from 0.1 to 100, and further in whole powers of ten where ε lies outside.
    """
    own = log10(float(epsilon))
    axis = float(min(-1, floor(own))), float(max(2, ceil(own)))
    letters = "".join(
        svg.text(_place(log10(float(known.epsilon)), axis), 24, known.letter, "middle", "known") for known in KNOWN
    )
    numbers = "".join(
        svg.text(_place(power, axis), 97, svg.short(10**power), "middle") for power in svg.decades(axis)
    )
    ticks = "".join(f"M{svg.place(power, axis)} 0V1000" for power in svg.decades(axis))
    dots = "".join(_dot(log10(float(known.epsilon)), axis, "other") for known in KNOWN)
    line = svg.plot(f'<path class="grid" d="M0 500H1000{ticks}"/>', (_SIDE, 36, 100 - 2 * _SIDE, 8))
    place = _place(own, axis)
    anchor = "start" if place < 20 else "end" if place > 80 else "middle"
    content = line + dots + _dot(own, axis, "own") + letters + numbers + svg.text(place, 72, "{1}", anchor, "own")
    others = joined(message("{name}: {epsilon}", name=known.name, epsilon=known.epsilon) for known in KNOWN)
    label = message("ε of this release, {own}, beside known ones: {others}", own=at_most(epsilon), others=others)
    return svg.figure("scale", label, content, f"ε {at_most(epsilon)}")


def _place(power: float, axis: tuple[float, float]) -> float:
    """Place a power of ten on the drawing [per cent of the width]."""
    return _SIDE + (100 - 2 * _SIDE) * svg.place(power, axis) / 1000


def _dot(power: float, axis: tuple[float, float], name: str) -> str:
    return f'<circle class="{name}" cx="{_place(power, axis):.4g}%" cy="40%" r="4"/>'
