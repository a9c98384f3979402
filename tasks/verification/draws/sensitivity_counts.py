"""The one draw of tables that are measured by residuals: is it the product's, and is its sensitivity the contract's?

    1. which residuals are measured, and how often each counts, follows from product and contract alone
    2. the event's moves are whole numbers whose squares add up to how far the worst neighbour moves all residuals,
       which is derived here anew: over every choice of the columns in which two rows differ

A row in cell a adds  ⊗ (d e_a - 1)  to the residual of columns of d cells; two rows that differ in the columns S add
vectors with the inner product  Π_S (-d) Π_other d (d - 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.release.tables.tables import RESIDUALS
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace, ExponentialMechanism
from privacy.grant.queries.choice import ChoiceQuery
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.residuals import ResidualQuery
from privacy.marginals.counts import ParentRows
from privacy.marginals.graph import CellDomain
from privacy.marginals.residual_basis import Residual, squares_of
from privacy.marginals.residuals import MOST_RESIDUALS, TooManyResiduals, column_residuals, pair_residuals
from privacy.marginals.suppression import threshold_for
from privacy.table_plans.residual_plan import drawn_residuals
from tasks.records.draws.choice import ChoiceDraw
from tasks.records.draws.marginal import MarginalDraw, ResidualDraw
from tasks.records.files.write import RESIDUALS_FILE, residual_labels, residual_rows
from tasks.records.model.version_statements import DrawStatement, FittedDraw
from tasks.records.strict_json import printable, read_json, shown
from tasks.verification.draws.charged_noise import MOST_MOVES
from tasks.verification.draws.count_draws import check_count_draw
from tasks.verification.draws.draw_checks import (
    UNDERSTATED,
    DrawChecks,
    FileForm,
    FittedMeaning,
    OtherDraw,
    PublishedValues,
    SeparateDrawChecks,
)
from tasks.verification.files.folder import OpenFiles
from tasks.verification.files.measurement_files import check_measured
from tasks.verification.files.parquet_pages import open_numbers
from tasks.verification.files.table_files import (
    MEASURED,
    MISFIT,
    SUPPRESSED,
    UNREADABLE,
    check_digest,
    check_whole,
    compare_column,
    label_numbers,
    marks_of,
    read_parquet,
)
from tasks.verification.record_identity import OTHER, differences
from tasks.verification.refinement_replay import values_sha256
from tasks.verification.table_meaning import Meaning

MOST_SQUARES: Final = 16
"""Squares that an event of residuals states at most."""
_UNDERSTATED: Final = "the stated loss does not follow from the contract: do not rely on the claimed guarantee"


def check_workload(meaning: Meaning, *, where: str) -> list[Finding]:
    """Check that the product's tables have no more residuals than a plan may have."""
    try:
        drawn_residuals(meaning.product, meaning.tables, meaning.contract)
    except TooManyResiduals:
        found, allowed = f"{len(meaning.tables)} tables", f"at most {MOST_RESIDUALS} residuals"
        return [Finding(where, "replay.product.tables", found, allowed, OTHER)]
    return []


def check_residual_draw(draws: Sequence[DrawStatement], meaning: Meaning, *, where: str) -> list[Finding]:
    """Check that there is one draw, of the product's residuals, with the worst neighbour's moves."""
    keys = [printable(draw.key) for draw in draws]
    if keys != [RESIDUALS]:
        found = ", ".join(keys[:12]) or "none"
        return [Finding(where, "replay.draws", found, f"{RESIDUALS}, as the product says", OTHER)]
    (draw,), contract = draws, meaning.contract
    residuals = drawn_residuals(meaning.product, meaning.tables, contract)
    pairs = [
        ("replay.draws[0].clique", list(draw.clique), []),
        ("replay.draws[0].shape", list(draw.shape), [sum(each.cells for each in residuals)]),
        ("replay.draws[0].event.kind", str(draw.event.get("kind")), DiscreteGaussian.kind),
        ("replay.draws[0].coarsening", str(draw.coarsening), str(None)),
        ("replay.draws[0].listed", str(draw.listed), str(None)),
    ]
    findings = list(differences(pairs, where=where, allowed="all residuals of the product's tables"))
    worst = list(squares_of(worst_norm(residuals, contract)))
    if draw.event.get("moves") != worst:
        terms = f"{contract.adjacency} with {contract.unit.max_rows_per_unit} rows a unit"
        found = str(draw.event.get("moves"))[:60]
        findings.append(Finding(where, "replay.draws[0].event.moves", found, f"{worst}, under {terms}", _UNDERSTATED))
    return findings


def worst_norm(residuals: Sequence[Residual], contract: Contract) -> int:
    """Return the squared norm of what the worst neighbour moves, each residual by itself at its worst."""
    changed = sum(each.multiplier**2 * _worst_row(each.shape, contract.adjacency) for each in residuals)
    return contract.unit.max_rows_per_unit**2 * changed


