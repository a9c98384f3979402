"""What a federation releases: the noisy sum of every round, what comes of them, and a signed account of it all.

    round-00000.npy ...   the noisy sum of each round, int64 [lattice steps, or fine units]
    weights.safetensors   the classifier; or
    NAME.csv              a table each, with its noisy counts; or
    rows.csv              rows, with their seed and the model that they are of (`generated`)
    federation.json       spec, plan, trust, cost, who took part in which round, digests of the other files
    federation.html       the same for people
    federation.sig        the coordinator's signature of federation.json

The rules of the check, in this order:
    1. the signature is of the pinned key, and the files are those that it names
    2. spec, contract and plan belong together, and delta and the words about trust are theirs: the plan is worked out
       again, calibration included
    3. epsilon, recomputed by independent code from the plan's events, is not above what is claimed
    4. every round was summed over at least the fewest sites
    5. weights, tables, or model and rows are what the sums lead to
    6. the page says what federation.json says
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from contracts.checks import checks
from contracts.errors import Finding
from privacy.accounting.amounts import atto_to_text, delta_up, pico_to_text
from privacy.audit.recompute import recompute
from privacy.federation.coordinator import FederatedModel
from privacy.federation.rounds import RoundSum
from privacy.ledger.errors import LedgerCorrupt
from privacy.ledger.ledger import Ledger
from privacy.ledger.signing import Signer, key_id, signature_holds
from tasks.federation.page import PAGE, charged, page_errors, page_statement, render_federation
from tasks.federation.products import made_files, wrong_files
from tasks.federation.understood import Federation

ACCOUNT, SIGNATURE = "federation.json", "federation.sig"
SCHEMA: Final = "sudare-federation/1"
PURPOSE: Final = "federation"
_OWN: Final = {"path", "contract", "publish"}
"""What of a spec is each party's own."""


@dataclass(frozen=True)
class Made:
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


def write_released(folder: Path, known: Federation, made: Made, ledger: Ledger, signer: Signer) -> Released:
    """Write what is released; the account of it last.

    Raises:
        LedgerCorrupt: the ledger has no charge for the run.
    """
    charge = ledger.charge(known.run_key)
    if charge is None:
        raise LedgerCorrupt(f"run {known.run_key} was summed but has no charge")
    drawn = [entry.body["key"] for entry in ledger.entries_of(known.run_key) if entry.kind == "noise_drawn"]
    lost = sum("/lost-" in key for key in drawn)
    sums = {_sum_name(number): _npy(each.steps) for number, each in enumerate(made.rounds)}
    files = {**sums, **made_files(known, made.rounds, None if made.model is None else made.model.parameters)}
    epsilon, delta = pico_to_text(charge.request.epsilon), atto_to_text(charge.request.delta)
    account = _account(known, made.rounds, files, {"epsilon": epsilon, "delta": delta, "lost_attempts": lost})
    account["key_id"] = key_id(signer.public_key)
    account["page"] = page_statement(account)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        _write(folder / name, data)
    _write(folder / PAGE, render_federation(account))
    _write(folder / ACCOUNT, canonical_json(account))
    signature = {"public_key": signer.public_key, "signature": signer.sign(PURPOSE, account)}
    _write(folder / SIGNATURE, canonical_json(signature))
    return _told(folder, account, known)


def released_before(folder: Path, known: Federation, public_key: str) -> Released | None:
    """Return what was released of this federation before, under this key; None where nothing is there that holds."""
    if not (folder / ACCOUNT).is_file() or check_released(folder, known, public_key=public_key):
        return None
    return _told(folder, json.loads((folder / ACCOUNT).read_bytes()), known)


def _told(folder: Path, account: Mapping[str, Any], known: Federation) -> Released:
    """Say of an account where it is, who is missing from it, and what it cost."""
    rounds, cost = account["rounds"], account["cost"]
    missing = {
        name: sum(not each["present"][place] for each in rounds) for place, name in enumerate(known.plan.sites)
    }
    left_out = {name: times for name, times in missing.items() if times}
    return Released(folder, len(rounds), left_out, cost["lost_attempts"], cost["epsilon"], cost["delta"])


