"""What the journal's entries state, as strict frozen models: bodies of an account, a charge, a draw, a version."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field

from privacy.ledger.journal.notes import MOST_NOTE_BYTES, TreeHead, read_checkpoint
from tasks.records.model.statement import Count, Hash, StatedText, Statement, Tuple, Units


class _Body(Statement):
    """The body of a journal entry: which keys it has, `privacy.ledger.entry_bodies` says for the ledger and here."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, defer_build=True)


class AccountBody(_Body):
    """Of account_opened: whose loss is bounded, by how much, and how it adds up."""

    name: StatedText
    population: StatedText
    block: StatedText
    unit: StatedText
    adjacency: StatedText
    calculus: dict[str, Any]
    epsilon: Units
    delta: Annotated[int, Field(ge=0, lt=10**18)]
    cap: Units
    spent: Units


class _RunBody(_Body):
    """The body of an entry about a run."""

    run_key: StatedText


class TakenStatement(_Body):
    """What a charge took from one account; and how much of what was on it before could still be given back.

    An account that sets a part of its δ aside for selections of keys has a second sum, before and after.
    """

    account: StatedText
    amount: Units
    before: Units
    after: Units
    returnable: Units
    failure_before: Units | None = None
    failure_after: Units | None = None


class ChargeBody(_RunBody):
    """Of charge_reserved: what the release may cost, and all that ties the charge to it."""

    account: StatedText
    release: StatedText
    spec_digest: Hash
    contract_digest: Hash
    snapshot_hash: Hash
    adjacency: StatedText
    unit: StatedText
    scope: StatedText
    rows_per_unit: Count
    events: Tuple[dict[str, Any]]
    epsilon: Units
    delta: Units
    public_total: Count | None
    days: StatedText | None
    due: StatedText | None
    noise_epsilon: Units | None
    population: StatedText
    block: StatedText
    parts: Tuple[TakenStatement]


class GivenStatement(_Body):
    """What a return gives back to one account."""

    account: StatedText
    amount: Units


class ReturnedBody(_RunBody):
    """Of charge_returned: a charge whose grant was never opened."""

    parts: Tuple[GivenStatement]


class OpenedBody(_RunBody):
    """Of grant_opened: what the noise is drawn from, and the identity of the folder that keeps the draws."""

    security: StatedText
    draws_folder: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class DrawnBody(_RunBody):
    """Of noise_drawn: one noisy value, by its digest, with its event and its cost."""

    key: StatedText
    number: Count
    event: dict[str, Any]
    costs: dict[StatedText, Units]
    sha256: Hash


class CheckpointBody(_Body):
    """A checkpoint that was signed before: how many entries the journal had, and their root."""

    size: Annotated[int, Field(ge=1, le=2**53)]
    root: Hash


class PublishedBody(_RunBody):
    """Of version_published: which manifest was published as which version, after which checkpoints."""

    release: StatedText
    number: Count
    manifest: Hash
    supersedes: Count | None
    earlier: Tuple[CheckpointBody]


class ClockBody(_Body):
    """Of clock_corrected: the latest time that the journal had until then."""

    latest: StatedText


class WithdrawnBody(_RunBody):
    """Of version_withdrawn: which version, and why."""

    release: StatedText
    number: Count
    reason: StatedText


# --- PROOF.json.


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


def _checkpoint(note: str) -> str:
    """Refuse a text that is no checkpoint of at least one entry.

    Raises:
        ValueError: names the line and the rule that it breaks.
    """
    if read_checkpoint(note)[1].size < 1:
        raise ValueError("checkpoint, line 2: at least 1 entry is needed")
    return note


def _key_change(note: str) -> str:
    """Refuse a text that is no change of a signing key.

    Raises:
        ValueError: names the line and the rule that it breaks.
    """
    from privacy.ledger.journal.key_changes import read_change  # most journals have none

    read_change(note)
    return note


_FEW: Final = Field(max_length=100)


class EarlierCheckpoint(Statement):
    """A checkpoint before this one, with the proof that the journal still begins with what it held."""

    size: Annotated[int, Field(ge=1, le=2**53)]
    root: Hash
    path: Tuple[Hash]


class Proof(Statement):
    """PROOF.json: the run's entries and its accounts' openings, each proven under one checkpoint, a signed note.

    `keys` has the changes of the signing key until then.
    """

    schema_: Literal["sudare-proof/1"] = Field(alias="schema")
    entries: Tuple[ProvenEntry]
    checkpoint: Annotated[str, Field(max_length=MOST_NOTE_BYTES), AfterValidator(_checkpoint)]
    earlier: Tuple[EarlierCheckpoint]
    keys: Annotated[Tuple[Annotated[str, Field(max_length=MOST_NOTE_BYTES), AfterValidator(_key_change)]], _FEW]

    @property
    def head(self) -> TreeHead:
        """What the checkpoint says of the journal, whoever signed it."""
        return read_checkpoint(self.checkpoint)[1]
