"""Rules 8 and 9 of a verification: measurements and refined tables, table by table, so that one is held at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.audit.drawn import NoiseEvent
from privacy.audit.identity import TOTAL_MEASUREMENTS, Meaning, csv_of
from privacy.audit.readable import printable
from privacy.audit.replay import (
    RELATIVE_TOLERANCE,
    check_choice,
    check_total,
    refined_again,
    refined_together_again,
    uncertainty_columns,
    values_sha256,
)
from privacy.audit.statements import DrawStatement, Manifest, Replay, TableStatement
from privacy.refine.tables import Refined
from tasks.verification.files import VersionFolder, read_published
from tasks.verification.tables import MEASURED, Columns, Types, compare_column, read_csv, read_parquet

Outcome = tuple[list[Finding], list[str]]

_OTHER_NOISE: Final = "the noisy values are not those that were drawn and paid for: do not use this table"
_UNCERTAINTY: Final = "the stated uncertainty does not follow from the noise: use the recomputed one"
_OTHER_TABLE: Final = "the table is not what the declared steps make of the noisy values: do not use it"


def replay_tables(
    folder: VersionFolder,
    manifest: Manifest,
    sound: frozenset[str],
    replay: Replay,
    meaning: Meaning,
    events: Sequence[NoiseEvent],
    *,
    where: str,
) -> tuple[Outcome, Outcome]:
    """Check the measurements (rule 8), and replay the refinement from them (rule 9).

    Args:
        folder: the version folder.
        manifest: the signed manifest.
        sound: the files whose checksums hold; no other is opened.
        replay: the record's replay block; its draws and tables are those of the product.
        meaning: contract and product.
        events: the event of each draw.
        where: the record's file name.
    Returns:
        tuple: findings and skipped parts of rule 8, and of rule 9.
    """
    tables = _Tables(folder, manifest, sound, replay, meaning, where)
    drawn = {draw.key: (draw, event) for draw, event in zip(replay.draws, events, strict=True)}
    total = None
    if "total" in drawn:
        noisy = tables.measured(TOTAL_MEASUREMENTS, *drawn["total"])
        total = int(noisy[0]) if noisy is not None else None
    tables.refined += check_total(replay, meaning, total, where=where)
    if meaning.product.refine.consistent:
        tables.replayed_together(drawn)
        return (tables.measurements, tables.unmeasured), (tables.refined, tables.unrefined)
    for table in replay.tables:
        draw, event = drawn[f"table:{table.name}"]
        tables.replayed(table, tables.measured(table.measurements, draw, event), event)
    return (tables.measurements, tables.unmeasured), (tables.refined, tables.unrefined)


def _impossible(where: str, error: ValueError) -> Finding:
    """Say that nothing can be refined again."""
    allowed = "noisy values and a total that can be refined"
    return Finding(where, "refinement", printable(str(error)), allowed, _OTHER_TABLE)


class _Tables:
    """The tables of one version, and what was found out about them so far."""

    def __init__(
        self,
        folder: VersionFolder,
        manifest: Manifest,
        sound: frozenset[str],
        replay: Replay,
        meaning: Meaning,
        where: str,
    ) -> None:
        self._folder, self._manifest, self._sound = folder, manifest, sound
        self._replay, self._meaning, self._contract, self._record = replay, meaning, meaning.contract, where
        self.measurements: list[Finding] = []
        self.unmeasured: list[str] = []
        self.refined: list[Finding] = []
        self.unrefined: list[str] = []

    def measured(self, name: str, draw: DrawStatement, event: NoiseEvent) -> NDArray[np.int64] | None:
        """Check one file of measurements; return its noisy values if they are those that were entered."""
        columns, findings, skipped = self._read(name, draw.clique, MEASURED)
        self.measurements += findings
        self.unmeasured += skipped
        if columns is None:
            return None
        noisy: NDArray[np.int64] = columns["noisy"]
        found = values_sha256(noisy)
        if found != draw.sha256:
            allowed = f"{draw.sha256}, as it was entered when it was drawn"
            self.measurements.append(
                Finding(printable(name), "SHA-256 of column noisy", found, allowed, _OTHER_NOISE)
            )
        beside = uncertainty_columns(noisy, event, self._contract.impossible(draw.clique))
        for column, expected in beside.items():
            self.measurements += compare_column(
                columns[column],
                expected,
                where=printable(name),
                name=column,
                source="recomputed from the event and the contract",
                remedy=_UNCERTAINTY,
                tolerance=RELATIVE_TOLERANCE if column == "variance" else 0.0,
            )
        return noisy

    def replayed_together(self, drawn: Mapping[str, tuple[DrawStatement, NoiseEvent]]) -> None:
        """Check tables that were refined together; all measurements are held at a time."""
        tables = self._replay.tables
        parts = [drawn[f"table:{table.name}"] for table in tables]
        noisy = [self.measured(table.measurements, *part) for table, part in zip(tables, parts, strict=True)]
        whole = [values for values in noisy if values is not None]
        again: Sequence[Refined | None] = [None] * len(tables)
        if len(whole) == len(tables):
            try:
                again = refined_together_again(
                    whole,
                    [table.columns for table in tables],
                    self._meaning,
                    total=self._replay.total.value,
                    total_event=drawn["total"][1] if "total" in drawn else None,
                    events=[event for _, event in parts],
                )
            except ValueError as error:
                self.refined.append(_impossible(self._record, error))
        for table, values, (_, event), refined in zip(tables, noisy, parts, again, strict=True):
            self.replayed(table, None if refined is None else values, event, refined)

    def replayed(
        self,
        table: TableStatement,
        noisy: NDArray[np.int64] | None,
        event: NoiseEvent,
        again: Refined | None = None,
    ) -> None:
        """Check one refined table and its CSV copy against the refinement of its noisy values, or against `again`."""
        whole = table.integers or (table.method == "none" and not self._meaning.product.refine.consistent)
        counted = "int64" if whole else "double"
        values: Types = {"count": counted, "lower": "int64", "upper": "int64"}
        columns, findings, skipped = self._read(table.data, table.columns, values)
        self.refined += findings
        self.unrefined += skipped
        if columns is not None:
            self._check_digest(table, columns["count"])
        if noisy is None:
            together = self._meaning.product.refine.consistent
            why = "not all measurements can be read" if together else "its measurements cannot be read"
            self.unrefined.append(f"{printable(table.data)}: {why}")
        else:
            columns = self._refine(table, noisy, columns, event, again)
        if csv_of(table) in self._manifest.files:
            self._check_csv(table, columns, values)

    def _refine(
        self,
        table: TableStatement,
        noisy: NDArray[np.int64],
        columns: Columns | None,
        event: NoiseEvent,
        again: Refined | None,
    ) -> Columns | None:
        """Refine again, choose again what was chosen, and compare.

        Returns the columns that the table must have, as far as they are known.
        """
        where = printable(table.data)
        try:
            if again is None:
                total = self._replay.total.value
                again = refined_again(noisy, table.columns, self._meaning, total=total, event=event)
        except ValueError as error:
            self.refined.append(_impossible(where, error))
            return columns
        self.refined += check_choice(table, again, where=self._record)
        expected = {"count": again.values, "lower": again.intervals.lower, "upper": again.intervals.upper}
        expected = {name: values.reshape(-1) for name, values in expected.items()}
        if columns is not None:
            source = f"replayed by {again.method} from the noisy values"
            self._compare(columns, expected, where=where, source=source)
        return expected

    def _compare(self, found: Columns, expected: Columns, *, where: str, source: str) -> None:
        """Compare the counts of a refined table, and the ends of their intervals."""
        for name, remedy in (("count", _OTHER_TABLE), ("lower", _UNCERTAINTY), ("upper", _UNCERTAINTY)):
            self.refined += compare_column(
                found[name], expected[name], where=where, name=name, source=source, remedy=remedy
            )

    def _check_digest(self, table: TableStatement, counts: NDArray[Any]) -> None:
        found = values_sha256(counts)
        if found != table.sha256:
            allowed = f"{table.sha256}, as in the record"
            self.refined.append(
                Finding(printable(table.data), "SHA-256 of column count", found, allowed, _OTHER_TABLE)
            )

    def _check_csv(self, table: TableStatement, expected: Columns | None, values: Types) -> None:
        name = csv_of(table)
        columns, findings, skipped = self._read(name, table.columns, values)
        self.refined += findings
        self.unrefined += skipped
        if columns is None:
            return
        if expected is None:
            self.unrefined.append(f"{printable(name)}: there is no table to compare it with")
            return
        self._compare(columns, expected, where=printable(name), source=f"as in {printable(table.data)}")

    def _read(
        self, name: str, clique: Sequence[str], values: Types
    ) -> tuple[Columns | None, list[Finding], list[str]]:
        """Read a table's file if its checksum holds; else say that it was skipped."""
        if name not in self._sound:
            return None, [], [f"{printable(name)}: not opened, for it is missing or not as it was published"]
        try:
            data = read_published(self._folder, self._manifest, name)
        except OSError as error:
            found = error.strerror or str(error)
            return None, [Finding(printable(name), "the file", found, "the file that was checked", _OTHER_TABLE)], []
        read = read_csv if name.endswith(".csv") else read_parquet
        columns, findings = read(data, where=printable(name), contract=self._contract, clique=clique, values=values)
        return columns, findings, []
