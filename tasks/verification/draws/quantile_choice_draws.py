"""Chosen quantiles: lattices within the contract's bounds, quantiles in order, offsets of the lattice as entered.

The event says what all choices of a draw cost together. That it is the planned share of the charge, and that the
quantiles are those of the product, is compared with the plan that is made again from spec and contract.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.quantile_choices import QuantileChoices
from contracts.domains.value_lattices import lattice_problems
from contracts.errors import Finding
from privacy.accounting.events import ExponentialMechanism
from privacy.grant.queries.quantile_choice import QuantileChoiceQuery
from privacy.statistics.chosen_quantiles import ChosenQuantiles
from tasks.records.draws.cell_sums import PART, PartedCells
from tasks.records.draws.quantile_choices import CHOSEN, ZERO, QuantileDraw
from tasks.records.model.version_statements import FittedDraw
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.draw_checks import (
    FileForm,
    FittedMeaning,
    OtherDraw,
    PublishedValues,
    SeparateDrawChecks,
    is_own_file,
)
from tasks.verification.files.table_files import OTHER_NOISE, UNCERTAINTY, check_digest, compare_column, read_parquet
from tasks.verification.record_identity import OTHER, differences
from tasks.verification.refinement_replay import values_sha256


class QuantileChoiceChecks(SeparateDrawChecks[QuantileDraw, QuantileChoiceQuery]):
    """The checks of chosen quantiles."""

    events = (ExponentialMechanism,)

    def check_draw(self, draw: QuantileDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check lattice, quantiles, shape and file of each."""
        choices, findings = _read_choices(draw, meaning.contract, at, where)
        if choices is None:
            return findings
        name, own = draw.measurements or "", is_own_file(draw.measurements)
        pairs: list[tuple[str, object, object]] = [
            (f"{at}.shape", str(list(draw.shape)), str([*meaning.contract.shape(draw.clique), choices.parts])),
            (f"{at}.coarsening", draw.coarsening, None),
            (f"{at}.listed", draw.listed, None),
            (f"{at}.measurements", name if own else shown(name), name if own else "a Parquet file in measurements/"),
        ]
        return list(differences(pairs, where=where, allowed="the whole declared domain, in a file of its own"))

    def form(self, draw: QuantileDraw, meaning: FittedMeaning) -> FileForm:
        """Cells have the labels of their columns, and their quantiles."""
        labels: dict[str, Any] = {name: meaning.contract.column(name).labels for name in draw.clique}
        return FileForm({**labels, PART: draw.choices.choices.part_names})

    def read(
        self, data: bytes, draw: QuantileDraw, event: ExponentialMechanism, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of chosen offsets: those that were entered, each of the lattice, none descending."""
        choices, where, clique = draw.choices.choices, printable(draw.measurements or ""), (*draw.clique, PART)
        cells = PartedCells(meaning.contract, choices.part_names)
        types = {CHOSEN: "int64", ZERO: "bool"}
        columns, wrong = read_parquet(data, where=where, cells=cells, clique=clique, values=types)
        if columns is None:
            return None, wrong
        offsets = columns[CHOSEN].reshape(draw.shape)
        wrong += check_digest(values_sha256(offsets), draw.sha256, f"column {CHOSEN}", where=where)
        if offsets.min() < 0 or offsets.max() > choices.lattice.width or (np.diff(offsets, axis=-1) < 0).any():
            allowed = f"from 0 to {choices.lattice.width}, a higher quantile never below a lower one"
            wrong.append(Finding(where, f"column {CHOSEN}", "offsets that cannot be chosen", allowed, OTHER_NOISE))
        wrong += compare_column(
            columns[ZERO],
            cells.impossible(clique).reshape(-1),
            where=where,
            name=ZERO,
            source="recomputed from the contract",
            remedy=UNCERTAINTY,
        )
        return offsets, wrong

    def matching(
        self, query: QuantileChoiceQuery, draw: QuantileDraw, values: PublishedValues
    ) -> QuantileChoiceQuery:
        """Compare columns, lattice and quantiles."""
        if (draw.clique, draw.choices.choices) != (query.clique, query.choices):
            raise OtherDraw(f"draw {draw.key!r}: other quantiles were asked for than those that are there")
        return query


def chosen_by(
    draws: Sequence[FittedDraw], keys: Sequence[str], noisy: Mapping[str, NDArray[np.int64]]
) -> dict[str, ChosenQuantiles] | None:
    """Return what was chosen by the draws of some keys, by column; None where some of it could not be read."""
    own = [draw for draw in draws if isinstance(draw, QuantileDraw) and draw.key in keys]
    if any(draw.key not in noisy for draw in own):
        return None
    return {draw.choices.column: ChosenQuantiles(noisy[draw.key], draw.choices.choices) for draw in own}


def _read_choices(
    draw: QuantileDraw, contract: Contract, at: str, where: str
) -> tuple[QuantileChoices | None, list[Finding]]:
    """Read lattice and quantiles, and hold them against the column's domain."""
    stated = draw.choices
    choices: QuantileChoices | None
    try:
        choices = stated.choices
        lattice, shares = choices.lattice, choices.shares
        sound = all(each.is_finite() for each in (lattice.low, lattice.high, lattice.step, *shares))
        sound = sound and choices.to_json() == {**stated.model_dump(), "quantiles": list(stated.quantiles)}
        sound = sound and bool(shares) and list(shares) == sorted(set(shares)) and 0 < shares[0] <= shares[-1] < 1
        rows = contract.unit.max_rows_per_unit
        problems = lattice_problems(lattice.low, lattice.high, lattice.step, rows) if sound else []
    except (InvalidOperation, ValueError, ArithmeticError):
        sound, problems, choices = False, [], None
    if choices is None or not sound or problems:
        allowed = "a lattice, and quantiles in their order"
        return None, [Finding(where, f"{at}.choices", "no lattice, or no quantiles", allowed, OTHER)]
    columns = {column.name: column.domain for column in contract.columns}
    bounds = columns[stated.column].value_bounds if stated.column in columns else None
    if bounds is None or not bounds[0] <= choices.lattice.low < choices.lattice.high <= bounds[1]:
        found, allowed = shown(stated.column), "a column of numbers of the contract, within its bounds"
        return None, [Finding(where, f"{at}.choices", found, allowed, OTHER)]
    apart = columns[stated.column].nulls.policy == "category"
    pairs: list[tuple[str, object, object]] = [(f"{at}.choices.counts_missing", stated.counts_missing, apart)]
    findings = list(differences(pairs, where=where, allowed="as the contract says of missing values"))
    return (None if findings else choices), findings
