"""What the record of a synthetic version states: draws and choices, the model, the rows and their seed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from contracts.message import Message, messages_from_json
from tasks.records.model.draw_kinds import OfItsKind
from tasks.records.model.statement import Count, Hash, StatedText, Statement, Tuple
from tasks.records.model.version_statements import FittedDraw, RecordTerms, ReplayTerms

SeedText = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


def _message(note: str | dict[str, Any]) -> str | dict[str, Any]:
    """Refuse an object that is no message.

    Raises:
        ValueError: it is none.
    """
    if isinstance(note, dict) and not isinstance(messages_from_json(note), Message):
        raise ValueError("a note is a text, or a template with its parameters")
    return note


Note = Annotated[StatedText | dict[str, Any], AfterValidator(_message)]
"""What a generator or trainer says of its fit; one with parameters as `messages_to_json` writes it."""


class ModelStatement(Statement):
    """The published model: its kind, its two files, and the digest of each of its arrays."""

    kind: StatedText
    values: StatedText
    arrays: StatedText
    rows: Count
    sha256: dict[StatedText, Hash]


class ParentRowsStatement(Statement):
    """The published rows of a parent table: how many, their file, and by which keys those of the child lead to them.

    `key` is the column of the parent's rows, `child_key` that of the child's.
    """

    table: StatedText
    number: Count
    data: StatedText
    key: StatedText
    child_key: StatedText


class SyntheticRowsStatement(Statement):
    """The published rows: how many and why, the seed that they come from, and their file.

    Of two linked tables they are the child's, and `from` says why there are so many `parents`.
    """

    number: Count
    from_: Literal["estimated", "public", "declared"] = Field(alias="from")
    seed: SeedText
    data: StatedText
    parents: ParentRowsStatement | None = Field(default=None, exclude_if=lambda parents: parents is None)


class DrawsReplay(ReplayTerms):
    """The replay block of what comes of draws of several kinds."""

    draws: Tuple[Annotated[FittedDraw, OfItsKind()]]


class DrawsRecord(RecordTerms):
    """record.json of a version of what comes of draws of several kinds."""

    replay: DrawsReplay


class FittedReplay(DrawsReplay):
    """The replay block of what is fitted to noisy values: synthetic rows, or a model."""

    notes: Tuple[Note]

    @property
    def said(self) -> tuple[str, ...]:
        """The notes as messages."""
        return tuple(messages_from_json(note) for note in self.notes)


class FittedRecord(DrawsRecord):
    """record.json of a version of what is fitted."""

    replay: FittedReplay


class SyntheticReplay(FittedReplay):
    """All that a stranger needs to check a synthetic release."""

    model: ModelStatement
    rows: SyntheticRowsStatement
    copies: Tuple[SyntheticRowsStatement] = Field(default=(), exclude_if=lambda copies: not copies)


class SyntheticRecord(FittedRecord):
    """record.json of a synthetic version."""

    replay: SyntheticReplay
