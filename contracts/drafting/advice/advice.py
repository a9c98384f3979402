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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.contract.labels import Formulas, formula_labels, place_of
from contracts.contract.linked import all_columns, flat_name
from contracts.contract.linked_tables import LinkedTables
from contracts.contract.semantic_version import read_version
from contracts.drafting.advice.suspicions import looks_identifying, names_an_id, names_free_text, near_duplicates
from contracts.reading.findings import dotted
from contracts.reading.placeholders import CHECK_IT, PLACEHOLDER
from contracts.reading.scalars import FieldPath
from contracts.reading.yaml_lines import Document
from contracts.release.terms import Publisher

# --- A piece of advice, and where the parts of a contract stand in its file.


@dataclass(frozen=True)
class Advice:
    """One thing to look at.

    Args:
        rule: which rule of the module's table.
        where: file and line.
        field: the field.
        found: what stands there.
        why: why it may not be meant.
        remedy: what to do.
    """

    rule: str
    where: str
    field: str
    found: str
    why: str
    remedy: str

    def to_json(self) -> dict[str, str]:
        """Return the advice as a JSON object."""
        return asdict(self)


class ContractPlaces:
    """Where the parts of a contract stand in its file.

    Args:
        document: the file.
        linked: its tables, where it has several; columns have the names that they have beside each other.
    """

    def __init__(self, document: Document, linked: LinkedTables | None = None) -> None:
        self._document = document
        tree = document.text()
        tables = tree["schema"]
        self._terms: tuple[FieldPath, Any] = (("schema", 0), tables[0]) if linked is None else ((), tree)
        self._columns: dict[str, tuple[FieldPath, Any]] = {}
        for place, table in enumerate(tables):
            for row, entry in enumerate(table["properties"]):
                name = str(entry.get("name"))
                known = name if linked is None else flat_name(linked, linked.tables[place].name, name)
                self._columns[known] = (("schema", place, "properties", row), entry)

    def advice(self, rule: str, at: tuple[FieldPath, str], found: str, why: str, remedy: str) -> Advice:
        """Make an advice about a field: its path in the file, and its name for people."""
        path, named = at
        return Advice(rule, self._document.where(path), named, found, why, remedy)

    def of_terms(self, *keys: str | int) -> tuple[FieldPath, str]:
        """Return the place of a part of the `privacy` block."""
        return self._block(*self._terms, "privacy", keys)

    def of_column(self, name: str, *keys: str | int) -> tuple[FieldPath, str]:
        """Return the place of a part of a column's `domain` block."""
        return self._block(*self._columns[name], "domain", keys)

    def of_top(self, key: str) -> tuple[FieldPath, str]:
        """Return the place of a key at the top of the file."""
        return (key,), key

    def written_domain(self, name: str) -> dict[str, object]:
        """Return the domain of a column as it stands in the file."""
        node: object = self._document.text()
        for step in self.of_column(name)[0]:
            node = node[step]  # type: ignore[index]
        return node if isinstance(node, dict) else {}

    def _block(
        self, at: FieldPath, holder: dict[str, list[dict[str, object]]], block: str, keys: tuple[str | int, ...]
    ) -> tuple[FieldPath, str]:
        for place, entry in enumerate(holder.get("customProperties") or []):
            if entry.get("property") == block:
                path: FieldPath = (*at, "customProperties", place, "value", *keys)
                written = self._document.written(path)
                return path, dotted((*at, block, *keys) if written == path else written)
        return at, dotted(self._document.written(at))


# --- The advice on single columns; the table of rules is in `contracts.drafting.advice.advice`.


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


# --- What a contract may go without, and people who read its releases will miss.


_ASKED: Final = (
    ("curator", "team", "a curator: who answers for the data", "Office of Statistics"),
    ("contact", "support", "a contact: whom to write to about errors", "statistics@example.org"),
)
"""The key of `about:`, the standard's own place in a contract, what is missing, an example."""


def suggest(document: Document, about: Mapping[str, Any], publisher: Publisher | None) -> tuple[Advice, ...]:
    """List what nobody has declared for the releases of a contract.

    Args:
        document: the contract's file.
        about: `about:` of a release spec as it stands there; empty where no spec was named.
        publisher: what the workspace declares of all releases; None without a workspace or a declaration.
    Returns:
        At most one suggestion a rule, in the order of the module's table.
    Privacy: reads declarations only.
    """
    return tuple(
        _suggestion(document, key, place, missing, example)
        for key, place, missing, example in _ASKED
        if about.get(key) in (None, "", PLACEHOLDER) and not getattr(publisher, key, None)
    )


def _suggestion(document: Document, key: str, place: str, missing: str, example: str) -> Advice:
    """Ask for one declaration, and say so if the contract has it where no record looks."""
    named = place in (document.root.entries or {})
    found = f"`{place}:` of the contract, which no record reads" if named else "nobody is named"
    why = f"releases of this contract are published without {missing}; their records say that it was left undeclared"
    remedy = (
        f'write {key} = "{example}" below [publisher] in sudare.toml, or {key}: {example} below about: of the spec'
    )
    return Advice(key, document.where((place,) if named else ("id",)), key, found, why, remedy)
