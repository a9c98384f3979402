"""What objects look like in a notebook: tables, facts, intervals and bars, in HTML without scripts.

Every text is escaped. Colours and strokes are set in place, since a notebook keeps no style sheet of ours; they show
on light and dark ground.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Final

from markupsafe import Markup, escape

from tasks.records.charts import charts as drawing

INK: Final = "#0f766e"
FAINT: Final = "#64748b"
_CELL: Final = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"
_NUMBER: Final = "text-align:right;padding:2px 10px 2px 0;font-variant-numeric:tabular-nums"


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[str] = ()) -> str:
    """Draw a table.

    Args:
        headings: of the columns.
        rows: texts, or drawings of this module; everything else is escaped.
        numbers: the columns that stand right-aligned.
    """
    styles = [_NUMBER if heading in numbers else _CELL for heading in headings]
    head = Markup("").join(
        Markup('<th style="{}">{}</th>').format(*pair) for pair in zip(styles, headings, strict=True)
    )
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(Markup('<td style="{}">{}</td>').format(*pair) for pair in zip(styles, row, strict=True))
        )
        for row in rows
    )
    return str(
        Markup('<table style="border-collapse:collapse"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>').format(
            head, body
        )
    )


def facts(title: str, pairs: Sequence[tuple[str, object]]) -> str:
    """Draw a title and lines of names and values."""
    head = Markup('<div style="font-weight:600;margin:4px 0">{}</div>').format(title)
    lines = Markup("").join(
        Markup('<tr><th scope="row" style="{}">{}</th><td style="{}">{}</td></tr>').format(_CELL, name, _CELL, value)
        for name, value in pairs
    )
    return str(head + Markup('<table style="border-collapse:collapse"><tbody>{}</tbody></table>').format(lines))


def plain(text: str) -> str:
    """Draw a text of several lines as it is."""
    return str(Markup('<pre style="overflow-x:auto">{}</pre>').format(text.rstrip())) if text.strip() else ""


def lines(texts: Iterable[str]) -> Markup:
    """Draw texts one below the other."""
    return Markup("<br>").join(texts)


def note(text: str) -> str:
    """Draw a line beside a table."""
    return str(Markup('<div style="color:{}">{}</div>').format(FAINT, text))


def whisker(low: float, value: float, high: float, scale: tuple[float, float]) -> Markup:
    """Draw a number as a bar from zero, with its interval as a whisker.

    Args:
        low, value, high: ends of the interval and the number between; what lies outside the scale sticks to its ends.
        scale: numbers at the left and the right end.
    """
    zero, middle, left, right = (drawing.place(each, scale) for each in (0, value, low, high))
    place = f'x="{min(zero, middle)}" y="3" width="{abs(middle - zero)}" height="10"'
    bar = f'<rect {place} fill="{INK}" fill-opacity=".3"/>'
    path = f"M{left} 8H{right}M{left} 4v8M{right} 4v8M{middle} 2v12"
    line = f'<path d="{path}" stroke="{INK}" stroke-width="2" fill="none" vector-effect="non-scaling-stroke"/>'
    return _strip(bar + line, f"{low:g} to {high:g}")


def shares(parts: Sequence[float], label: str) -> Markup:
    """Draw parts of a whole side by side, such as what each release took of an account's cap.

    Args:
        parts: each from 0 to 1, together at most 1.
        label: says it in words.
    """
    ends = [drawing.place(end, (0, 1)) for end in accumulate(parts, initial=0.0)]
    frame = f'<rect x="0" y="3" width="1000" height="10" fill="{FAINT}" fill-opacity=".3"/>'
    filled = "".join(
        f'<rect x="{begin}" y="3" width="{max(end - begin - 4, 1)}" height="10" fill="{INK}"/>'
        for begin, end in pairwise(ends)
    )
    return _strip(frame + filled, label)


def _strip(inside: str, label: str) -> Markup:
    head = '<svg viewBox="0 0 1000 16" width="200" height="16" preserveAspectRatio="none" role="img" aria-label="'
    return Markup(head) + escape(label) + Markup(f'">{inside}</svg>')
