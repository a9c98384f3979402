"""The stage: what an engine keeps of a table, bounded and encoded. It is all that is ever counted.

    c0, c1, ...   codes, in the order of the contract's columns
    b0, b1, ...   which checks of a column the row breaks, in the order of `checks`: a bit for each, 30 in a number
    o0, o1, ...   what is encoded beside the codes, in the order in which it is asked for: offsets of lattices, places
                  of rows among those of their unit, and ids and texts of which only their being different counts

The codes are the same as `contracts.sql.encoding` writes for DuckDB, row for row; the tests hold the two against each
other.

Contribution bounding is the choice that `tasks.storage.snapshot.snapshot` describes, made where the rows are. It
needs the order of the source, which two columns tell: `sudare_file` and `sudare_row`. Of Parquet they are the place
of the file and that of the row in it; a table of a database needs a number of its own for each row. They may not
depend on what is in the rows: a unit's other values then never decide which of its rows are counted.

Only types of columns that every engine reads alike are let in. How an engine reads texts as numbers or dates is its
own affair ("1d" is a number to one, "1_000" to another), so numbers and days have to be stored as such, or the
contract declares how texts write them (`contracts.domains.notation`). Texts, whole numbers, flags and days are the
same everywhere.

| kind | types | read by |
|---|---|---|
| text | text | categories, mappings; numbers and dates with a declared notation; the unit's id |
| whole | integers of any width | categories, mappings, integers, decimals, dates as %Y%m%d; the unit's id |
| real | floating point | the same, but no id |
| fixed | decimals | the same, but no id |
| flag | booleans | the same, but no id |
| day | dates without a time | dates, and categories that are days |
| moment | timestamps, with a time zone or without | the same; the day is that in UTC |
| nothing | a column without a type: nobody has a value | everything |

Which of the four kinds of numbers a column is stored as can depend on one row (a missing value makes doubles of whole
numbers), so what takes one of them takes all: a refusal would tell of that row. For the same reason what takes days
takes moments, and dates take numbers, which a column is stored as where nobody has a value: none of them is a day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import accumulate
from operator import add
from typing import Any, Final

import duckdb
import ibis

from contracts.contract.column import Column
from contracts.contract.contract import Contract, checks
from contracts.domains.lattice import ValueLattice
from contracts.domains.portable_cell import PortableCell, is_all, trimmed
from contracts.domains.statements import Check, ValueKind
from contracts.domains.text import NO_KEY, KeyColumn, UnitOrder
from contracts.domains.value_sql import DECIMALS_OF_ZERO, NUMERIC, ROUNDED
from contracts.errors import Finding
from sudare_engines.portable_sql import sha256_of

RESERVED: Final = "sudare_"
"""How the columns begin that tell the order of a source."""
MOST_BRANCHES: Final = 512
"""Bins of a column of numbers, found by comparisons nested as deep as the logarithm of their number."""

_WORDS: Final[dict[ValueKind, str]] = {
    "text": "text",
    "whole": "integer",
    "real": "floating point",
    "fixed": "decimal",
    "flag": "boolean",
    "day": "date",
    "moment": "timestamp",
    "nothing": "no type",
}


def portable_findings(contract: Contract, kinds: Mapping[str, ValueKind | None], *, where: str) -> list[Finding]:
    """List what of a contract and the types of a table is not read alike by every engine.

    Args:
        contract: the contract.
        kinds: kind of each column of the table by name; None for a type that is none of them.
        where: the table, for messages.
    Returns:
        list: empty when every engine makes the same codes of the same rows.
    """
    findings = []
    wanted: dict[str, tuple[ValueKind, ...]] = {column.name: column.domain.value_kinds for column in contract.columns}
    if contract.unit.column is not None:
        wanted[contract.unit.column] = ("text", "whole", "nothing")
    for name, kinds_allowed in wanted.items():
        kind = kinds[name]
        if kind not in kinds_allowed:
            found = "another type" if kind is None else _WORDS[kind]
            allowed = " or ".join(_WORDS[each] for each in kinds_allowed if each != "nothing")
            remedy = "store the column as that type, or count in DuckDB: leave `engine:` out"
            if not kinds_allowed:
                allowed = f"no column of kind {contract.column(name).domain.kind}"
                remedy = "count in DuckDB: leave `engine:` out"
            elif kind == "text":
                key = contract.column(name).domain.notation_key
                remedy = f"declare `{key}:` in the contract, or {remedy}"
            findings.append(Finding(where, f"column {name!r}", found, allowed, remedy))
    for name in contract.source_columns:
        if name.lower().startswith(RESERVED):
            remedy = "rename the column, or count in DuckDB: leave `engine:` out"
            findings.append(Finding(where, f"column {name!r}", f"a name in {RESERVED}", "another name", remedy))
    return findings + [finding for column in contract.columns for finding in _domain_findings(contract, column)]


def _domain_findings(contract: Contract, column: Column) -> list[Finding]:
    """Name what of a domain the expressions do not hold."""
    domain, where = column.domain, f"contract {contract.id}"
    remedy = "count in DuckDB: leave `engine:` out"
    if domain.nested_bins > MOST_BRANCHES:
        found = f"{domain.nested_bins} bins"
        return [Finding(where, f"column {column.name}", found, f"at most {MOST_BRANCHES} in an engine", remedy)]
    return []


TYPES: Final[dict[ValueKind, str]] = {
    "text": "string",
    "whole": "int64",
    "real": "float64",
    "fixed": "decimal(38, 18)",
    "flag": "boolean",
    "day": "date",
    "moment": "timestamp",
    "nothing": "string",
}


def table_of(kinds: Mapping[str, ValueKind], name: str) -> Any:
    """Return the unbound table of a name with columns of these kinds; a column without a type is one of texts."""
    return ibis.table({column: TYPES[kind] for column, kind in kinds.items()}, name=name)


def code_expression(column: Column, cell: Any, kind: ValueKind) -> Any:
    """Return the code of a column's value: int32, never null.

    Args:
        column: the column.
        cell: the value as it is stored.
        kind: its kind, one of the domain's `value_kinds`.
    """
    return column.domain.portable_code(PortableCell(cell, kind, _cast)).cast("int32")


def beside_expression(column: Column, beside: Any, cell: Any, kind: ValueKind) -> Any:
    """Return what is encoded of a column's value beside its code: int32 of a lattice, a text of keys; never null.

    Args:
        column: the column.
        beside: the lattice, or the `KeyColumn`.
        cell: the value as it is stored.
        kind: its kind.
    """
    return column.domain.portable_beside(beside, PortableCell(cell, kind, _cast))


def violation_expression(check: Check, contract: Contract, cell: Any, kind: ValueKind) -> Any:
    """Return a condition that is true where a value breaks a check of its column, and never null.

    Args:
        check: a check of a column.
        contract: the contract that it comes from.
        cell: the value as it is stored.
        kind: its kind.
    """
    if check.column is None:
        raise ValueError(f"check {check.name} is about the table, not about rows")
    if check.column == contract.unit.column:
        return cell.isnull()
    return contract.column(check.column).domain.portable_violation(check.kind, PortableCell(cell, kind, _cast))


@cache
def _cast(text: str, kind: str) -> Any:
    """Return what DuckDB reads a text as; None for no such value. A database takes 20 ms to open."""
    with duckdb.connect() as connection:
        row = connection.execute(f"SELECT TRY_CAST(? AS {kind})", [text]).fetchone()
    return None if row is None else row[0]


SOURCE: Final = "sudare_source"
STAGE: Final = "sudare_stage"
KEYS: Final = "sudare_keys"
KEY_COLUMNS: Final = ("choice_outer", "choice_inner", "order_outer", "order_inner", "hash_outer", "hash_inner")
"""Keys of 64 hexadecimal digits: of the choice of rows, of their order within a unit, and of hashes of the stage."""
BesideCodes = ValueLattice | KeyColumn
"""What is encoded beside the codes."""
FILE, ROW = "sudare_file", "sudare_row"
"""The columns that tell the order of the source; whole numbers."""
MARKS: Final = 30
"""Checks whose marks are in one number of 32 bits."""
_UNIT, _ORDINAL, _DRAW, _PLACE = "u", "o", "d", "p"


@dataclass(frozen=True)
class Stage:
    """The names of a stage's columns.

    Args:
        codes: name of each column's codes, by column.
        broken: where each check's mark is, by check: name of the column, and which bit of it; of checks about a row.
        beside: name of each of what is encoded beside the codes, by its name in a snapshot.
    """

    codes: Mapping[str, str]
    broken: Mapping[str, tuple[str, int]]
    beside: Mapping[str, str]

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them, in order."""
        return (*self.codes.values(), *self.marks, *self.beside.values())

    @property
    def marks(self) -> tuple[str, ...]:
        """The columns of marks, in order."""
        return tuple(dict.fromkeys(column for column, _ in self.broken.values()))

    @property
    def scanned(self) -> Mapping[str, str]:
        """The names of what a scan reads, by their names in a snapshot."""
        return {**self.codes, **self.beside}

    @property
    def table(self) -> Any:
        """The unbound stage, without what is beside the codes."""
        return ibis.table(dict.fromkeys((*self.codes.values(), *self.marks), "int32"), name=STAGE)


