"""The lineage of a version as a picture, from left to right: table and contract, charge, draws, what was made, files.

Equal steps stand in one stack: tables that were drawn with the same noise and made by the same method, with their
draws and their files. A stack names its first members and counts the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

from markupsafe import Markup, escape

from contracts.message import joined, message
from tasks.records.draws.cell_sums import cell_sum_words
from tasks.records.page.language import Language
from tasks.records.page.words import at_most, model_words
from tasks.records.values import Values

MOST: Final = 5
"""Stacks in a column; the last one counts the others."""
NAMED: Final = 3
"""Members that a stack names."""
_WIDTH: Final = 134
_GAP: Final = 27
_LINE: Final = 15
_BELOW: Final = 22
_DEEP: Final = 4
_LONGEST: Final = 20
_LONGEST_HEAD: Final = 16
"""Letters of a line; those of a head are bold."""
_HEADS: Final = {"draw": "lineage.stack.draw", "made": "lineage.stack.made", "file": "lineage.stack.file"}


@dataclass(frozen=True)
class LineageStep:
    """One step before equal ones are stacked: what it is called, what is said of it, and of which table it is."""

    name: str
    line: str
    table: str = ""


@dataclass(frozen=True)
class LineageStack:
    """Equal steps, drawn as one box.

    Args:
        kind: source, contract, charge, draw, made or file; it colours the box.
        names: of its members, all of them.
        line: what is said of each.
        head: counts the members where there are several.
        row: the tables that it belongs to; -1 for all.
    """

    kind: str
    names: tuple[str, ...]
    line: str
    head: str = ""
    row: int = -1

    @property
    def lines(self) -> list[str]:
        """What stands in its box, from top to bottom; what is left out counts as its last name."""
        few = len(self.names) <= NAMED
        names = [*self.names] if few else [*self.names[: NAMED - 1], "…"]
        return [*([self.head] if self.head else []), *names, *self.small]

    @property
    def small(self) -> list[str]:
        """What is said of each member: two lines where one is too long."""
        end = _fits(self.line)
        if end == len(self.line):
            return [self.line]
        cut = max(self.line.rfind(" ", 0, end + 1), self.line.rfind("、", 0, end) + 1)
        cut = cut if cut > 0 else end
        return [self.line[:cut].rstrip(), self.line[cut:].lstrip()]

    @property
    def height(self) -> int:
        """Of its box."""
        return 14 + _LINE * len(self.lines)


def lineage_graph(values: Values, lang: Language) -> Markup:
    """Draw how the files of a version came about.

    Args:
        values: the record's fields by "section.name".
        lang: the page's language.
    """
    rows = _rows(values)
    columns = [
        _begin(values, lang),
        [_charge(values, lang)],
        _stacked("draw", _draws(values, lang), rows, lang),
        _stacked("made", _outcome(values, lang), rows, lang),
        _stacked("file", _files(values, lang), rows, lang),
    ]
    tops = [_tops(column) for column in columns]
    height = max(top[-1] for top in tops) - _BELOW + 2 * _DEEP + 2
    boxes = "".join(
        _box(stack, place, top)
        for place, (column, at) in enumerate(zip(columns, tops, strict=True))
        for stack, top in zip(column, at, strict=False)
    )
    label = lang.text(
        "lineage.label",
        release=values["identity.release_id"],
        version=values["identity.version"],
        contract=values["contract.contract_id"],
        draws=len(values["ledger.draws"]),
        files=len(values["output.files"]),
    )
    view = f'viewBox="0 0 {5 * _WIDTH + 4 * _GAP + 2 * _DEEP + 2} {height}"'
    flow = f'<path class="flow" d="{"".join(_flows(columns, tops))}"/>'
    return Markup(f'<svg class="graph" role="img" aria-label="{label}" {view}>{flow}{boxes}</svg>')


def _rows(values: Values) -> dict[str, int]:
    """Number tables, equal ones alike: those made by the same method of draws with the same noise."""
    tables = values.get("product.tables")
    found: dict[str, int] = {}
    kinds: dict[tuple[str, ...], int] = {}
    for name in _tables(values):
        [table] = [each for each in tables if each["table"] == name] if isinstance(tables, list) else [{}]
        noises = sorted(_noise(draw) for draw in values["ledger.draws"] if _table_of(_key(draw), [name]))
        found[name] = kinds.setdefault((_making(table), *noises), len(kinds))
    return found


def _begin(values: Values, lang: Language) -> list[LineageStack]:
    """The confidential table, and the contract that it was checked against."""
    columns = values["contract.columns"]
    number = len(columns) if isinstance(columns, list) else 0
    about = lang.text("lineage.columns", number=number).unescape()
    contract = f"{values['contract.contract_id']} {values['contract.contract_version']}"
    return [
        LineageStack(
            "source", (lang.plain(values["source.population"]),), about, lang.text("lineage.source").unescape()
        ),
        LineageStack(
            "contract",
            (contract,),
            lang.text("lineage.checked").unescape(),
            lang.text("lineage.contract").unescape(),
        ),
    ]


def _charge(values: Values, lang: Language) -> LineageStack:
    loss = f"ε {at_most(values['guarantee.epsilon'])}"
    loss += "" if values["guarantee.delta"] == "0" else f", δ = {values['guarantee.delta']}"
    return LineageStack("charge", (loss,), str(values["ledger.account"]), lang.text("lineage.charge").unescape())


def _draws(values: Values, lang: Language) -> list[LineageStep]:
    """The noisy draws; of very different scales, by the kind of their noise alone."""
    draws, tables = values["ledger.draws"], _tables(values)
    briefly = len({_noise(draw) for draw in draws}) > MOST
    steps = []
    for draw in draws:
        columns = draw["columns"]
        name = " × ".join(columns) if isinstance(columns, list) and columns else lang.plain(draw["key"])
        name = lang.plain(cell_sum_words(draw["of"], columns)) if "of" in draw else name
        noise = _event(draw) if briefly else _noise(draw)
        steps.append(LineageStep(name, lang.plain(noise), _table_of(_key(draw), tables)))
    return steps


def _key(draw: Mapping[str, Any]) -> str:
    return str(draw["key"]).removeprefix("table:")


def _noise(draw: Mapping[str, Any]) -> str:
    return draw.get("noise") or _event(draw)


def _event(draw: Mapping[str, Any]) -> str:
    return str(draw["event"].get("kind", "")).replace("_", " ")


def _outcome(values: Values, lang: Language) -> list[LineageStep]:
    """What was made of the noisy values: each table, or the one model of them all."""
    tables = values.get("product.tables")
    if "product.made" in values:
        sites = lang.plain(f"{len(values['execution.sites'])} sites")
        return [LineageStep(lang.plain(values["product.made"]), sites)]
    if "product.network" in values:
        parameters = lang.text("lineage.parameters", number=f"{values['product.network']['parameters']:,}").unescape()
        return [LineageStep(str(values["product.trainer"]), parameters)]
    if not isinstance(tables, list):
        kind = lang.plain(model_words(str(values["product.model"]["kind"])))
        return [LineageStep(str(values["product.generator"]), kind)]
    return [LineageStep(table["table"], lang.plain(_making(table)), table["table"]) for table in tables]


def _making(table: Mapping[str, Any]) -> str:
    """Say how a table was made: how it was refined, or which statistics it has."""
    if "statistics" in table:
        return joined(table["statistics"])
    method: str = table["method"]
    return message("as measured") if method == "none" else method


def _files(values: Values, lang: Language) -> list[LineageStep]:
    """The data files of the version, or its weights; measurements, CSV copies and parts stand in the record."""
    weights = [name for name in values.get("product.files", ()) if name.endswith(".safetensors")]
    if weights:
        return [LineageStep(weights[0], "safetensors")]
    files = [
        file for file in values["output.files"] if file["path"].startswith("data/") and file["path"].count("/") == 1
    ]
    files = [file for file in files if file["path"].endswith(".parquet")] or files
    tables = _tables(values)
    return [
        LineageStep(
            file["path"].removeprefix("data/"),
            lang.text("lineage.rows", number=f"{file['rows']:,}").unescape(),
            _table_of(file["path"].removeprefix("data/").rpartition(".")[0], tables),
        )
        for file in files
    ]


def _tables(values: Values) -> list[str]:
    tables = values.get("product.tables")
    return [table["table"] for table in tables] if isinstance(tables, list) else []


def _table_of(name: str, tables: list[str]) -> str:
    """Find the table that a draw or file is of, itself or one of its levels; empty for what is of all."""
    return next((table for table in tables if name == table or name.startswith((f"{table}.", f"{table}/"))), "")


def _stacked(kind: str, steps: Sequence[LineageStep], rows: Mapping[str, int], lang: Language) -> list[LineageStack]:
    """Put equal steps of equal tables into one stack, by table; files are equal whatever their number of rows."""
    found: dict[tuple[int, str], list[LineageStep]] = {}
    for step in steps:
        row = rows.get(step.table, -1)
        found.setdefault((row, "" if kind == "file" else step.line), []).append(step)
    stacks = []
    for (row, _), same in sorted(found.items(), key=lambda item: item[0][0]):
        head = lang.text(_HEADS[kind], number=f"{len(same):,}").unescape() if len(same) > 1 else ""
        lines = {step.line for step in same}
        line = same[0].line if len(lines) == 1 else lang.text("lineage.files").unescape()
        stacks.append(LineageStack(kind, tuple(step.name for step in same), line, head, row))
    if len(stacks) <= MOST:
        return stacks
    rest = sum(len(stack.names) for stack in stacks[MOST - 1 :])
    return [*stacks[: MOST - 1], LineageStack(kind, (lang.text("lineage.more", number=f"{rest:,}").unescape(),), "…")]


def _tops(column: Sequence[LineageStack]) -> list[int]:
    """Place the boxes of a column, from the top; the last number is where a further one would stand."""
    return list(accumulate((stack.height + _BELOW for stack in column), initial=1))


def _flows(columns: Sequence[Sequence[LineageStack]], tops: Sequence[Sequence[int]]) -> Iterator[str]:
    """Lead from each box to those of the next column that are of its tables; what is of all leads to all."""
    for place, (left, right) in enumerate(pairwise(columns)):
        begin = 1 + place * (_WIDTH + _GAP) + _WIDTH
        for one, top in zip(left, tops[place], strict=False):
            for other, below in zip(right, tops[place + 1], strict=False):
                if one.row == other.row or -1 in (one.row, other.row):
                    y, end = top + one.height // 2, below + other.height // 2
                    bend = begin + _GAP // 2
                    yield f"M{begin} {y}C{bend} {y} {bend} {end} {begin + _GAP} {end}"


def _box(stack: LineageStack, place: int, top: int) -> str:
    x, height = 1 + place * (_WIDTH + _GAP), stack.height
    behind = range(min(2, len(stack.names) - 1), -1, -1)
    cards = "".join(
        f'<rect x="{x + _DEEP * deep}" y="{top + _DEEP * deep}" width="{_WIDTH}" height="{height}" rx="2"/>'
        for deep in behind
    )
    lines = stack.lines
    names = len(lines) - len(stack.small)
    fitted = [_fitted(line, bold=number == 0) for number, line in enumerate(lines)]
    texts = "".join(
        f'<text{_look(number, names)} x="{x + 9}" y="{top + 20 + _LINE * number}">{escape(line)}</text>'
        for number, line in enumerate(fitted)
    )
    told = escape(f"{', '.join(stack.names)}: {stack.line}")
    return f'<g class="{stack.kind}"><title>{told}</title>{cards}{texts}</g>'


def _look(number: int, names: int) -> str:
    """The first line of a box is its head; below the names stands what is said of them."""
    return ' class="head"' if number == 0 else ' class="name"' if number < names else ""


def _fitted(text: str, *, bold: bool) -> str:
    """Cut a text to the width of a box."""
    end = _fits(text, _LONGEST_HEAD if bold else _LONGEST)
    return text if end == len(text) else text[: max(1, end - 1)] + "…"


def _fits(text: str, most: int = _LONGEST) -> int:
    """Count the letters that stand in a line of a box; wide ones count twice."""
    width = 0
    for place, letter in enumerate(text):
        width += 1 if letter.isascii() or letter in "εδσ×±–≤…ρ" else 2
        if width > most:
            return place
    return len(text)
