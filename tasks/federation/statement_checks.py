"""The rules by which a released federation is checked, each against what this party works out for itself.

Nothing that the account says of itself is believed: what a rule compares with comes from spec, contract and code
(`Own`), or out of the files. Numbers are compared as canonical JSON, which tells `true` from 1.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from contracts.errors import Finding
from privacy.federation.phases import PhasedPlan
from privacy.federation.plan import FederatedPlan
from privacy.federation.rounds import RoundSum
from privacy.ledger.draw_files import values_digest
from privacy.ledger.journal.signing import key_id
from tasks.federation.federation_outputs import product_names, wrong_files
from tasks.federation.federation_page import PAGE, charged, page_errors
from tasks.federation.federation_run import Federation
from tasks.verification.recompute.loss import recompute

ACCOUNT, SIGNATURE = "federation.json", "federation.sig"
_OF_THE_RUN: Final = {"rounds", "files", "key_id", "page"}
"""What of an account spec and contract do not say."""
_PARTS: Final = ("spec", "contract", "cost")
"""What of an account is compared part by part, so that a finding says which."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Own:
    """What this party works out for itself.

    Args:
        known: the federation.
        said: what the account must say, but for the run's own: `rounds`, `files`, `key_id`, `page`, and how many
            attempts were lost.
        public_key: the key that was given.
    """

    known: Federation
    said: Mapping[str, Any]
    public_key: str


def check_account(folder: Path, written: bytes, account: Any, own: Own) -> list[Finding]:
    """List what does not hold of a signed account, and of the files beside it.

    Args:
        folder: where they are.
        written: the bytes of federation.json.
        account: what they say.
        own: what it is compared with.
    Raises:
        OSError, ValueError, LookupError, TypeError, ArithmeticError, RuntimeError, SudareError: a file is gone, or of
            another form than can be read.
    """
    if not isinstance(account, dict) or set(account) != {*own.said, *_OF_THE_RUN}:
        allowed = f"exactly {', '.join(sorted({*own.said, *_OF_THE_RUN}))}"
        return [_finding(folder / ACCOUNT, "its keys", "others, or fewer", allowed)]
    if canonical_json(account) != written:
        return [
            _finding(folder / ACCOUNT, "its bytes", "others than its values give", "canonical JSON, each key once")
        ]
    return (
        [*_belongs(folder, account, own), *_rounds(folder, account, own), *_names(folder, account, own.known)]
        or _checksums(folder, account)
        or _page(folder, account, own)
        or _numbers(folder, account, own)
    )


def round_name(number: int) -> str:
    """Return the name of a round's file."""
    return f"round-{number:05d}.npy"


def file_names(known: Federation) -> set[str]:
    """Return the names of the files that an account lists: a sum a round, and what they lead to."""
    return {*map(round_name, range(known.plan.rounds)), *product_names(known)}


def sum_bytes(steps: NDArray[np.int64]) -> bytes:
    """Write a noisy sum."""
    written = io.BytesIO()
    np.save(written, steps.astype("<i8"), allow_pickle=False)
    return written.getvalue()


def sum_read(data: bytes) -> NDArray[np.int64]:
    """Read a noisy sum strictly, as `sum_bytes` writes it.

    Raises:
        ValueError: other numbers than int64 (`<i8`), more than one dimension, or bytes that are no numbers.
    """
    held = io.BytesIO(data)
    if np.lib.format.read_magic(held) != (1, 0):
        raise ValueError("a noisy sum is a .npy file of version 1.0")
    shape, _, kind = np.lib.format.read_array_header_1_0(held)
    numbers = held.read()
    if kind.str != "<i8" or len(shape) != 1 or len(numbers) != 8 * shape[0]:
        raise ValueError("a noisy sum is int64 in one dimension, and nothing else")
    return np.frombuffer(numbers, "<i8").astype(np.int64)


def reserves(known: Federation) -> int:
    """Return how many attempts may be lost, in all phases together."""
    plan = known.plan
    if isinstance(plan, PhasedPlan):
        return plan.sums.reserve + plan.training.training.reserve
    return plan.training.reserve if isinstance(plan, FederatedPlan) else plan.reserve


def _belongs(folder: Path, account: Mapping[str, Any], own: Own) -> Iterator[Finding]:
    """Compare all that spec and contract say of the account, and key and lost attempts."""
    for name in _unlike(account, own.said):
        yield _finding(folder / ACCOUNT, name, "another", "what spec and contract say")
    lost, most = account["cost"]["lost_attempts"], reserves(own.known)
    if type(lost) is not int or not 0 <= lost <= most:
        allowed = f"a whole number from 0 to {most}, which the reserve pays for"
        yield _finding(folder / ACCOUNT, "cost.lost_attempts", "another", allowed)
    if account["key_id"] != key_id(own.public_key):
        yield _finding(folder / ACCOUNT, "key_id", "another", "the key that was given")


