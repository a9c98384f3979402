"""The contract registry: a folder that keeps every version of every contract as it was registered.

    contracts/<id>/<version>/contract.odcs.yaml   the file, byte for byte; files of shapes that it names lie beside it
    contracts/<id>/<version>/registration.json    digest, when, and what changed since the version before

A registered version never changes. Versions go up; any change of what a contract means takes a new version, and a
breaking one a new MAJOR. A version appears whole (its folder is renamed into place) or not at all.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from contracts.canonical import readable_json
from contracts.comparison.change import Comparison
from contracts.comparison.changes import compare
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.contract.semantic_version import read_version
from contracts.contract.shape_file import shape_files
from contracts.errors import ContractRefused, Finding

FILE = "contract.odcs.yaml"
REGISTRATION = "registration.json"


class RegistryRefused(ContractRefused):
    """A contract cannot be registered, or a registered one is not what it was."""


@dataclass(frozen=True)
class Registered:
    """A version of a contract in a registry.

    Args:
        contract: id of the contract.
        version: MAJOR.MINOR.PATCH.
        digest: digest of the contract.
        at: when it was registered, ISO 8601, UTC.
        change: what it was for those with the version before: `first`, or the comparison's verdict.
        changes: the changes as JSON objects.
        file: the registered file.
    """

    contract: str
    version: str
    digest: str
    at: str
    change: str
    changes: tuple[dict[str, Any], ...]
    file: Path

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a JSON object."""
        return {**vars(self), "changes": list(self.changes), "file": str(self.file)}


class Registry:
    """A folder of registered contracts.

    Args:
        folder: the folder; made when the first contract is registered.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def contracts(self) -> tuple[str, ...]:
        """Return the ids of the registered contracts, in order."""
        return tuple(sorted(unquote(each.name) for each in _folders(self.folder) if self.history(unquote(each.name))))

    def history(self, contract: str) -> tuple[Registered, ...]:
        """Return the registered versions of a contract, oldest first; empty for one that is not registered."""
        found = [each for each in _folders(self._of(contract)) if read_version(each.name) is not None]
        return tuple(_read(each, contract) for each in sorted(found, key=lambda each: read_version(each.name) or ()))

    def load(self, entry: Registered) -> Contract:
        """Read a registered contract.

        Raises:
            RegistryRefused: its file is no longer what was registered.
        """
        contract = load_contract(entry.file)
        if contract.digest != entry.digest:
            remedy = "restore the file; a registered version never changes"
            raise _refusal(str(entry.file), "digest", "another contract", "the one that was registered", remedy)
        return contract

    def register(self, path: Path, *, now: datetime) -> tuple[Registered, bool]:
        """Register a contract's file; the same one again changes nothing.

        Args:
            path: the file.
            now: the time, UTC.
        Returns:
            tuple: the entry, and whether it was registered before.
        Raises:
            ContractRefused: the contract does not load.
            RegistryRefused: its version is taken, or not above the last one, or does not announce a breaking change.
        """
        contract, contents = load_contract(path), {FILE: path.read_bytes()}
        contents |= {name: (path.parent / name).read_bytes() for name in shape_files(path)}
        with self._locked(contract.id):
            known = self.history(contract.id)
            again = next((entry for entry in known if entry.version == contract.version), None)
            if again is not None and again.digest == contract.digest:
                return again, True
            compared = compare(self.load(known[-1]), contract) if known else None
            findings = list(_objections(path, contract, known, compared))
            if findings:
                raise RegistryRefused(findings)
            return self._enter(contract, contents, compared, now), False

    def _enter(
        self, contract: Contract, contents: dict[str, bytes], compared: Comparison | None, now: datetime
    ) -> Registered:
        """Write a version's folder beside its place and rename it there."""
        place = self._of(contract.id) / contract.version
        staging = place.with_name(f".staging-{contract.version}")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        told = {
            "contract": contract.id,
            "version": contract.version,
            "digest": contract.digest,
            "at": now.isoformat(timespec="seconds"),
            "change": "first" if compared is None else compared.verdict,
            "changes": [] if compared is None else compared.to_json()["changes"],
        }
        for name, data in {**contents, REGISTRATION: readable_json(told)}.items():
            with (staging / name).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            (staging / name).chmod(0o444)
        staging.rename(place)
        return _read(place, contract.id)

    @contextmanager
    def _locked(self, contract: str) -> Iterator[None]:
        """Let one process at a time register versions of a contract."""
        folder = self._of(contract)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / ".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            found = error.strerror or type(error).__name__
            raise _refusal(str(folder), "folder", found, "a folder that can be written") from error

    def _of(self, contract: str) -> Path:
        """Return the folder of a contract; its id is written so that it is one name, whatever stands in it."""
        name = quote(contract, safe=" ")
        return self.folder / (name if not name.startswith(".") else f"%2E{name[1:]}")


def _objections(
    path: Path, contract: Contract, registered: tuple[Registered, ...], compared: Comparison | None
) -> Iterator[Finding]:
    """Say why a contract cannot be registered as it is."""
    where, version = str(path), read_version(contract.version)
    if version is None:
        remedy = "write a version such as 1.0.0"
        yield Finding(where, "version", repr(contract.version), "MAJOR.MINOR.PATCH", remedy)
    if version is None or compared is None:
        return
    last = registered[-1].version
    if contract.version in [entry.version for entry in registered]:
        found, allowed = f"{contract.version}, registered with another content", f"a version above {last}"
        yield Finding(where, "version", found, allowed, "give it a new version; a registered one never changes")
    elif version <= (read_version(last) or ()):
        yield Finding(where, "version", contract.version, f"a version above {last}", "versions only go up")
    elif not compared.admitted:
        yield from breaking_findings(where, compared)


def breaking_findings(where: str, compared: Comparison) -> Iterator[Finding]:
    """Name every breaking change that a version does not announce."""
    for change in compared.changes:
        if change.effect != "compatible":
            allowed = f"a change that {compared.new}, after {compared.old}, may make"
            remedy = f"take it back, or raise MAJOR; {change.why}"
            yield Finding(where, change.field, change.words, allowed, remedy)


def _folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [each for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")]


def _read(folder: Path, contract: str) -> Registered:
    try:
        told = json.loads((folder / REGISTRATION).read_bytes())
        texts = {key: str(told[key]) for key in ("version", "digest", "at", "change")}
        return Registered(contract=contract, changes=tuple(told["changes"]), file=folder / FILE, **texts)
    except (OSError, ValueError, KeyError, TypeError) as error:
        allowed, remedy = "what `sudare contract register` wrote", "restore it; a registered version never changes"
        found = f"cannot be read ({type(error).__name__})"
        raise _refusal(str(folder / REGISTRATION), "registration", found, allowed, remedy) from error


def _refusal(where: str, field: str, found: str, allowed: str, remedy: str = "") -> RegistryRefused:
    return RegistryRefused([Finding(where, field, found, allowed, remedy)])
