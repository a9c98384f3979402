"""What the record of a version that was made across sites states of its execution; all else follows from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from tasks.records.model.statement import StatedText, Statement, Tuple, Units
from tasks.records.model.version_statements import DrawStatement, RecordTerms, ReplayTerms


class SumStatement(Statement):
    """The noisy sum of one round: its draw, which sites are in it, and how many numbers it has."""

    key: StatedText
    present: Tuple[bool]
    length: Annotated[int, Field(ge=1, le=2**53)]


class ExecutionStatement(Statement):
    """How a version was made across sites.

    What all parties agreed on, the plan that follows from it and from the contract, what a record loses at its site
    at most [10^-12], the sum of each round, and what a reader should know of what was made of them.
    """

    kind: Literal["across_sites"]
    spec: dict[str, Any]
    plan: dict[str, Any]
    record_epsilon: Units
    rounds: Tuple[SumStatement]
    notes: Tuple[StatedText]


class AcrossReplay(ReplayTerms):
    """All that a stranger needs to check a version that was made across sites."""

    draws: Tuple[DrawStatement]
    execution: ExecutionStatement


class AcrossRecord(RecordTerms):
    """record.json of a version that was made across sites."""

    replay: AcrossReplay