def stage_of(contract: Contract, beside: Sequence[BesideCodes] = ()) -> Stage:
    """Name the columns of a contract's stage."""
    codes = {column.name: f"c{place}" for place, column in enumerate(contract.columns)}
    broken = {check.name: (f"b{place // MARKS}", place % MARKS) for place, check in enumerate(_row_checks(contract))}
    return Stage(codes, broken, {each.name: f"o{place}" for place, each in enumerate(beside)})


def staged(contract: Contract, kinds: Mapping[str, ValueKind], beside: Sequence[BesideCodes] = ()) -> Any:
    """Return the stage of a contract's table as an expression over the tables `sudare_source` and `sudare_keys`.

    Args:
        contract: the contract.
        kinds: kind of each of its columns, without any that `portable_findings` names. Where units are ids, the
            source has the columns `sudare_file` and `sudare_row` besides, and the keys of the choice are in the one
            row of `sudare_keys` (`KEY_COLUMNS`). A key in the statement would stand in plans, which engines show.
        beside: what is encoded beside the codes.
    Returns:
        Ibis table with the columns of `stage_of(contract, beside)`: int32, but keyed hashes of ids and texts.
    Privacy: private; at most k rows a unit, and the choice within one unit depends on no other unit.
    """
    order: dict[str, ValueKind] = {FILE: "whole", ROW: "whole"}
    names, unit, most = stage_of(contract, beside), contract.unit.column, contract.unit.numbers_up_to
    source = table_of({**kinds, **(order if unit else {})}, SOURCE)
    made = {
        names.codes[column.name]: code_expression(column, source[column.name], kinds[column.name])
        for column in contract.columns
    }
    made |= _marks(contract, kinds, names, source)
    for each in beside:
        if each.column != unit:
            cell, kind = source[each.column], kinds[each.column]
            made[names.beside[each.name]] = beside_expression(contract.column(each.column), each, cell, kind)
    if unit is None and not any(isinstance(each, KeyColumn) for each in beside):
        return source.select(**made)
    whose = (
        {}
        if unit is None
        else {_UNIT: unit_text(source[unit], kinds[unit], most), FILE: source[FILE], ROW: source[ROW]}
    )
    rows = source.select(**made, **whose).cross_join(ibis.table(dict.fromkeys(KEY_COLUMNS, "string"), name=KEYS))
    if unit is not None:
        rows = _bounded(rows, contract.unit.max_rows_per_unit)
        if any(isinstance(each, UnitOrder) for each in beside):
            rows = _drawn(rows.drop(_ORDINAL, _DRAW, _PLACE), KEY_COLUMNS[2:4])
    kept = {name: rows[name] for name in names.columns if name in rows.columns}
    for each in beside:
        if isinstance(each, UnitOrder):
            kept[names.beside[each.name]] = rows[_PLACE].cast("int32")
        elif isinstance(each, KeyColumn):
            name = names.beside[each.name]
            kept[name] = _hidden(rows, rows[_UNIT] if each.column == unit else rows[name])
    return rows.select(**{name: kept[name] for name in names.columns})


