"""What a finished run tells: public things only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from privacy.accounting.amounts import atto_to_text, budget_used, pico_to_text
from privacy.ledger.accounts.admission import fitting_epsilon, loss_name
from privacy.ledger.entries import LedgerCorrupt
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountState
from tasks.publish import Publication
from tasks.storage.workspace.settings import Workspace


@dataclass(frozen=True)
class Outcome:
    """Where a release is, what it cost and what is left; amounts as exact decimal text.

    Args:
        release: name of the product.
        version: number of the version.
        folder: the published folder.
        run_key: the run.
        repeated: whether it was published before, so that this run drew and charged nothing.
        status: how the version stands in the journal: published, superseded or withdrawn.
        account: who paid.
        epsilon: ε of the release.
        delta: δ of the release.
        charged: loss charged, in the account's calculus.
        remaining: loss that the account has left.
        cap: the most the account may lose.
        used: the share of it that is used, in words.
        loss: name of that loss.
        claim: ε that the account has lost so far.
        epsilon_cap: the most it may become.
        account_delta: δ of both.
        also_charged: what the other accounts of these people have left: name, remaining, cap, used and kind of loss.
        can_give: the largest ε, at the same δ, that one more release like this may have; None where nothing fits.
        public_key_file: the key that checks it.
        copy: where it was copied to; None where the spec publishes to a folder.
    """

    release: str
    version: int
    folder: str
    run_key: str
    repeated: bool
    status: str
    account: str
    epsilon: str
    delta: str
    charged: str
    remaining: str
    cap: str
    used: str
    loss: str
    claim: str
    epsilon_cap: str
    account_delta: str
    also_charged: tuple[dict[str, str], ...]
    can_give: str | None
    public_key_file: str
    copy: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        return asdict(self)

    def to_markdown(self) -> str:
        """Return the outcome for Prefect's page of the run."""
        return (
            f"**{self.release}** version **{self.version}**\n\n"
            f"| | |\n|---|---|\n| where | `{self.folder}` |\n| record | `{self.folder}/record.html` |\n"
            f"| cost | ε = {self.epsilon} at δ = {self.delta} |\n| account | {self.account}: {self.used} |\n"
            + "".join(f"| charged as well | {each['account']}: {each['used']} |\n" for each in self.also_charged)
        )


def standing(status: str, *, repeated: bool) -> str:
    """Say of a version, after its name, that this run published it, or how it stands since an earlier one did."""
    if not repeated:
        return "is published"
    return "was published already" if status == "published" else f"was published and {status}"


def still(can_give: str | None, delta: str) -> str:
    """Say what accounts can still give, in the ε of one more release of the same kind."""
    if can_give is None:
        return "nothing more of this kind"
    return f"ε = {can_give} at δ = {delta}, in one more release like this"


def outcome_of(
    publication: Publication, ledger: Ledger, workspace: Workspace, *, repeated: bool, copied: str | None = None
) -> Outcome:
    """Read the outcome of a published run out of the ledger.

    Raises:
        LedgerCorrupt: the ledger has no charge for a published run.
    """
    charge = ledger.charge(publication.run_key)
    if charge is None:
        raise LedgerCorrupt(f"run {publication.run_key} is published but has no charge")
    account = ledger.account(charge.request.account)
    payers = [ledger.account(part.account) for part in charge.parts]
    fitting = [fitting_epsilon(payer, charge.request) if payer.status == "open" else None for payer in payers]
    least = None if None in fitting else min(epsilon for epsilon in fitting if epsilon is not None)
    [version] = [entry for entry in ledger.versions(publication.release) if entry.number == publication.number]
    return Outcome(
        release=publication.release,
        version=publication.number,
        folder=str(publication.folder),
        run_key=publication.run_key,
        repeated=repeated,
        status=version.status,
        account=account.terms.name,
        epsilon=pico_to_text(charge.request.epsilon),
        delta=atto_to_text(charge.request.delta),
        charged=pico_to_text(charge.amount),
        remaining=pico_to_text(account.remaining),
        cap=pico_to_text(account.cap),
        used=budget_used(account.spent, account.cap),
        loss=loss_name(account.terms.calculus),
        claim=pico_to_text(account.claim),
        epsilon_cap=pico_to_text(account.terms.epsilon),
        account_delta=atto_to_text(account.terms.delta),
        also_charged=tuple(_other(payer) for payer in payers if payer.terms.name != account.terms.name),
        can_give=None if least is None else f"{float(least):.12g}",
        public_key_file=str(workspace.public_key_file),
        copy=copied,
    )


def _other(account: AccountState) -> dict[str, str]:
    return {
        "account": account.terms.name,
        "remaining": pico_to_text(account.remaining),
        "cap": pico_to_text(account.cap),
        "used": budget_used(account.spent, account.cap),
        "loss": loss_name(account.terms.calculus),
    }
