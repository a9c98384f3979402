"""Noisy sums by cell: lattices within the contract's bounds, the worst neighbour's moves, the values as entered."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.domains.addends import (
    Addends,
    DistinctCount,
    LoneSum,
    Summands,
    ValueMagnitudes,
    WeightedCount,
    addend_problems,
)
from contracts.domains.domain import NULL_LABEL
from contracts.domains.lattice import ValueLattice, lattice_problems
from contracts.domains.text import BESIDE_KEYS, OTHERS, SPLIT, TextDomain
from contracts.domains.trees import MOST_LEVELS, QuantileChoices, ValueTree, resolution_problems
from contracts.errors import Finding
from privacy.accounting.events import (
    CountNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    KeySelection,
)
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.keys import KeyCountQuery, KeyQuery, law_of, packed, packed_counts
from privacy.grant.queries.quantile_choice import QuantileChoiceQuery
from privacy.statistics.cell_suppression import cell_threshold, counts_rows
from privacy.statistics.quantiles import ChosenQuantiles
from tasks.records.draws.draws import CHOSEN, PART, ZERO, CellSumDraw, DistinctStatement, PartedCells, QuantileDraw
from tasks.records.draws.marginal import NOISY, KeyCountDraw, KeyDraw
from tasks.records.model.version_statements import FittedDraw
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
from tasks.verification.files.table_files import (
    MEASURED,
    OTHER_NOISE,
    SUPPRESSED,
    UNCERTAINTY,
    check_digest,
    compare_column,
    marks_of,
    read_parquet,
)
from tasks.verification.record_identity import OTHER, differences
from tasks.verification.refinement_replay import values_sha256

# --- Chosen quantiles.


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


# --- Selected keys.


_ORDER = "sorted, each once"
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


class KeyChecks(SeparateDrawChecks[KeyDraw, KeyQuery]):
    """The checks of selected keys."""

    events = (KeySelection,)

    def check_draw(self, draw: KeyDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check the keys against what was entered, and the event against the contract."""
        contract, keys = meaning.contract, [(key,) for key in draw.selected]
        pairs: list[tuple[str, object, object]] = [
            (f"{at}.shape", list(draw.shape), []),
            (f"{at}.measurements", draw.measurements, None),
            (f"{at}.sha256", draw.sha256, values_sha256(packed(keys))),
        ]
        findings = check_selected(draw, contract, pairs, at=at, where=where)
        groups, rows = draw.event.get("groups"), contract.unit.max_rows_per_unit
        # How many of them the product lets a unit have, the product's own check holds against the event.
        if contract.adjacency not in KeySelection.adjacencies or groups not in range(1, rows + 1):
            found = f"{shown(groups)} keys of a unit under {contract.adjacency}"
            allowed = f"1 to {rows} under add_remove, as a unit has so many rows"
            findings.append(Finding(where, f"{at}.event.groups", found, allowed, UNDERSTATED))
        return findings

    def drawn(self, draw: KeyDraw, values: Any) -> Any:
        """Return the packed keys."""
        return packed([(key,) for key in draw.selected])


def check_selected(
    draw: KeyDraw | KeyCountDraw,
    contract: Contract,
    pairs: Sequence[tuple[str, object, object]],
    *,
    at: str,
    where: str,
) -> list[Finding]:
    """Check which keys were selected: of a column of texts, sorted, each once, and each one that may be a key.

    Args:
        draw: what the record says of the draw.
        contract: its contract.
        pairs: what else is compared of a draw of its kind: what, what is found, what is allowed.
        at: place of the draw in the record.
        where: the record's file name.
    """
    domain = contract.column(draw.clique[0]).domain if len(draw.clique) == 1 else None
    if not isinstance(domain, TextDomain):
        allowed = "one column of texts that nobody declared"
        return [Finding(where, f"{at}.clique", shown(list(draw.clique)), allowed, OTHER)]
    keys = list(draw.selected)
    all_pairs = [
        (f"{at}.coarsening", draw.coarsening, None),
        (f"{at}.listed", draw.listed, None),
        (f"{at}.selected", _ORDER if keys == sorted(set(keys)) else "another order, or one twice", _ORDER),
        *pairs,
    ]
    allowed = "the keys that were entered when they were drawn, sorted, each once"
    findings = list(differences(all_pairs, where=where, allowed=allowed))
    unfit = next((key for key in keys if not _may_be_key(key, domain)), None)
    if unfit is not None:
        allowed = f"a text of 1 to {domain.max_bytes} bytes that can be displayed"
        findings.append(Finding(where, f"{at}.selected", shown(unfit), allowed, OTHER))
    return findings


def _may_be_key(text: str, domain: TextDomain) -> bool:
    """Say whether the contract lets a text be a key."""
    if SPLIT.search(text) is not None:
        return False
    # What no version of Unicode has assigned yet may be a letter in the next one, here as in DuckDB.
    printable = not any(unicodedata.category(sign) in _UNPRINTABLE for sign in text)
    return 1 <= len(text.encode()) <= domain.max_bytes and printable and text not in (OTHERS, NULL_LABEL)


# --- Selected keys with their counts.


