"""What a record says by the kind of its product, or made across sites: the part that the table of products names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Final, Protocol

from contracts.contract.contract import Contract
from contracts.release.product_kinds import BUILT_IN
from contracts.release.tables.product import TableForm
from tasks.records.model.across_statements import AcrossRecord
from tasks.records.model.version_statements import RecordTerms

ACROSS: Final = "across"
"""The kind of a record that says how a release was made across sites, whatever its product is."""

_PARTS: Final = {kind: parts.record for kind, parts in BUILT_IN.items()} | {
    ACROSS: "tasks.records.across.across_record:AcrossRecordPart"
}
ShownFile = tuple[str, str, TableForm]
"""Key of the draw that a file shows, its role, and its form."""


class RecordPart(Protocol):
    """What a record says of one kind of product."""

    model: ClassVar[type[RecordTerms]]
    notice: ClassVar[str]
    """What is published, as a public notice says it."""

    def groups(self, groups: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the sections of fields that people read, from those of tables."""
        ...

    def columns(self, run: Any) -> set[str]:
        """Name the columns that the product is about."""
        ...

    def stated(self, run: Any) -> dict[str, Any]:
        """Return the part of `replay` that only this kind has."""
        ...

    def published(
        self, record: Any, contract: Contract, product: Any, accounts: tuple[Any, ...], reserved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the facts of a run that a record of this kind states; `reserved` is the charge in the journal."""
        ...

    def files(self, record: Any) -> Iterator[tuple[str, ShownFile]]:
        """Yield the files that draws and product lead to."""
        ...


@cache
def record_part(kind: str) -> RecordPart:
    """Return the part of a kind; only its own modules are loaded. One that is unknown has that of tables."""
    module, _, name = str(_PARTS.get(kind, _PARTS["tables"])).partition(":")
    part: RecordPart = getattr(import_module(module), name)()
    return part


def record_models() -> tuple[type[RecordTerms], ...]:
    """Return the models of all kinds."""
    return tuple(record_part(kind).model for kind in _PARTS)


def record_model(kind: object) -> type[RecordTerms]:
    """Return the model of a kind; a kind that is unknown is read as that of tables, and refused there."""
    return record_part(kind if isinstance(kind, str) else "tables").model


def stated_kind(record: Any) -> object:
    """Return the kind that a record states, whatever form it has."""
    replay = record.get("replay") if isinstance(record, dict) else None
    if isinstance(replay, dict) and "execution" in replay:
        return ACROSS
    product = replay.get("product") if isinstance(replay, dict) else None
    return product.get("kind") if isinstance(product, dict) else None


def kind_of(record: RecordTerms) -> str:
    """Return the kind of a record that was read."""
    return ACROSS if isinstance(record, AcrossRecord) else str(record.replay.product["kind"])
