"""Noisy sums by cell: lattices within the contract's bounds, the worst neighbour's moves, the values as entered."""

from __future__ import annotations

from decimal import InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.value_lattices import lattice_problems
from contracts.domains.value_magnitudes import ValueMagnitudes
from contracts.domains.value_trees import MOST_LEVELS, ValueTree, resolution_problems
from contracts.errors import Finding
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.marginals.cell_sums import Addends
from tasks.records.draws.cell_sums import PART, CellSumDraw, PartedCells
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.charged_noise import MOST_MOVES, worst_moves
from tasks.verification.draws.draw_checks import (
    UNDERSTATED,
    FileForm,
    FittedMeaning,
    OtherDraw,
    PublishedValues,
    SeparateDrawChecks,
    is_own_file,
)
from tasks.verification.files.measurement_files import check_measured
from tasks.verification.files.table_files import MEASURED, read_parquet
from tasks.verification.record_identity import OTHER, differences


class CellSumChecks(SeparateDrawChecks[CellSumDraw, CellSumQuery]):
    """The checks of noisy sums by cell."""

    events = (DiscreteLaplace, DiscreteGaussian)
    most_moves = MOST_MOVES * MOST_LEVELS

    def check_draw(self, draw: CellSumDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check lattice, shape, file and sensitivity of each."""
        return _check_sums(draw, meaning.contract, at, where)

    def form(self, draw: CellSumDraw, meaning: FittedMeaning) -> FileForm:
        """Cells have the labels of their columns, and their parts."""
        labels: dict[str, Any] = {name: meaning.contract.column(name).labels for name in draw.clique}
        return FileForm({**labels, PART: draw.addends.addends.part_names})

    def read(
        self, data: bytes, draw: CellSumDraw, event: CountNoise, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of sums."""
        name, cells = draw.measurements or "", PartedCells(meaning.contract, draw.addends.addends.part_names)
        parted = draw.model_copy(update={"clique": (*draw.clique, PART)})
        columns, wrong = read_parquet(data, where=printable(name), cells=cells, clique=parted.clique, values=MEASURED)
        if columns is None:
            return None, wrong
        return columns["noisy"].reshape(draw.shape), [*wrong, *check_measured(columns, name, parted, event, cells)]

    def matching(self, query: CellSumQuery, draw: CellSumDraw, values: PublishedValues) -> CellSumQuery:
        """Compare columns and lattice."""
        if (draw.clique, draw.addends.addends) != (query.clique, query.sums.addends):
            raise OtherDraw(f"draw {draw.key!r}: other sums were asked for than those that are there")
        return query


def _check_sums(draw: CellSumDraw, contract: Contract, at: str, where: str) -> list[Finding]:
    """Check a draw's lattice against the contract, and shape, file and sensitivity against the lattice."""
    addends, findings = _read_addends(draw, contract, at, where)
    if addends is None:
        return findings
    name, own = draw.measurements or "", is_own_file(draw.measurements)
    pairs: list[tuple[str, object, object]] = [
        (f"{at}.shape", str(list(draw.shape)), str([*contract.shape(draw.clique), addends.parts])),
        (f"{at}.coarsening", draw.coarsening, None),
        (f"{at}.listed", draw.listed, None),
        (f"{at}.measurements", name if own else shown(name), name if own else "a Parquet file in measurements/"),
    ]
    findings += differences(pairs, where=where, allowed="the whole declared domain, in a file of its own")
    if isinstance(addends, ValueMagnitudes) and draw.clique:
        found = shown(list(draw.clique))
        findings.append(Finding(where, f"{at}.clique", found, "magnitudes of all rows together", OTHER))
    # A row moves a sum by all steps, one node of each level, or one bin.
    worst = [move * each for each in addends.row_moves for move in worst_moves(contract)]
    if draw.event.get("moves") != worst:
        rows = f"{contract.unit.max_rows_per_unit} rows a unit"
        terms = f"{contract.adjacency} with {rows} that move {list(addends.row_moves)}"
        found = str(draw.event.get("moves"))[:60]
        findings.append(Finding(where, f"{at}.event.moves", found, f"{worst}, under {terms}", UNDERSTATED))
    return findings


def _read_addends(draw: CellSumDraw, contract: Contract, at: str, where: str) -> tuple[Addends | None, list[Finding]]:
    """Read a lattice, or a tree over it, and hold it against the column's domain."""
    stated = draw.addends
    try:
        addends = stated.addends
        low, high, step = addends.lattice.low, addends.lattice.high, addends.lattice.step
        numbers = (low, high, step, addends.resolution) if isinstance(addends, ValueTree) else (low, high, step)
        sound = all(each.is_finite() for each in numbers)
        sound = sound and addends.to_json() == stated.model_dump(exclude_none=True)
        problems = lattice_problems(low, high, step, contract.unit.max_rows_per_unit) if sound else []
        if sound and not problems and isinstance(addends, ValueTree):
            problems = resolution_problems(addends, contract.cells(draw.clique))
    except (InvalidOperation, ValueError, ArithmeticError):
        sound, problems, addends = False, [], None
    if addends is None or not sound:
        return None, [Finding(where, f"{at}.addends", "no lattice", "ends and step in their one form", OTHER)]
    columns = {column.name: column.domain for column in contract.columns}
    bounds = columns[stated.column].value_bounds if stated.column in columns else None
    if bounds is None:
        found = shown(stated.column)
        return None, [Finding(where, f"{at}.addends.column", found, "a column of numbers of the contract", OTHER)]
    findings = [Finding(where, f"{at}.addends", printable(each.found), each.allowed, OTHER) for each in problems]
    if not bounds[0] <= low < high <= bounds[1]:
        found, allowed = f"[{low}, {high}]", f"within the bounds [{bounds[0]}, {bounds[1]}]"
        findings.append(Finding(where, f"{at}.addends", found, allowed, OTHER))
    apart = columns[stated.column].nulls.policy == "category"
    pairs: list[tuple[str, object, object]] = [(f"{at}.addends.counts_missing", stated.counts_missing, apart)]
    findings += differences(pairs, where=where, allowed="as the contract says of missing values")
    return (None if findings else addends), findings
