"""How the rows fit the contract: by column the rows whose value does not fit, is clipped, or is missing.

Exact and private: for the operator who holds the rows, on their terminal and on a page in the run's private folder. A
value that does not fit stops nothing (law 3), so whoever declared the wrong domain learns it here and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from contracts.contract.contract import Column, Contract, checks
from contracts.domains.statements import Check
from contracts.domains.value_sql import identifier, literal
from contracts.drafting.advice.suspicions import names_an_id
from contracts.errors import SudareError
from contracts.message import Message, message
from contracts.sql.encoding import violation_sql
from privacy.private_table import PrivateTable
from tasks.records.page.language import ENGLISH, language, languages
from tasks.records.page.style import FOLDER as PAGE_FOLDER
from tasks.records.page.style import style
from tasks.storage.duckdb_session import attempt, connect, run, trouble
from tasks.storage.progress import step
from tasks.storage.snapshot.linked_rows import LOSSES, reduced_name
from tasks.storage.snapshot.snapshot import SEEN
from tasks.storage.workspace.run_folder import SPILL
from tasks.validation.distinct_values import CODES, STRAYS, values_of

# --- How many rows of linked tables are left out, link by link.


LinkLoss = tuple[str, int, int, int, int]
"""A link, the rows of its child, those without a key, with one that no parent has, and beyond a bound."""


def link_losses(table: PrivateTable, folder: Path, memory_limit: str) -> tuple[LinkLoss, ...]:
    """Return what each link of a snapshot left out.

    Args:
        table: a snapshot of linked tables.
        folder: the run's private folder.
        memory_limit: DuckDB's limit [text].
    Raises:
        SudareError: the snapshot cannot be read.
    Privacy: exact counts, for whoever holds the rows.
    """

    def explain(error: duckdb.Error) -> SudareError:
        return trouble(error, table.path, "reading the snapshot")

    with connect(table.path, memory_limit=memory_limit, spill=folder / SPILL, read_only=True) as connection:
        rows = attempt(lambda: connection.execute(f"FROM {LOSSES}").fetchall(), explain)
    return tuple(
        (str(name), int(number), int(none), int(stray), int(beyond)) for name, number, none, stray, beyond in rows
    )


# --- Which notation the values of a column look written in that do not fit it.


Keys = Mapping[str, str | None]

NEARLY_ALL: Final = 0.9
"""Of the values that do not fit so many have to be of a notation."""


def hint_of(
    connection: duckdb.DuckDBPyConnection, relation: str, check: Check, contract: Contract, unfit: int
) -> tuple[str, ...]:
    """Return the notations in which nearly all values of a column could be read that do not fit it.

    Args:
        connection: where the rows are.
        relation: SQL for them.
        check: `type:COLUMN` of a column of numbers or days.
        contract: the contract.
        unfit: how many rows break the check.
    Returns:
        What to write into the column's domain, one for each notation that is as good; none where no notation helps.
    Privacy: private, made of the rows.
    """
    column = contract.column(str(check.column))
    raw = identifier(column.name)
    candidates = [keys for keys in column.domain.usual_notations if _differs(column, keys)]
    if not unfit or not candidates:
        return ()
    broken = f"COALESCE(TRY({violation_sql(check, contract)}), TRUE)"
    fits = [
        f"COALESCE(TRY(NOT ({violation_sql(check, _declaring(contract, column, keys))})), FALSE)"
        for keys in candidates
    ]
    counts = ", ".join(f"COALESCE(sum(n) FILTER (WHERE {fit}), 0)" for fit in fits)
    values = f"SELECT {raw}, count(*) AS n FROM {relation} GROUP BY {raw}"
    found = connection.execute(f"SELECT {counts} FROM ({values}) WHERE {broken}").fetchone() or ()
    best = max(map(int, found), default=0)
    if best < NEARLY_ALL * unfit:
        return ()
    return _simplest([keys for keys, count in zip(candidates, found, strict=True) if int(count) == best])


def _differs(column: Column, keys: Keys) -> bool:
    return any(getattr(column.domain, key) != value for key, value in keys.items())


def _declaring(contract: Contract, column: Column, keys: Keys) -> Contract:
    """Return the contract with another notation of one column."""
    told = column.model_copy(update={"domain": column.domain.model_copy(update={**keys, "missing": ()})})
    columns = tuple(told if each.name == column.name else each for each in contract.columns)
    return contract.model_copy(update={"columns": columns})


def _simplest(candidates: Sequence[Keys]) -> tuple[str, ...]:
    """Leave out what declares a mark more than another candidate that reads as many."""
    simple = [keys for keys in candidates if not any(_within(other, keys) for other in candidates if other != keys)]
    return tuple(map(_written, simple))


def _within(few: Keys, more: Keys) -> bool:
    return all(value is None or more[key] == value for key, value in few.items())


def _written(keys: Keys) -> str:
    """Write a notation as it stands in a domain."""
    said = [f'{key}: "{value}"' for key, value in keys.items() if value is not None]
    return ", ".join(said) or f"no {' and no '.join(f'`{key}:`' for key in keys)}"


Counted = Mapping[str, int]
"""How many rows break each check, by the check's name."""
SeenIds = Sequence[tuple[Any, ...]]
"""What the reading saw of ids; see `tasks.storage.snapshot.snapshot.SEEN`."""
Notations = Mapping[str, tuple[str, ...]]
"""How values that do not fit look written, by the column."""


