"""The part of a synthetic record's `replay` that tables do not have: draws and choices, model, rows and seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from contracts.contract.contract import Contract
from contracts.message import message, messages_to_json
from privacy.generators.generator import Model
from privacy.ledger.draw_files import values_digest
from tasks.records.draws.drawn import drawn_files, stated_draws
from tasks.records.files.synthetic_files import MODEL_ARRAYS, MODEL_VALUES, rows_file, stated_rows
from tasks.records.fitted_groups.synthetic_groups import synthetic_groups
from tasks.records.groups.field import FieldGroup, Run
from tasks.records.model.record_kinds import DataColumn, ProductWords, ShownFile
from tasks.records.model.synthetic_statements import SyntheticRecord
from tasks.records.modifiers.record_modifier import modifiers_of_replay, record_modifiers
from tasks.records.published_fit import fit_of, resolved_product
from tasks.records.values import Values


class SyntheticRecordPart:
    """The record of synthetic rows."""

    model: ClassVar = SyntheticRecord
    notice: ClassVar[str] = message("made-up records with these items; none is a person's")
    words: ClassVar = ProductWords(
        label="synthetic rows",
        registered="Synthetic data",
        made="Synthetic rows",
        remark="No row is a person's; record.html says what they are good for.",
        data="Synthetic rows.",
        value="Synthetic value.",
    )

    def groups(self, groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
        """Return the sections, some of them filled in another way."""
        return synthetic_groups(groups)

    def columns(self, run: Run) -> set[str]:
        """Name the columns that the fit is about."""
        return set(run.facts.synthetic[0].task.domain.columns)

    def stated(self, run: Run) -> dict[str, Any]:
        """Return the product with all its options, what was drawn, and what follows from it."""
        return {"product": resolved_product(run), **synthetic_part(run)}

    def published(
        self, record: SyntheticRecord, contract: Contract, product: Any, accounts: Any, reserved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return plan and fit."""
        return fit_of(record, contract, product)

    def files(self, record: SyntheticRecord) -> Iterator[tuple[str, ShownFile]]:
        """Yield the files of what was drawn."""
        yield record.replay.rows.data, ("", "data", "dense")
        for modifier in modifiers_of_replay(record.replay):
            yield from modifier.files(record.replay)
        yield from drawn_files(record.replay.draws)

    def data_columns(self, values: Values, path: str) -> Mapping[str, DataColumn]:
        """Return nothing: every column is a declared one."""
        return {}


def synthetic_part(run: Run) -> dict[str, Any]:
    """Return what the rows are computed from, beside the files."""
    facts, (_, made) = run.facts, run.facts.synthetic
    part: dict[str, Any] = {
        "draws": stated_draws(facts),
        "model": {
            "kind": made.model.kind,
            "values": MODEL_VALUES,
            "arrays": MODEL_ARRAYS,
            "rows": made.model.rows,
            "sha256": arrays_digests(made.model),
        },
        "rows": stated_rows(rows_file(made, facts), made.rows_from),
        "notes": messages_to_json(made.fitted.notes),
    }
    for modifier in record_modifiers(facts.spec.product):
        for name, stated in modifier.replay(run).items():
            part[name] = {**part[name], **stated} if name in part else stated
    return part


def arrays_digests(model: Model) -> dict[str, str]:
    """Return the SHA-256 of each of the model's arrays: little-endian int64, row-major."""
    return {name: values_digest(array) for name, array in model.to_arrays()[1].items()}