def _marks(contract: Contract, kinds: Mapping[str, ValueKind], names: Stage, source: Any) -> dict[str, Any]:
    """Return the expression of each column of marks: the bit of every check that the row breaks."""
    marks: dict[str, list[Any]] = {name: [] for name in names.marks}
    for check in _row_checks(contract):
        column, (mark, bit) = str(check.column), names.broken[check.name]
        broken = violation_expression(check, contract, source[column], kinds[column])
        marks[mark].append(ibis.cases((broken, ibis.literal(1 << bit, "int32")), else_=ibis.literal(0, "int32")))
    return {mark: reduce(add, terms).cast("int32") for mark, terms in marks.items()}


def unit_text(cell: Any, kind: ValueKind, largest: int | None = None) -> Any:
    """Return the id of a unit as text, as `contracts.domains.value_sql.id_sql` reads it."""
    if kind == "nothing":
        return ibis.null("string")
    text, none = trimmed(cell if kind == "text" else cell.cast("string")), ibis.null("string")
    if kind == "text":
        whole = text.re_extract(DECIMALS_OF_ZERO, 1)
        text = ibis.cases((is_all(text, ROUNDED), none), (is_all(text, DECIMALS_OF_ZERO), whole), else_=text)
    if largest is None:
        return text
    beyond = is_all(text, NUMERIC) & (text.try_cast("float64").abs() > largest).fill_null(False)
    return ibis.cases((beyond, none), else_=text)


def nobodys_rows(contract: Contract, kinds: Mapping[str, ValueKind]) -> Any:
    """Return an expression of one number: how many rows have no id of their unit; 0 where units are rows.

    Privacy: private; whether it is 0 is the gate that every contract with ids has.
    """
    source, unit = table_of(kinds, SOURCE), contract.unit.column
    if unit is None:
        return source.limit(0).aggregate(n=source.count())
    nobody = (unit_text(source[unit], kinds[unit], contract.unit.numbers_up_to) == "").fill_null(True)
    return source.filter(nobody).aggregate(n=lambda rows: rows.count())


