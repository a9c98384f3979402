"""What a spec of statistics must be beside its contract: columns of it, lattices within bounds, names of files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contracts.contract.contract import Contract
from contracts.domains.addends import weighted_problems
from contracts.domains.value_lattices import ValueLattice, lattice_problems
from contracts.domains.value_trees import ValueTree, resolution_problems, usual_resolution
from contracts.errors import Finding
from contracts.reading.scalars import FieldPath, Problem, nearest, word_list
from contracts.release.distinct_rules import distinct_problems
from contracts.release.minimum_frequency_rules import frequency_problems
from contracts.release.private_clips import PrivateClip
from contracts.release.private_keys import key_problems
from contracts.release.spec import ReleaseSpec
from contracts.release.statistic import Statistic
from contracts.release.statistic_forms import DISTINCT, EFFECTIVE_SIZE, QUANTILES, RATIO, SPREADS
from contracts.release.statistics import StatisticsProduct, statistics_product
from contracts.release.statistics_table import REFINED, StatisticsTable
from contracts.release.survey_weight import survey_weight_problems
from contracts.release.synthetic import MEASURED_COLUMNS
from contracts.release.unit_quotas import beside_problems, quota_problems

MOST_CELLS: Final = 2**24
RESERVED_COLUMNS: Final = MEASURED_COLUMNS | {"part"}
"""The other columns of a file of measurements."""
_RENAMED: Final = "rename the column in the contract, and in the source by a select"


def statistics_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """List what in a release of statistics does not fit its contract."""
    product = statistics_product(spec.product)
    findings = [spec.finding(("product", *at), problem) for at, problem in statistics_problems(product, contract)]
    selecting = [place for place, table in enumerate(product.tables) if table.key_choice == "private"]
    if selecting and not spec.charge.delta:
        remedy = "give delta a small positive value: the probability that a selection of keys fails"
        problem = Problem("delta 0 with keys: private", "a delta above 0", remedy)
        findings.append(spec.finding(("charge", "delta"), problem))
    if product.mechanism == "gaussian" and not spec.charge.delta:
        remedy = "give delta a small positive value, or choose mechanism: laplace"
        problem = Problem("delta 0 with mechanism gaussian", "a delta above 0", remedy)
        findings.append(spec.finding(("charge", "delta"), problem))
    return findings


def statistics_problems(product: StatisticsProduct, contract: Contract) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what in a product of statistics does not fit its contract, with its place in the product."""
    for place, table in enumerate(product.tables):
        at: FieldPath = ("tables", place)
        problems = [*_grouping_problems(table, contract), *_column_problems(table, contract)]
        problems += [*_weight_problems(table, contract), *distinct_problems(table, contract)]
        problems += [*key_problems(product, place, contract), *_clip_problems(table), *beside_problems(table)]
        problems += [] if problems else [*_lattice_problems(table, contract), *_name_problems(table)]
        problems += [] if problems else [*quota_problems(table, contract)]
        if product.refine is not None and REFINED in map(str.casefold, table.by):
            at_by = ("by", [*map(str.casefold, table.by)].index(REFINED))
            problems.append(Problem(f"the column {REFINED!r}", f"a column not named {REFINED}", _RENAMED, at_by))
        if product.minimum_frequency is not None and not problems:
            problems += frequency_problems(table, contract)
        for problem in problems:
            yield at, problem


def _grouping_problems(table: StatisticsTable, contract: Contract) -> Iterator[Problem]:
    """Rows are grouped by columns of the contract that have cells, and not too many."""
    known = {column.name for column in contract.columns}
    pictures, sound = contract.pictures(), True
    for place, name in enumerate(table.by):
        if name in pictures:
            remedy = "drop it: a picture has no cells to group by"
            yield Problem(f"{name!r}, a column of pictures", "columns of single values", remedy, ("by", place))
        elif name not in known:
            yield _unknown(name, contract, ("by", place))
        sound = sound and name in known and name not in pictures
    if sound and contract.cells(table.by) > MOST_CELLS:
        found = f"{contract.cells(table.by):,} cells of {', '.join(table.by)}"
        yield Problem(found, f"at most {MOST_CELLS:,}", "drop a column, or take coarser bins", ("by",))


