"""Counts inside bins, as the page of a version tells of them."""

from __future__ import annotations

from typing import Final

from contracts.message import message
from tasks.records.groups.field import Run
from tasks.records.modifiers.record_modifier import RecordModifier

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
