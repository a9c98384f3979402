"""What a person should look at in a contract that holds: warnings, not mistakes.

| rule | what it is about |
|---|---|
| `large-domain` | a column with very many cells, each of which gets its own noise |
| `one-cell` | a column with a single cell, or one beside that of missing values, which tells next to nothing |
| `cut-bin` | equal bins whose last one is narrower, calendar periods cut by the bounds |
| `wide-bin` | at most six bins, one of which holds more than half the range |
| `unit-is-row` | each row is a unit of its own, while a column looks like somebody's id |
| `id-with-domain` | a column that looks like an id, beside the unit's own |
| `rows-per-unit` | so many rows of one unit count that the noise, which grows with them, drowns the counts |
| `gate` | a check that stops the release, which is an exact answer about the rows |
| `free-text` | a column of texts that people write, or categories that look like texts, addresses or identifiers |
| `formula` | a label that a spreadsheet would take for a formula |
| `near-duplicates` | categories that differ in case, spaces, accents or a letter |
| `unchecked` | a provenance that still says that it has to be checked |
| `version` | a version from which nobody can tell whether a change is breaking |
"""

from __future__ import annotations

from collections.abc import Iterator

from contracts.contract.contract import Contract
from contracts.contract.flattening import all_columns
from contracts.contract.semantic_version import read_version
from contracts.contract.spreadsheet import Formulas
from contracts.drafting.advice.column_rules import COLUMN_RULES
from contracts.drafting.advice.places import Advice, ContractPlaces
from contracts.reading.yaml_lines import Document

MANY_ROWS = 50


def advise(contract: Contract, document: Document, *, formulas: Formulas | None = None) -> tuple[Advice, ...]:
    """List what a person should look at in a contract, in the order of its lines.

    Args:
        contract: the contract, which holds.
        document: the file it was read from, for the lines.
        formulas: what a spec says of labels that a spreadsheet takes for formulas; no advice is left on them then.
    Privacy: reads the contract only. Categories that look like somebody's are counted, not shown.
    """
    placed = ContractPlaces(document, contract.linked)
    found = [*_of_the_terms(contract, placed)]
    for column in contract.columns if contract.linked is None else all_columns(contract.linked):
        for rule in COLUMN_RULES:
            found += rule(column, contract, placed)
    if formulas is not None:
        found = [each for each in found if each.rule != "formula"]
    ordered = sorted(found, key=lambda each: (int(each.where.rpartition(":")[2]), each.rule))
    return tuple(dict.fromkeys(ordered))  # a default of the whole contract is advised on once, not for every column


def _of_the_terms(contract: Contract, placed: ContractPlaces) -> Iterator[Advice]:
    unit = contract.unit
    if unit.max_rows_per_unit > MANY_ROWS:
        yield placed.advice(
            "rows-per-unit",
            placed.of_terms("unit", "max_rows_per_unit"),
            f"up to {unit.max_rows_per_unit} rows of one unit",
            f"every sensitivity, and so the noise, is {unit.max_rows_per_unit} times that of one row",
            "keep fewer rows of each unit; rows above the bound are left out at random, not refused",
        )
    for place, gate in enumerate(contract.gates if contract.linked is None else contract.linked.terms.gates):
        yield placed.advice(
            "gate",
            placed.of_terms("gates", place),
            f"the gate {gate!r}",
            "whether a release stops is an exact fact about the rows: the record lists it as unprotected, and "
            "one person's "
            "row may decide it",
            "leave the gate out; values that do not fit are clipped or mapped as the domain says",
        )
    if read_version(contract.version) is None:
        yield placed.advice(
            "version",
            placed.of_top("version"),
            repr(contract.version),
            "whether a change is breaking is told by MAJOR.MINOR.PATCH; a registry takes no other version",
            "write a version such as 1.0.0",
        )
