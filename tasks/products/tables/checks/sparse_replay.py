"""Rules 8 and 9 for a table that lists cells: what is listed, from which threshold on, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.cell_codes import ImpossibleCells, cell_codes
from contracts.contract.contract import Contract
from contracts.contract.labels import Formulas
from contracts.errors import Finding
from contracts.release.tables.tables import data_marks, measurement_marks
from privacy.accounting.events import DiscreteLaplace
from privacy.refine.sparse import SparseTable
from tasks.products.tables.checks.sparse_form import MOST_LISTED, listing_sha256, refined_again
from tasks.records.files.csv_rows import read_csv
from tasks.records.files.label_arrays import Beside, plain_texts
from tasks.records.model.manifest import Manifest
from tasks.records.model.version_statements import (
    DrawStatement,
    ListedStatement,
    Replay,
    RowsStatement,
    TableStatement,
)
from tasks.records.strict_json import printable, shown
from tasks.verification.files.table_files import (
    MEASURED,
    MISFIT,
    OTHER_NOISE,
    OTHER_TABLE,
    UNCERTAINTY,
    UNREADABLE,
    ColumnArrays,
    Types,
    check_beside,
    check_digest,
    check_form,
    check_weight,
    check_whole,
    compare_column,
    csv_types,
    label_numbers,
    open_parquet,
)
from tasks.verification.refinement_replay import RELATIVE_TOLERANCE, check_choice, uncertainty_columns
from tasks.verification.table_meaning import Meaning, csv_of

Read = tuple[bytes | None, list[Finding], list[str]]
_STATED: Final = "as the record says"


@dataclass(frozen=True)
class _SparseCells:
    """The cells that a file lists, by their codes, and its value columns."""

    codes: NDArray[np.int64]
    columns: ColumnArrays


class SparseReplay:
    """What was found out about the sparse tables of one version.

    Args:
        read: returns a file's bytes if its checksum holds, findings, and what was skipped.
        manifest: the signed manifest.
        replay: the record's replay block.
        meaning: contract and product.
        where: the record's file name.
        total: the drawn total, or the declared one; None where sparse tables keep none [units].
    """

    def __init__(
        self,
        read: Callable[[str], Read],
        manifest: Manifest,
        replay: Replay,
        meaning: Meaning,
        where: str,
        *,
        total: int | None,
    ) -> None:
        self._bytes, self._manifest, self._replay, self._total = read, manifest, replay, total
        self._meaning, self._contract, self._record = meaning, meaning.contract, where
        self.measurements: list[Finding] = []
        self.unmeasured: list[str] = []
        self.refined: list[Finding] = []
        self.unrefined: list[str] = []

    def check(
        self, table: TableStatement, rows: RowsStatement, draw: DrawStatement, statement: ListedStatement, event: Any
    ) -> None:
        """Check the measurements of one table, and its refinement."""
        noisy = self._measured(table.measurements, draw, statement, event)
        counted = "int64" if table.integers or table.method == "none" else "double"
        values: Types = {"count": counted, "lower": "int64", "upper": "int64"}
        found = self._refined_file(table.data, table, values, rows, data_marks(statement.cells))
        if found is not None:
            digest = listing_sha256(found.codes, found.columns["count"], {"cells": statement.cells})
            if digest != table.sha256:
                allowed = f"{table.sha256}, as in the record"
                where, field = printable(table.data), "SHA-256 of the cells and column count"
                self.refined.append(Finding(where, field, digest, allowed, OTHER_TABLE))
        if noisy is None:
            self.unrefined.append(f"{printable(table.data)}: its measurements cannot be read")
            expected = found
        else:
            expected = self._replayed(table, rows, noisy, found, event)
        name = csv_of(table)
        if name in self._manifest.files:
            copy = self._refined_file(name, table, values, rows, None)
            if copy is not None and expected is not None:
                self._compare(copy, expected, printable(name), f"as in {printable(table.data)}")
            elif copy is not None:
                self.unrefined.append(f"{printable(name)}: there is no table to compare it with")

    def _measured(
        self, name: str, draw: DrawStatement, statement: ListedStatement, event: DiscreteLaplace
    ) -> SparseTable | None:
        """Check one file of measurements; return what it lists if the list is in order."""
        marks = measurement_marks(statement.cells, statement.threshold)
        found = self._file(
            name, draw.clique, MEASURED, statement.rows, marks, findings=self.measurements, skipped=self.unmeasured
        )
        if found is None:
            return None
        where, noisy = printable(name), found.columns["noisy"]
        low = np.flatnonzero(noisy < statement.threshold)
        if low.size:
            field, value = f"column noisy, row {int(low[0]) + 1}", shown(int(noisy[low[0]]))
            allowed = f"at least {statement.threshold}, the threshold: whatever is below it must not be listed"
            self.measurements.append(Finding(where, field, value, allowed, OTHER_NOISE))
        digest = listing_sha256(found.codes, noisy, {"cells": statement.cells, "threshold": statement.threshold})
        of = "cells, column noisy, threshold and domain"
        self.measurements += check_digest(digest, draw.sha256, of, where=where)
        impossible = ImpossibleCells.of(self._contract, draw.clique).among(found.codes)
        for column, expected in uncertainty_columns(noisy, event, impossible).items():
            self.measurements += compare_column(
                found.columns[column],
                expected,
                where=where,
                name=column,
                source="recomputed from the event and the contract",
                remedy=UNCERTAINTY,
                tolerance=RELATIVE_TOLERANCE if column == "variance" else 0.0,
            )
        return None if low.size else SparseTable(found.codes, noisy, statement.threshold, statement.cells)

    def _replayed(
        self,
        table: TableStatement,
        rows: RowsStatement,
        noisy: SparseTable,
        found: _SparseCells | None,
        event: DiscreteLaplace,
    ) -> _SparseCells | None:
        """Follow the threshold again, refine again, and compare; return what the table must be, if it is known."""
        where = printable(table.data)
        try:
            again = refined_again(noisy, table.columns, self._meaning, total=self._total, event=event)
        except ValueError as error:
            allowed = "listed cells, a threshold and a total that go together"
            self.refined.append(Finding(where, "refinement", printable(str(error)), allowed, OTHER_TABLE))
            return found
        self.refined += check_choice(table, again, where=self._record)
        if rows.absent_upper != again.absent_upper:
            at = printable(f"replay.tables, {table.name}: absent_upper")
            allowed = f"{again.absent_upper}, recomputed from the threshold and the noise"
            self.refined.append(Finding(self._record, at, str(rows.absent_upper), allowed, UNCERTAINTY))
        columns = {"count": again.values, "lower": again.intervals.lower, "upper": again.intervals.upper}
        expected = _SparseCells(again.codes, columns)
        if found is not None:
            self._compare(found, expected, where, f"replayed by {again.method} from the noisy values")
        return expected

    def _compare(self, found: _SparseCells, expected: _SparseCells, where: str, source: str) -> None:
        """Compare the listed cells, their counts, and the ends of their intervals."""
        if found.codes.size != expected.codes.size:
            allowed = f"{expected.codes.size}, {source}"
            self.refined.append(Finding(where, "rows", str(found.codes.size), allowed, OTHER_TABLE))
            return
        other = np.flatnonzero(found.codes != expected.codes)
        if other.size:
            field = f"row {int(other[0]) + 1}"
            self.refined.append(
                Finding(where, field, "another cell", f"the cell that is listed {source}", OTHER_TABLE)
            )
            return
        for name, remedy in (("count", OTHER_TABLE), ("lower", UNCERTAINTY), ("upper", UNCERTAINTY)):
            self.refined += compare_column(
                found.columns[name], expected.columns[name], where=where, name=name, source=source, remedy=remedy
            )

    def _refined_file(
        self, name: str, table: TableStatement, values: Types, rows: RowsStatement, marks: Mapping[str, str] | None
    ) -> _SparseCells | None:
        beside = () if self._replay.labels is None else self._contract.beside(table.columns)
        file = name, table.columns, values, rows.rows, marks
        return self._file(*file, findings=self.refined, skipped=self.unrefined, beside=beside)

    def _file(
        self,
        name: str,
        clique: Sequence[str],
        values: Types,
        rows: int,
        marks: Mapping[str, str] | None,
        *,
        findings: list[Finding],
        skipped: list[str],
        beside: Beside = (),
    ) -> _SparseCells | None:
        """Read a file that lists cells; None where it cannot be, and then a finding or a skipped part says why."""
        data, wrong, left = self._bytes(name)
        findings += wrong
        skipped += left
        if data is None:
            return None
        where = printable(name)
        try:
            formulas = self._replay.formulas
            table, wrong = _parsed(data, where, self._contract, clique, values, rows, marks, formulas, beside)
        except UNREADABLE as error:
            form = "Parquet" if marks is not None else "CSV"
            wrong, table = [Finding(where, "the file", printable(str(error)), f"a whole {form} file", MISFIT)], None
        listed = None
        if table is not None and not wrong:
            listed, wrong = _codes_of_labels(table, where, self._contract, clique, values, beside)
        findings += wrong
        return listed


def _parsed(
    data: bytes,
    where: str,
    contract: Contract,
    clique: Sequence[str],
    values: Types,
    rows: int,
    marks: Mapping[str, str] | None,
    formulas: Formulas | None,
    beside: Beside,
) -> tuple[Any, list[Finding]]:
    """Parse Parquet, or CSV where no marks are asked for, after a look at its form."""
    if rows > MOST_LISTED:
        return None, [Finding(where, "rows", str(rows), f"at most {MOST_LISTED}: more are not read", MISFIT)]
    expected = rows, _STATED
    if marks is None:
        table = plain_texts(read_csv(data, csv_types(clique, values, beside), formulas=formulas), beside)
        form = table.schema, table.num_rows, where, clique, values
        return table, check_form(*form, expected=expected, beside=beside)
    file = open_parquet(data, clique)
    schema, metadata = file.schema_arrow, file.metadata
    findings = check_form(schema, metadata.num_rows, where, clique, values, expected=expected, beside=beside)
    if not findings:
        findings = check_weight(data, metadata, where, contract, clique, values, rows=rows, beside=beside)
    findings += _check_marks(schema.metadata or {}, marks, where)
    if findings:
        return None, findings
    table = file.read()
    table.validate(full=True)
    return table, []


def _check_marks(found: Mapping[bytes, bytes], marks: Mapping[str, str], where: str) -> list[Finding]:
    """Check what the file says of its form, its threshold, and the cells that it does not list."""
    findings = []
    for key, expected in marks.items():
        stated = found.get(key.encode(), b"").decode("utf-8", "replace")
        if stated != expected:
            allowed = f"{shown(expected)}, {_STATED}"
            findings.append(Finding(where, f"metadata {key}", shown(stated), allowed, MISFIT))
    return findings


def _codes_of_labels(
    table: Any, where: str, contract: Contract, clique: Sequence[str], values: Types, beside: Beside
) -> tuple[_SparseCells | None, list[Finding]]:
    """Turn labels into codes; each must be the contract's, and the cells ascend, each once."""
    findings = check_whole(table, where, (*clique, *values))
    if findings:
        return None, findings
    digits = []
    for name in clique:
        numbers, array = label_numbers(table.column(name), contract.column(name).labels)
        unknown = np.flatnonzero(numbers < 0)
        if unknown.size:
            field, found = (
                f"column {printable(name)}, row {int(unknown[0]) + 1}",
                shown(array[int(unknown[0])].as_py()),
            )
            return None, [Finding(where, field, found, "a label of the contract", MISFIT)]
        digits.append(numbers)
        if beside:
            findings += check_beside(table, where, beside[len(digits) - 1], numbers)
    if findings:
        return None, findings
    codes = cell_codes(digits, contract.shape(clique))
    wrong = np.flatnonzero(codes[1:] <= codes[:-1])
    if wrong.size:
        field = f"row {int(wrong[0]) + 2}"
        allowed = "the listed cells in row-major order, each once"
        return None, [Finding(where, field, "a cell that does not come after the one before", allowed, MISFIT)]
    return _SparseCells(codes, {name: table.column(name).to_numpy() for name in values}), []
