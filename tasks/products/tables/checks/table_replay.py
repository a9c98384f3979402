"""Rules 8 and 9 of a verification: measurements and refined tables, table by table, so that one is held at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.contract.column import Cells
from contracts.contract.contract import Contract
from contracts.contract.labels import DescribedCells
from contracts.errors import Finding
from contracts.release.tables.levels import levels_of, table_cells
from contracts.release.tables.tables import RESIDUALS, TableSpec
from privacy.accounting.events import CountNoise, DiscreteGaussian
from privacy.arrays import Floats
from privacy.evaluation.against_noisy import Distance, distance
from privacy.refine.tables import Coarser, NoisySum, Refined, estimate_total, table_sum
from privacy.table_plans.plan import TOTAL_KEY, table_key
from privacy.table_plans.residual_plan import plan_of_draw
from tasks.products.tables.checks.neighbour import neighbour
from tasks.products.tables.checks.sparse_replay import Read, SparseReplay
from tasks.records.files.label_arrays import Beside
from tasks.records.files.write import RESIDUALS_FILE
from tasks.records.model.manifest import Manifest
from tasks.records.model.version_statements import DrawStatement, LevelStatement, Replay, TableStatement
from tasks.records.strict_json import printable
from tasks.verification.draws.sensitivity_counts import read_residuals
from tasks.verification.files.folder import VersionFolder, read_published
from tasks.verification.files.measurement_files import check_measured
from tasks.verification.files.table_files import (
    MEASURED,
    OTHER_TABLE,
    SUPPRESSED,
    UNCERTAINTY,
    ColumnArrays,
    Types,
    compare_column,
    expected_columns,
    marks_of,
    read_csv_table,
    read_parquet,
)
from tasks.verification.outcomes import RuleFindings
from tasks.verification.refinement_replay import (
    as_stated,
    check_choice,
    check_total,
    refined_again,
    refined_together_again,
    stated_total,
    values_sha256,
    with_stated_lambda,
)
from tasks.verification.table_meaning import TOTAL_MEASUREMENTS, Meaning, csv_of

# --- A table of a version, resolution by resolution.


@dataclass(frozen=True)
class TableResolution:
    """A table, or a coarser level of it.

    Args:
        stated: what the record says.
        cells: its cells.
        draw: its draw, or what a draw of it would state.
        event: the noise of its cells.
        by_columns: where the noise is not independent from cell to cell, as `refine_table` takes it.
    """

    stated: TableStatement | LevelStatement
    cells: DescribedCells
    draw: DrawStatement
    event: CountNoise
    by_columns: Floats | None = None


@dataclass(frozen=True)
class TablePart:
    """A table: what the record says, what the product says, its levels, coarsest first, and then itself."""

    stated: TableStatement
    planned: TableSpec
    resolutions: Sequence[TableResolution]


def resolutions_of(
    table: TableStatement,
    planned: TableSpec,
    contract: Contract,
    drawn: Mapping[str, tuple[DrawStatement, CountNoise]],
    by_columns: Mapping[str, Floats],
) -> list[TableResolution]:
    """Put each level of a table, and the table itself, beside what it must be.

    Args:
        table: what the record says.
        planned: what the product says.
        contract: gives the cells.
        drawn: statement and noise of each draw, by its key.
        by_columns: the last field of the table itself, by the key of a draw.
    """
    levels = [
        TableResolution(stated, level, *drawn[f"table:{table.name}/{level.name}"])
        for stated, level in zip(table.levels, levels_of(planned, contract), strict=True)
    ]
    key = f"table:{table.name}"
    return [*levels, TableResolution(table, table_cells(planned, contract), *drawn[key], by_columns.get(key))]


# --- Rule 8 for tables that are measured by residuals.


StatedDraws = dict[str, tuple[DrawStatement, CountNoise]]
ColumnNoises = dict[str, Floats]
"""By the key of a draw of a table."""


def derived_draws(
    draw: DrawStatement, event: CountNoise, meaning: Meaning, bytes_of: Callable[[str], Read]
) -> tuple[tuple[StatedDraws, ColumnNoises] | None, list[Finding], list[str]]:
    """Make every noisy table again from the residuals, and state it as if it had been drawn.

    Args:
        draw: what the record says of the one draw.
        event: its event.
        meaning: contract and product.
        bytes_of: reads a file whose checksum holds.
    Returns:
        tuple: for each table, and the total where it was measured, its digest and its noise, by the key of a draw of
        it, with its noise by columns; None where the residuals cannot be read; and what is wrong
        or was skipped.
    """
    data, findings, skipped = bytes_of(RESIDUALS_FILE)
    if data is None or not isinstance(event, DiscreteGaussian):
        return None, findings, skipped
    plan = plan_of_draw(meaning.product, meaning.tables, meaning.contract, event)
    values, wrong = read_residuals(data, draw, plan.residuals)
    if values is None:
        return None, findings + wrong, skipped
    tables = plan.tables(values)
    wanted: list[tuple[str, TableSpec | None]] = [(table_key(each.name), each) for each in meaning.tables]
    wanted += [] if plan.public_total is not None else [(TOTAL_KEY, None)]
    drawn: StatedDraws = {}
    for key, table in wanted:
        columns = () if table is None else table.columns
        counts, noise = plan.counts(tables, columns), plan.table_noise(table)
        shape, digest = tuple(counts.shape), values_sha256(counts.reshape(prod(counts.shape)))
        terms = {"key": key, "number": draw.number, "clique": columns, "shape": shape, "sha256": digest}
        stated = DrawStatement.model_validate({**terms, "coarsening": None, "event": noise.to_json(), "cost": 0})
        drawn[key] = stated, noise
    by_columns = {table_key(each.name): plan.noise_by_columns(each) for each in meaning.tables}
    return (drawn, by_columns), findings + wrong, skipped


Untold = list[str]
Distances = dict[str, Distance]


def replay_tables(
    folder: VersionFolder,
    manifest: Manifest,
    sound: frozenset[str],
    replay: Replay,
    meaning: Meaning,
    events: Sequence[CountNoise],
    *,
    where: str,
) -> tuple[RuleFindings, RuleFindings, Untold, Distances]:
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
        tuple: findings and skipped parts of rule 8, and of rule 9; what cannot be told from this folder; and how
        far the refined counts of dense tables lie from the noisy ones.
    """
    tables = _Tables(folder, manifest, sound, replay, meaning, where)
    drawn = {draw.key: (draw, event) for draw, event in zip(replay.draws, events, strict=True)}
    by_columns: ColumnNoises = {}
    if meaning.product.split == RESIDUALS:
        derived, tables.measurements, tables.unmeasured = derived_draws(*drawn["residuals"], meaning, tables.bytes_of)
        if derived is None:
            tables.unrefined.append("all tables: the residuals that they follow from cannot be read")
            return (tables.measurements, tables.unmeasured), (tables.refined, tables.unrefined), [], tables.distances
        drawn, by_columns = derived
    total = None
    if "total" in drawn:
        noisy = tables.measured(TOTAL_MEASUREMENTS, *drawn["total"])
        total = int(noisy[0]) if noisy is not None else None
    parts = [
        TablePart(table, planned, resolutions_of(table, planned, meaning.contract, drawn, by_columns))
        for table, planned in zip(replay.tables, meaning.tables, strict=True)
    ]
    alone = [(np.zeros((), np.bool_), drawn["total"][1])] if "total" in drawn else []
    dense = (each for part in parts for each in part.resolutions if each.draw.listed is None)
    masks = ((each.cells.impossible(each.draw.clique), each.event) for each in dense)
    tables.shared = stated_total(replay, meaning, chain(alone, masks))
    if meaning.product.refine.consistent:
        tables.replayed_together(parts, total_event=drawn["total"][1] if "total" in drawn else None)
        tables.check_total(total)
        return (tables.measurements, tables.unmeasured), (tables.refined, tables.unrefined), [], tables.distances
    listed = replay.total.value if total is None else total
    sparse = SparseReplay(tables.bytes_of, manifest, replay, meaning, where, total=listed)
    for part in parts:
        whole = part.resolutions[-1]
        if part.stated.listed is not None and whole.draw.listed is not None:
            sparse.check(part.stated, part.stated.listed, whole.draw, whole.draw.listed, whole.event)
        else:
            tables.replayed(part)
    tables.check_total(total)
    measured = tables.measurements + sparse.measurements, tables.unmeasured + sparse.unmeasured
    refined = tables.refined + sparse.refined, tables.unrefined + sparse.unrefined
    return measured, refined, [tables.earlier.untold] if tables.earlier.untold else [], tables.distances


