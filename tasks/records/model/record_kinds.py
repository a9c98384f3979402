"""What a record says by the kind of its product, or made across sites: the part that the table of products names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, Protocol

from contracts.contract.contract import Contract
from contracts.plug_ins import load_place
from contracts.release.product_kinds import BUILT_IN
from contracts.release.tables.tables import TableForm
from tasks.records.model.across_statements import AcrossRecord
from tasks.records.model.version_statements import RecordTerms
from tasks.records.values import Values

ACROSS: Final = "across"
"""The kind of a record that says how a release was made across sites, whatever its product is."""

_PARTS: Final = {kind: parts.record for kind, parts in BUILT_IN.items()} | {
    ACROSS: "tasks.records.across.across_groups:AcrossRecordPart"
}
ShownFile = tuple[str, str, TableForm]
"""Key of the draw that a file shows, its role, and its form."""


@dataclass(frozen=True)
class ProductWords:
    """What label, registry entry and dataset description, which are in English, call a kind of product.

    Args:
        label: within a line of the label.
        registered: its type in the registry of deployments.
        made: the beginning of a sentence that goes on with "about".
        remark: a sentence on how to read it.
        data: what a file of data holds, a sentence.
        value: what a column of data is where nothing else is known of it.
    """

    label: str
    registered: str
    made: str
    remark: str
    data: str = ""
    value: str = "Label of the cell."


@dataclass(frozen=True)
class DataColumn:
    """A column of a data file: what it means, and of which declared columns it is, beside those grouped by."""

    means: str
    of: tuple[str, ...] = ()


COUNT_COLUMNS: Final = {
    "count": DataColumn("Refined count: noisy, then post-processed."),
    "noisy": DataColumn("Noisy count, as it was drawn."),
    "variance": DataColumn("Variance of the noise."),
    "lower": DataColumn("Lower end of a 95 % interval of the exact count."),
    "upper": DataColumn("Upper end of a 95 % interval of the exact count."),
    "structural_zero": DataColumn("Whether the contract declares the cell impossible."),
    "suppressed": DataColumn(
        "Whether the noisy count is below the threshold of the minimum-frequency rule; it is missing then."
    ),
}
"""The columns of a file of counts, refined or as they were drawn, but for the labels."""


class RecordPart(Protocol):
    """What a record says of one kind of product."""

    model: ClassVar[type[RecordTerms]]
    notice: ClassVar[str]
    """What is published, as a public notice says it."""
    words: ClassVar[ProductWords]

    def groups(self, groups: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the sections of fields that people read, from those of tables."""
        ...

    def columns(self, run: Any) -> set[str]:
        """Name the columns that the product is about."""
        ...

    def stated(self, run: Any) -> dict[str, Any]:
        """Return the part of `replay` that only this kind has, and what it states otherwise than all kinds do."""
        ...

    def published(
        self, record: Any, contract: Contract, product: Any, accounts: tuple[Any, ...], reserved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the facts of a run that a record of this kind states; `reserved` is the charge in the journal."""
        ...

    def files(self, record: Any) -> Iterator[tuple[str, ShownFile]]:
        """Yield the files that draws and product lead to."""
        ...

    def data_columns(self, values: Values, path: str) -> Mapping[str, DataColumn]:
        """Say what the columns of a data file are, but for labels and synthetic values; `values` are the record's."""
        ...


@cache
def record_part(kind: str) -> RecordPart:
    """Return the part of a kind; only its own modules are loaded. One that is unknown has that of tables."""
    part: RecordPart = load_place(str(_PARTS.get(kind, _PARTS["tables"])))()
    return part


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
