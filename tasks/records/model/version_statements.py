"""What the files of a version state, as strict frozen models: proof and record. The manifest: `release_statement`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from contracts.canonical import digest
from contracts.contract.contract import Contract
from contracts.contract.labels import Formulas, LabelForm
from contracts.message import Message, messages_from_json
from contracts.release.exchange_forms import ExchangeForm
from tasks.records.model.approval_statements import ApprovalsStatement
from tasks.records.model.declarations import Declarations
from tasks.records.model.draw_kinds import OfItsKind
from tasks.records.model.statement import (
    Count,
    Hash,
    PlainNumber,
    SixDigits,
    StatedText,
    Statement,
    Tuple,
    Units,
    Value,
    only_form,
)

RECORD_SCHEMA: Final = "sudare-record/1"
_MOST_DIGITS: Final = 400


class ChargeStatement(Statement):
    """The charge as the spec wrote it."""

    account: StatedText
    epsilon: StatedText
    delta: StatedText
    noise_epsilon: Units | None

    @property
    def amounts(self) -> tuple[Decimal, Decimal]:
        """Epsilon and delta.

        Raises:
            ValueError: one is no number, or one of more digits than a charge has.
        """
        try:
            epsilon, delta = Decimal(self.epsilon), Decimal(self.delta)
        except InvalidOperation as error:
            raise ValueError("replay.charge: no number") from error
        for each in (epsilon, delta):
            if not each.is_finite() or max(abs(each.adjusted()), len(each.as_tuple().digits)) > _MOST_DIGITS:
                raise ValueError(f"replay.charge: a number of more than {_MOST_DIGITS} digits")
        return epsilon, delta

    @property
    def planned_for(self) -> Fraction:
        """The ε that the noise was planned for: the spec's, where no other is stated.

        Raises:
            ValueError: the spec's is no number.
        """
        return Fraction(self.amounts[0]) if self.noise_epsilon is None else Fraction(self.noise_epsilon, 10**12)


class ClaimStatement(Statement):
    """The guarantee that is claimed."""

    epsilon: Units
    delta: Annotated[int, Field(ge=0, lt=10**18)]


class CoarseningStatement(Statement):
    """The coarser resolution that was measured, and a digest of which cells of the table it sums up."""

    level: StatedText
    sha256: Hash


class ListedStatement(Statement):
    """What the record says of a sparse draw: the domain, from which threshold on cells are listed, how many."""

    cells: Annotated[int, Field(ge=1, lt=2**63)]
    threshold: Annotated[int, Field(ge=1, lt=2**62)]
    rows: Count


class RowsStatement(Statement):
    """What the record says of a refined sparse table: how many cells are not 0, and the interval of unlisted ones."""

    rows: Count
    absent_upper: Value


class DrawStatement(Statement):
    """What the record says of one draw; `listed` of a sparse one only."""

    key: StatedText
    number: Count
    clique: Tuple[StatedText]
    shape: Tuple[Count]
    coarsening: CoarseningStatement | None
    event: dict[str, Any]
    cost: Units
    sha256: Hash
    listed: ListedStatement | None = None


class FittedDraw(DrawStatement):
    """What the record says of one draw for a fit: each kind of draw has a statement of its own, by its `kind`.

    `measurements` is the file of its values; None where none is published.
    """

    kind: str
    measurements: StatedText | None


class TotalStatement(Statement):
    """The total that the tables were refined to; an average of noisy sums may be kept only where a table gains."""

    kind: Literal["estimated", "noisy", "invariant", "none"]
    value: Value | None
    standard_error: SixDigits | None
    kept: Literal["by_all", "where_it_gains"]


class ChosenStatement(Statement):
    """What the noisy values, or an earlier version, decided instead of the spec."""

    of: Literal["lambda", "method", "weights"]
    by: Literal["auto", "sparsity", "reference"]


class LevelStatement(Statement):
    """What the record says of a table at one coarser resolution."""

    name: StatedText
    data: StatedText
    measurements: StatedText
    sha256: Hash


class TableStatement(Statement):
    """What the record says of one table: what was used, whoever chose it."""

    name: StatedText
    columns: Tuple[StatedText]
    method: Literal["none", "simplex", "negative_l2", "empirical_bayes", "neighbourhood", "hierarchy", "mixture"]
    lambda_: PlainNumber | None = Field(alias="lambda")
    chosen: ChosenStatement | None
    estimated_rmse: dict[StatedText, SixDigits]
    disagreement: SixDigits | None
    integers: bool
    total: Value | None
    notes: Tuple[StatedText]
    suppressed: Count | None
    data: StatedText
    measurements: StatedText
    sha256: Hash
    levels: Tuple[LevelStatement]
    listed: RowsStatement | None = None


class ReferenceStatement(Statement):
    """The earlier version on which λ was chosen, by the SHA-256 of its MANIFEST.json."""

    release: StatedText
    version: Annotated[int, Field(ge=1, le=10**9)]
    manifest: Hash


class DistanceStatement(Statement):
    """How far published counts, or those that a model expects, lie from the noisy ones [rows]."""

    mean_absolute: SixDigits
    rmse: SixDigits


class ReplayTerms(Statement):
    """What a stranger needs to check a release of any kind."""

    contract: dict[str, Any]
    contract_digest: Hash
    spec_digest: Hash
    charge: ChargeStatement
    product: dict[str, Any]
    adjacency: Literal["add_remove", "replace_one"]
    rows_per_unit: Annotated[int, Field(ge=1, le=10**9)]
    calculus: dict[str, Any]
    claim: ClaimStatement
    amount: Units
    before: Units
    after: Units
    cap: Units
    formulas: Formulas | None
    labels: LabelForm | None = Field(default=None, exclude_if=lambda labels: labels is None)
    approvals: ApprovalsStatement | None = Field(default=None, exclude_if=lambda approvals: approvals is None)
    exchange: Tuple[ExchangeForm] = Field(default=(), exclude_if=lambda forms: not forms)
    draws: Tuple[DrawStatement]
    distances: dict[StatedText, DistanceStatement]
    due: StatedText | None


_LAST_READ: Final[dict[tuple[str, tuple[str, ...]], Contract]] = {}
"""The contract that was read last, by the digest of what is written and the places of packages."""


def recorded_contract(written: Mapping[str, Any]) -> Contract:
    """Return the contract of a replay block, read once for each that is written alike: a long one takes seconds.

    Raises:
        pydantic.ValidationError: it is none.
    """
    key = digest(written), tuple(sys.path)  # where kinds of domains that packages add are found
    contract = _LAST_READ.get(key) or Contract.model_validate(written)
    _LAST_READ.clear()
    _LAST_READ[key] = contract
    return contract


class Replay(ReplayTerms):
    """All that a stranger needs to check a tables release."""

    total: TotalStatement
    reference: ReferenceStatement | None
    tables: Tuple[TableStatement]


class ColumnStatement(Statement):
    """A column of a data file."""

    name: StatedText
    type: StatedText


class DataFileStatement(Statement):
    """What the record says of a data file; its digest and size stand in the manifest."""

    path: StatedText
    rows: Count
    columns: Tuple[ColumnStatement]


class RecordTerms(Statement):
    """record.json of a release of any kind."""

    schema_: Literal["sudare-record/1"] = Field(alias="schema")
    release: StatedText
    version: Annotated[int, Field(ge=1)]
    supersedes: Count | None
    files: Tuple[DataFileStatement]
    declarations: Declarations
    auditor_commitment: Hash | None = None
    auditor: dict[StatedText, Any] | None = None
    replay: ReplayTerms


class Record(RecordTerms):
    """record.json of a version of tables."""

    replay: Replay


# --- What the record of a synthetic version states.


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


# --- What the record of a classifier states.


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
