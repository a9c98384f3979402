"""The groups of a record, by the kind of its product."""

from __future__ import annotations

from tasks.records.across.across_groups import across_groups
from tasks.records.fitted_groups.classifier_groups import classifier_groups
from tasks.records.fitted_groups.synthetic_groups import synthetic_groups
from tasks.records.groups.field import FieldGroup
from tasks.records.model.record_kinds import ACROSS


def groups_of(kind: str, groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
    """Return the groups of a record: those of tables, unless rows or a model are published, or sites took part.

    Args:
        kind: the kind of the product, or `ACROSS`.
        groups: the groups of tables.
    """
    if kind == ACROSS:
        return across_groups(groups)
    if kind == "classifier":
        return classifier_groups(groups)
    return synthetic_groups(groups) if kind == "synthetic" else groups
