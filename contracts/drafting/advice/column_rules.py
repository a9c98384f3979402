"""The advice on single columns; the table of rules is in `contracts.drafting.advice.advice`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.contract.spreadsheet import formula_labels, place_of
from contracts.domains.calendar_periods import period_index
from contracts.domains.kinds import CategoryDomain, DateDomain, DecimalDomain, IntegerDomain, MappingDomain
from contracts.drafting.advice.places import Advice, ContractPlaces
from contracts.drafting.advice.suspicions import looks_identifying, near_duplicates
from contracts.drafting.draft_text import CHECK_IT

MANY_CELLS = 10_000
FEW_BINS = 6
_ID_NAME = re.compile(
    r"(?i:^(?:id|uuid|guid|ssn|nin|key|pk)$|[_\- ](?:id|uuid|guid|key|no|nr|number)$)|(?<=[a-z])I[dD]$"
)
_FREE_NAME = re.compile(
    r"(?i)(?:^|[_\- ])(?:comments?|notes?|remarks?|free_?text|message|(?:first|last|family|given|full|sur)_?name|"
    r"e?_?mail|phone|address|street|iban|ip)(?:$|[_\- ])"
)


def _size(column: Column, contract: Contract, placed: ContractPlaces) -> Iterator[Advice]:
    if column.length == 1 and column.size > MANY_CELLS:
        yield placed.advice(
            "large-domain",
            placed.of_column(column.name, "bins" if column.ordered and column.domain.kind != "date" else "kind"),
            f"{column.size:,} cells",
            "each cell gets noise of its own, and each table with this column has at least so many",
            "declare wider bins, a coarser granularity, or fewer categories with an `other`",
        )
    if column.size == 1:
        yield placed.advice(
            "one-cell",
            placed.of_column(column.name),
            "a single cell",
            "every row falls into it, so that a table with this column says no more than one without it",
            "declare more cells, or leave the column out by `select:`",
        )


def _bins(column: Column, contract: Contract, placed: ContractPlaces) -> Iterator[Advice]:
    domain = column.domain
    if isinstance(domain, IntegerDomain | DecimalDomain) and len(domain.bins) > 1:
        step = 1 if isinstance(domain, IntegerDomain) else 0
        (low, high), last = domain.bins[0], domain.bins[-1]
        if "width" in str(placed.written_bins(column.name)) and last[1] - last[0] != high - low:
            yield placed.advice(
                "cut-bin",
                placed.of_column(column.name, "bins"),
                f"a last bin of width {last[1] - last[0] + step} among bins of width {high - low + step}",
                "the width does not divide the bounds; readers will take the smaller count of the last bin for "
                "a finding",
                "choose a width that divides the bounds, or write the edges out",
            )
        yield from _wide_bin(column, domain, placed)
    if isinstance(domain, DateDomain):
        yield from _cut_periods(column, domain, placed)


def _wide_bin(column: Column, domain: IntegerDomain | DecimalDomain, placed: ContractPlaces) -> Iterator[Advice]:
    """Say that a bin holds more than half the range; many bins beside it are a tail that somebody meant."""
    step = 1 if isinstance(domain, IntegerDomain) else 0
    whole = domain.bounds[1] - domain.bounds[0] + step
    wide = [(low, high) for low, high in domain.bins if 2 * (high - low + step) > whole]
    if wide and len(domain.bins) <= FEW_BINS:
        [(low, high)] = wide
        yield placed.advice(
            "wide-bin",
            placed.of_column(column.name, "bins"),
            f"a bin from {low} to {high} among bounds from {domain.bounds[0]} to {domain.bounds[1]}",
            "it holds more than half the range: most people may fall into it, and readers cannot tell where",
            "divide it, or narrow the bounds to what a public document says",
        )


def _cut_periods(column: Column, domain: DateDomain, placed: ContractPlaces) -> Iterator[Advice]:
    """Say that the first or the last period is not whole."""
    first, last = domain.bounds
    before = None if first == date.min else first - timedelta(days=1)
    after = None if last == date.max else last + timedelta(days=1)
    cut = [
        named
        for named, inside, outside in (("first", first, before), ("last", last, after))
        if outside is not None
        and period_index(inside, domain.granularity) == period_index(outside, domain.granularity)
    ]
    if cut:
        yield placed.advice(
            "cut-bin",
            placed.of_column(column.name, "bounds"),
            f"a {' and a '.join(cut)} {domain.granularity} that the bounds cut",
            "days outside the bounds are counted at the nearest one, so that these periods hold more than their days",
            f"let the bounds begin and end with a {domain.granularity}",
        )


def _ids(column: Column, contract: Contract, placed: ContractPlaces) -> Iterator[Advice]:
    if not _ID_NAME.search(column.name):
        return
    if contract.unit.kind == "row":
        yield placed.advice(
            "unit-is-row",
            placed.of_terms("unit"),
            f"each row is a unit, and {column.name!r} looks like an id",
            "if one person has several rows, the promise about one row is not one about that person",
            f"write unit: {{kind: id, column: {column.name}, max_rows_per_unit: ...}} and remove its domain; if "
            f"it is the id "
            "of a row, leave the column out by `select:`",
        )
        return
    yield placed.advice(
        "id-with-domain",
        placed.of_column(column.name),
        f"{column.name!r} looks like an id and has a domain",
        f"the unit is {contract.unit.column!r}; whoever another id stands for is not what is protected",
        "leave the column out by `select:` unless it is a code list that anybody may know",
    )


def _texts(column: Column, contract: Contract, placed: ContractPlaces) -> Iterator[Advice]:
    domain = column.domain
    if not isinstance(domain, CategoryDomain | MappingDomain):
        return
    key = "values" if isinstance(domain, CategoryDomain) else "mapping"
    if _FREE_NAME.search(column.name):
        yield placed.advice(
            "free-text",
            placed.of_column(column.name),
            f"a column named {column.name!r}",
            "names, addresses and remarks are people's own; categories for them can only have come from the rows",
            "leave the column out by `select:`",
        )
    said = looks_identifying(_written(domain))
    if said:
        yield placed.advice(
            "free-text",
            placed.of_column(column.name, key),
            said,
            "categories are published with every table, whatever the noise: listed from rows they name people",
            "list categories of a code list; leave the column out, or group it by a mapping and `other`",
        )
    for one, other in near_duplicates(_written(domain) if key == "values" else domain.categories):
        yield placed.advice(
            "near-duplicates",
            placed.of_column(column.name, key),
            f"{one!r} and {other!r}",
            "two spellings of one category split its count and get noise twice",
            "if they mean the same, write kind: mapping and map both to one category",
        )


def _written(domain: CategoryDomain | MappingDomain) -> tuple[str, ...]:
    """The texts that a listed domain expects in the data."""
    return domain.values if isinstance(domain, CategoryDomain) else tuple(raw for raw, _ in domain.mapping)


def _formulas(column: Column, contract: Contract, placed: ContractPlaces) -> Iterator[Advice]:
    found = formula_labels(column)
    if found:
        yield placed.advice(
            "formula",
            placed.of_column(column.name),
            f"{len(found)} of its labels begin with =, +, - or @ (the first is {place_of(column, found[0])})",
            "a spreadsheet that opens a published CSV file takes them for formulas and runs them",
            "write formulas: neutralised under `publish:` of the release spec, or kind: mapping and labels that "
            "begin with a letter or a digit",
        )


def _provenance(column: Column, contract: Contract, placed: ContractPlaces) -> Iterator[Advice]:
    if CHECK_IT in (column.domain.provenance.reference or ""):
        yield placed.advice(
            "unchecked",
            placed.of_column(column.name, "provenance"),
            "a reference that still says that it has to be checked",
            "the reference is published; what another document lists may have been collected from the rows",
            "find out where the values come from, and write that",
        )


COLUMN_RULES: tuple[Callable[[Column, Contract, ContractPlaces], Iterator[Advice]], ...] = (
    _size,
    _bins,
    _ids,
    _texts,
    _formulas,
    _provenance,
)
