"""What a federation releases: weights, the noisy sums that they come from, and a signed account of both.

    weights.safetensors   the classifier
    sums.npy              the noisy sum of every round, int64, shape (rounds, parameters) [lattice steps]
    federation.json       spec, plan, trust, cost, who took part in which round, digests of the other files
    federation.sig        the coordinator's signature of federation.json

The rules of the check, in this order:
    1. the signature is of the pinned key, and the files are those that it names
    2. spec, contract and plan belong together: the plan is worked out again, calibration included
    3. epsilon, recomputed by independent code from the plan's events, is not above what is claimed
    4. every round was summed over at least the fewest sites
    5. the weights are what the sums lead to
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from contracts.errors import Finding
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.audit.recompute import recompute
from privacy.classifiers.classifier_model import ClassifierModel, read_classifier
from privacy.federation.coordinator import FederatedModel, replayed
from privacy.federation.rounds import RoundSum
from privacy.learning.execution import Execution
from privacy.learning.learners import learner_digest, learner_slots
from privacy.ledger.ledger import Ledger
from privacy.ledger.signing import Signer, signature_holds
from tasks.federation.understood import Federation

WEIGHTS, SUMS, ACCOUNT, SIGNATURE = "weights.safetensors", "sums.npy", "federation.json", "federation.sig"
SCHEMA: Final = "sudare-federation/1"
PURPOSE: Final = "federation"
TOLERANCE: Final = 1e-4
"""Weights computed again may differ by so much: processors round sums of floats in different orders."""


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
    folder: Path, known: Federation, model: FederatedModel, ledger: Ledger, signer: Signer
) -> Released:
    """Write what is released; the account of it last."""
    plan = known.plan
    charge = next(each for each in ledger.charges(spec_digest=known.spec.digest) if each.status != "returned")
    lost = sum("/lost-" in entry.body["key"] for entry in _draws(ledger, charge.request.run_key))
    sums = np.stack([each.steps for each in model.rounds])
    files = {WEIGHTS: classifier(known, model.parameters).to_bytes(), SUMS: _npy(sums)}
    cost = {
        "epsilon": pico_to_text(charge.request.epsilon),
        "delta": atto_to_text(charge.request.delta),
        "event": plan.person_event.to_json(),
        "times": len(plan.person_events),
        "lost_attempts": lost,
    }
    account = {
        "schema": SCHEMA,
        "federation": known.spec.federation,
        "spec": {"sha256": known.spec.digest, "text": json.loads(known.spec.model_dump_json(exclude={"path"}))},
        "contract": {"id": known.contract.id, "version": known.contract.version, "sha256": known.contract.digest},
        "learner": {"sha256": learner_digest(known.learner), "layout": known.layout.digest},
        "plan": plan.to_json(),
        "cost": cost,
        "trust": words(known),
        "rounds": [{"present": list(each.present), "sha256": each.sha256} for each in model.rounds],
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        _write(folder / name, data)
    _write(folder / ACCOUNT, canonical_json(account))
    signature = {"public_key": signer.public_key, "signature": signer.sign(PURPOSE, account)}
    _write(folder / SIGNATURE, canonical_json(signature))
    missing = {name: sum(not each.present[place] for each in model.rounds) for place, name in enumerate(plan.sites)}
    left_out = {name: times for name, times in missing.items() if times}
    return Released(folder, len(model.rounds), left_out, lost, str(cost["epsilon"]), str(cost["delta"]))


def words(known: Federation) -> list[str]:
    """Say in words who is trusted with what, and what is not protected."""
    trust = known.plan.trust
    said = [f"the unit is a record at one site; one person may have rows at up to {trust.sites_a_person} sites"]
    if trust.noise == "server":
        seen = "the exact sum over sites" if trust.secure_aggregation else "each site's exact clipped sums"
        said.append(f"the server {trust.server!r} is trusted: it sees {seen}, and adds the noise")
    else:
        said.append(f"each site adds a share of the noise; {known.plan.shares_counted} shares are counted on")
        said.append(f"up to {trust.colluding} sites may tell others their own noise")
    if trust.noise == "sites" and not trust.secure_aggregation:
        said.append(f"the server {trust.server!r} is trusted: it sees each site's contribution")
    if trust.secure_aggregation:
        said.append("secure aggregation holds against a server that follows the protocol, with an honest majority")
    return [*said, "unprotected: that a site has rows, and in which rounds it took part"]


def classifier(known: Federation, parameters: NDArray[np.float32]) -> ClassifierModel:
    """Return the classifier of a flat vector of parameters."""
    slots = learner_slots(known.learner)
    layers = tuple(
        (parameters[slot.weights].reshape(slot.layer.weight_shape), parameters[slot.biases]) for slot in slots
    )
    return ClassifierModel(known.layout, known.learner.label, layers)


def check_released(folder: Path, known: Federation, *, public_key: str) -> list[Finding]:
    """List what does not hold of a released federation; empty means that all of it holds."""
    try:
        account = json.loads((folder / ACCOUNT).read_bytes())
        signature = json.loads((folder / SIGNATURE).read_bytes())
        held = signature_holds(public_key, PURPOSE, account, signature["signature"])
        data = {name: (folder / name).read_bytes() for name in (WEIGHTS, SUMS)}
        if not held:
            return [_finding(folder / SIGNATURE, "signature", "not of the key that was given", "of that key")]
        return [
            *_files(folder, account, data),
            *_belongs(folder, account, known),
            *_numbers(folder, account, data, known),
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [_finding(folder, "release", f"what cannot be read ({type(error).__name__})", "a released federation")]


def _files(folder: Path, account: dict[str, Any], data: dict[str, bytes]) -> list[Finding]:
    told = account["files"]
    return [
        _finding(folder / name, "sha256", "other bytes", "those that federation.json names")
        for name, held in data.items()
        if told.get(name) != hashlib.sha256(held).hexdigest()
    ]


def _belongs(folder: Path, account: dict[str, Any], known: Federation) -> list[Finding]:
    """Compare spec, contract, learner and plan with what is worked out again."""
    own = {
        "schema": SCHEMA,
        "spec": known.spec.digest,
        "contract": known.contract.digest,
        "learner": learner_digest(known.learner),
        "plan": known.plan.to_json(),
        "event": known.plan.person_event.to_json(),
        "times": len(known.plan.person_events),
    }
    told = {
        "schema": account["schema"],
        "spec": account["spec"]["sha256"],
        "contract": account["contract"]["sha256"],
        "learner": account["learner"]["sha256"],
        "plan": account["plan"],
        "event": account["cost"]["event"],
        "times": account["cost"]["times"],
    }
    return [
        _finding(folder / ACCOUNT, name, "another", "what spec and contract say")
        for name in own
        if own[name] != told[name]
    ]


def _numbers(folder: Path, account: dict[str, Any], data: dict[str, bytes], known: Federation) -> list[Finding]:
    """Recompute epsilon and the weights."""
    findings, plan = [], known.plan
    epsilon, events = Decimal(account["cost"]["epsilon"]), [account["cost"]["event"]] * account["cost"]["times"]
    again = recompute(events, account["cost"]["delta"], {"kind": "pure"}).epsilon_best
    if again is None or again > epsilon or epsilon > known.spec.charge.epsilon:
        findings.append(_finding(folder / ACCOUNT, "cost.epsilon", "less than the events cost", "what they cost"))
    sums = np.load(io.BytesIO(data[SUMS]), allow_pickle=False)
    rounds = [
        RoundSum(number, tuple(told["present"]), steps, told["sha256"])
        for number, (told, steps) in enumerate(zip(account["rounds"], sums, strict=True))
    ]
    if len(rounds) != plan.rounds or any(sum(each.present) < plan.trust.fewest for each in rounds):
        findings.append(_finding(folder / ACCOUNT, "rounds", "rounds missing or of too few sites", "all, of enough"))
    parameters = replayed(known.learner, known.layout, plan, rounds, execution=Execution("cpu"))
    published = read_classifier(data[WEIGHTS], known.layout, known.learner.label, None)
    for ours, theirs in zip(classifier(known, parameters).layers, published.layers, strict=True):
        if any(np.abs(a - b).max(initial=0) > TOLERANCE for a, b in zip(ours, theirs, strict=True)):
            return [*findings, _finding(folder / WEIGHTS, "weights", "other numbers", "what the sums lead to")]
    return findings


def _draws(ledger: Ledger, run_key: str) -> list[Any]:
    return [entry for entry in ledger.entries_of(run_key) if entry.kind == "noise_drawn"]


def _npy(array: NDArray[np.int64]) -> bytes:
    written = io.BytesIO()
    np.save(written, array.astype("<i8"), allow_pickle=False)
    return written.getvalue()


def _write(path: Path, data: bytes) -> None:
    """Write a file that appears whole."""
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_bytes(data)
    partial.replace(path)


def _finding(path: Path, field: str, found: str, allowed: str) -> Finding:
    return Finding(str(path), field, found, allowed)