def _impossible(where: str, error: ValueError) -> Finding:
    """Say that nothing can be refined again."""
    allowed = "noisy values and a total that can be refined"
    return Finding(where, "refinement", printable(str(error)), allowed, OTHER_TABLE)


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
        self.distances: Distances = {}
        self.shared: int | NoisySum | None = None
        self._sums: list[NoisySum | None] = []
        self.earlier = neighbour(folder.path, replay, meaning, where=where)
        self.refined += self.earlier.findings

    def measured(
        self, name: str, draw: DrawStatement, event: CountNoise, cells: Cells | None = None
    ) -> NDArray[np.int64] | None:
        """Check one file of measurements; return its noisy values if they are those that were entered."""
        cells = self._contract if cells is None else cells
        threshold = self._meaning.threshold(event)
        types, marks = self._with_suppressed(MEASURED, event)
        columns, findings, skipped = self._read(name, draw.clique, types, cells, marks)
        self.measurements += findings
        self.unmeasured += skipped
        if columns is None:
            self._sums.append(None)
            return None
        hidden = None if threshold is None else threshold.suppressed(columns["noisy"])
        self.measurements += check_measured(columns, name, draw, event, cells, hidden)
        noisy: NDArray[np.int64] = columns["noisy"]
        self._sums.append(table_sum(noisy, cells.impossible(draw.clique), event))
        return noisy

    def check_total(self, drawn: int | None) -> None:
        """Check the stated total, once all measurements of dense tables have been read, against the drawn one too."""
        known = [each for each in self._sums if each is not None]
        estimated = estimate_total(known) if len(known) == len(self._sums) else None
        self.refined += check_total(self._replay, self._meaning, drawn=drawn, estimated=estimated, where=self._record)

    def replayed_together(self, parts: Sequence[TablePart], *, total_event: CountNoise | None) -> None:
        """Check tables that were refined together; all measurements are held at a time."""
        noisy = [self._noisy(part) for part in parts]
        whole = [values[-1] for values in noisy if values is not None]
        again: Sequence[Refined | None] = [None] * len(parts)
        if len(whole) == len(parts):
            try:
                again = refined_together_again(
                    whole,
                    [part.stated.columns for part in parts],
                    self._meaning,
                    total=self._replay.total.value,
                    total_event=total_event,
                    events=[part.resolutions[-1].event for part in parts],
                )
            except ValueError as error:
                self.refined.append(_impossible(self._record, error))
        for part, values, refined in zip(parts, noisy, again, strict=True):
            if refined is None:
                self.unrefined.append(f"{printable(part.stated.data)}: not all measurements can be read")
            self._measure(part, values, refined)
            self._compared(part, refined)

    def _measure(self, part: TablePart, noisy: Sequence[NDArray[np.int64]] | None, refined: Refined | None) -> None:
        """Note how far a table's refined counts lie from its noisy ones."""
        if noisy is not None and refined is not None:
            kept = None if refined.suppressed is None else ~refined.suppressed
            self.distances[part.resolutions[-1].draw.key] = distance(refined.values, noisy[-1], kept)

    def replayed(self, part: TablePart) -> None:
        """Check a refined table, its levels and their CSV copies against the refinement of the noisy values."""
        noisy, again = self._noisy(part), None
        where = printable(part.stated.data)
        if noisy is None:
            self.unrefined.append(f"{where}: its measurements cannot be read")
        else:
            events = [each.event for each in part.resolutions]
            try:
                again = self._again(part, noisy, events)
            except ValueError as error:
                self.refined.append(_impossible(where, error))
        self._measure(part, noisy, again)
        self._compared(part, again)

    def _again(self, part: TablePart, noisy: Sequence[NDArray[np.int64]], events: Sequence[CountNoise]) -> Refined:
        """Refine again; with the λ that is stated, where the version on which it was chosen is not at hand."""
        table, meaning, counts = part.stated, self._meaning, self.earlier.counts
        by_columns = part.resolutions[-1].by_columns
        terms: dict[str, Any] = {"total": self.shared, "events": events, "by_columns": by_columns}
        if counts is not None or part.planned.hierarchy is not None:
            reference = None if counts is None else counts.get(table.name)
            return refined_again(noisy, part.planned, meaning, **terms, reference=reference)
        meaning = with_stated_lambda(meaning, table)
        return as_stated(refined_again(noisy, part.planned, meaning, **terms), table)

    def _noisy(self, part: TablePart) -> list[NDArray[np.int64]] | None:
        """Check the measurements of a table and its levels; return the noisy values, where all can be read."""
        read = [
            self.measured(each.stated.measurements, each.draw, each.event, each.cells) for each in part.resolutions
        ]
        known = [values for values in read if values is not None]
        return known if len(known) == len(read) else None

    def _compared(self, part: TablePart, again: Refined | None) -> None:
        """Compare a table, its levels and their CSV copies with what refining again gave, if anything."""
        table, consistent = part.stated, self._meaning.product.refine.consistent
        counted = "int64" if table.integers or (table.method == "none" and not consistent) else "double"
        values: Types = {"count": counted, "lower": "int64", "upper": "int64"}
        made: Sequence[Refined | Coarser | None] = [None] * len(part.resolutions)
        if again is not None:
            self.refined += check_choice(table, again, where=self._record)
            made = [*again.coarser, again]
        for each, counts in zip(part.resolutions, made, strict=True):
            columns = self._published(each, table.columns, values)
            if again is not None and counts is not None:
                expected = expected_columns(counts)
                if columns is not None:
                    source = f"replayed by {again.method} from the noisy values"
                    self._compare(columns, expected, where=printable(each.stated.data), source=source)
                columns = expected
            if csv_of(each.stated) in self._manifest.files:
                self._check_csv(each, table.columns, columns, values)

    def _compare(self, found: ColumnArrays, expected: ColumnArrays, *, where: str, source: str) -> None:
        """Compare the counts of a refined table, the ends of their intervals, and which cells are suppressed."""
        for name in expected:
            remedy = UNCERTAINTY if name in ("lower", "upper") else OTHER_TABLE
            self.refined += compare_column(
                found[name], expected[name], where=where, name=name, source=source, remedy=remedy
            )

    def _published(self, resolution: TableResolution, clique: Sequence[str], values: Types) -> ColumnArrays | None:
        """Read a published table and check the digest of its counts."""
        stated = resolution.stated
        columns = self._table(stated.data, resolution, clique, values)
        if columns is not None and (found := values_sha256(columns["count"])) != stated.sha256:
            where, allowed = printable(stated.data), f"{stated.sha256}, as in the record"
            self.refined.append(Finding(where, "SHA-256 of column count", found, allowed, OTHER_TABLE))
        return columns

    def _check_csv(
        self, resolution: TableResolution, clique: Sequence[str], expected: ColumnArrays | None, values: Types
    ) -> None:
        columns = self._table(name := csv_of(resolution.stated), resolution, clique, values)
        if columns is None:
            return
        if expected is None:
            self.unrefined.append(f"{printable(name)}: there is no table to compare it with")
            return
        self._compare(columns, expected, where=printable(name), source=f"as in {printable(resolution.stated.data)}")

    def _table(
        self, name: str, resolution: TableResolution, clique: Sequence[str], values: Types
    ) -> ColumnArrays | None:
        """Read a refined table, or its copy, with what stands beside its labels."""
        types, marks = self._with_suppressed(values, resolution.event)
        beside = () if self._replay.labels is None else resolution.cells.beside(clique)
        columns, findings, skipped = self._read(name, clique, types, resolution.cells, marks, beside)
        self.refined += findings
        self.unrefined += skipped
        return columns

    def _with_suppressed(self, values: Types, event: CountNoise) -> tuple[Types, dict[str, int] | None]:
        """Return the columns of a table that may have suppressed cells, and what stands for their values."""
        threshold = self._meaning.threshold(event)
        return (
            (values, None)
            if threshold is None
            else ({**values, SUPPRESSED: "bool"}, marks_of(threshold.value - 1, event))
        )

    def bytes_of(self, name: str) -> Read:
        """Return a file's bytes if its checksum holds; else say that it was skipped."""
        if name not in self._sound:
            return None, [], [f"{printable(name)}: not opened, for it is missing or not as it was published"]
        try:
            return read_published(self._folder, self._manifest, name), [], []
        except OSError as error:
            found = error.strerror or str(error)
            return None, [Finding(printable(name), "the file", found, "the file that was checked", OTHER_TABLE)], []

    def _read(
        self,
        name: str,
        clique: Sequence[str],
        values: Types,
        cells: Cells,
        marks: Mapping[str, int] | None,
        beside: Beside = (),
    ) -> tuple[ColumnArrays | None, list[Finding], list[str]]:
        """Read a dense table's file if its checksum holds; else say that it was skipped."""
        data, findings, skipped = self.bytes_of(name)
        if data is None:
            return None, findings, skipped
        read = partial(read_csv_table, formulas=self._replay.formulas) if name.endswith(".csv") else read_parquet
        asked = partial(read, data, where=printable(name), cells=cells, clique=clique)
        columns, findings = asked(values=values, marks=marks, beside=beside)
        return columns, findings, []
