"""What the files of a version state, as strict frozen models: manifest, proof, and the record's replay block.

Nothing is converted: a text where a number belongs is a finding. The models say what a statement looks like; whether
it is true is for the other modules of this folder.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from contracts.contract.spreadsheet import Formulas
from contracts.errors import Finding
from contracts.reading.scalars import as_tuple
from contracts.reading.validation_errors import dotted
from tasks.records.strict_json import printable, shown

MANIFEST_SCHEMA: Final = "sudare-manifest/1"
PROOF_SCHEMA: Final = "sudare-proof/1"
RECORD_SCHEMA: Final = "sudare-record/1"

_MOST_FINDINGS: Final = 20
_MOST_LISTED: Final = 10_000
_T = TypeVar("_T")
_Model = TypeVar("_Model", bound="Statement")
Tuple = Annotated[tuple[_T, ...], BeforeValidator(as_tuple)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
KeyId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Signature = Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]
StatedText = Annotated[str, Field(max_length=4096)]
Units = Annotated[int, Field(ge=0, le=10**30)]
Count = Annotated[int, Field(ge=0, le=2**53)]
NumberText = Annotated[str, Field(pattern=r"^[0-9]{1,20}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?$")]
Value = Annotated[int, Field(ge=-(2**62), le=2**62)]


class Statement(BaseModel):
    """A part of a file: frozen, no conversions, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class FileStatement(Statement):
    """What the manifest says of one file."""

    sha256: Hash
    bytes: Count


class Manifest(Statement):
    """MANIFEST.json: the files of the version, signed."""

    schema_: Literal["sudare-manifest/1"] = Field(alias="schema")
    release: StatedText
    version: Annotated[int, Field(ge=1)]
    files: dict[StatedText, FileStatement]
    key_id: KeyId
    signature: Signature


class EntryStatement(Statement):
    """One entry of the journal."""

    sequence: Count
    previous: Hash
    kind: StatedText
    at: StatedText
    body: dict[str, Any]


class ProvenEntry(Statement):
    """An entry with its audit path, from the leaf upwards."""

    entry: EntryStatement
    path: Tuple[Hash]


class CheckpointStatement(Statement):
    """The journal's size and root at one instant; signed."""

    ledger: Hash
    size: Annotated[int, Field(ge=1, le=2**53)]
    root: Hash
    head: Hash
    at: StatedText


class EarlierCheckpoint(Statement):
    """A checkpoint before this one, with the proof that the journal still begins with what it held."""

    size: Annotated[int, Field(ge=1, le=2**53)]
    root: Hash
    path: Tuple[Hash]


class Proof(Statement):
    """PROOF.json: the run's entries and its accounts' openings, each proven under one signed checkpoint."""

    schema_: Literal["sudare-proof/1"] = Field(alias="schema")
    entries: Tuple[ProvenEntry]
    checkpoint: CheckpointStatement
    earlier: Tuple[EarlierCheckpoint]
    key_id: KeyId
    signature: Signature


class ChargeStatement(Statement):
    """The charge as the spec wrote it."""

    account: StatedText
    epsilon: StatedText
    delta: StatedText
    noise_epsilon: Units | None

    @property
    def planned_for(self) -> Fraction:
        """The ε that the noise was planned for: the spec's, where no other is stated.

        Raises:
            ValueError: the spec's is no number.
        """
        return Fraction(self.epsilon) if self.noise_epsilon is None else Fraction(self.noise_epsilon, 10**12)


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


class TotalStatement(Statement):
    """The total that the tables were refined to; an average of noisy sums may be kept only where a table gains."""

    kind: Literal["estimated", "noisy", "invariant", "none"]
    value: Value | None
    kept: Literal["by_all", "where_it_gains"]


class ChosenStatement(Statement):
    """What the noisy values, or an earlier version, decided instead of the spec."""

    of: Literal["lambda", "method"]
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
    method: Literal["none", "simplex", "negative_l2", "empirical_bayes", "neighbourhood", "hierarchy"]
    lambda_: NumberText | None = Field(alias="lambda")
    chosen: ChosenStatement | None
    estimated_rmse: dict[StatedText, NumberText]
    disagreement: NumberText | None
    integers: bool
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
    draws: Tuple[DrawStatement]
    due: StatedText | None


class Replay(ReplayTerms):
    """All that a stranger needs to check a tables release."""

    total: TotalStatement
    reference: ReferenceStatement | None
    tables: Tuple[TableStatement]


class RecordField(Statement):
    """One field of the record: for everybody, or withheld for auditors."""

    class_: Literal["public", "auditor"] = Field(alias="class")
    value: Any
    reason: StatedText | None = None


class Group(Statement):
    """One group of fields."""

    title: StatedText
    fields: dict[str, RecordField]


class RecordTerms(Statement):
    """record.json of a release of any kind."""

    schema_: Literal["sudare-record/1"] = Field(alias="schema")
    release: StatedText
    version: Annotated[int, Field(ge=1)]
    groups: dict[StatedText, Group]
    not_available: Tuple[StatedText]
    declared: Tuple[StatedText]
    auditor_commitment: Hash
    replay: ReplayTerms


class Record(RecordTerms):
    """record.json of a version of tables."""

    replay: Replay


def read_statement(
    model: type[_Model], value: Any, *, where: str, at: str = ""
) -> tuple[_Model | None, list[Finding]]:
    """Read a JSON value as a statement.

    Args:
        model: which statement.
        value: the value.
        where: the file's name.
        at: where in the file the value stands.
    Returns:
        tuple: the statement, or None with a finding for each field that is not of its form.
    """
    unknown = _unknown_schema(model, value, where)
    if unknown is not None:
        return None, [unknown]
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        return None, validation_findings(error, where=where, at=at)


def _unknown_schema(model: type[Statement], value: Any, where: str) -> Finding | None:
    """Say that a file is of a schema that is not known here; its fields would make no sense under another one."""
    field = model.model_fields.get("schema_")
    stated = value.get("schema") if isinstance(value, dict) else None
    known = () if field is None else get_args(field.annotation)
    if field is None or not isinstance(stated, str) or stated in known:
        return None
    remedy = "if a newer Sudare wrote it, verify it with that one; else the file is not what it should be"
    return Finding(where, "schema", shown(stated), f"a schema known here: {', '.join(known)}", remedy)


def validation_findings(error: ValidationError, *, where: str, at: str = "") -> list[Finding]:
    """Turn pydantic's errors into findings, at most a screenful."""
    findings: list[Finding] = []
    if error.error_count() > _MOST_LISTED:  # a list of them would take gigabytes
        found, allowed = f"{error.error_count():,} fields of another form", "the form of its schema"
        return [Finding(where, printable(at or "the file"), found, allowed, "the file does not follow its schema")]
    for item in error.errors(include_url=False)[:_MOST_FINDINGS]:
        field = ".".join(filter(None, (at, dotted(item["loc"]) if item["loc"] else ""))) or "the file"
        found = "nothing" if item["type"] == "missing" else shown(item.get("input"))
        allowed = printable(str(item["msg"]))
        findings.append(Finding(where, printable(field), found, allowed, "the file does not follow its schema"))
    return findings
