"""What a spec of statistics must be beside its contract: columns of it, lattices within bounds, names of files."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from contracts.contract.contract import Contract
from contracts.domains import addends as value_sums
from contracts.domains.addends import LoneSum, column_problems, weighted_problems
from contracts.domains.lattice import ValueLattice, lattice_problems
from contracts.domains.trees import ValueTree, resolution_problems, usual_resolution
from contracts.errors import Finding
from contracts.reading.scalars import FieldPath, Problem, nearest, spelled, word_list
from contracts.release.spec import ReleaseSpec
from contracts.release.statistics import (
    DISTINCT,
    DISTINCTS,
    EFFECTIVE_SIZE,
    QUANTILES,
    RATIO,
    REFINED,
    SPREADS,
    UNITS,
    PrivateClip,
    Statistic,
    StatisticsProduct,
    StatisticsTable,
    statistics_product,
)
from contracts.release.survey_weight import groups_of, survey_weight_problems
from contracts.release.synthetic import MEASURED_COLUMNS
from contracts.release.tables.tables import SUPPRESSED

# --- Which tables of statistics a minimum-frequency rule can be about.


_RENAMED: Final = "rename the column in the contract, and in the source by a select"
_ELSEWHERE: Final = "ask for it in a release without the rule, or drop it"


def frequency_problems(table: StatisticsTable, contract: Contract) -> Iterator[Problem]:
    """Yield what in a table does not go with a minimum-frequency rule.

    Args:
        table: which fits the contract.
        contract: its contract.
    """
    if table.survey_weight is not None:
        remedy = "drop `survey_weight:` or `minimum_frequency:`: a sum of weights does not count rows"
        allowed = "tables in which every row counts once, under a `minimum_frequency`"
        yield Problem(f"a survey weight in table {table.name!r}", allowed, remedy, ("survey_weight",))
        return
    unfit = [(place, problem) for place, each in enumerate(table.of) if (problem := _unfit(each)) is not None]
    for place, (found, allowed, why) in unfit:
        yield Problem(f"{found} under a `minimum_frequency`", allowed, f"{_ELSEWHERE}: {why}", ("of", place))
    if not unfit:
        yield from _frequency_problems(table, contract)
    for place, name in enumerate(table.by):
        if name.casefold() == SUPPRESSED:
            yield Problem(f"the column {name!r}", f"a column not named {SUPPRESSED}", _RENAMED, ("by", place))


def _unfit(each: Statistic) -> tuple[str, str, str] | None:
    """Say what of a statistic does not go with the rule, what does, and why; None of one that goes with it."""
    allowed = "count, sums, means, ratios, variances and standard deviations"
    if each.what == QUANTILES:
        return "quantiles", allowed, "a tree publishes counts of intervals of the column, small ones too"
    if each.what in DISTINCTS:
        return each.what, allowed, "it does not say how many rows a cell has"
    if any(isinstance(term.clip, PrivateClip) for term in each.terms):
        return (
            "a private clip",
            "a clip of two ends, or none",
            "its histogram publishes counts of bins, small ones too",
        )
    return None


def _frequency_problems(table: StatisticsTable, contract: Contract) -> Iterator[Problem]:
    """Every column that is added up comes with the count of a cell's rows, and with no count of some of them."""
    for addends in (addends for _, addends in table.draws(contract) if addends is not None):
        terms = ((place, term) for place, each in enumerate(table.of) for term in each.terms)
        place = next(place for place, term in terms if term.column == addends.column)
        if isinstance(addends, LoneSum) and addends.per_unit is not None:
            found = f"per_unit of {addends.column!r} under a `minimum_frequency`"
            remedy = "drop per_unit, or the rule: the draw of such a sum does not know how many rows a cell has"
            yield Problem(found, "sums without per_unit", remedy, ("of", place, "per_unit"))
        elif isinstance(addends, LoneSum):
            found = f"the sum of {addends.column!r} alone, under a `minimum_frequency`"
            remedy = "add count to `of:`: the rule needs to know how many rows a cell has"
            yield Problem(found, "a sum with the count of its rows", remedy, ("of", place))
        elif contract.column(str(addends.column)).domain.nulls.policy == "category":
            found = f"{addends.column!r}, whose missing values are counted apart, under a `minimum_frequency`"
            allowed = "columns whose missing values count as a value"
            why = "the number of rows without a value may be small in a large cell"
            remedy = f"write nulls: {{policy: map, to: VALUE}} in the contract, or drop the column: {why}"
            yield Problem(found, allowed, remedy, ("of", place))


