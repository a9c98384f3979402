"""What a federation releases: the noisy sum of every round, what comes of them, and a signed account of it all.

    round-00000.npy ...   the noisy sum of each round, int64 [lattice steps, or fine units]
    weights.safetensors   the classifier; or
    NAME.csv              a table each, with its noisy counts; or
    rows.csv              rows, with their seed and the model that they are of (`generated`)
    federation.json       spec, plan, trust, cost, who took part in which round, digests of the other files
    federation.html       the same for people
    federation.sig        the coordinator's signature of federation.json

The rules of the check, in this order (`tasks.federation.statement_checks`):
    1. the signature is of the pinned key
    2. the account says nothing but what spec and contract say, worked out again, calibration included: plan, events,
       epsilon and delta, guarantee, trust in words; beside them rounds, files, key and page, and attempts that were
       lost, no more than the reserve pays for
    3. every round says of each site whether it is in the sum, and was summed over at least the fewest sites
    4. the folder holds the files that such a run makes, with the bytes that the account names, and nothing else
    5. the page's main numbers, as values and as shown, are those of the account; where the very code that made the
       page runs, all of it is
    6. epsilon, recomputed by independent code from the plan's events, is not above what is claimed
    7. the noisy sums are those of the draws that the account names, and weights, tables, or model and rows are what
       the sums lead to

A release is never written over: `released_before` and `write_released` refuse a folder that holds another one.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from contracts.canonical import canonical_json
from contracts.errors import Finding, Refused, SudareError
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.coordination.coordinator import FederatedModel
from privacy.federation.rounds import RoundSum
from privacy.ledger.errors import LedgerCorrupt
from privacy.ledger.journal.signing import Signer, key_id, signature_holds
from privacy.ledger.ledger import Ledger
from tasks.federation.federation_outputs import made_files
from tasks.federation.federation_page import PAGE, page_outcome, page_statement, render_federation
from tasks.federation.federation_run import Federation
from tasks.federation.federation_words import person, record, words
from tasks.federation.statement_checks import (
    ACCOUNT,
    SIGNATURE,
    Own,
    check_account,
    file_names,
    round_name,
    sum_bytes,
)

SCHEMA: Final = "sudare-federation/1"
PURPOSE: Final = "federation"
_OWN: Final = {"path", "contract", "publish"}
"""What of a spec is each party's own."""
_MOVE: Final = "give this federation another name or another `publish`, or move the folder elsewhere, and run again"
_MEND: Final = (
    "put the release back from a copy, or move the folder elsewhere and run again: the sites join again, rounds that "
    "were summed are replayed, and nothing is charged again"
)


class ReleaseStands(Refused):
    """A folder holds what must not be written over: another release, or files that no such run makes."""


@dataclass(frozen=True)
class FederatedOutputs:
    """What the rounds led to.

    Args:
        rounds: the noisy sums, in order.
        model: the model; None where tables are counted.
    """

    rounds: tuple[RoundSum, ...]
    model: FederatedModel | None = None


@dataclass(frozen=True)
class Released:
    """A released federation.

    Args:
        folder: where it is.
        rounds: how many rounds were summed.
        left_out: in how many of them each site was missing; sites that never were are not listed.
        lost: attempts that were lost, and paid.
        epsilon: what it cost the people [text].
        delta: at this probability [text].
    """

    folder: Path
    rounds: int
    left_out: dict[str, int]
    lost: int
    epsilon: str
    delta: str