class KeyCountChecks(SeparateDrawChecks[KeyCountDraw, KeyCountQuery]):
    """The checks of keys that were selected and counted by one draw."""

    events = (KeySelection,)

    def check_draw(self, draw: KeyCountDraw, meaning: FittedMeaning, *, at: str, where: str) -> list[Finding]:
        """Check the keys, the file, and that the event is one for all rows of a unit together."""
        contract, name = meaning.contract, draw.measurements or ""
        own = is_own_file(draw.measurements)
        pairs: list[tuple[str, object, object]] = [
            (f"{at}.shape", list(draw.shape), [len(draw.selected) + BESIDE_KEYS]),
            (f"{at}.measurements", name if own else shown(name), name if own else "a Parquet file in measurements/"),
        ]
        findings = check_selected(draw, contract, pairs, at=at, where=where)
        if contract.adjacency not in KeySelection.adjacencies or draw.event.get("groups") != 1:
            found = f"{shown(draw.event.get('groups'))} coins of a unit under {contract.adjacency}"
            allowed = "1 under add_remove, for all rows of a unit together"
            findings.append(Finding(where, f"{at}.event.groups", found, allowed, UNDERSTATED))
        return findings

    def form(self, draw: KeyCountDraw, meaning: FittedMeaning) -> FileForm:
        """Cells have the labels of the column, with the selected keys."""
        return FileForm({name: meaning.contract.column(name).labels for name in draw.clique})

    def read(
        self, data: bytes, draw: KeyCountDraw, event: KeySelection, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of counts: with the keys of the record they are what was entered, none below the threshold."""
        where, contract = printable(draw.measurements or ""), meaning.contract
        terms: dict[str, Any] = {"cells": contract, "clique": draw.clique, "values": {NOISY: "int64"}}
        columns, wrong = read_parquet(data, where=where, **terms)
        if columns is None:
            return None, wrong
        counts = columns[NOISY].reshape(-1)
        found = values_sha256(packed_counts([(key,) for key in draw.selected], counts))
        if found != draw.sha256:
            allowed = f"{draw.sha256}, as keys and counts were entered when they were drawn"
            wrong.append(Finding(where, f"SHA-256 of the keys and of column {NOISY}", found, allowed, OTHER_NOISE))
        least = law_of(event, rows_per_unit=contract.unit.max_rows_per_unit).least
        if (counts[:-BESIDE_KEYS] < least).any():
            allowed = f"at least {least}, the least count that a key is published with"
            wrong.append(Finding(where, f"column {NOISY}", "a count of a key below it", allowed, OTHER_NOISE))
            return None, wrong
        return counts, wrong

    def drawn(self, draw: KeyCountDraw, values: PublishedValues) -> NDArray[np.int64]:
        """Return the packed keys and counts."""
        return packed_counts([(key,) for key in draw.selected], values.noisy[draw.key])


# --- Distinct counts.


LISTED: Final = 4096
"""Cells that an event lists as moved, at most; beyond, fewer that move farther, which is worse."""


def read_distinct(
    stated: DistinctStatement, contract: Contract, clique: tuple[str, ...], at: str, where: str
) -> tuple[DistinctCount | None, list[Finding]]:
    """Hold what is said of a distinct count against the contract: its column, its values, and whose cells."""
    counted = stated.addends
    columns = {column.name: column for column in contract.columns}
    if counted.to_json() != stated.model_dump(exclude_none=True):
        return None, [Finding(where, f"{at}.addends", "no distinct count", "units, or values of a column", OTHER)]
    if counted.column is not None and (counted.column not in columns or columns[counted.column].length > 1):
        allowed = "a column of single values of the contract"
        return None, [Finding(where, f"{at}.addends.column", shown(counted.column), allowed, OTHER)]
    values = None if counted.column is None else _most_values(columns[counted.column])
    pairs: list[tuple[str, object, object]] = [
        (f"{at}.addends.values", counted.values, values),
        # A column of texts has the cells that were selected: how many, nobody knew before.
        (f"{at}.addends.declared_cells", counted.declared_cells, not contract.texts(clique)),
    ]
    findings = list(differences(pairs, where=where, allowed="as the contract says"))
    return (None if findings else counted), findings


def _most_values(column: Column) -> int | None:
    """Return how many different values a column can have: whole steps between its bounds, or declared cells."""
    domain = column.domain
    if domain.kind == "text":
        return None
    if domain.value_bounds is None:
        return sum(label != NULL_LABEL for label in domain.labels)
    low, high = domain.value_bounds
    shown_digits = [domain.decimals, *(-int(each.normalize().as_tuple().exponent) for each in (low, high))]
    return int((Fraction(high) - Fraction(low)) * 10 ** max(0, *shown_digits)) + 1


def worst_distinct_moves(counted: DistinctCount, contract: Contract, clique: tuple[str, ...]) -> list[int]:
    """Fill cell after cell with what the rows of one unit, old and new, can bring or take."""
    rows = contract.unit.max_rows_per_unit
    left = rows * {"add_remove": 1, "replace_one": 2}[contract.adjacency]
    full = rows if counted.column is not None else 1
    full = full if counted.values is None else min(full, counted.values)
    if counted.declared_cells:
        left = min(left, full * prod(contract.shape(clique)))
    elif counted.most_cells is not None:  # the product's own check says whether it is the right number
        left = min(left, full * counted.most_cells)
    while left > full * LISTED:
        full += 1
    return [full] * (left // full) + [left % full] * (left % full > 0)


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
