"""A small picture of a version, drawn of its own published figures: bars, a heat map, or the layers of a network.

It is an SVG file without style or script, in colours that show on light and on dark ground. It has no words: what it
is of stands beside it.
"""

from __future__ import annotations

import io
from typing import Any, Final

from console.site.folders import Folder

COLOUR: Final = "#5b84b1"
WIDTH: Final = 160
HEIGHT: Final = 64
_LARGEST: Final = 8 << 20
_MOST_ROWS: Final = 200_000
_MOST_FILES: Final = 4
_MOST_BARS: Final = 32
_MOST_SIDE: Final = 40
_NUMBERS: Final = ("count", "noisy")


def thumbnail(folder: Folder, record: Any) -> bytes:
    """Draw a version.

    Args:
        folder: its folder, as it was published.
        record: its record, as JSON values; whoever wrote the folder wrote it.
    Privacy: reads published files only.
    """
    drawn = _of_network(record) or _of_tables(folder)
    frame = f'<path d="M0 {HEIGHT - 0.5}H{WIDTH}" stroke="{COLOUR}" stroke-opacity=".5"/>'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">'
    )
    return f"{head}{drawn or frame}</svg>".encode()


def _of_tables(folder: Folder) -> str:
    """Draw the first data file with more than one figure, or else one with a single figure."""
    names = [name for name in folder.files if name.startswith("data/") and name.endswith(".parquet")]
    single = ""
    for name in [each for each in names if each.count("/") == 1][:_MOST_FILES]:
        drawn = _of_table(folder, name)
        if drawn.count("<rect") > 1:
            return drawn
        single = single or drawn
    return single


def _of_table(folder: Folder, name: str) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if folder.files[name].bytes > _LARGEST:
        return ""
    try:
        file = pq.ParquetFile(io.BytesIO(folder.read(name)))
        if not 0 < file.metadata.num_rows <= _MOST_ROWS:
            return ""
        return _figures(file)
    except (OSError, pa.ArrowException):
        return ""


def _figures(file: Any) -> str:
    """Draw the published number of each cell; of rows, how often each value of a column stands in them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = file.schema_arrow
    number = next((name for name in schema.names if name in _NUMBERS or f"{name}_low" in schema.names), None)
    if number is not None:
        labels = [
            field.name for field in schema if pa.types.is_dictionary(field.type) or pa.types.is_string(field.type)
        ]
        table = file.read(columns=[*labels[:2], number])
        values = [0.0 if value is None else float(value) for value in table.column(number).to_pylist()]
        return _heat(table, labels, values) if len(labels) == 2 else _bars(values)
    plain = [field.name for field in schema if not pa.types.is_nested(field.type)]
    if not plain:
        return ""
    counted = pc.value_counts(file.read(columns=plain[:1]).column(0).combine_chunks()).to_pylist()
    ordered = sorted(counted, key=lambda each: (each["values"] is None, str(type(each["values"])), each["values"]))
    return _bars([float(each["counts"]) for each in ordered])


def _heat(table: Any, labels: list[str], values: list[float]) -> str:
    """Draw a table of two columns as squares, darker for larger numbers."""
    sides = [list(dict.fromkeys(table.column(name).to_pylist())) for name in labels]
    if max(map(len, sides)) > _MOST_SIDE:
        return _bars(values)
    down, across = (sides[0], sides[1]) if len(sides[0]) <= len(sides[1]) else (sides[1], sides[0])
    turned = down is sides[1]
    width, height, most = WIDTH / len(across), HEIGHT / len(down), max([*values, 0.0])
    if most <= 0:
        return ""
    places = zip(table.column(labels[0]).to_pylist(), table.column(labels[1]).to_pylist(), values, strict=True)
    drawn = []
    for first, second, value in places:
        row, column = (second, first) if turned else (first, second)
        x, y, shade = across.index(column) * width, down.index(row) * height, (max(value, 0.0) / most) ** 0.5
        if shade > 0:
            size = f'width="{max(width - 0.6, 0.4):.4g}" height="{max(height - 0.6, 0.4):.4g}"'
            drawn.append(f'<rect x="{x:.4g}" y="{y:.4g}" {size} fill="{COLOUR}" fill-opacity="{shade:.2g}"/>')
    return "".join(drawn)


def _bars(values: list[float]) -> str:
    """Draw numbers as bars, from left to right; of many the largest."""
    shown = values if len(values) <= _MOST_BARS else sorted(values, reverse=True)[:_MOST_BARS]
    low, high = min([*shown, 0.0]), max([*shown, 0.0])
    if high <= low:
        return ""
    step, unit = WIDTH / len(shown), HEIGHT / (high - low)
    return "".join(
        f'<rect x="{place * step:.4g}" y="{(high - max(value, 0.0)) * unit:.4g}" width="{max(step - 1, 0.5):.4g}" '
        f'height="{abs(value) * unit:.4g}" fill="{COLOUR}"/>'
        for place, value in enumerate(shown)
    )


def _of_network(record: Any) -> str:
    """Draw the layers of a released network, each as high as its width, on a scale of roots."""
    model = ((record or {}).get("replay") or {}).get("model")
    widths = model.get("widths") if isinstance(model, dict) else None
    if not isinstance(widths, list) or not widths or not all(isinstance(each, int) and each > 0 for each in widths):
        return ""
    most, step = max(widths) ** 0.5, WIDTH / len(widths)
    heights = [HEIGHT * width**0.5 / most for width in widths]
    boxes = "".join(
        f'<rect x="{(place + 0.3) * step:.4g}" y="{(HEIGHT - height) / 2:.4g}" width="{0.4 * step:.4g}" '
        f'height="{height:.4g}" fill="{COLOUR}"/>'
        for place, height in enumerate(heights)
    )
    line = f'<path d="M{0.3 * step:.4g} {HEIGHT / 2}H{WIDTH - 0.3 * step:.4g}" stroke="{COLOUR}"/>'
    return line + boxes