@dataclass(frozen=True, repr=False)
class ColumnMisfits:
    """How the rows fit one column's domain. Private; its repr shows no count.

    Args:
        column: its name; of linked tables also a link, of whose child the rows are that are left out.
        rows: all rows.
        unfit: rows whose value is there and is no category, number, day or picture of the domain.
        clipped: rows whose value lies outside the bounds.
        null: rows without a value.
        unfit_to: label of the cell that counts the unfit ones.
        null_to: label of the cell that counts the missing ones.
        expected: whether the contract declares a cell for whatever else comes (`other`).
        notations: how the values that do not fit look written, as it stands in a domain; see `notation_hints`.
        is_key: whether it is a link or the unit's id in linked tables: a row without a value of it is left out.
    """

    column: str
    rows: int
    unfit: int
    clipped: int
    null: int
    unfit_to: str
    null_to: str
    expected: bool
    notations: tuple[str, ...] = ()
    is_key: bool = False

    def __repr__(self) -> str:
        """Show the column only."""
        return f"ColumnMisfits({self.column!r})"

    @property
    def astray(self) -> int:
        """Rows that are counted as something that their value does not say: what a wrong domain makes many.

        Missing values are where the contract puts them, and so is what falls into a declared `other`. But where no
        row has a value that fits, the column is not what the contract takes it for. A missing key is put nowhere:
        its row is left out, as one with an unknown key is.
        """
        if self.unfit + self.null >= self.rows > 0:
            return self.rows
        missing = self.null if self.is_key else 0
        return min(self.rows, self.clipped + missing + (0 if self.expected else self.unfit))

    @property
    def share(self) -> Fraction:
        """The share of rows that are `astray`."""
        return self.part(self.astray)

    def part(self, number: int) -> Fraction:
        """Return what share of all its rows a number of them is: of a link, of its child's rows as delivered."""
        return Fraction(number, max(self.rows, 1))

    @property
    def clean(self) -> bool:
        """Whether every row has a value of the domain."""
        return not (self.unfit or self.clipped or self.null)


@dataclass(frozen=True, repr=False)
class Misfits:
    """How the rows fit the contract. Private; its repr shows no count.

    Args:
        rows: all rows.
        columns: in the order of the contract.
        broken_gates: names of the gates that stop the release.
        dropped: the rows of units with more than the contract's bound that are left out; those of links are columns.
        repeated: where each row is a unit, columns that look like an id of people and repeat: name, rows, different.
        clips: what the clips of the spec cut, by clip and by cell; see `clip_misfits`.
    """

    rows: int
    columns: tuple[ColumnMisfits, ...]
    broken_gates: tuple[str, ...]
    dropped: int = 0
    repeated: tuple[tuple[str, int, int], ...] = ()
    clips: tuple[ColumnMisfits, ...] = ()

    def __repr__(self) -> str:
        """Show nothing."""
        return "Misfits(private)"

    @property
    def clean(self) -> bool:
        """Whether no check of a column failed, no clip cuts a row, and nothing is wrong with ids."""
        return all(each.clean for each in (*self.columns, *self.clips)) and not self.dropped and not self.repeated

    @property
    def notes(self) -> list[Message]:
        """What was found of ids, in words."""
        dropped = message(
            "{dropped} of {rows} rows are left out: their unit has more rows than max_rows_per_unit",
            dropped=f"{self.dropped:,}",
            rows=f"{self.rows + self.dropped:,}",
        )
        repeated = [
            message("{rows} rows per {column}; a row is not a person", rows=f"{rows / values:.3g}", column=name)
            for name, rows, values in self.repeated
        ]
        return [dropped, *repeated] if self.dropped else repeated

    def asks(self, share: Fraction) -> bool:
        """Say whether the operator is asked: too many rows are astray, or are further ones of an id."""
        return bool(self.above(share)) or any(rows - values > share * self.rows for _, rows, values in self.repeated)

    def above(self, share: Fraction) -> tuple[ColumnMisfits, ...]:
        """Return the columns, clips and cells of which more than this share of the rows is astray."""
        return tuple(each for each in (*self.columns, *self.clips) if each.share > share)


