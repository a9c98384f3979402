"""A field of the audit record: its name, what it means, who may read it, and how a run fills it.

A field is filled from what the run knows about itself and from nothing else. One that a run has no source for reads
"not available", is listed, and says why, so that a reader sees what was not written down. What only people know is
declared by the publisher (`about:` of a spec, `[publisher]` of a workspace) and listed as declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from contracts.message import message
from tasks.records.facts import RunFacts
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.model.declarations import WITHHELD

NOT_AVAILABLE = message("not available")
NONE: Final = message("none")
__all__ = [
    "NONE",
    "NOT_AVAILABLE",
    "WITHHELD",
    "Field",
    "FieldGroup",
    "Run",
    "auditor",
    "no_source",
    "public",
    "unsourced",
]

Visibility = Literal["public", "auditor"]


@dataclass(frozen=True)
class Run:
    """What fields are filled from.

    Args:
        facts: the finished run.
        files: its data files, as written.
    """

    facts: RunFacts
    files: tuple[WrittenFile, ...]


Fill = Callable[[Run], Any]


@dataclass(frozen=True)
class Field:
    """One field.

    Args:
        name: its name inside its group.
        means: what it says, in a line.
        visibility: public, or for auditors only.
        fill: computes the JSON value from a run; None where the run has no source.
        absent: why it may have none; what must be done so that it has.
        declared: whether the publisher declares it; nothing about it can be checked.
    """

    name: str
    means: str
    visibility: Visibility
    fill: Fill
    absent: str = ""
    declared: bool = False


@dataclass(frozen=True)
class FieldGroup:
    """Fields that belong together, under the name and title of a section."""

    name: str
    title: str
    fields: tuple[Field, ...]


def public(name: str, means: str, fill: Fill, *, absent: str = "") -> Field:
    """Make a field that everybody may read."""
    return Field(name, message(means), "public", fill, message(absent))


def auditor(name: str, means: str, fill: Fill, *, absent: str = "") -> Field:
    """Make a field that stays in the workspace, for auditors."""
    return Field(name, message(means), "auditor", fill, message(absent))


def no_source(run: Run) -> None:
    """Fill nothing, whatever the run."""


def unsourced(name: str, means: str, why: str) -> Field:
    """Make a field that the audit field list asks for and that no part of a run can know."""
    return Field(name, message(means), "public", no_source, message(why))


def with_sections(groups: Sequence[FieldGroup], own: Iterable[FieldGroup]) -> tuple[FieldGroup, ...]:
    """Return the sections of a record, in their order; those that a product fills in its own way in its own way."""
    changed = {group.name: group for group in own}
    return tuple(changed.get(group.name, group) for group in groups)