# --- What `per_unit:` of a sum must be beside its table and its contract.


def beside_problems(table: StatisticsTable) -> Iterator[Problem]:
    """Yield what a quota does not stand beside, with its place below the table."""
    for place, each in enumerate(table.of):
        if each.per_unit is None:
            continue
        at = ("of", place, "per_unit")
        if isinstance(each.clip, PrivateClip):
            remedy = "write a clip of two ends, or drop per_unit"
            yield Problem("per_unit with a private clip", "a clip of two ends, or none", remedy, at)
        if table.survey_weight is not None:
            remedy = "drop one: a low clip of the weight bounds what a unit adds too"
            yield Problem("per_unit beside a survey weight", "rows that count once", remedy, at)
        others = [other.what for other in table.of if other.per_unit is None and each.column in _added_up(other)]
        if others:
            found = f"per_unit of {each.column!r} beside its {others[0]}"
            remedy = f"put the {others[0]} into a table of its own"
            yield Problem(found, "no other sum, mean, variance or ratio of the column", remedy, at)


def quota_problems(table: StatisticsTable, contract: Contract) -> Iterator[Problem]:
    """Yield what is wrong with the number itself: no whole steps, or so large that it bounds nothing.

    Args:
        table: whose lattices are sound.
        contract: its contract.
    """
    lattices = {lattice.column: lattice for lattice in table.lattices(contract)}
    for place, each in enumerate(table.of):
        if each.per_unit is None:
            continue
        lattice = lattices[str(each.column)]
        if (Fraction(lattice.low) / Fraction(lattice.step)).denominator != 1:
            found = f"per_unit of {each.column!r} from {spelled(lattice.low)} in steps of {spelled(lattice.step)}"
            remedy = "write ends of the clip that are whole steps from 0"
            yield Problem(found, "a lower end that is whole steps from 0", remedy, ("of", place, "per_unit"))
            continue
        form, rows = LoneSum(lattice, each.per_unit), contract.unit.max_rows_per_unit
        for problem in value_sums.quota_problems(form, each.per_unit, rows):
            at = ("of", place, *problem.at)
            yield Problem(f"{each.column!r}: {problem.found}", problem.allowed, problem.remedy, at)


def _added_up(statistic: Statistic) -> set[str | None]:
    """Return the columns that a statistic adds up; a tree of counts adds nothing up."""
    return set() if statistic.what == QUANTILES else {term.column for term in statistic.terms}


# --- What `keys.


MOST_GROUPS: Final = 4096


