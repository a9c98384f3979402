"""What the journal's entries state, as strict frozen models: bodies of an account, a charge, a draw, a version."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from tasks.records.model.version_statements import Count, Hash, Listed, Statement, Text, Units


class _Body(Statement):
    """The body of a journal entry: what is read here must be there; the ledger may write more."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class AccountBody(_Body):
    """Of account_opened: whose loss is bounded, by how much, and how it adds up."""

    name: Text
    population: Text
    block: Text
    unit: Text
    adjacency: Text
    calculus: dict[str, Any]
    epsilon: Units
    delta: Annotated[int, Field(ge=0, lt=10**18)]
    cap: Units


class _RunBody(_Body):
    """The body of an entry about a run."""

    run_key: Text


class TakenStatement(_Body):
    """What a charge took from one account; and how much of what was on it before could still be given back."""

    account: Text
    amount: Units
    before: Units
    after: Units
    returnable: Units


class ChargeBody(_RunBody):
    """Of charge_reserved: what the release may cost, and all that ties the charge to it."""

    account: Text
    release: Text
    spec_digest: Hash
    contract_digest: Hash
    adjacency: Text
    unit: Text
    scope: Text
    rows_per_unit: Count
    events: Listed[dict[str, Any]]
    epsilon: Units
    delta: Units
    public_total: Count | None
    days: Text | None
    due: Text | None
    noise_epsilon: Units | None
    block: Text
    parts: Listed[TakenStatement]


class OpenedBody(_RunBody):
    """Of grant_opened: what the noise is drawn from."""

    security: Text


class DrawnBody(_RunBody):
    """Of noise_drawn: one noisy value, by its digest, with its event and its cost."""

    key: Text
    number: Count
    event: dict[str, Any]
    costs: dict[Text, Units]
    sha256: Hash


class CheckpointBody(_Body):
    """A checkpoint that was signed before: how many entries the journal had, and their root."""

    size: Annotated[int, Field(ge=1, le=2**53)]
    root: Hash


class PublishedBody(_RunBody):
    """Of version_published: which manifest was published as which version, after which checkpoints."""

    release: Text
    number: Count
    manifest: Hash
    supersedes: Count | None
    earlier: Listed[CheckpointBody]
