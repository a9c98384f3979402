"""The advice on single columns; the table of rules is in `contracts.drafting.advice.advice`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.contract.spreadsheet import formula_labels, place_of
from contracts.drafting.advice.places import Advice, ContractPlaces
from contracts.drafting.advice.suspicions import (
    looks_identifying,
    names_an_id,
    names_free_text,
    near_duplicates,
)
from contracts.reading.placeholders import CHECK_IT

MANY_CELLS = 10_000


def _size(column: Column, contract: Contract, placed: ContractPlaces) -> Iterator[Advice]:
    if column.length == 1 and column.size > MANY_CELLS:
        yield placed.advice(
            "large-domain",
            placed.of_column(column.name, column.domain.cells_key),
            f"{column.size:,} cells",
            "each cell gets noise of its own, and each table with this column has at least so many",
            "declare wider bins, a coarser granularity, or fewer categories with an `other`",
        )
    beside_null = column.size == 2 and column.domain.nulls.policy == "category"
    if column.size == 1 or beside_null:
        yield placed.advice(
            "one-cell",
            placed.of_column(column.name),
            "a single cell beside the one of missing values" if beside_null else "a single cell",
            f"every row {'with a value ' if beside_null else ''}falls into it, so that a table with this column says "
            f"{'hardly' if beside_null else 'no'} more than one without it",
            "declare more cells, or leave the column out by `select:`",
        )


def _domain(column: Column, contract: Contract, placed: ContractPlaces) -> Iterator[Advice]:
    for said in column.domain.advice(placed.written_domain(column.name)):
        yield placed.advice(said.rule, placed.of_column(column.name, said.key), said.found, said.why, said.remedy)


def _ids(column: Column, contract: Contract, placed: ContractPlaces) -> Iterator[Advice]:
    if not names_an_id(column.name):
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
    if not column.named:
        return
    if names_free_text(column.name):
        yield placed.advice(
            "free-text",
            placed.of_column(column.name),
            f"a column named {column.name!r}",
            "names, addresses and remarks are people's own; categories for them can only have come from the rows",
            "leave the column out by `select:`",
        )
    for key, texts in column.domain.listed_texts.items():
        said = looks_identifying(texts)
        if said:
            yield placed.advice(
                "free-text",
                placed.of_column(column.name, key),
                said,
                "categories are published with every table, whatever the noise: listed from rows they name people",
                "list categories of a code list; leave the column out, or group it by a mapping and `other`",
            )
        for one, other in near_duplicates(column.domain.category_labels):
            yield placed.advice(
                "near-duplicates",
                placed.of_column(column.name, key),
                f"{one!r} and {other!r}",
                "two spellings of one category split its count and get noise twice",
                "if they mean the same, write kind: mapping and map both to one category",
            )


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
    _domain,
    _ids,
    _texts,
    _formulas,
    _provenance,
)
