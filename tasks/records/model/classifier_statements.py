"""What the record of a classifier states: its draws, its files, and the seed of post-processing if it has one."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from tasks.records.model.statement import Count, Hash, StatedText, Statement, Tuple, only_form
from tasks.records.model.synthetic_statements import FittedRecord, FittedReplay, SeedText

RangeNumber = Annotated[
    str,
    Field(pattern=r"^-?[0-9]{1,20}(\.[0-9]{1,40})?(e-?[0-9]{1,3})?$"),
    AfterValidator(lambda text: only_form(text, repr(float(text)))),
]


class WeightsStatement(Statement):
    """The published model: its files, its layers, the range of its numbers, and the digest of its weights."""

    weights: StatedText
    inputs: StatedText
    card: StatedText
    widths: Tuple[Count]
    range: Tuple[RangeNumber] | None
    sha256: Hash


class ClassifierReplay(FittedReplay):
    """All that a stranger needs to check a release of a classifier."""

    model: WeightsStatement
    seed: SeedText | None


class ClassifierRecord(FittedRecord):
    """record.json of a version of a classifier."""

    replay: ClassifierReplay