@cache
def _worst_row(shape: tuple[int, ...], adjacency: str) -> int:
    """Return how far one row moves a residual at worst: present or absent, or in another cell."""
    norms = [cells * (cells - 1) for cells in shape]
    alone = prod(norms)
    if adjacency == "add_remove":
        return alone
    products = product(*([norm, -cells] for cells, norm in zip(shape, norms, strict=True)))
    moved = [2 * alone - 2 * prod(inner) for inner in products]
    return max(alone, *moved)  # a row may also go for none, where a unit may have several


def residual_form(meaning: Meaning) -> dict[str, FileForm]:
    """Say how the file of residuals is written."""
    return {
        RESIDUALS_FILE: FileForm(
            {"columns": residual_labels(drawn_residuals(meaning.product, meaning.tables, meaning.contract))}
        )
    }


def read_residuals(
    data: bytes, draw: DrawStatement, residuals: Sequence[Residual]
) -> tuple[NDArray[np.int64] | None, list[Finding]]:
    """Check the file of residuals.

    Args:
        data: its bytes.
        draw: what the record says of the draw.
        residuals: what the product has measured.
    Returns:
        tuple: the noisy numbers, None where they cannot be read or are not those of the draw; and what is wrong.
    """
    where = RESIDUALS_FILE
    try:
        columns, findings = _columns(data, residuals, where)
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]
    if columns is None:
        return None, findings
    noisy = columns["noisy"]
    for name, expected in residual_rows(residuals).items():
        source = "as product and contract say"
        findings += compare_column(columns[name], expected, where=where, name=name, source=source, remedy=MISFIT)
    others = check_digest(values_sha256(noisy), draw.sha256, "column noisy", where=where)
    return (None if others else noisy), findings + others


def _columns(
    data: bytes, residuals: Sequence[Residual], where: str
) -> tuple[dict[str, NDArray[Any]] | None, list[Finding]]:
    """Read the columns after names, types and number of rows have been checked."""
    file = open_numbers(data, labels=["columns"])
    names, rows = ["columns", "cell", "multiplier", "noisy"], sum(each.cells for each in residuals)
    kinds = [str(file.schema_arrow.field(name).type) for name in names[1:] if name in file.schema_arrow.names]
    for field, is_, must in (
        ("columns", list(file.schema_arrow.names), names),
        ("types", kinds, ["int64"] * 3),
        ("rows", file.metadata.num_rows, rows),
    ):
        if is_ != must:
            return None, [Finding(where, field, shown(str(is_)), shown(str(must)), MISFIT)]
    table = file.read()
    table.validate(full=True)
    missing = check_whole(table, where, names)
    if missing:
        return None, missing
    places, _ = label_numbers(table.column("columns"), residual_labels(residuals))
    return {"columns": places} | {name: table.column(name).to_numpy() for name in names[1:]}, []


# --- Noisy marginals.