def _column_problems(table: StatisticsTable, contract: Contract) -> Iterator[Problem]:
    """What is added up is a column of numbers, with one clip and one step in a table."""
    numbers = [column.name for column in contract.columns if column.domain.value_bounds is not None]
    placed = list(_placed(table))
    for order, (at, each) in enumerate(placed):
        if each.column is None:
            continue
        named = (*at, "sum" if each.what == RATIO else each.what)
        if each.column not in {column.name for column in contract.columns}:
            yield _unknown(each.column, contract, named)
        elif each.column not in numbers:
            allowed = word_list(numbers) if numbers else "a column of numbers, which the contract has none of"
            remedy = "give the column a domain of kind integer or decimal with bounds"
            yield Problem(f"{each.column!r}, a column without bounds", allowed, remedy, named)
        if each.what == QUANTILES and isinstance(each.clip, PrivateClip):
            remedy = "drop it: quantiles are found within wide bounds too, with a `resolution:` that fits"
            yield Problem("a private clip of quantiles", "a pair [low, high], or none", remedy, (*at, "clip"))
        for key in ("clip", "step"):
            earlier = [getattr(other, key) for _, other in placed[:order] if other.column == each.column]
            other = next((one for one in earlier if one is not None), None)
            if getattr(each, key) is not None and other not in (None, getattr(each, key)):
                remedy = f"write one {key}, or put the other into a table of its own"
                yield Problem(f"another {key} of {each.column!r}", f"one {key} a column", remedy, (*at, key))


def _weight_problems(table: StatisticsTable, contract: Contract) -> Iterator[Problem]:
    """The survey weight is a column of numbers from 0 on, of which nothing but its effective size is published."""
    weight = None if table.survey_weight is None else table.survey_weight.column
    for at, each in _placed(table):
        if each.what == EFFECTIVE_SIZE and each.column != weight:
            found = f"the effective size of {each.column!r}, which is no survey weight of the table"
            allowed = "the table's survey weight" if weight is None else f"{weight!r}, the table's survey weight"
            remedy = f"write survey_weight: {each.column}" if weight is None else f"write {weight}"
            yield Problem(found, allowed, remedy, (*at, EFFECTIVE_SIZE))
    if table.survey_weight is None:
        return
    yield from survey_weight_problems(table.survey_weight, contract)
    for at, each in _placed(table):
        if each.column == table.survey_weight.column and each.what != EFFECTIVE_SIZE:
            found, named = f"the survey weight {each.column!r}", "sum" if each.what == RATIO else each.what
            remedy = "write count: in a table with a survey weight it is the sum of the weights"
            yield Problem(found, "other columns beside a survey weight", remedy, (*at, named))


def _clip_problems(table: StatisticsTable) -> Iterator[Problem]:
    """Private clips, and quantiles that are chosen, are of declared cells in which every row counts once.

    A private clip stands beside sums, means and ratios.
    """
    private = table.private_clips
    for at, each in _placed(table):
        if each.method == "exponential" and (table.survey_weight is not None or table.key_choice == "private"):
            beside = "keys: private" if table.survey_weight is None else "a survey weight"
            found, allowed = f"method: exponential beside {beside}", "method: tree, or auto, which is the tree there"
            yield Problem(found, allowed, "drop the method, or the other", (*at, "method"))
        if each.column not in private or each.what == QUANTILES:
            continue
        found = f"a private clip of {each.column!r}"
        if each.what in SPREADS:
            remedy = "write a clip of two ends, or put the sum into a table of its own"
            yield Problem(f"{found} with its {each.what}", "a clip of two ends, or none", remedy, (*at, each.what))
        if table.survey_weight is not None:
            remedy = "write a clip of two ends, or drop it: the contract's bounds are one"
            yield Problem(f"{found} beside a survey weight", "a clip of two ends, or none", remedy, (*at, "clip"))
        if table.key_choice == "private":
            remedy = "write a clip of two ends, or drop it: the contract's bounds are one"
            yield Problem(f"{found} with keys: private", "a clip of two ends, or none", remedy, (*at, "clip"))


