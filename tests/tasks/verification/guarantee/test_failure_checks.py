"""The checker's own look at selections of keys: what a real ledger wrote holds, and each forgery of it does not."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from privacy.accounting.amounts import ATTO
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import key_selection
from privacy.ledger.ledger import Ledger
from tasks.records.model.journal_statements import AccountBody, ChargeBody, OpenedBody, PublishedBody, TakenStatement
from tasks.verification.guarantee.loss import check_accounts, check_failures
from tasks.verification.inclusion import JournalledRun
from tests.privacy.ledger.accounts.test_failures import ASIDE, DELTA, NANO, account
from tests.privacy.ledger.ledgers import bind, request

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


def test_what_a_ledger_wrote_holds(bodies: tuple[dict[str, Any], dict[str, Any]]) -> None:
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
def test_each_forgery_is_found(bodies: tuple[dict[str, Any], dict[str, Any]], forged: str) -> None:
    """With the words of what was found and what is allowed."""
    account_part, sums, events = FORGERIES[forged]
    opened, charged = bodies
    charged = {**charged, "parts": [{**charged["parts"][0], **sums}]} | ({} if events is None else {"events": events})
    found = check_failures(*read({**opened, **account_part}, charged), where="PROOF.json")
    assert found
    assert all(finding.field == "account people-2024, failures" for finding in found)


def test_a_cap_that_was_converted_at_the_whole_delta_is_found(bodies: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """It would admit losses for which no delta is left beside the selections."""
    opened, charged = bodies
    wide = RenyiCalculus(Fraction(12)).cap(opened["epsilon"], DELTA)
    assert wide > opened["cap"]
    _, _, run = read({**opened, "cap": wide}, charged)
    assert any(finding.field == "account people-2024, cap" for finding in check_accounts(run, where="PROOF.json"))
    assert ATTO > DELTA > ASIDE
