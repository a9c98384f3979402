"""Synthetic rows of two linked tables, as a version has and a record states them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from contracts.contract.contract import Contract
from contracts.message import message
from contracts.release.linked_rows import TablePair, table_pair
from privacy.generators.linked_tables import LinkedModel, LinkedRowPieces
from tasks.records.facts import RunFacts
from tasks.records.files.synthetic_files import RowsFile, parent_name
from tasks.records.files.tidy_tables import DATA
from tasks.records.groups.field import Run
from tasks.records.model.record_kinds import ShownFile
from tasks.records.model.version_statements import SyntheticReplay
from tasks.records.modifiers.record_modifier import RecordModifier
from tasks.records.outputs import Synthesis


class LinkedRecord(RecordModifier):
    """Rows of two tables: a file each, and keys that lead from one to the other."""

    def made(self, made: Synthesis, contract: Contract) -> Synthesis:
        """Take the number of rows for that of parents, whose sizes say how many children there are."""
        if not isinstance(made.model, LinkedModel):
            return made
        below = LinkedRowPieces(made.model, contract, made.seed, made.rows).children
        return replace(made, parents=made.rows, rows=below)

    def row_files(self, files: tuple[RowsFile, ...], facts: RunFacts) -> tuple[RowsFile, ...]:
        """Return the child's file, then the parent's."""
        _, made = facts.synthetic
        if made.parents is None or not isinstance(made.model, LinkedModel):
            return files
        both, release = LinkedRowPieces(made.model, facts.contract, made.seed, made.parents), facts.spec.release
        return (
            RowsFile(release, both.child_rows(), made.rows, seed=made.seed),
            RowsFile(parent_name(release), both.parent_rows(), made.parents, seed=made.seed),
        )

    def replay(self, run: Run) -> dict[str, Any]:
        """State the parent's rows, and the keys."""
        pair = _pair(run)
        parents = {
            "table": pair.parent,
            "number": run.facts.synthetic[1].parents,
            "data": f"{DATA}/{parent_name(run.facts.spec.release)}.parquet",
            "key": pair.parent_key,
            "child_key": pair.child_key,
        }
        return {"rows": {"parents": parents}}

    def published(self, replay: SyntheticReplay) -> dict[str, Any]:
        """Return how many parents there are."""
        return {"parents": None if replay.rows.parents is None else replay.rows.parents.number}

    def files(self, replay: SyntheticReplay) -> Iterator[tuple[str, ShownFile]]:
        """Yield the file of the parent's rows."""
        if replay.rows.parents is not None:
            yield replay.rows.parents.data, ("", "data", "dense")

    def rows(self, run: Run, told: dict[str, Any]) -> dict[str, Any]:
        """Say how many rows of the parent table there are, and how those of the child belong to them."""
        pair, parents = _pair(run), run.facts.synthetic[1].parents
        terms = {"child": pair.child, "parent": pair.parent}
        return {
            "number": told["number"],
            "from": told["from"],
            "parents": parents,
            "means": message(
                "{number} rows of {parent}: {origin}; as many rows of {child} as {size} says",
                number=parents,
                origin=told["means"],
                size=pair.size,
                **terms,
            ),
            "keys": message(
                "{key} of {child} is {parent_key} of {parent}: fresh numbers in random order, and every key has its "
                "row",
                key=pair.child_key,
                parent_key=pair.parent_key,
                **terms,
            ),
        }

    def further_rows(self, run: Run, told: str) -> str:
        """Say that no further rows come from the model."""
        return message(
            "Rows of both tables belong together by their keys: no further rows come from the model by sudare sample"
        )


def _pair(run: Run) -> TablePair:
    return table_pair(run.facts.synthetic[0].task.domain.columns, run.facts.contract)


# --- Counts inside bins, as the page of a version tells of them.


COUNTED: Final = {
    "integer": message("a whole number from its bin, drawn by released noisy counts inside the bin"),
    "number": message("a number from its bin, drawn by released noisy counts inside the bin"),
    "date": message("a day from its period, drawn by released noisy counts inside the period"),
}


class InsideRecord(RecordModifier):
    """Columns inside whose bins rows were counted."""

    def decoding(self, run: Run, told: dict[str, str]) -> dict[str, str]:
        """Say of these columns that values follow noisy counts."""
        from contracts.contract.decoding import Decoder

        forms = Decoder(run.facts.contract, run.facts.synthetic[0].task.domain.columns).forms
        counted = {form.name: COUNTED[form.kind] for form in forms if form.name in _columns(run)}
        return {**told, **counted}

    def bias_inside(self, run: Run, told: str) -> str:
        """Say how values lie inside the bins of these columns, and of others."""
        return message(
            "Inside the bins of {columns} values lie as noisy counts say, whatever the row's other values are; "
            "inside other bins all values are equally likely",
            columns=", ".join(_columns(run)),
        )


def _columns(run: Run) -> tuple[str, ...]:
    """Return the columns, in the contract's order."""
    inside = run.facts.synthetic[0].task.inside
    return () if inside is None else tuple(tree.column for tree in inside.trees)