def misfits(table: PrivateTable, contract: Contract, *, folder: Path, memory_limit: str) -> Misfits:
    """Count by column the rows that do not fit the contract, read exactly as the encoding reads them.

    Args:
        table: the snapshot; one that an engine keeps is counted by its marks.
        contract: the contract that it was made by.
        folder: the run's private folder.
        memory_limit: DuckDB's limit [text, such as "1GB"].
    Raises:
        SudareError: the snapshot cannot be read.
    Privacy: exact counts, for whoever holds the rows; they may reach no orchestrator, record, journal or log.
    """
    with step("look") as bar:
        listed = [check for check in checks(contract) if check.column is not None]
        if table.engine is not None:
            rows, counted = table.engine.marked_rows()
            notations: Notations = {}
            seen = table.engine.seen()
        else:
            rows, counted, notations, seen = _counted(table, contract, listed, folder, memory_limit)
        links = _links(table, contract, folder, memory_limit)
        found = _misfits(contract, listed, rows, counted, notations, links)
        found = _with_ids(found, contract, seen)
        bar.outcome(found.clean)
    return found


def _misfits(
    contract: Contract,
    checks: Sequence[Check],
    rows: int,
    counted: Counted,
    notations: Notations,
    links: tuple[ColumnMisfits, ...],
) -> Misfits:
    broken = tuple(check.name for check in checks if check.gate and counted[check.name])
    found = tuple(_column(each, rows, counted, notations.get(each.name, ())) for each in contract.columns)
    return Misfits(rows, (*links, *found), broken)


def _with_ids(found: Misfits, contract: Contract, seen: SeenIds) -> Misfits:
    """Add what the reading saw of ids; of linked tables each link says what it leaves out.

    A column that has cells, such as a ward_id, or is only left out is an id if its values come like ids: many, nearly
    all several times, none much more often than the others.
    """
    if contract.unit.column is not None:
        dropped = sum(number - kept for _, number, kept, *_ in seen)
        return found if contract.linked is not None else replace(found, dropped=dropped)
    cells = {column.name for column in contract.columns} - {*contract.texts()}
    repeated = [
        (name, number, different)
        for name, number, different, once, most in seen
        if number > different
        and (
            (names_an_id(name) and name not in cells)
            or (different >= 20 and once * 10 <= different and most * different <= number * 10)
        )
    ]
    return replace(found, repeated=tuple(repeated))


def _links(table: PrivateTable, contract: Contract, folder: Path, memory_limit: str) -> tuple[ColumnMisfits, ...]:
    """Count by link the rows that it leaves out, and the misfits of values that become derived columns."""
    if contract.linked is None:
        return ()
    labels = {}
    for each in contract.linked.tables:
        for name, made in each.derived:
            if made.column:
                column = contract.linked.table(made.child).column(made.column)
                labels[reduced_name(contract.linked, each.name, name, made)] = column.labels[column.null_code]
    found = []
    for name, rows, none, stray, beyond in link_losses(table, folder, memory_limit):
        put, is_key = labels.get(name, "left out"), name not in labels
        found.append(ColumnMisfits(name, rows, stray, beyond, none, put, put, expected=False, is_key=is_key))
    return tuple(found)


def _column(column: Column, rows: int, counted: Counted, notations: tuple[str, ...]) -> ColumnMisfits:
    domain, name = column.domain, column.name
    broken = {kind: counted[f"{of}:{name}"] for of, kind, _ in domain.checks()}
    return ColumnMisfits(
        column=name,
        rows=rows,
        unfit=broken.get("castable", 0) + broken.get("in_set", 0),
        clipped=broken.get("between", 0),
        null=counted[f"nulls:{name}"],
        unfit_to=column.labels[domain.misfit_code],
        null_to=column.labels[domain.null_code],
        expected=domain.rest_label is not None,
        notations=notations,
    )


def _counted(
    table: PrivateTable, contract: Contract, checks: Sequence[Check], folder: Path, memory_limit: str
) -> tuple[int, Counted, Notations, SeenIds]:
    """Attach the snapshot read-only and count, column by column."""

    def explain(error: duckdb.Error) -> SudareError:
        return trouble(error, table.path, "reading the snapshot")

    def count() -> tuple[int, Counted, Notations, SeenIds]:
        connection.execute(f"ATTACH {literal(str(table.path))} AS snapshot (READ_ONLY)")
        [rows] = connection.execute(f"SELECT count(*) FROM {CODES}").fetchone() or (0,)
        counted: dict[str, int] = {}
        notations = {}
        for name in dict.fromkeys(str(check.column) for check in checks):
            own = [check for check in checks if check.column == name]
            found = connection.execute(_count_sql(name, own, contract)).fetchone() or ()
            counted |= dict(zip((check.name for check in own), map(int, found), strict=True))
            for check in own:
                if check.kind == "castable":
                    notations[name] = hint_of(connection, STRAYS, check, contract, counted[check.name])
        known = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ?", [SEEN]).fetchone()
        seen = connection.execute(f"FROM snapshot.{SEEN}").fetchall() if known else []
        return int(rows), counted, notations, seen

    with connect(None, memory_limit=memory_limit, spill=folder / SPILL) as connection:
        counts: tuple[int, Counted, Notations, SeenIds] = run(connection, count, explain=explain)
    return counts


