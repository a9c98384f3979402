"""Claims by a loss distribution, and selections of keys: the checker's own code refuses what was made too small."""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from privacy.accounting.amounts import ATTO, PICO, atto_to_text
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import key_selection
from privacy.ledger.ledger import Ledger
from tasks.records.model.journal_statements import AccountBody, ChargeBody, OpenedBody, PublishedBody, TakenStatement
from tasks.verification.guarantee.loss import check_accounts, check_failures
from tasks.verification.inclusion import JournalledRun
from tasks.verification.recompute.loss import recompute
from tasks.verify import UnverifiedVersion
from tests.privacy.ledger.accounts.test_failures import ASIDE, DELTA, NANO, account
from tests.privacy.ledger.ledgers import bind, request
from tests.tasks.verification.forgery import load
from tests.worlds.classifiers import ModelScenario
from tests.worlds.versions import Version, publish_version

TERMS = "rows_about: 3000, epochs: 1, checkpoints: 1, reserve: 0, batch: 200"


@dataclass
class Claiming(ModelScenario):
    """A training whose publisher's own program claims a part of what its noise loses, everywhere, and signs it."""

    product: str = f"{{kind: classifier, trainer: dp_sgd, label: ward, options: {{{TERMS}}}}}"
    claims: Fraction = Fraction(1)

    def prepared_of(self, folder: Path, kind: Any) -> Any:
        spec, contract, plan, ledger = super().prepared_of(folder, kind)
        assert plan.claimed_by == "pld"
        return spec, contract, replace(plan, epsilon=int(plan.epsilon * self.claims)), ledger


def published(claims: Fraction, folder: Path) -> tuple[Version, float, float]:
    """A version; the epsilon that it claims, and the one that Rényi losses alone give."""
    version = publish_version(Claiming(claims=claims), folder)
    replay = load(version.folder / "record.json")["replay"]
    events = [draw["event"] for draw in replay["draws"]]
    renyi = recompute(events, atto_to_text(replay["claim"]["delta"]), replay["calculus"]).epsilon_best
    assert renyi is not None
    return version, replay["claim"]["epsilon"] / PICO, float(renyi)


@pytest.mark.long
def test_a_claim_that_only_the_loss_distribution_keeps_verifies(tmp_path: Path):
    version, claimed, renyi = published(Fraction(1), tmp_path)
    assert claimed < 0.99 * renyi
    version.assert_verifies()


@pytest.mark.long
@pytest.mark.parametrize("part", [Fraction(99, 100), Fraction(1, 2)])
def test_a_claim_below_what_the_loss_distribution_keeps_is_refused(tmp_path: Path, part: Fraction):
    """Every file, digest, journal entry and signature would be right; the check before publication finds it."""
    with pytest.raises(UnverifiedVersion) as refused:
        published(part, tmp_path)
    first, finding = refused.value.findings
    assert first.found == "broken rules: 7 (costs and ε recomputed from the events)"
    assert (finding.where, finding.field) == ("record.json", "replay.claim.epsilon")
    assert "recomputed from the events" in finding.allowed


EVENT = key_selection(Fraction(1, 100), NANO, 2)


@pytest.fixture
def bodies(tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The opening of an account and the second of two charges, with a selection each, as a real journal has them."""
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}", draws=tmp_path / "draws")
    ledger.open_account(account(RenyiCalculus(Fraction(12), ASIDE)))
    bind(ledger, "2024")
    for run_key in ("run-1", "run-2"):
        ledger.reserve(request(run_key, events=(EVENT,), delta=2 * NANO))
    journal = ledger.journal()
    ledger.close()
    return journal[1].body, journal[-1].body


def read(opened: dict[str, Any], charged: dict[str, Any]) -> tuple[AccountBody, TakenStatement, JournalledRun]:
    charge = ChargeBody.model_validate(
        {**charged, "parts": tuple(charged["parts"]), "events": tuple(charged["events"])}
    )
    made = AccountBody.model_validate(opened)
    unused = OpenedBody(run_key="run-2", security="csprng", draws_folder="0" * 32)
    published = PublishedBody(run_key="run-2", release="r", number=1, manifest="0" * 64, supersedes=None, earlier=())
    return made, charge.parts[0], JournalledRun({made.name: made}, charge, unused, (), published, 0)


def test_what_a_ledger_wrote_holds(bodies: tuple[dict[str, Any], dict[str, Any]]):
    """The second sum, the cap at the rest of delta, and what was taken."""
    made, part, run = read(*bodies)
    assert (part.failure_before, part.failure_after) == (NANO, 2 * NANO)
    assert check_failures(made, part, run, where="PROOF.json") == []
    assert check_accounts(run, where="PROOF.json", complete=False) == []


FORGERIES: dict[str, tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]] | None]] = {
    "nothing stated": ({}, {"failure_before": None, "failure_after": None}, None),
    "a smaller sum after": ({}, {"failure_after": 2 * NANO - 1}, None),
    "more than is set aside": ({}, {"failure_before": ASIDE, "failure_after": ASIDE + NANO}, None),
    "more set aside than delta": ({"delta": ASIDE - 1}, {}, None),
    "nothing set aside": ({"calculus": {"kind": "renyi", "order": "12"}}, {}, None),
    "an event that fails more often": ({}, {}, [{**EVENT.to_json(), "delta": str(2 * EVENT.delta)}]),
    "an event for more keys": ({}, {}, [{**EVENT.to_json(), "groups": 3}]),
    "two events for one": ({}, {}, [EVENT.to_json()] * 2),
    "an event that cannot be read": ({}, {}, [{**EVENT.to_json(), "delta": "2"}]),
}


@pytest.mark.parametrize("forged", FORGERIES)
def test_each_forgery_is_found(bodies: tuple[dict[str, Any], dict[str, Any]], forged: str):
    """With the words of what was found and what is allowed."""
    account_part, sums, events = FORGERIES[forged]
    opened, charged = bodies
    charged = {**charged, "parts": [{**charged["parts"][0], **sums}]} | ({} if events is None else {"events": events})
    found = check_failures(*read({**opened, **account_part}, charged), where="PROOF.json")
    assert found
    assert all(finding.field == "account people-2024, failures" for finding in found)


def test_a_cap_that_was_converted_at_the_whole_delta_is_found(bodies: tuple[dict[str, Any], dict[str, Any]]):
    """It would admit losses for which no delta is left beside the selections."""
    opened, charged = bodies
    wide = RenyiCalculus(Fraction(12)).cap(opened["epsilon"], DELTA)
    assert wide > opened["cap"]
    _, _, run = read({**opened, "cap": wide}, charged)
    assert any(finding.field == "account people-2024, cap" for finding in check_accounts(run, where="PROOF.json"))
    assert ATTO > DELTA > ASIDE
