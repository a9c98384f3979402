"""The part of a synthetic record's `replay` that tables do not have: draws and choices, model, rows and seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from contracts.contract.contract import Contract
from contracts.message import message, messages_to_json
from contracts.release.linked_rows import table_pair
from privacy.generators.generator import Model
from privacy.generators.rows import seed_text
from privacy.ledger.draw_files import values_digest
from privacy.marginals.seeds import PostProcessingSeed
from tasks.records.draws.drawn import drawn_files, stated_draws
from tasks.records.files.synthetic_files import MODEL_ARRAYS, MODEL_VALUES, parent_name, published_copies
from tasks.records.files.tidy_tables import DATA
from tasks.records.fitted_groups.synthetic_groups import synthetic_groups
from tasks.records.groups.field import FieldGroup, Run
from tasks.records.model.record_kinds import DataColumn, ProductWords, ShownFile
from tasks.records.model.synthetic_statements import SyntheticRecord
from tasks.records.outputs import Synthesis
from tasks.records.published_fit import fit_of
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
        """Return what was drawn, and what follows from it."""
        return synthetic_part(run)

    def published(
        self, record: SyntheticRecord, contract: Contract, product: Any, accounts: Any, reserved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return plan and fit."""
        return fit_of(record, contract, product)

    def files(self, record: SyntheticRecord) -> Iterator[tuple[str, ShownFile]]:
        """Yield the files of what was drawn."""
        rows = record.replay.rows
        for made in (rows, *(() if rows.parents is None else (rows.parents,)), *record.replay.copies):
            yield made.data, ("", "data", "dense")
        yield from drawn_files(record.replay.draws)

    def data_columns(self, values: Values, path: str) -> Mapping[str, DataColumn]:
        """Return nothing: every column is a declared one."""
        return {}


def synthetic_part(run: Run) -> dict[str, Any]:
    """Return what the rows are computed from, beside the files."""
    facts, (_, made) = run.facts, run.facts.synthetic
    data = f"{DATA}/{facts.spec.release}.parquet"
    copies = published_copies(made, data)
    return {
        "draws": stated_draws(facts),
        "model": {
            "kind": made.model.kind,
            "values": MODEL_VALUES,
            "arrays": MODEL_ARRAYS,
            "rows": made.model.rows,
            "sha256": arrays_digests(made.model),
        },
        "rows": _rows(made, made.rows, made.seed, data) | _parents(run),
        **({"copies": [_rows(made, copy.rows, copy.seed, copy.path) for copy in copies]} if copies else {}),
        "notes": messages_to_json(made.fitted.notes),
    }


def _rows(made: Synthesis, number: int, seed: PostProcessingSeed, data: str) -> dict[str, Any]:
    return {"number": number, "from": made.rows_from, "seed": seed_text(seed), "data": data}


def _parents(run: Run) -> dict[str, Any]:
    """Return what is stated of the parent table's rows; nothing where there is one table."""
    facts, (plan, made) = run.facts, run.facts.synthetic
    if made.parents is None:
        return {}
    pair = table_pair(plan.task.domain.columns, facts.contract)
    return {
        "parents": {
            "table": pair.parent,
            "number": made.parents,
            "data": f"{DATA}/{parent_name(facts.spec.release)}.parquet",
            "key": pair.parent_key,
            "child_key": pair.child_key,
        }
    }


def arrays_digests(model: Model) -> dict[str, str]:
    """Return the SHA-256 of each of the model's arrays: little-endian int64, row-major."""
    return {name: values_digest(array) for name, array in model.to_arrays()[1].items()}
