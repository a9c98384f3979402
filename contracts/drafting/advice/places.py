"""A piece of advice, and where the parts of a contract stand in its file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from contracts.contract.flattening import flat_name
from contracts.contract.linked_tables import LinkedTables
from contracts.reading.scalars import FieldPath
from contracts.reading.validation_errors import dotted
from contracts.reading.yaml_lines import Document


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
