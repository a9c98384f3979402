"""Noisy sums by cell: lattices within the contract's bounds, the worst neighbour's moves, the values as entered."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.addends import Addends, Summands, WeightedCount, addend_problems
from contracts.domains.distinct_counts import DistinctCount
from contracts.domains.value_lattices import ValueLattice
from contracts.domains.value_magnitudes import ValueMagnitudes
from contracts.domains.value_sums import LoneSum
from contracts.domains.value_trees import MOST_LEVELS, ValueTree, resolution_problems
from contracts.errors import Finding
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.statistics.cell_suppression import cell_threshold, counts_rows
from tasks.records.draws.cell_sums import PART, CellSumDraw, DistinctStatement, PartedCells
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.charged_noise import MOST_MOVES, worst_moves
from tasks.verification.draws.distinct_counts import LISTED, read_distinct, worst_distinct_moves
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
from tasks.verification.files.suppressed_cells import SUPPRESSED, marks_of
from tasks.verification.files.table_files import MEASURED, read_parquet
from tasks.verification.record_identity import OTHER, differences


class CellSumChecks(SeparateDrawChecks[CellSumDraw, CellSumQuery]):
    """The checks of noisy sums by cell."""

    events = (DiscreteLaplace, DiscreteGaussian)
    most_moves = max(MOST_MOVES * MOST_LEVELS, LISTED)

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
        rule, addends = meaning.minimum_frequency_of(draw.key), draw.addends.addends
        gone = cell_threshold(rule, addends, event) if rule is not None and counts_rows(addends) else None
        types, marks = MEASURED, None
        if gone is not None:
            types, marks = {**MEASURED, SUPPRESSED: "bool"}, marks_of(0, event)
        terms: dict[str, Any] = {"cells": cells, "clique": parted.clique, "values": types, "marks": marks}
        columns, wrong = read_parquet(data, where=printable(name), **terms)
        if columns is None:
            return None, wrong
        hidden = None if gone is None else gone.hidden(columns["noisy"])
        wrong += check_measured(columns, name, parted, event, cells, hidden)
        return columns["noisy"].reshape(draw.shape), wrong

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
    if isinstance(addends, DistinctCount):
        worst, moved = worst_distinct_moves(addends, contract, draw.clique), f"one of {addends.counts} each"
    else:
        worst, moved = _worst_moves(addends, contract), str(list(addends.row_moves))
    if draw.event.get("moves") != worst:
        terms = f"{contract.adjacency} with {contract.unit.max_rows_per_unit} rows a unit that move {moved}"
        found, wanted = str(draw.event.get("moves"))[:60], str(worst)[:60]
        findings.append(Finding(where, f"{at}.event.moves", found, f"{wanted}, under {terms}", UNDERSTATED))
    return findings


def _worst_moves(addends: Summands, contract: Contract) -> list[int]:
    """Derive what one unit does to sums at worst."""
    # A row moves a sum by all steps, one node of each level, or one bin; as often as its weight says.
    moves = worst_moves(contract)
    if isinstance(addends, LoneSum) and addends.per_unit is not None:
        # All rows of a unit together add no more than its quota, whatever their number.
        most = addends.per_unit / addends.lattice.step
        one = [int(most)] if contract.adjacency == "add_remove" else [int(most)] * 2
        return [sum(one)] if addends.lattice.low < 0 < addends.lattice.high else one
    if isinstance(addends, LoneSum) and addends.lattice.low < 0 < addends.lattice.high:
        moves = [sum(moves)]  # what leaves a sum may lie below 0, and what enters it above
    return [move * each for each in addends.row_moves for move in moves]


def _read_addends(draw: CellSumDraw, contract: Contract, at: str, where: str) -> tuple[Addends | None, list[Finding]]:
    """Read a lattice, or a tree over it, and hold it against the column's domain."""
    stated = draw.addends
    if isinstance(stated, DistinctStatement):
        return read_distinct(stated, contract, draw.clique, at, where)
    try:
        addends = stated.addends
        lattices = [addends.lattice, *([] if addends.lattice.weight is None else [addends.lattice.weight])]
        numbers = [number for each in lattices for number in (each.low, each.high, each.step)]
        numbers += [addends.resolution] if isinstance(addends, ValueTree) else []
        sound = all(each.is_finite() for each in numbers)
        sound = sound and addends.to_json() == stated.model_dump(mode="json", exclude_none=True)
        problems = addend_problems(addends, contract.unit.max_rows_per_unit) if sound else []
        if sound and not problems and isinstance(addends, ValueTree):
            # Numbers were bounded by what was known before keys were selected.
            before = contract.with_keys(dict.fromkeys(contract.texts(draw.clique), ()))
            problems = resolution_problems(addends, before.cells(draw.clique))
    except (InvalidOperation, ValueError, ArithmeticError):
        sound, problems, addends = False, [], None
    if addends is None or not sound:
        return None, [Finding(where, f"{at}.addends", "no lattice", "ends and step in their one form", OTHER)]
    findings = [Finding(where, f"{at}.addends", printable(each.found), each.allowed, OTHER) for each in problems]
    if not isinstance(addends, WeightedCount):
        findings += _check_lattice(addends.lattice, contract, f"{at}.addends", where)
    if addends.weight is not None:
        findings += _check_lattice(addends.weight, contract, f"{at}.addends", where, weighs=True)
    return (None if findings else addends), findings


def _check_lattice(
    lattice: ValueLattice, contract: Contract, at: str, where: str, *, weighs: bool = False
) -> list[Finding]:
    """Hold a lattice against its column's domain; that of a weight starts at 0, below which no weight may be."""
    columns = {column.name: column.domain for column in contract.columns}
    domain = columns.get(lattice.column)
    bounds = None if domain is None else domain.value_bounds if weighs else domain.lattice_bounds
    if bounds is None or (weighs and bounds[0] < 0):
        allowed = "a column of weights of 0 or more" if weighs else "a column of numbers or days of the contract"
        return [Finding(where, f"{at}.column", shown(lattice.column), allowed, OTHER)]
    least, findings = Decimal(0) if weighs else bounds[0], []
    if not least <= lattice.low < lattice.high <= bounds[1]:
        found, allowed = f"[{lattice.low}, {lattice.high}]", f"within the bounds [{least}, {bounds[1]}]"
        findings.append(Finding(where, at, found, allowed, OTHER))
    apart = columns[lattice.column].nulls.policy == "category"
    pairs: list[tuple[str, object, object]] = [(f"{at}.counts_missing", lattice.counts_missing, apart)]
    return [*findings, *differences(pairs, where=where, allowed="as the contract says of missing values")]