def _count_sql(name: str, own: Sequence[Check], contract: Contract) -> str:
    """Write the SELECT that counts the rows that break each check of a column, by its different values."""
    broken = ", ".join(
        f"COALESCE(sum(n) FILTER (WHERE COALESCE(TRY({violation_sql(check, contract)}), TRUE)), 0)" for check in own
    )
    value = identifier(name)
    if name in contract.pictures():  # hardly two pictures are the same
        return f"SELECT {broken} FROM (SELECT {value}, 1 AS n FROM {STRAYS})"
    # A row without an id of its unit has stopped the reading.
    values = STRAYS if name == contract.unit.column else values_of(contract.column(name))
    return f"SELECT {broken} FROM (SELECT {value}, count(*) AS n FROM {values} GROUP BY {value})"


def to_json(found: Misfits, share: Fraction) -> dict[str, Any]:
    """Return what was found as a private JSON object, with the share above which a run asks."""
    return {
        "class": "private",
        "rows": found.rows,
        "asks_above": float(share),
        "fits": not found.asks(share) and not found.broken_gates,
        "left_out_beyond_the_bound": found.dropped,
        "repeated_ids": [dict(zip(("column", "rows", "different"), each, strict=True)) for each in found.repeated],
        "broken_gates": list(found.broken_gates),
        "columns": [
            {
                "column": each.column,
                "unfit": each.unfit,
                "clipped": each.clipped,
                "null": each.null,
                "unfit_counted_as": each.unfit_to,
                "null_counted_as": each.null_to,
                "share": float(each.share),
                "looks_like": list(each.notations),
            }
            for each in found.columns
        ],
        "clips": [
            {"clip": each.column, "rows": each.rows, "clipped": each.clipped, "share": float(each.share)}
            for each in found.clips
        ],
    }


# --- The private page of how the rows fit the contract, in each language.


_FOLDER: Final = Path(__file__).parent


def page_file(folder: Path, code: str = ENGLISH) -> Path:
    """Return where the page of a run's folder lies."""
    return folder / ("misfits.private.html" if code == ENGLISH else f"misfits.private.{code}.html")


def write_misfits(found: Misfits, *, release: str, share: Fraction, folder: Path) -> Path:
    """Write the pages, each in place of the one of an earlier look.

    Args:
        found: how the rows fit.
        release: its name.
        share: above which `sudare run` asks.
        folder: the run's private folder.
    Returns:
        Path: of the page in English.
    Raises:
        SudareError: the folder cannot be written.
    Privacy: private files, mode 0600, in a folder of mode 0700.
    """
    for code in languages():
        path = page_file(folder, code)
        try:
            path.unlink(missing_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(misfits_page(found, release=release, share=share, code=code))
        except OSError as error:
            raise trouble(error, folder, "writing the private page") from None
    return page_file(folder)


def misfits_page(found: Misfits, *, release: str, share: Fraction, code: str = ENGLISH) -> str:
    """Render how the rows fit; every text is escaped.

    Privacy: private.
    """
    page: str = _template().render(
        lang=language(code),
        release=release,
        rows=f"{found.rows:,}",
        notes=found.notes,
        asked=percent(share),
        gates=found.broken_gates,
        above=[each.column for each in found.above(share) if not each.is_key],
        left_out=[each.column for each in found.above(share) if each.is_key],
        linked=any(each.is_key for each in found.columns),
        columns=[_row(each, share) for each in (*found.columns, *found.clips)],
        others=[(other, language(other).name) for other in languages() if other != code],
        file=lambda other: page_file(Path(), other).name,
        style=style(PAGE_FOLDER / "record.css"),
    )
    return page


def percent(share: Fraction) -> str:
    """Write a share to a tenth of a per cent; none and all are written only where they are exact."""
    if share in (0, 1):
        return f"{int(share * 100)} %"
    tenths = min(max(round(share * 1000), 1), 999)
    return f"{'< ' if share * 1000 < tenths == 1 else ''}{tenths / 10:g} %"


def _row(column: ColumnMisfits, share: Fraction) -> dict[str, Any]:
    shares = {name: percent(column.part(getattr(column, name))) for name in ("unfit", "clipped", "null")}
    return {"column": column, "mark": "!" if column.share > share else "", **shares}


@cache
def _template() -> Any:
    environment = Environment(
        loader=FileSystemLoader([_FOLDER, PAGE_FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("misfits.html.j2")