def _unlike(account: Mapping[str, Any], said: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of what is told otherwise; how many attempts were lost is not compared here."""
    for name, value in said.items():
        told = account[name]
        if name not in _PARTS:
            unlike = [name] if canonical_json(told) != canonical_json(value) else []
        elif not isinstance(told, dict) or set(told) != set(value):
            unlike = [name]
        else:
            parts = (part for part in value if (name, part) != ("cost", "lost_attempts"))
            unlike = [f"{name}.{part}" for part in parts if canonical_json(told[part]) != canonical_json(value[part])]
        yield from unlike


def _rounds(folder: Path, account: Mapping[str, Any], own: Own) -> list[Finding]:
    """Each round says of every site whether it is in the sum, and enough are."""
    rounds, plan = account["rounds"], own.known.plan
    formed = isinstance(rounds, list) and all(_is_round(each, len(plan.sites)) for each in rounds)
    if not formed:
        allowed = f"for each of {len(plan.sites)} sites true or false, and the SHA-256 of the draw"
        return [_finding(folder / ACCOUNT, "rounds", "of another form", allowed)]
    if len(rounds) != plan.rounds or any(sum(each["present"]) < plan.trust.fewest for each in rounds):
        return [_finding(folder / ACCOUNT, "rounds", "missing, or of too few sites", "all, of enough")]
    return []


def _is_round(told: Any, sites: int) -> bool:
    if not isinstance(told, dict) or set(told) != {"present", "sha256"}:
        return False
    present = told["present"]
    return isinstance(present, list) and [type(each) for each in present] == [bool] * sites


def _names(folder: Path, account: Mapping[str, Any], known: Federation) -> list[Finding]:
    """The account lists the files that such a run makes, and the folder holds them and nothing else."""
    made, files = file_names(known), account["files"]
    if not isinstance(files, dict) or set(files) != made:
        return [_finding(folder / ACCOUNT, "files", "others, or fewer", "a sum a round, and what the sums lead to")]
    held = {each.name for each in folder.iterdir() if each.is_file() and not each.is_symlink()}
    allowed = {*made, ACCOUNT, PAGE, SIGNATURE}
    if held != allowed or len(list(folder.iterdir())) != len(allowed):
        found = "files that the account does not list, or fewer"
        return [_finding(folder, "its files", found, f"{ACCOUNT}, {PAGE}, {SIGNATURE}, and the files of the account")]
    return []


def _checksums(folder: Path, account: Mapping[str, Any]) -> list[Finding]:
    return [
        _finding(folder / name, "sha256", "other bytes", "those that federation.json names")
        for name, stated in account["files"].items()
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != stated
    ]


def _page(folder: Path, account: Mapping[str, Any], own: Own) -> list[Finding]:
    """Compare the page with the account, which by now is known to say what spec and contract say."""
    stated = account["page"]
    formed = isinstance(stated, dict) and set(stated) == {"sha256", "code"}
    if not formed or not all(isinstance(each, str) and _DIGEST.fullmatch(each) for each in stated.values()):
        return [_finding(folder / ACCOUNT, "page", "of another form", "SHA-256 of the page, and of the code")]
    wrong = page_errors(account, (folder / PAGE).read_bytes())
    return [_finding(folder / PAGE, "the page", found, allowed) for found, allowed in wrong]


def _numbers(folder: Path, account: Mapping[str, Any], own: Own) -> list[Finding]:
    """Recompute epsilon from the plan's events, the draws' digests, and what the sums lead to."""
    findings, known = [], own.known
    cost, epsilon = own.said["cost"], Decimal(account["cost"]["epsilon"])
    events = [told["event"] for told in charged({"cost": cost}) for _ in range(told["times"])]
    again = recompute(events, cost["delta"], {"kind": "pure"}).epsilon_best
    if again is None or again > epsilon or epsilon > known.spec.charge.epsilon:
        findings.append(_finding(folder / ACCOUNT, "cost.epsilon", "another than the events cost", "what they cost"))
    data, rounds = {name: (folder / name).read_bytes() for name in account["files"]}, list[RoundSum]()
    for number, told in enumerate(account["rounds"]):
        name = round_name(number)
        try:
            steps = sum_read(data[name])
        except ValueError:
            return [_finding(folder / name, "numbers", "of another form", "int64 (<i8) in one dimension")]
        if told["sha256"] != draw_digest(told["present"], steps):
            findings.append(_finding(folder / name, "rounds.sha256", "of another draw", "of these sites and numbers"))
        rounds.append(RoundSum(number, tuple(told["present"]), steps, told["sha256"]))
    wrong = wrong_files(known, rounds, data)
    return [*findings, *(_finding(folder / name, "numbers", "others", "what the sums lead to") for name in wrong)]


def draw_digest(present: list[bool], steps: NDArray[np.int64]) -> str:
    """Return the digest of the coordinator's draw: which sites are in a sum, and the sum."""
    return values_digest(np.concatenate([np.array(present, np.int64), steps]))


def _finding(path: Path, field: str, found: str, allowed: str) -> Finding:
    return Finding(str(path), field, found, allowed)