class MarginalChecks(SeparateDrawChecks[MarginalDraw, MarginalQuery]):
    """The checks of noisy marginals."""

    events = (DiscreteLaplace, DiscreteGaussian)
    most_moves = MOST_MOVES

    def check_draw(self, draw: MarginalDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check shape, file and sensitivity of each."""
        return _check_marginal(draw, meaning, at, where)

    def form(self, draw: MarginalDraw, meaning: FittedMeaning) -> FileForm:
        """Cells have the labels of their columns."""
        cells = draw.cells(meaning.contract)
        return FileForm({name: cells.column(name).labels for name in draw.clique})

    def read(
        self, data: bytes, draw: MarginalDraw, event: CountNoise, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of a marginal."""
        name, cells = draw.measurements or "", draw.cells(meaning.contract)
        rule = meaning.minimum_frequency_of(draw.key)
        threshold = None if rule is None else threshold_for(rule, event)
        types, marks = MEASURED, None
        if threshold is not None:
            types, marks = {**MEASURED, SUPPRESSED: "bool"}, marks_of(threshold.value - 1, event)
        terms: dict[str, Any] = {"cells": cells, "clique": draw.clique, "values": types, "marks": marks}
        columns, wrong = read_parquet(data, where=printable(name), **terms)
        if columns is None:
            return None, wrong
        hidden = None if threshold is None else threshold.suppressed(columns["noisy"])
        wrong += check_measured(columns, name, draw, event, cells, hidden)
        return columns["noisy"].reshape(draw.shape), wrong

    def matching(self, query: MarginalQuery, draw: MarginalDraw, values: PublishedValues) -> MarginalQuery:
        """Compare the columns, whose rows are counted, and which bins are joined."""
        parents = query.counts.parents
        if (draw.clique, draw.table) != (query.clique, None if parents is None else parents.table):
            raise OtherDraw(
                f"draw {draw.key!r}: {'×'.join(query.clique) or 'all rows'} was asked for, not what is there"
            )
        asked = None if query.counts.coarsening is None else query.counts.coarsening.firsts
        if (None if draw.bins is None else dict(draw.bins)) != (None if asked is None else dict(asked)):
            raise OtherDraw(f"draw {draw.key!r}: other joined bins were asked for than those that are there")
        return query


def _check_marginal(draw: MarginalDraw, meaning: FittedMeaning, at: str, where: str) -> list[Finding]:
    """Check a marginal's shape, joined bins, file and sensitivity."""
    allowed, coarser = "the whole declared domain, in a file of its own", None
    if draw.bins is not None:
        coarser, findings = _joined(draw, meaning, at, where)
        if coarser is None:
            return findings
    own = [
        (f"{at}.clique", list(draw.clique), list(meaning.ordered(draw.clique))),
        (f"{at}.shape", list(draw.shape), list(draw.cells(meaning.contract).shape(draw.clique))),
    ]
    counted, wrong = _counted(draw, meaning, at, where)
    terms: dict[str, Any] = {"contract": counted, "allowed": allowed, "coarsening": coarser}
    return wrong or check_count_draw(draw, meaning, own, at=at, where=where, **terms)


def _counted(
    draw: MarginalDraw, meaning: FittedMeaning, at: str, where: str
) -> tuple[Contract | None, list[Finding]]:
    """Return the contract of a parent table whose rows were counted; None for the rows of the base."""
    if draw.table is None:
        return None, []
    contract = meaning.contract
    parent = None
    if contract.linked is not None and contract.linked.chain(contract.table):
        parent = contract.over(ParentRows.of(contract).table)
    if parent is None or draw.table != parent.table:
        allowed = "no table" if parent is None else f"{printable(parent.table)}, or no table"
        return None, [Finding(where, f"{at}.table", printable(draw.table), allowed, UNDERSTATED)]
    unknown = set(draw.clique) - {column.name for column in parent.columns}
    if unknown:
        found, allowed = f"the column {printable(min(unknown))}", f"columns of {printable(parent.table)}"
        return None, [Finding(where, f"{at}.clique", found, allowed, UNDERSTATED)]
    return parent, []


def _joined(
    draw: MarginalDraw, meaning: FittedMeaning, at: str, where: str
) -> tuple[dict[str, str] | None, list[Finding]]:
    """Return what a marginal over joined bins must state of its resolution; or what is wrong with the bins."""
    from contracts.release.joined_cells import joins_fit  # most versions have none

    joins = draw.bins or {}
    if (
        draw.table is not None
        or not joins_fit(joins, draw.clique, meaning.contract)
        or (coarser := draw.resolution(meaning.contract)) is None
    ):
        allowed = "of some of its columns of numbers, first bins that rise from 0"
        return None, [Finding(where, f"{at}.bins", shown(joins), allowed, OTHER)]
    return coarser.to_json(), []


# --- Private choices.


CHOICES: Final = "measurements/choices.json"
_OTHER_CHOICES: Final = "the choices are not those that were made and paid for: do not use this version"


class ChoiceChecks(DrawChecks[ChoiceDraw, ChoiceQuery]):
    """The checks of private choices."""

    events = (ExponentialMechanism,)

    def check(
        self,
        placed: Sequence[tuple[int, ChoiceDraw]],
        draws: Sequence[FittedDraw],
        meaning: FittedMeaning,
        *,
        where: str,
    ) -> list[Finding]:
        """Check each choice against what was entered, and against the draws after it."""
        return [finding for place, draw in placed for finding in _check_choice(draw, draws, place, where)]

    def files_beside(self, draws: Sequence[ChoiceDraw]) -> frozenset[str]:
        """One file for all choices."""
        return frozenset({CHOICES})

    def read_beside(
        self, draws: Sequence[ChoiceDraw], meaning: FittedMeaning, files: OpenFiles, findings: list[Finding]
    ) -> dict[str, Any]:
        """Check that the file has the choices of the record."""
        expected, data = [_entry(draw) for draw in draws], files.read(CHOICES, findings)
        if data is not None:
            found, wrong = read_json(data, where=CHOICES)
            findings += wrong
            if found != expected:
                allowed = f"the {len(expected)} choices of the record"
                findings.append(Finding(CHOICES, "the choices", shown(found), allowed, _OTHER_CHOICES))
        return {}

    def drawn(self, draw: ChoiceDraw, values: PublishedValues) -> NDArray[np.int64]:
        """Return the place of the choice."""
        return np.array([draw.index])

    def matching(self, query: ChoiceQuery, draw: ChoiceDraw, values: PublishedValues) -> ChoiceQuery:
        """Compare the chosen candidate with the columns that are stated of it."""
        candidates = query.candidates
        if not draw.index < len(candidates):
            raise OtherDraw(f"draw {draw.key!r}: a choice among {len(candidates)} was asked for, not what is there")
        if candidates[draw.index].clique != draw.clique:
            named = "×".join(candidates[draw.index].clique)
            raise OtherDraw(f"draw {draw.key!r}: candidate {draw.index} is {named}, not {'×'.join(draw.clique)}")
        return query


def _entry(draw: ChoiceDraw) -> dict[str, Any]:
    """Return a choice as it must stand in its file."""
    return {
        "key": draw.key,
        "number": draw.number,
        "columns": list(draw.clique),
        "index": draw.index,
        "epsilon": draw.event.get("epsilon"),
    }


def _check_choice(draw: ChoiceDraw, draws: Sequence[FittedDraw], place: int, where: str) -> list[Finding]:
    at = f"replay.draws[{place}]"
    if draw.measurements is not None or draw.shape:
        return [
            Finding(where, at, "a choice with a marginal", "the place of what was chosen, and no marginal", OTHER)
        ]
    found = values_sha256(np.array([draw.index], dtype=np.int64))
    findings = []
    if found != draw.sha256:
        allowed = f"{draw.sha256}, as it was entered when the choice was made"
        findings.append(Finding(where, f"{at}.index", f"{draw.index}, SHA-256 {found}", allowed, OTHER))
    later = [set(each.clique) for each in draws[place + 1 :] if not isinstance(each, ChoiceDraw)]
    if set(draw.clique) not in later:
        allowed = "a choice whose columns are measured afterwards"
        findings.append(Finding(where, f"{at}.clique", shown(list(draw.clique)), allowed, OTHER))
    return findings


# --- Noisy residuals of a fit.


class FittedResidualChecks(SeparateDrawChecks[ResidualDraw, ResidualQuery]):
    """The checks of residuals that a fit drew. How far a unit moves them is derived as of tables, by its own code."""

    events = (DiscreteGaussian,)
    most_moves = MOST_SQUARES

    def check_draw(self, draw: ResidualDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check which residuals are drawn, their file, and the worst neighbour's moves."""
        residuals, contract = _residuals(draw, meaning), meaning.contract
        pairs: list[tuple[str, object, object]] = [
            (f"{at}.clique", list(draw.clique), []),
            (f"{at}.shape", list(draw.shape), [sum(each.cells for each in residuals)]),
            (f"{at}.coarsening", draw.coarsening, None),
            (f"{at}.listed", draw.listed, None),
            (f"{at}.measurements", draw.measurements, RESIDUALS_FILE),
        ]
        findings = list(
            differences(pairs, where=where, allowed="all residuals of the product's columns, or of columns and pairs")
        )
        worst = list(squares_of(worst_norm(residuals, contract)))
        if draw.event.get("moves") != worst:
            terms = f"{contract.adjacency} with {contract.unit.max_rows_per_unit} rows a unit"
            found = str(draw.event.get("moves"))[:60]
            findings.append(Finding(where, f"{at}.event.moves", found, f"{worst}, under {terms}", UNDERSTATED))
        return findings

    def form(self, draw: ResidualDraw, meaning: FittedMeaning) -> FileForm:
        """Columns of a residual are labels."""
        return FileForm({"columns": residual_labels(_residuals(draw, meaning))})

    def read(
        self, data: bytes, draw: ResidualDraw, event: DiscreteGaussian, meaning: FittedMeaning, rebuilt: object
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check the file of the noisy numbers."""
        return read_residuals(data, draw, _residuals(draw, meaning))

    def matching(self, query: ResidualQuery, draw: ResidualDraw, values: PublishedValues) -> ResidualQuery:
        """Compare how many numbers were asked for; which they are, the event tells."""
        if sum(each.cells for each in query.residuals) != sum(draw.shape):
            raise OtherDraw(f"draw {draw.key!r}: other residuals were asked for than those that are there")
        return query


def _residuals(draw: ResidualDraw, meaning: FittedMeaning) -> tuple[Residual, ...]:
    """Return the residuals of all columns, or of all pairs too: whichever has as many numbers as were drawn."""
    contract = meaning.contract
    domain = CellDomain.of(contract, meaning.names)
    cells = tuple(zip(domain.columns, domain.shape, strict=True))
    known = contract.total is not None
    columns = column_residuals(cells, adjacency=contract.adjacency, total_is_public=known)
    if list(draw.shape) == [sum(each.cells for each in columns)]:
        return columns
    return pair_residuals(cells, adjacency=contract.adjacency, total_is_public=known)
