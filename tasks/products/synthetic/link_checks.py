"""Do the rows of two published tables belong together? By code of its own, from the values alone.

1. keys of parents are whole numbers, each once
2. every child's key is that of a parent
3. every parent has as many children as its column of sizes says
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from contracts.contract.impossible_cells import Clique
from contracts.errors import Finding
from contracts.release.linked_rows import table_pair
from privacy.generators.generator import Model
from privacy.generators.linked_tables import LinkedModel, LinkedRowPieces, linked_forms
from privacy.marginals.portable import PostProcessingSeed
from tasks.records.model.version_statements import (
    ModelStatement,
    SyntheticRecord,
    SyntheticReplay,
    SyntheticRowsStatement,
)
from tasks.records.strict_json import printable
from tasks.verification.draws.draw_checks import FileForm
from tasks.verification.fitted.file_forms import form_of_rows
from tasks.verification.fitted.model_reader import OTHER_MODEL
from tasks.verification.fitted.modifier_checks import CompareModels, ModelModifierChecks, RowTable
from tasks.verification.fitted_meaning import AS_SAID, SyntheticMeaning, stated_number
from tasks.verification.record_identity import OTHER, differences

_BROKEN: Final = "the rows of the two tables do not belong together: do not use them"


class LinkChecks(ModelModifierChecks):
    """The checks of two linked tables."""

    decides_rows = True
    """How many rows the sizes of parents ask for is seen when these are made again."""

    def row_files(self, replay: SyntheticReplay) -> tuple[str, ...]:
        """Return the file of the parent's rows."""
        return () if replay.rows.parents is None else (replay.rows.parents.data,)

    def files(self, replay: SyntheticReplay) -> set[str]:
        """Return the file of the parent's rows."""
        return set(self.row_files(replay))

    def forms(self, replay: SyntheticReplay, meaning: SyntheticMeaning, rows: FileForm) -> dict[str, FileForm]:
        """Return the forms of both tables."""
        above, below = linked_forms(meaning.contract, meaning.names)
        pairs = zip((replay.rows.data, *self.row_files(replay)), (below, above), strict=False)
        return {name: form_of_rows(own) for name, own in pairs}

    def check_record(self, record: SyntheticRecord, meaning: SyntheticMeaning, *, where: str) -> list[Finding]:
        """Check that the parent's rows are stated where the product asks for them, and as it says."""
        parents, number = record.replay.rows.parents, stated_number(record, meaning)[0]
        if parents is None or not meaning.product.counts_parents:
            found, allowed = ("no rows of parents", "some") if parents is None else ("rows of parents", "none")
            return [Finding(where, "replay.rows.parents", found, f"{allowed}, as the product says", OTHER)]
        pair = table_pair(meaning.names, meaning.contract)
        pairs: list[tuple[str, object, object]] = [
            ("replay.rows.parents.number", parents.number, number),
            ("replay.rows.parents.table", parents.table, pair.parent),
            ("replay.rows.parents.data", parents.data, f"data/{record.release}-parents.parquet"),
            ("replay.rows.parents.key", parents.key, pair.parent_key),
            ("replay.rows.parents.child_key", parents.child_key, pair.child_key),
        ]
        return list(differences(pairs, where=where, allowed=AS_SAID))

    def check_model(self, model: Model, stated: ModelStatement, meaning: SyntheticMeaning) -> list[Finding]:
        """Check that a model of two tables is there where the product asks for one, and has the parent's columns."""
        asked = meaning.product.counts_parents
        wanted = table_pair(meaning.names, meaning.contract).parent_columns if asked else ()
        found = model.parents.domain.columns if isinstance(model, LinkedModel) else ()
        if found == wanted:
            return []
        names, allowed = (printable(", ".join(each)) or "no parents" for each in (found, wanted))
        return [Finding(stated.values, "parents", names, f"{allowed}, as product and contract say", OTHER_MODEL)]

    def compare(
        self, published: LinkedModel, again: LinkedModel, drawn: Sequence[Clique], compare: CompareModels
    ) -> list[Finding]:
        """Compare the models of parents, then those of children."""
        own = set(again.parents.domain.columns)
        above = [each for each in drawn if own.issuperset(each)]
        findings = compare(published.parents, again.parents, above)
        return findings + compare(published.children, again.children, drawn)

    def tables(
        self, tables: tuple[RowTable, ...], model: Model, replay: SyntheticReplay, meaning: SyntheticMeaning
    ) -> tuple[RowTable, ...]:
        """Return the child's table, then the parent's."""
        rows, parents = replay.rows, replay.rows.parents
        if parents is None or not isinstance(model, LinkedModel):
            return tables
        above, below = linked_forms(meaning.contract, meaning.names)
        seed = PostProcessingSeed(int(rows.seed, 16))
        both = LinkedRowPieces(model, meaning.contract, seed, parents.number)
        return (
            RowTable(rows.data, rows.number, below, both.child_rows, frozenset({parents.child_key})),
            RowTable(parents.data, parents.number, above, both.parent_rows, frozenset({parents.key})),
        )

    def check_tables(
        self, parquet: Mapping[str, bytes], replay: SyntheticReplay, meaning: SyntheticMeaning
    ) -> list[Finding]:
        """Check keys and sizes."""
        if replay.rows.parents is None:
            return []
        return check_links(parquet[replay.rows.data], parquet[replay.rows.parents.data], replay.rows, meaning)


def check_links(
    children: bytes, parents: bytes, stated: SyntheticRowsStatement, meaning: SyntheticMeaning
) -> list[Finding]:
    """Check keys and sizes of two tables that were found to be what model and seed give.

    Args:
        children, parents: bytes of the Parquet files.
        stated: what the record says of the rows.
        meaning: contract and product.
    """
    above = stated.parents
    if above is None:
        return []
    size = table_pair(meaning.names, meaning.contract).size
    keys, sizes = _columns(parents, above.key, size)
    (owners,) = _columns(children, above.child_key)
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    if (np.diff(ranked) == 0).any():
        return [Finding(above.data, f"column {printable(above.key)}", "a key twice", "each key once", _BROKEN)]
    place = np.searchsorted(ranked, owners)
    found = ranked[np.minimum(place, max(0, ranked.size - 1))] if ranked.size else np.full(owners.shape, -1)
    strays = np.flatnonzero(found != owners)
    if strays.size:
        field = f"column {printable(above.child_key)}, row {int(strays[0]) + 1}"
        return [Finding(stated.data, field, "a key that no parent has", f"a key of {above.data}", _BROKEN)]
    wrong = np.flatnonzero(np.bincount(place, minlength=keys.size) != sizes[order])
    if wrong.size:
        field = f"column {printable(size)}, row {int(order[wrong[0]]) + 1}"
        return [Finding(above.data, field, "another number", f"how many rows of {stated.data} it has", _BROKEN)]
    return []


def _columns(data: bytes, *names: str) -> list[NDArray[np.int64]]:
    """Read columns of whole numbers without missing values."""
    table = pq.read_table(pa.BufferReader(data), columns=list(names))
    return [table.column(name).to_numpy().astype(np.int64) for name in names]