def write_released(
    folder: Path, known: Federation, made: FederatedOutputs, ledger: Ledger, signer: Signer
) -> Released:
    """Write what is released; the account of it last, so that a folder with an account is whole.

    Raises:
        LedgerCorrupt: the ledger has no charge for the run.
        ReleaseStands: a release is there already; it stays as it is.
    """
    if (folder / ACCOUNT).exists():
        raise ReleaseStands([Finding(str(folder), "publish", "a release", "a folder without one", _MOVE)])
    charge = ledger.charge(known.run_key)
    if charge is None:
        raise LedgerCorrupt(f"run {known.run_key} was summed but has no charge")
    drawn = [entry.body["key"] for entry in ledger.entries_of(known.run_key) if entry.kind == "noise_drawn"]
    lost = sum("/lost-" in key for key in drawn)
    sums = {round_name(number): sum_bytes(each.steps) for number, each in enumerate(made.rounds)}
    files = {**sums, **made_files(known, made.rounds, None if made.model is None else made.model.parameters)}
    said = _said(known, lost)
    paid = {"epsilon": pico_to_text(charge.request.epsilon), "delta": atto_to_text(charge.request.delta)}
    if said["cost"] != {**said["cost"], **paid}:
        told = "was charged by a version of Sudare that works its cost out otherwise: go on with that version"
        raise LedgerCorrupt(f"run {known.run_key} {told}")
    account = {
        **said,
        "rounds": [{"present": list(each.present), "sha256": each.sha256} for each in made.rounds],
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    account["key_id"] = key_id(signer.public_key)
    account["page"] = page_statement(account)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        _write(folder / name, data)
    _write(folder / PAGE, render_federation(account))
    signature = {"public_key": signer.public_key, "signature": signer.sign(PURPOSE, account)}
    _write(folder / SIGNATURE, canonical_json(signature))
    _write(folder / ACCOUNT, canonical_json(account))
    return _told(folder, account, known)


def released_before(folder: Path, known: Federation, public_key: str) -> Released | None:
    """Return what was released of this very run before, under this key; None where nothing was.

    What is there stays as it is, a page that other code made included.

    Raises:
        ReleaseStands: another release is there, or this one and it does not hold, or files that no such run makes.
    """
    if not folder.exists():
        return None
    if not (folder / ACCOUNT).exists():
        made = {*file_names(known), PAGE, SIGNATURE}
        if any(each.name.removesuffix(".partial") not in made | {ACCOUNT} for each in folder.iterdir()):
            found = "files that no run of this federation makes"
            raise ReleaseStands([Finding(str(folder), "publish", found, "a folder of its own", _MOVE)])
        return None
    another = _another(folder, known)
    if another:
        found = f"the release of another {' and '.join(another)}"
        raise ReleaseStands([Finding(str(folder), "publish", found, "a folder of its own for each run", _MOVE)])
    broken = check_released(folder, known, public_key=public_key)
    if broken:
        stands = Finding(str(folder), "publish", "this run's release, which does not hold", "one that holds", _MEND)
        raise ReleaseStands([stands, *broken])
    return _told(folder, json.loads((folder / ACCOUNT).read_bytes()), known)


def _another(folder: Path, known: Federation) -> list[str]:
    """Say in what a release differs from this run: spec, contract, or that it cannot be read."""
    try:
        account = json.loads((folder / ACCOUNT).read_bytes())
        said = {name: account[name]["sha256"] for name in ("spec", "contract")}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ["making, which cannot be read"]
    own = {"spec": known.spec.digest, "contract": known.contract.digest}
    return [name for name, value in own.items() if said[name] != value]


def _told(folder: Path, account: Mapping[str, Any], known: Federation) -> Released:
    """Say of an account where it is, who is missing from it, and what it cost."""
    rounds, cost = account["rounds"], account["cost"]
    missing = {
        name: sum(not each["present"][place] for each in rounds) for place, name in enumerate(known.plan.sites)
    }
    left_out = {name: times for name, times in missing.items() if times}
    return Released(folder, len(rounds), left_out, cost["lost_attempts"], cost["epsilon"], cost["delta"])


def check_released(folder: Path, known: Federation, *, public_key: str) -> list[Finding]:
    """List what does not hold of a released federation; empty means that all of it holds, the page as `page_told`."""
    try:
        written = (folder / ACCOUNT).read_bytes()
        account, signed = json.loads(written), (folder / SIGNATURE).read_bytes()
        signature = json.loads(signed)["signature"]
        whole = canonical_json({"public_key": public_key, "signature": signature}) == signed
        if not whole or not signature_holds(public_key, PURPOSE, account, signature):
            found = "not of the key that was given"
            return [Finding(str(folder / SIGNATURE), "signature", found, "of that key, and nothing else")]
        return check_account(folder, written, account, Own(known, _said(known, 0), public_key))
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RuntimeError, SudareError) as error:
        found = f"what cannot be read ({type(error).__name__})"
        return [Finding(str(folder), "release", found, "a released federation")]


def page_told(folder: Path) -> str:
    """Say of a release that holds how far its page was compared."""
    return page_outcome(json.loads((folder / ACCOUNT).read_bytes()), (folder / PAGE).read_bytes())


def _said(known: Federation, lost: int) -> dict[str, Any]:
    """Return what an account says that follows from spec and contract, and how many attempts were lost."""
    plan, contract = known.plan, known.contract
    protects = guarantee(known)
    cost = {"epsilon": protects["epsilon_person"], "delta": protects["delta"], "lost_attempts": lost}
    return {
        "schema": SCHEMA,
        "federation": known.spec.federation,
        "spec": {"sha256": known.spec.digest, "says": known.spec.model_dump(mode="json", exclude=_OWN)},
        "contract": {"id": contract.id, "version": contract.version, "sha256": contract.digest},
        "plan": plan.to_json(),
        "cost": {**cost, **_events(known)},
        "guarantee": protects,
        "trust": words(known),
    }


def guarantee(known: Federation) -> dict[str, Any]:
    """Say whom it protects, and what all rounds and the reserve cost a person, and a record at its site."""
    contract, plan = known.contract, known.plan
    of_person, of_record = (
        known.request(events, run_key="", account="", source="", snapshot_hash="")
        for events in (plan.person_events, plan.record_events)
    )
    return {
        "adjacency": contract.adjacency,
        "unit": contract.unit.column or "row",
        "rows_per_unit": contract.unit.max_rows_per_unit,
        "sites_per_person": plan.trust.sites_per_person,
        "person": person(known),
        "record": record(known),
        "epsilon_person": pico_to_text(of_person.epsilon),
        "epsilon_record": pico_to_text(of_record.epsilon),
        "delta": atto_to_text(of_person.delta),
    }


def _events(known: Federation) -> dict[str, Any]:
    """Write what a person may lose: the event and how often it is charged; where events differ, all of them."""
    counted = Counter(known.plan.person_events)
    events = [{"event": event.to_json(), "times": times} for event, times in counted.items()]
    return events[0] if len(events) == 1 else {"events": events}


def _write(path: Path, data: bytes) -> None:
    """Write a file that appears whole."""
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_bytes(data)
    partial.replace(path)
