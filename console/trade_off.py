"""The trade-off between epsilon and accuracy as a picture, in an SVG file.

Epsilon runs to the right, the half width of an aim's 95 % interval up, both in logarithms. Widths are multiples of
what is asked, so that aims of any units share one axis, on which 1 is the aim. Lines run straight between the points
that were planned. Nothing is told by colour alone: each line has a letter and dashes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import exp2, log2
from pathlib import Path
from typing import Any, Final

from contracts.errors import Finding, SpecRefused

MOST_LINES: Final = 6
"""Aims that are drawn; of more, those that are farthest from what is asked."""
_LETTERS: Final = "abcdef"
_FARTHEST: Final = 3.0
"""Doublings above and below the aim that are drawn at most."""
_DASHES: Final = ("", "9 5", "2 5", "14 4 3 4", "5 3", "14 4 3 4 3 4")
_LEFT, _TOP, _WIDTH, _HEIGHT = 110.0, 70.0, 480.0, 280.0
_STYLE: Final = """\
svg{--ink:#111;--paper:#fff;--faint:#767676;font:14px system-ui,sans-serif}
@media(prefers-color-scheme:dark){svg{--ink:#eee;--paper:#111;--faint:#999}}
.paper{fill:var(--paper)}text{fill:var(--ink)}.line{fill:none;stroke:var(--ink);stroke-width:2.5}
.dot{fill:var(--ink)}.axis{stroke:var(--ink);fill:none}
.mark{stroke:var(--faint);stroke-dasharray:1 4;stroke-width:2}"""


@dataclass(frozen=True)
class Line:
    """One aim over epsilon.

    Args:
        letter: its letter in the picture.
        aim: as it was typed.
        asked: half of the interval at most [the statistic's units].
        heights: at each point, log2 of the half width over what is asked.
    """

    letter: str
    aim: str
    asked: float
    heights: tuple[float, ...]


@dataclass(frozen=True)
class TradeOff:
    """What a picture shows.

    Args:
        epsilon: the least that reaches all aims, as it is written.
        epsilons: of the points that were planned, as they are written, rising.
        lines: the aims that are drawn.
    """

    epsilon: str
    epsilons: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def across(self) -> tuple[float, ...]:
        """log2 of epsilon at each point."""
        return tuple(log2(float(each)) for each in self.epsilons)

    @property
    def reach(self) -> tuple[float, float]:
        """The lowest and the highest height; the aim, 0, lies between, and a doubling is the least that is seen."""
        every = [height for line in self.lines for height in line.heights]
        low, high = max(-_FARTHEST, min(*every, -1.0)), min(_FARTHEST, max(*every, 1.0))
        return low, high

    def scale(self, height: float) -> str:
        """Say what a height means: in the units of the aim where there is one alone."""
        if len(self.lines) == 1:
            return f"±{self.lines[0].asked * exp2(height):,.3g}"
        return f"× {exp2(height):.2g}"


def trade_off(told: Mapping[str, Any]) -> TradeOff:
    """Return the picture of an aimed plan, as `console.aimed_plan.AimedRequest.to_json` tells it."""
    aims, curve = told["aims"], told["curve"]
    ratios = [each["half_width_95"] / each["at_most"] for each in aims]
    nearest = sorted(range(len(aims)), key=lambda place: -ratios[place])[:MOST_LINES]
    lines = tuple(
        Line(letter, aims[place]["aim"], aims[place]["at_most"], _heights(curve, place, aims[place]["at_most"]))
        for letter, place in zip(_LETTERS, sorted(nearest), strict=False)
    )
    return TradeOff(str(told["epsilon"]), tuple(str(point["epsilon"]) for point in curve), lines)


def _heights(curve: Sequence[Mapping[str, Any]], place: int, asked: float) -> tuple[float, ...]:
    # No noise at all, half width 0, lies below every picture.
    widths = [point["half_widths"][place] for point in curve]
    return tuple(log2(width / asked) if width else -64.0 for width in widths)


def as_svg(picture: TradeOff, release: str) -> str:
    """Return the picture as a file of its own, with a title and a description for those who do not see it.

    Args:
        picture: what it shows.
        release: name of the release.
    """
    low, high = picture.reach
    told = [f"{line.letter}: {line.aim}, {_points(picture, line)}." for line in picture.lines]
    about = f"The least epsilon that reaches every aim is {picture.epsilon}. " + " ".join(told)
    body = [*_frame(picture)]
    for line, dashes in zip(picture.lines, _DASHES, strict=False):
        places = [
            _place(picture, x, min(max(y, low), high)) for x, y in zip(picture.across, line.heights, strict=True)
        ]
        path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        body.append(f'<path class="line" stroke-dasharray="{dashes}" d="{path}"/>')
        body += [f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in places]
        body.append(f'<text x="{places[-1][0] + 10:.1f}" y="{places[-1][1] + 5:.1f}">{line.letter}</text>')
    below = _TOP + _HEIGHT + 78
    body += [
        f'<text x="{_LEFT}" y="{below + 20 * row:.0f}">{line.letter}  {escape(line.aim)}</text>'
        for row, line in enumerate(picture.lines)
    ]
    height = below + 20 * len(picture.lines)
    title = f"Accuracy and epsilon of {release}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 {height:.0f}" role="img" '
        f'aria-labelledby="title about">\n<title id="title">{escape(title)}</title>\n'
        f'<desc id="about">{escape(about)}</desc>\n<style>{_STYLE}</style>\n'
        f'<rect class="paper" width="660" height="{height:.0f}"/>\n'
        f'<text x="{_LEFT}" y="30" font-weight="bold">{escape(title)}</text>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _place(picture: TradeOff, across: float, height: float) -> tuple[float, float]:
    """Return where a point lies in the file."""
    (low, high), first = picture.reach, picture.across[0]
    span = max(picture.across[-1] - first, 1e-9)
    return _LEFT + (across - first) / span * _WIDTH, _TOP + (high - height) / (high - low) * _HEIGHT


def _frame(picture: TradeOff) -> Iterator[str]:
    """Yield axes, scales, the aim and the epsilon that was found."""
    low, high = picture.reach
    yield f'<path class="axis" d="M{_LEFT} {_TOP} V{_TOP + _HEIGHT} H{_LEFT + _WIDTH}"/>'
    for height, more in ((high, ""), (0.0, " asked"), (low, "")):
        y = _place(picture, picture.across[0], height)[1]
        yield f'<text x="{_LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{picture.scale(height)}{more}</text>'
    aim = _place(picture, picture.across[0], 0.0)[1]
    yield f'<path class="mark" d="M{_LEFT} {aim:.1f} H{_LEFT + _WIDTH}"/>'
    found = _place(picture, log2(float(picture.epsilon)), 0.0)[0]
    yield f'<path class="mark" d="M{found:.1f} {_TOP} V{_TOP + _HEIGHT}"/>'
    for place, text in zip(picture.across, picture.epsilons, strict=True):
        x = _place(picture, place, 0.0)[0]
        yield f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">{text}</text>'
    middle = _LEFT + _WIDTH / 2
    yield f'<text x="{middle}" y="{_TOP + _HEIGHT + 42}" text-anchor="middle">epsilon</text>'
    unit = "95 % within" if len(picture.lines) == 1 else "95 % within, over what is asked"
    yield f'<text x="{_LEFT}" y="{_TOP - 14}">{unit}</text>'


def _points(picture: TradeOff, line: Line) -> str:
    """Say how far 95 % reach at each epsilon."""
    pairs = zip(picture.epsilons, line.heights, strict=True)
    return ", ".join(f"±{line.asked * exp2(height):,.4g} at epsilon {epsilon}" for epsilon, height in pairs)


def check_picture(path: Path | None, aims: Sequence[str]) -> None:
    """Refuse a picture that cannot be, before anything is planned.

    Raises:
        SpecRefused: it has no aim, or is no SVG file in a folder that is there.
    """
    if path is None:
        return
    wrong = None
    if not aims:
        wrong = ("no aim", "--picture beside --for", 'name an aim, such as --for "±5% where count >= 1000"')
    elif path.suffix != ".svg":
        wrong = (path.name, "a file that ends with .svg", f"write --picture {path.with_suffix('.svg')}")
    elif not path.parent.is_dir():
        wrong = (f"the folder {path.parent}", "a folder that is there", "make the folder, or name another file")
    if wrong is not None:
        raise SpecRefused([Finding("sudare plan", "--picture", *wrong)])


def write_picture(path: Path, told: Mapping[str, Any], release: str) -> None:
    """Write the picture of an aimed plan.

    Raises:
        SpecRefused: the file cannot be written.
    """
    try:
        path.write_text(as_svg(trade_off(told), release), encoding="utf-8")
    except OSError as error:
        found = error.strerror or type(error).__name__
        finding = Finding(str(path), "--picture", found, "a file that can be written", "name another")
        raise SpecRefused([finding]) from error