def _lattice_problems(table: StatisticsTable, contract: Contract) -> Iterator[Problem]:
    """The clip lies within the bounds, its steps are whole and not too many, and a ratio's begins at 0 or above."""
    placed = list(_placed(table))
    ratios = {
        term.column: place for place, each in enumerate(table.of) if each.over is not None for term in each.terms
    }
    cells = contract.cells(table.by)
    for lattice in table.lattices(contract):
        own = [(place, term) for place, term in placed if term.column == lattice.column]
        bounds = contract.column(lattice.column).domain.value_bounds
        weight = None if table.survey_weight is None else table.survey_weight.column
        outside = bounds is not None and not bounds[0] <= lattice.low <= lattice.high <= bounds[1]
        outside = outside and lattice.column != weight  # whose clip starts at 0, and was looked at
        if bounds is not None and outside and lattice.low < lattice.high:
            found = f"[{lattice.low}, {lattice.high}]"
            allowed = f"a clip within the bounds of {lattice.column!r}, [{bounds[0]}, {bounds[1]}]"
            yield Problem(found, allowed, "narrow the clip, or widen the contract's bounds", _writing(own, "clip"))
            continue
        sound = True
        for problem in lattice_problems(lattice.low, lattice.high, lattice.step, contract.unit.max_rows_per_unit):
            at = _writing(own, str(problem.at[0]))
            yield Problem(f"{lattice.column!r}: {problem.found}", problem.allowed, problem.remedy, at)
            sound = False
        if lattice.column in ratios and lattice.low < 0:
            found = f"a ratio with {lattice.column!r} from {lattice.low}"
            remedy = f"write clip: [0, {lattice.high}] beside it" if lattice.high > 0 else "publish the two sums"
            yield Problem(found, "clips from 0 on, of both sums", remedy, ("of", ratios[lattice.column]))
        spread = next((each for each in table.of if each.what in SPREADS and each.column == lattice.column), None)
        if spread is not None and lattice.column in ratios:
            found = f"a {spread.what} and a ratio of {lattice.column!r} in one table"
            yield Problem(
                found, "one of them", "put the other into a table of its own", ("of", table.of.index(spread))
            )
        if sound:
            yield from _resolution_problems(table, lattice, cells)
            yield from _weighted_problems(lattice, own, contract.unit.max_rows_per_unit)


def _weighted_problems(
    lattice: ValueLattice, own: list[tuple[FieldPath, Statistic]], rows_per_unit: int
) -> Iterator[Problem]:
    """Values times weights are not too many steps, where they are added up; a tree counts weights alone."""
    if lattice.weight is not None and any(term.what != QUANTILES for _, term in own):
        for problem in weighted_problems(lattice, lattice.weight, rows_per_unit):
            at, remedy = _writing(own, str(problem.at[0])), problem.remedy
            if any(term.what == EFFECTIVE_SIZE for _, term in own):
                remedy = "take a lower clip of the weight, or a larger step: its squares are added up"
            yield Problem(f"{lattice.column!r}: {problem.found}", problem.allowed, remedy, at)


def _resolution_problems(table: StatisticsTable, lattice: ValueLattice, cells: int) -> Iterator[Problem]:
    """Leaves of a tree are whole steps, and its numbers in all cells not too many."""
    for place, each in enumerate(table.of):
        if each.what == QUANTILES and each.column == lattice.column:
            tree = ValueTree(lattice, usual_resolution(lattice) if each.resolution is None else each.resolution)
            for problem in resolution_problems(tree, cells):
                found = f"{lattice.column!r}: {problem.found}"
                yield Problem(found, problem.allowed, problem.remedy, ("of", place))


def _placed(table: StatisticsTable) -> Iterator[tuple[FieldPath, Statistic]]:
    """Yield what is said of columns of numbers, with its place: a statistic itself, or the two sums of a ratio."""
    for place, each in enumerate(table.of):
        if each.what == DISTINCT:
            continue
        if each.over is None:
            yield ("of", place), each
        else:
            yield ("of", place, each.what), each
            yield ("of", place, "over"), each.over


def _writing(own: list[tuple[FieldPath, Statistic]], key: str) -> FieldPath:
    """Return the place where a key is written; that of the first statistic where none does."""
    written = next(((*at, key) for at, term in own if getattr(term, key) is not None), None)
    return own[0][0] if written is None else written


def _name_problems(table: StatisticsTable) -> Iterator[Problem]:
    """Columns of a published file differ in their names, whatever their case; so do the draws of a table."""
    selected = () if table.selection_key is None else (table.selection_key,)
    keys = *table.draw_keys, *table.choice_keys, *selected
    for key in sorted({key for key in keys if keys.count(key) > 1}):
        yield Problem(f"two draws named {key!r}", "draws of different names in a table", _RENAMED)
    for place, name in enumerate(table.by):
        if name.casefold() in RESERVED_COLUMNS:
            allowed = "a column not named " + ", ".join(sorted(RESERVED_COLUMNS))
            yield Problem(f"the column {name!r}", allowed, _RENAMED, ("by", place))
    names = [name.casefold() for name in table.published_columns]
    for place, name in enumerate(names):
        if name in names[:place]:
            found = f"two columns named {table.published_columns[place]!r}"
            yield Problem(found, "columns of different names in a published table", _RENAMED)


def _unknown(name: str, contract: Contract, at: FieldPath) -> Problem:
    names = [column.name for column in contract.columns]
    remedy = nearest(name, names) or "write one of them"
    if name == contract.unit.column:
        remedy = "drop it: it is the privacy unit's id, which is never published"
    return Problem(f"the column {name!r}", word_list(names), remedy, at)