def words(known: Federation) -> list[str]:
    """Say in words who is trusted with what, and what is not protected."""
    trust, plan = known.plan.trust, known.plan
    said = [f"the unit is a record at one site; one person may have rows at up to {trust.sites_a_person} sites"]
    if trust.noise == "server":
        seen = "the exact sum over sites" if trust.secure_aggregation else "what each site sums, exactly"
        said.append(f"the server {trust.server!r} is trusted: it sees {seen}, and adds the noise")
    else:
        said.append(f"each site adds a share of the noise; {plan.shares_counted} shares are counted on")
        said.append(f"up to {trust.colluding} sites may tell others their own noise")
    if trust.noise == "sites" and not trust.secure_aggregation:
        said.append(f"the server {trust.server!r} is trusted: it sees each site's contribution")
    if trust.secure_aggregation:
        said.append("secure aggregation holds against a server that follows the protocol and looks")
    if known.spec.keys:
        said.append("each site is known by its key, which the spec names: nobody else can take part in its name")
    gates = ", ".join(check.name for check in checks(known.contract) if check.gate)
    if gates:
        said.append(f"unprotected: that the rows of each site that took part passed the gates {gates}")
    return [*said, "unprotected: that a site has rows, and in which rounds it took part"]


def check_released(folder: Path, known: Federation, *, public_key: str) -> list[Finding]:
    """List what does not hold of a released federation; empty means that all of it holds."""
    try:
        account = json.loads((folder / ACCOUNT).read_bytes())
        signature = json.loads((folder / SIGNATURE).read_bytes())
        if not signature_holds(public_key, PURPOSE, account, signature["signature"]):
            return [_finding(folder / SIGNATURE, "signature", "not of the key that was given", "of that key")]
        data = {name: (folder / name).read_bytes() for name in account["files"]}
        found = [*_files(folder, account, data), *_belongs(folder, account, known)]
        return [*found, *_page(folder, account, public_key)] or _numbers(folder, account, data, known)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [_finding(folder, "release", f"what cannot be read ({type(error).__name__})", "a released federation")]


def _account(
    known: Federation, rounds: tuple[RoundSum, ...], files: Mapping[str, bytes], cost: dict[str, Any]
) -> dict[str, Any]:
    plan, contract = known.plan, known.contract
    return {
        "schema": SCHEMA,
        "federation": known.spec.federation,
        "spec": {"sha256": known.spec.digest, "says": known.spec.model_dump(mode="json", exclude=_OWN)},
        "contract": {"id": contract.id, "version": contract.version, "sha256": contract.digest},
        "plan": plan.to_json(),
        "cost": {**cost, **_events(known)},
        "guarantee": guarantee(known),
        "trust": words(known),
        "rounds": [{"present": list(each.present), "sha256": each.sha256} for each in rounds],
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }


def guarantee(known: Federation) -> dict[str, Any]:
    """Say whom it protects, and what all rounds and the reserve cost a person, and a record at its site."""
    contract, plan = known.contract, known.plan
    person, record = (
        known.request(events, run_key="", account="", source="", snapshot_hash="")
        for events in (plan.person_events, plan.record_events)
    )
    return {
        "adjacency": contract.adjacency,
        "unit": contract.unit.column or "row",
        "rows_per_unit": contract.unit.max_rows_per_unit,
        "sites_a_person": plan.trust.sites_a_person,
        "epsilon_person": pico_to_text(person.epsilon),
        "epsilon_record": pico_to_text(record.epsilon),
        "delta": atto_to_text(person.delta),
    }


def _page(folder: Path, account: dict[str, Any], public_key: str) -> list[Finding]:
    """Compare the page with the account; accounts from before there were pages name none."""
    if "page" not in account:
        return []
    if account["key_id"] != key_id(public_key):
        return [_finding(folder / ACCOUNT, "key_id", "another", "the key that was given")]
    wrong = page_errors(account, (folder / PAGE).read_bytes())
    return [_finding(folder / PAGE, "the page", found, allowed) for found, allowed in wrong]


