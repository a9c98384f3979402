"""The audit path of a journal entry as a tree: the entry at the bottom, the signed root at the top.

Beside each node on the way up stands the one that it is hashed with, and which entries that one covers. All hashes
are short here; the whole ones stand in the list below the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from console.site.accounts import Says
from privacy.ledger.journal.merkle import path_ranges, reached_by_proof
from tasks.records.charts import drawing as svg

_WIDE: Final = 132
_HIGH: Final = 34
_STEP: Final = 58
_SIDE: Final = 168
_SHOWN: Final = 10


def path_tree(entry_hash: str, index: int, size: int, path: Sequence[str], says: Says) -> svg.Drawing | None:
    """Draw an audit path.

    Args:
        entry_hash: hash of the entry (hex).
        index: its number.
        size: of the tree.
        path: the nodes beside the way, from the leaf upwards (hex).
        says: the texts of the reader's language.
    Returns:
        None where the path does not fit the tree: the page then says that it does not lead to the root.
    """
    try:
        reached, ranges = reached_by_proof(entry_hash, index, size, path), path_ranges(index, size)
    except ValueError:
        return None
    top = len(path) * _STEP + 2
    lines, boxes = [], []
    for level, (node, (begin, end)) in enumerate(zip(path, ranges, strict=True)):
        y, x = top - level * _STEP, _SIDE * (0 if begin < index else 2)
        above, middle = y - _STEP + _HIGH, _SIDE + _WIDE // 2
        lines.append(f"M{middle} {y}V{above}M{x + _WIDE // 2} {y}L{middle} {above}")
        one = (
            says("tree.entry", number=f"{begin:,}")
            if end - begin == 1
            else says("tree.entries", first=f"{begin:,}", last=f"{end - 1:,}")
        )
        boxes.append(_box(x, y, "beside", one, node))
    for level, node in enumerate(reached):
        last = level == len(path)
        name = says("tree.root") if last else says("tree.entry", number=f"{index:,}") if level == 0 else ""
        boxes.append(_box(_SIDE, top - level * _STEP, "root" if last else "way", name, node))
    view = f'viewBox="0 0 {2 * _SIDE + _WIDE + 2} {top + _HIGH + 2}"'
    template = (
        f'<svg class="tree" role="img" aria-label="{{0}}" {view}><path d="{"".join(lines)}"/>{"".join(boxes)}</svg>'
    )
    return svg.Drawing(template, (says("tree.label", number=f"{index:,}", size=f"{size:,}", steps=len(path)),))


def _box(x: int, y: int, name: str, head: str, node: str) -> str:
    middle = x + _WIDE // 2 + 1
    words = f'<text class="head" x="{middle}" y="{y + 14}">{head}</text>' if head else ""
    below = y + (28 if head else 21)
    text = f'<text x="{middle}" y="{below}">{node[:_SHOWN]}…</text>'
    return f'<g class="{name}"><rect x="{x + 1}" y="{y}" width="{_WIDE}" height="{_HIGH}" rx="2"/>{words}{text}</g>'
