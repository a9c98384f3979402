"""The groups of a record, by the kind of its product."""

from __future__ import annotations

from tasks.records.facts import RunFacts
from tasks.records.fitted_groups.classifier_groups import model_groups
from tasks.records.fitted_groups.synthetic_groups import synthetic_groups
from tasks.records.groups.field import Group


def groups_of(facts: RunFacts, groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Return the groups of a run's record: those of tables, unless rows or a model are published."""
    if facts.classifier is not None:
        return model_groups(groups)
    return groups if facts.synthesis is None else synthetic_groups(groups)