def repeats_of(name: str, kind: ValueKind) -> Any:
    """Return an expression of four numbers on a column of the source that may be an id of people.

    They are the rows with a value, the different values, those that come once, and the most rows of one.

    Privacy: exact counts, for the operator alone.
    """
    source = table_of({name: kind}, SOURCE)
    values = source.filter(source[name].notnull()).group_by(name).aggregate(n=lambda rows: rows.count())
    number, once, most = values.n.sum(), (values.n == 1).sum(), values.n.max()
    return values.aggregate(
        number=number.fill_null(0).cast("int64"),
        different=values.count(),
        once=once.fill_null(0).cast("int64"),
        most=most.fill_null(0),
    )


def cells_of(contract: Contract, cliques: Sequence[tuple[str, ...]]) -> Any:
    """Return an expression that counts the populated cells of cliques in one scan: columns cell and n.

    Each row becomes a cell number of each clique, and these are counted together. The numbers of a clique begin where
    those of the one before end (`first_cells`).

    Args:
        contract: the contract.
        cliques: the columns of each; the empty clique is the total. All cells together are fewer than 2^63.
    Privacy: exact counts; for handles alone.
    """
    stage, table = stage_of(contract), stage_of(contract).table
    numbers = []
    for first, clique in zip(first_cells(contract, cliques), cliques, strict=False):
        cell, stride = ibis.literal(first, "int64"), contract.cells(clique)
        for name, size in zip(clique, contract.shape(clique), strict=True):
            stride //= size
            cell = cell + table[stage.codes[name]].cast("int64") * ibis.literal(stride, "int64")
        numbers.append(cell)
    one = numbers[0] if len(numbers) == 1 else ibis.array(numbers).unnest()
    return table.select(cell=one).group_by("cell").aggregate(n=lambda rows: rows.count())


def first_cells(contract: Contract, cliques: Sequence[tuple[str, ...]]) -> tuple[int, ...]:
    """Return where the cell numbers of each clique begin in a common count, and where those of the last one end."""
    return tuple(accumulate((contract.cells(clique) for clique in cliques), initial=0))


def checks_of(contract: Contract) -> Any:
    """Return an expression of one row: how many rows there are (n), and how many have each mark. One scan.

    Privacy: private; that some row breaks a gate may stop a release, and the counts are the operator's alone.
    """
    stage, table = stage_of(contract), stage_of(contract).table
    # Few rows break anything, so there are few different numbers of marks: bits are looked at once for each.
    alike = table.group_by(list(stage.marks)).aggregate(n=lambda rows: rows.count()) if stage.marks else None
    if alike is None:
        return table.aggregate(n=table.count())
    found = {}
    for place, (mark, bit) in enumerate(stage.broken.values()):
        is_set = (alike[mark] & ibis.literal(1 << bit, "int32")) != 0
        found[f"m{place}"] = ibis.cases((is_set, alike.n), else_=0).sum().fill_null(0)
    return alike.aggregate(n=alike.n.sum().fill_null(0), **found)


def _row_checks(contract: Contract) -> list[Check]:
    return [check for check in checks(contract) if check.column is not None]


def _hidden(rows: Any, text: Any) -> Any:
    """Return a keyed hash of a text, which tells different ones apart and nothing else; of none, none."""
    outer, inner = (rows[name] for name in KEY_COLUMNS[4:])
    return ibis.cases((text == NO_KEY, NO_KEY), else_=sha256_of(outer + sha256_of(inner + text)))


def _bounded(rows: Any, most: int) -> Any:
    """Keep of each unit the rows with the smallest draws, at most `most`."""
    ranked = _drawn(rows, KEY_COLUMNS[:2])
    return ranked.filter(ranked[_PLACE] <= most)


def _drawn(rows: Any, keys: tuple[str, ...]) -> Any:
    """Give each row its place among the rows of its unit, by draws under two keys."""
    keyed = rows.mutate(**{_ORDINAL: _numbered(_UNIT, (FILE, ROW))})
    outer, inner = (keyed[name] for name in keys)
    message = keyed[_ORDINAL].cast("string") + ":" + keyed[_UNIT]
    drawn = keyed.mutate(**{_DRAW: sha256_of(outer + sha256_of(inner + message))})
    return drawn.mutate(**{_PLACE: _numbered(_UNIT, (_DRAW, _ORDINAL))})


def _numbered(group: str, order: tuple[str, ...]) -> Any:
    """Number the rows of each group from 1, in an order."""
    return ibis.row_number().over(ibis.window(group_by=group, order_by=list(order))) + 1
