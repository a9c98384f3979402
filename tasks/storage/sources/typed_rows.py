"""What a source delivers and how DuckDB reads it; the checks on files and column names that all formats share."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, NoReturn, TypeVar

import duckdb

from contracts.errors import Finding, GateBroken, Refused, SourceUnreadable, SpecRefused, SudareError
from contracts.reading.yaml_lines import nearest_file

ResultT = TypeVar("ResultT")

MANY = 12
Batches = Callable[[], Iterator[tuple[Any, float]]]


@dataclass(frozen=True)
class Reading:
    """How a source is read.

    Args:
        where: the source as messages name it.
        columns: the names of its columns, in order.
        named: whether `columns` are surely names; the first line of a CSV file without a header is a row.
        relation: what stands after FROM to read it in DuckDB.
        attach: a statement that has to run before, or "".
        batches: for what DuckDB cannot read itself: yields (Arrow record batch, fraction done); `relation` then
            is the name that each batch is registered under.
        explain: the error of ours for an error that DuckDB raises while reading, or None for one it does not know.
        broken: runs beside the reading and says what is wrong with the file itself; the event asks it to stop.
        more: further readings with the same columns, whose rows follow.
        stored: what columns surely hold, as the source declares it; see `tasks.storage.sources.files`.
        floats: columns with values that some file stores as floating-point numbers.
        typed: columns that the relation also has as their select uses them, by names in lower case, and the names
            of these copies.
        may_be_empty: whether a reading without rows is none: whether it has any may be a matter of one person.
    """

    where: str
    columns: tuple[str, ...]
    named: bool
    relation: str
    attach: str = ""
    batches: Batches | None = None
    explain: Callable[[duckdb.Error], SudareError | None] = lambda error: None
    broken: Callable[[Event], Finding | None] = lambda stop: None
    more: tuple[Reading, ...] = ()
    stored: Mapping[str, str] = field(default_factory=dict)
    floats: frozenset[str] = frozenset()
    typed: Mapping[str, str] = field(default_factory=dict)
    may_be_empty: bool = False

    @property
    def parts(self) -> tuple[Reading, ...]:
        """This reading and those that follow."""
        return (self, *self.more)

    def told_as(self, path: object, label: str) -> Reading:
        """Return the same reading, whose messages say `label` instead of a path."""
        return replace(
            self,
            where=self.where.replace(str(path), label),
            explain=lambda error: _renamed(self.explain(error), path, label),
            broken=lambda stop: _relabelled(self.broken(stop), path, label),
            more=tuple(part.told_as(path, label) for part in self.more),
        )


def with_label(action: Callable[[], ResultT], path: object, label: str) -> ResultT:
    """Do something whose refusals name a path, and let them say `label` instead."""
    try:
        return action()
    except Refused as error:
        refusal = _renamed(error, path, label)
    raise refusal or SudareError(label)


def _renamed(error: SudareError | None, path: object, label: str) -> SudareError | None:
    if not isinstance(error, Refused):
        return error
    return type(error)([finding for each in error.findings if (finding := _relabelled(each, path, label))])


def _relabelled(finding: Finding | None, path: object, label: str) -> Finding | None:
    return None if finding is None else replace(finding, where=finding.where.replace(str(path), label))


def require_file(path: Path) -> None:
    """Refuse a path that is not a file one can read.

    Raises:
        SourceUnreadable: it is missing, a folder, something else than a file, or may not be read.
    """
    remedy = "correct `source: path:` in the spec (it is relative to the spec's folder)"
    if path.is_dir():
        refuse(
            path, "source.path", "a folder", "a file", "for a folder of files add `files: parquet` or `files: csv`"
        )
    if not path.exists():
        meant = nearest_file(path)
        mended = f"{meant} in `source: path:` of the spec" if meant.startswith("write") else remedy
        refuse(path, "source.path", "no such file", "an existing file", mended)
    if not path.is_file():
        refuse(path, "source.path", "not a regular file", "a regular file", remedy)
    try:
        path.open("rb").close()
        reason = None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
    if reason is not None:
        refuse(path, "source.path", f"it cannot be opened ({reason})", "a readable file", "give read permission")


def refuse(where: object, field: str, found: str, allowed: str, remedy: str = "") -> NoReturn:
    """Raise SourceUnreadable with one finding: what the spec says about the source does not hold."""
    raise SourceUnreadable([Finding(str(where), field, found, allowed, remedy)])


def break_gate(where: object, field: str, found: str, allowed: str, remedy: str = "") -> NoReturn:
    """Raise GateBroken with one finding: the data is not what the contract or the format declares."""
    raise GateBroken([Finding(str(where), field, found, allowed, remedy)])


def check_distinct(reading: Reading, expected: Sequence[str]) -> None:
    """Refuse names that occur twice; names that differ only in case are the same to DuckDB.

    Raises:
        GateBroken: with one finding a repeated name; the name is shown only if it surely is one.
    """
    first: dict[str, int] = {}
    findings = []
    for place, name in enumerate(reading.columns, start=1):
        earlier = first.setdefault(name.casefold(), place)
        if earlier != place:
            shown = f"{name!r} again" if reading.named or name in expected else "a name again"
            findings.append(
                Finding(
                    reading.where,
                    f"column {place}",
                    f"{shown}, as in column {earlier}",
                    "each column name once; upper and lower case count as the same",
                    "rename or drop one of the columns",
                )
            )
    if findings:
        raise GateBroken(findings[:MANY])


def check_columns(
    reading: Reading,
    delivered: Sequence[str],
    expected: Sequence[str],
    *,
    unread: Collection[str] = (),
    selected: bool = False,
) -> None:
    """Refuse missing and extra columns; their order does not matter.

    Args:
        reading: the source, for the messages.
        delivered: the names that arrive, after the `select:` if there is one.
        expected: the contract's columns, the unit's id column among them.
        unread: names among the delivered that the contract leaves out; they count in the places of the others.
        selected: whether a `select:` made them.
    Raises:
        GateBroken: with one finding a column; extra names are shown only if they surely are names.
        SpecRefused: the same, where it is the `select:` that leaves columns out or adds some.
    """
    if not reading.named and not set(delivered) & set(expected):
        found = "none of the contract's columns (not shown: without a header this would be a row)"
        remedy = "put a line with the names of the columns first"
        break_gate(f"{reading.where}:1", "header", found, ", ".join(expected), remedy)
    read = [name for name in delivered if name not in unread]
    findings = [_missing(reading, name, read) for name in expected if name not in read]
    known = {*expected, *unread}
    findings += [_extra(reading, place, name) for place, name in enumerate(delivered, start=1) if name not in known]
    if findings:
        raise (SpecRefused if selected else GateBroken)(findings[:MANY])


def _missing(reading: Reading, name: str, delivered: Sequence[str]) -> Finding:
    alike = [other for other in delivered if other.strip().casefold() == name.strip().casefold()]
    found = f"no such column, but {alike[0]!r}" if alike else "no such column"
    remedy = "add the column, rename it with `select:`, or take it out of the contract"
    return Finding(reading.where, f"column {name!r}", found, "every column of the contract, named alike", remedy)


def _extra(reading: Reading, place: int, name: str) -> Finding:
    found = (
        f"{name!r}, which the contract does not have" if reading.named else "a name that the contract does not have"
    )
    if not name.strip():
        remedy = "name it where the file is written, or drop it there"
        return Finding(reading.where, f"column {place}", "an empty name", "a name for every column", remedy)
    remedy = "write it under `left_out:` of the contract, or add it there with a domain"
    return Finding(reading.where, f"column {place}", found, "the columns of the contract only", remedy)
