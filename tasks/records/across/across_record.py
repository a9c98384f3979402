"""What a record says of a version that was made across sites: its draws, and its execution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from contracts.contract.contract import Contract
from contracts.release.federation_spec import FederationTerms
from contracts.release.tables.expansion import tables_of
from contracts.release.tables.product import TablesProduct
from privacy.accounting.events import event_from_json
from tasks.records.across.across_groups import across_groups, columns
from tasks.records.files.array_file import ROUNDS
from tasks.records.files.tidy_tables import DATA
from tasks.records.groups.field import FieldGroup, Run
from tasks.records.model.across_statements import AcrossRecord, ExecutionStatement
from tasks.records.model.record_kinds import DataColumn, ProductWords, ShownFile
from tasks.records.outputs import AcrossPlan
from tasks.records.values import Values


class AcrossRecordPart:
    """The record of a version that was made across sites, whatever its product is."""

    model: ClassVar = AcrossRecord
    notice: ClassVar[str] = ""
    words: ClassVar = ProductWords("", "", "", "")
    """Those of its product say what is published."""

    def groups(self, groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
        """Return the sections, some of them filled in another way."""
        return across_groups(groups)

    def columns(self, run: Run) -> set[str]:
        """Name the columns of its product."""
        return set(columns(run))

    def stated(self, run: Run) -> dict[str, Any]:
        """Return draws and execution.

        Raises:
            TypeError: the run was made in one place.
        """
        if run.facts.execution is None:
            raise TypeError("the release was not made across sites")
        return across_part(run, run.facts.execution)

    def published(
        self, record: AcrossRecord, contract: Contract, product: Any, accounts: Any, reserved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return how the version was made; what was made of the sums follows from that."""
        claim = record.replay.claim
        events = tuple(event_from_json(event) for event in reserved["events"])
        return {
            "execution": record.replay.execution,
            "plan": AcrossPlan(events, claim.epsilon, claim.delta),
            **dict.fromkeys(("synthesis", "classifier", "total", "estimated_total", "earlier_version")),
            "tables": (),
        }

    def files(self, record: AcrossRecord) -> Iterator[tuple[str, ShownFile]]:
        """Yield the rounds, and a table a round, or all rows."""
        execution = record.replay.execution
        terms = FederationTerms.model_validate(execution.spec)
        product = terms.product
        yield ROUNDS, ("", "rounds", "dense")
        if isinstance(product, TablesProduct):
            tables = tables_of(product, Contract.model_validate(record.replay.contract))
            for each, table in zip(execution.rounds, tables, strict=True):
                yield f"{DATA}/{table.name}.parquet", (each.key, "data", "dense")
        elif terms.generator is not None:
            yield f"{DATA}/{terms.federation}.parquet", ("", "data", "dense")

    def data_columns(self, values: Values, path: str) -> Mapping[str, DataColumn]:
        """Return nothing: the product says it."""
        return {}


def across_part(run: Run, execution: ExecutionStatement) -> dict[str, Any]:
    """Return the draws, a sum a round and lost attempts, and how the version was made."""
    account, lengths = run.facts.account.terms.name, {each.key: each.length for each in execution.rounds}
    entered = [entry.body for entry in run.facts.entries if entry.kind == "noise_drawn"]
    draws = [
        {
            "key": body["key"],
            "number": body["number"],
            "clique": [],
            "shape": [lengths[body["key"]]] if body["key"] in lengths else [],
            "coarsening": None,
            "event": body["event"],
            "cost": body["costs"][account],
            "sha256": body["sha256"],
        }
        for body in sorted(entered, key=lambda body: body["number"])
    ]
    return {"draws": draws, "execution": execution.model_dump(mode="json")}