def key_problems(product: StatisticsProduct, place: int, contract: Contract) -> Iterator[Problem]:
    """Yield what does not fit of the keys of one table.

    Args:
        product: the product.
        place: the table's.
        contract: its contract.
    """
    table = product.tables[place]
    texts = contract.texts(table.by)
    if table.key_choice == "declared" and table.at_most_groups is not None:
        remedy = "drop it, or write keys: private beside `by:`"
        yield Problem("at_most_groups of declared keys", "keys: private beside it", remedy, ("at_most_groups",))
    if table.key_choice == "declared":
        for name in texts:
            remedy = "write keys: private beside `by:`, and a delta above 0"
            found = f"{name!r}, a column of texts that nobody declared"
            yield Problem(found, "declared columns, or keys: private", remedy, ("by", table.by.index(name)))
        return
    yield from _group_problems(table.at_most_groups, contract)
    if contract.adjacency != "add_remove":
        remedy = "declare the keys, or another adjacency in the contract"
        yield Problem(f"keys: private under {contract.adjacency}", "adjacency add_remove", remedy, ("keys",))
    if len(texts) != 1:
        known = contract.texts()
        allowed = word_list(known) if known else "a column of kind text, which the contract has none of"
        found = f"{len(texts)} columns of texts with keys: private"
        yield Problem(found, allowed, "group by one column of texts, and declared ones beside it", ("by",))
    if groups_of(table.at_most_groups, contract) > MOST_GROUPS:
        found = f"{contract.unit.max_rows_per_unit} rows of a unit, each of which may have another key"
        remedy = "write at_most_groups beside `keys:`, or bound the rows of a unit in the contract"
        yield Problem(found, f"at most {MOST_GROUPS}", remedy, ("keys",))
    earlier = [each.name for each in product.tables[:place] if each.key_choice == "private" and {*each.by} & {*texts}]
    if earlier:
        found = f"{texts[0]!r}, whose keys table {earlier[0]!r} selects"
        yield Problem(found, "a column in one table with keys: private", "put all statistics into it", ("by",))


def _group_problems(groups: int | None, contract: Contract) -> Iterator[Problem]:
    """Yield what is wrong with the keys that a unit may have: none, or no fewer than it has rows."""
    rows = contract.unit.max_rows_per_unit
    if groups is None or 1 <= groups < rows:
        return
    found, allowed = f"at_most_groups: {groups}", f"a whole number from 1 to {rows - 1}"
    remedy = "write a smaller one, or drop it: a unit has no more keys than rows"
    if rows == 1:
        allowed, remedy = "none, where a unit has one row and so one key", "drop it"
    yield Problem(found, allowed, remedy, ("at_most_groups",))


# --- What units and distinct values must be beside their contract.


def distinct_problems(table: StatisticsTable, contract: Contract) -> Iterator[Problem]:
    """Yield what does not fit of the units and distinct values of one table, with its place below the table."""
    for place, each in enumerate(table.of):
        at: FieldPath = ("of", place)
        if each.what == UNITS and contract.unit.max_rows_per_unit == 1:
            found = "units, of which each has one row by the contract"
            yield Problem(found, "count", "write count: it is the same number, and no draw of its own", at)
        if each.what == DISTINCT:
            yield from _of_a_column(str(each.column), table, contract, (*at, DISTINCT))
    if table.survey_weight is not None and all(each.what in DISTINCTS for each in table.of):
        found = "a survey weight, and nothing that is weighed: units and distinct values count once"
        yield Problem(found, "a statistic that is weighed beside it", "drop survey_weight:", ("survey_weight",))


def _of_a_column(name: str, table: StatisticsTable, contract: Contract, at: FieldPath) -> Iterator[Problem]:
    """Yield why different values of a column cannot be counted: none is known, or there is one in each cell."""
    domains = {column.name: column.domain for column in contract.columns}
    if name not in domains:
        remedy = nearest(name, list(domains)) or "write one of them"
        if name == contract.unit.column:
            remedy = "write units: the number of different ids is that of privacy units"
        elif name == UNITS:
            remedy = "write units, without distinct"
        yield Problem(f"the column {name!r}", word_list(list(domains)), remedy, at)
        return
    for problem in column_problems(name, domains[name]):
        yield Problem(problem.found, problem.allowed, problem.remedy, at)
    if name in table.by and name not in contract.texts() and domains[name].value_bounds is None:
        found = f"distinct values of {name!r}, by which the table is grouped"
        yield Problem(found, "another column", "drop it: each cell has one value of it", at)


MOST_CELLS: Final = 2**24
RESERVED_COLUMNS: Final = MEASURED_COLUMNS | {"part"}
"""The other columns of a file of measurements."""


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