def _events(known: Federation) -> dict[str, Any]:
    """Write what a person may lose: the event and how often it is charged; where events differ, all of them."""
    counted = Counter(known.plan.person_events)
    events = [{"event": event.to_json(), "times": times} for event, times in counted.items()]
    return events[0] if len(events) == 1 else {"events": events}


def _files(folder: Path, account: dict[str, Any], data: dict[str, bytes]) -> list[Finding]:
    return [
        _finding(folder / name, "sha256", "other bytes", "those that federation.json names")
        for name, held in data.items()
        if account["files"][name] != hashlib.sha256(held).hexdigest()
    ]


def _belongs(folder: Path, account: dict[str, Any], known: Federation) -> list[Finding]:
    """Compare spec, contract, plan, trust and delta with what is worked out again."""
    says = json.loads(canonical_json(known.spec.model_dump(mode="json", exclude=_OWN)))
    pairs = {
        "federation": (account["federation"], known.spec.federation),
        "spec.says": (account["spec"]["says"], says),
        "contract.id": (account["contract"]["id"], known.contract.id),
        "contract.version": (account["contract"]["version"], known.contract.version),
        "trust": (account["trust"], words(known)),
        "cost.delta": (account["cost"]["delta"], atto_to_text(delta_up(Fraction(known.spec.charge.delta)))),
        "schema": (account["schema"], SCHEMA),
        "spec": (account["spec"]["sha256"], known.spec.digest),
        "contract": (account["contract"]["sha256"], known.contract.digest),
        "plan": (account["plan"], known.plan.to_json()),
        "cost.events": ({name: account["cost"].get(name) for name in _events(known)}, _events(known)),
        "guarantee": (account.get("guarantee", guarantee(known)), guarantee(known)),
    }
    return [
        _finding(folder / ACCOUNT, name, "another", "what spec and contract say")
        for name, (told, own) in pairs.items()
        if told != own
    ]


def _numbers(folder: Path, account: dict[str, Any], data: dict[str, bytes], known: Federation) -> list[Finding]:
    """Recompute epsilon, and what the sums lead to."""
    findings, plan = [], known.plan
    epsilon = Decimal(account["cost"]["epsilon"])
    events = [told["event"] for told in charged(account) for _ in range(told["times"])]
    again = recompute(events, account["cost"]["delta"], {"kind": "pure"}).epsilon_best
    if again is None or again > epsilon or epsilon > known.spec.charge.epsilon:
        findings.append(_finding(folder / ACCOUNT, "cost.epsilon", "another than the events cost", "what they cost"))
    rounds = tuple(
        RoundSum(number, tuple(told["present"]), _steps(data[_sum_name(number)]), told["sha256"])
        for number, told in enumerate(account["rounds"])
    )
    if len(rounds) != plan.rounds or any(sum(each.present) < plan.trust.fewest for each in rounds):
        return [*findings, _finding(folder / ACCOUNT, "rounds", "missing, or of too few sites", "all, of enough")]
    wrong = wrong_files(known, rounds, data)
    return [*findings, *(_finding(folder / name, "numbers", "others", "what the sums lead to") for name in wrong)]


def _sum_name(number: int) -> str:
    return f"round-{number:05d}.npy"


def _npy(array: NDArray[np.int64]) -> bytes:
    written = io.BytesIO()
    np.save(written, array.astype("<i8"), allow_pickle=False)
    return written.getvalue()


def _steps(data: bytes) -> NDArray[np.int64]:
    steps: NDArray[np.int64] = np.load(io.BytesIO(data), allow_pickle=False).astype(np.int64)
    return steps


def _write(path: Path, data: bytes) -> None:
    """Write a file that appears whole."""
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_bytes(data)
    partial.replace(path)


def _finding(path: Path, field: str, found: str, allowed: str) -> Finding:
    return Finding(str(path), field, found, allowed)
