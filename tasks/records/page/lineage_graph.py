"""The lineage of a version as a picture: table, contract, charge, noisy draws, what was made of them, files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from markupsafe import Markup, escape

from contracts.message import joined, message
from tasks.records.draws.cell_sums import cell_sum_words
from tasks.records.page.language import Language
from tasks.records.page.words import at_most
from tasks.records.values import Values

MOST: Final = 6
_WIDTH: Final = 236
_HEIGHT: Final = 50
_GAP: Final = 28
_ROW: Final = 64
_TOP: Final = 104
_LONGEST: Final = 31


@dataclass(frozen=True)
class Box:
    """One step: where it stands, which kind it is, what it is called, what it says, and of which table it is."""

    column: int
    y: int
    kind: str
    head: str
    line: str
    table: str = ""

    @property
    def x(self) -> int:
        """Its left end."""
        return 1 + self.column * (_WIDTH + _GAP)


def lineage_graph(values: Values, lang: Language) -> Markup:
    """Draw how the files of a version came about.

    Args:
        values: the record's fields by "section.name".
        lang: the page's language.
    """
    top, draws = _top(values, lang), _draws(values, lang)
    made, files = _outcome(values, lang), _files(values, lang)
    rows = max(len(draws), len(made), len(files))
    height = _TOP + rows * _ROW - (_ROW - _HEIGHT) + 2
    lines = [*_chain(top), *_fan(top[-1], draws), *_links(draws, made), *_links(made, files)]
    boxes = "".join(_box(box) for box in (*top, *draws, *made, *files))
    label = lang.text(
        "lineage.label",
        release=values["identity.release_id"],
        version=values["identity.version"],
        contract=values["contract.contract_id"],
        draws=len(values["ledger.draws"]),
        files=len(values["output.files"]),
    )
    view = f'viewBox="0 0 {3 * _WIDTH + 2 * _GAP + 2} {height}"'
    flow = f'<path class="flow" d="{"".join(lines)}"/>'
    return Markup(f'<svg class="graph" role="img" aria-label="{label}" {view}>{flow}{boxes}</svg>')


def _top(values: Values, lang: Language) -> list[Box]:
    """The confidential table, the contract that it was checked against, the charge."""
    columns = values["contract.columns"]
    number = len(columns) if isinstance(columns, list) else 0
    told = lang.text("lineage.columns", number=number, population=lang.plain(values["source.population"])).unescape()
    loss = f"ε {at_most(values['guarantee.epsilon'])}"
    loss += "" if values["guarantee.delta"] == "0" else f", δ = {values['guarantee.delta']}"
    charge = f"{lang.text('lineage.charge')}: {loss}"
    account = lang.text("lineage.account", account=values["ledger.account"]).unescape()
    contract = (
        f"{lang.text('lineage.contract')}: {values['contract.contract_id']} {values['contract.contract_version']}"
    )
    return [
        Box(0, 1, "source", str(lang.text("lineage.source")), told),
        Box(1, 1, "contract", contract, str(lang.text("lineage.checked"))),
        Box(2, 1, "charge", charge, account),
    ]


def _draws(values: Values, lang: Language) -> list[Box]:
    draws, tables = values["ledger.draws"], _tables(values)
    boxes = []
    for draw in draws:
        columns = draw["columns"]
        name = " × ".join(columns) if isinstance(columns, list) and columns else lang.plain(draw["key"])
        name = lang.plain(cell_sum_words(draw["of"], columns)) if "of" in draw else name
        noise = draw.get("noise") or str(draw["event"].get("kind", "")).replace("_", " ")
        boxes.append((name, lang.plain(noise), _table_of(draw["key"].removeprefix("table:"), tables)))
    return list(_column(0, "draw", boxes, lang))


def _outcome(values: Values, lang: Language) -> list[Box]:
    """What was made of the noisy values: each table, or the one model of them all."""
    tables = values.get("product.tables")
    if "product.made" in values:
        sites = lang.plain(f"{len(values['execution.sites'])} sites")
        return list(_column(1, "made", [(lang.plain(values["product.made"]), sites, "")], lang))
    if "product.network" in values:
        parameters = lang.text("lineage.parameters", number=f"{values['product.network']['parameters']:,}").unescape()
        return list(_column(1, "made", [(str(values["product.trainer"]), parameters, "")], lang))
    if not isinstance(tables, list):
        kind = lang.plain(str(values["product.model"]["kind"]).replace("_", " "))
        return list(_column(1, "made", [(str(values["product.generator"]), kind, "")], lang))
    boxes = [
        (
            table["table"],
            lang.plain(_making(table)),
            table["table"],
        )
        for table in tables
    ]
    return list(_column(1, "made", boxes, lang))


def _making(table: Mapping[str, Any]) -> str:
    """Say how a table was made: how it was refined, or which statistics it has."""
    if "statistics" in table:
        return joined(table["statistics"])
    method: str = table["method"]
    return message("as measured") if method == "none" else method


def _files(values: Values, lang: Language) -> list[Box]:
    """The data files of the version, or its weights; measurements, CSV copies and parts stand in the record."""
    weights = [name for name in values.get("product.files", ()) if name.endswith(".safetensors")]
    if weights:
        return list(_column(2, "file", [(weights[0], "safetensors", "")], lang))
    files = [
        file for file in values["output.files"] if file["path"].startswith("data/") and file["path"].count("/") == 1
    ]
    files = [file for file in files if file["path"].endswith(".parquet")] or files
    tables = _tables(values)
    boxes = [
        (
            file["path"],
            lang.text("lineage.rows", number=f"{file['rows']:,}").unescape(),
            _table_of(file["path"].removeprefix("data/").rpartition(".")[0], tables),
        )
        for file in files
    ]
    return list(_column(2, "file", boxes, lang))


def _tables(values: Values) -> list[str]:
    tables = values.get("product.tables")
    return [table["table"] for table in tables] if isinstance(tables, list) else []


def _table_of(name: str, tables: list[str]) -> str:
    """Find the table that a draw or file is of, itself or one of its levels; empty for what is of all."""
    return next((table for table in tables if name == table or name.startswith((f"{table}.", f"{table}/"))), "")


def _column(column: int, kind: str, boxes: list[tuple[str, str, str]], lang: Language) -> Iterator[Box]:
    """Stack boxes; where they are too many, the last one counts the others."""
    shown = boxes if len(boxes) <= MOST else boxes[: MOST - 1]
    for place, (head, line, table) in enumerate(shown):
        yield Box(column, _TOP + place * _ROW, kind, head, line, table)
    if len(shown) < len(boxes):
        number = f"{len(boxes) - len(shown):,}"
        yield Box(column, _TOP + len(shown) * _ROW, kind, str(lang.text("lineage.more", number=number)), "…")


def _chain(boxes: list[Box]) -> Iterator[str]:
    for left, right in pairwise(boxes):
        y = left.y + _HEIGHT // 2
        yield f"M{left.x + _WIDTH} {y}H{right.x}"


def _fan(charge: Box, draws: list[Box]) -> Iterator[str]:
    """Lead from the charge down to the first column of the rows below."""
    turn, middle = charge.y + _HEIGHT + 20, charge.x + _WIDTH // 2
    if draws:
        yield f"M{middle} {charge.y + _HEIGHT}V{turn}H{draws[0].x + _WIDTH // 2}V{draws[0].y}"
        for upper, lower in pairwise(draws):
            yield f"M{upper.x + _WIDTH // 2} {upper.y + _HEIGHT}V{lower.y}"


def _links(left: list[Box], right: list[Box]) -> Iterator[str]:
    """Lead from each box to those of its table; what is of all leads to all."""
    for one in left:
        for other in right:
            if one.table == other.table or "" in (one.table, other.table):
                begin, end, half = one.y + _HEIGHT // 2, other.y + _HEIGHT // 2, one.x + _WIDTH + _GAP // 2
                yield f"M{one.x + _WIDTH} {begin}H{half}V{end}H{other.x}"


def _box(box: Box) -> str:
    head, line = (_fitted(text) for text in (box.head, box.line))
    return (
        f'<g class="{box.kind}"><title>{escape(box.head)}: {escape(box.line)}</title>'
        f'<rect x="{box.x}" y="{box.y}" width="{_WIDTH}" height="{_HEIGHT}" rx="2"/>'
        f'<text class="head" x="{box.x + 11}" y="{box.y + 21}">{escape(head)}</text>'
        f'<text x="{box.x + 11}" y="{box.y + 39}">{escape(line)}</text></g>'
    )


def _fitted(text: str) -> str:
    """Cut a text to the width of a box; wide letters count twice."""
    width = 0
    for place, letter in enumerate(text):
        width += 1 if letter.isascii() or letter in "εδσ×±–≤…ρ" else 2
        if width > _LONGEST:
            return text[: max(1, place - 1)] + "…"
    return text
