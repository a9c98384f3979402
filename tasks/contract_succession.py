"""The contract of the last published version of a release, and whether a run may publish under another one.

The contract stands whole in the version's record, which is held against the version's manifest and the journal. A
breaking change that the contract's version does not announce by a new MAJOR is refused before anything is charged:
readers of a release, and those who charge its account, go by that number.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from contracts.comparison.changes import compare
from contracts.contract.contract import Contract
from contracts.errors import ContractRefused, Finding
from contracts.release.spec import ReleaseSpec
from privacy.ledger.ledger import Ledger
from tasks.storage.manifest import version_folder
from tasks.storage.workspace.contract_registry import Registry, breaking_findings
from tasks.verification.files.folder import read_manifest

logger = logging.getLogger(__name__)

RECORD = "record.json"


@dataclass(frozen=True)
class PublishedContract:
    """The contract that a version was published under.

    Args:
        release: the release.
        number: the version of the release.
        contract: the contract.
    """

    release: str
    number: int
    contract: Contract


def last_published_contract(release: str, ledger: Ledger, store: Path) -> PublishedContract | None:
    """Read the contract of the newest version of a release that stands.

    Args:
        release: the release.
        ledger: knows its versions.
        store: the release store.
    Returns:
        PublishedContract | None: None where nothing is published, or its record is not in the store as published.
    Privacy: reads published files only.
    """
    standing = [each for each in ledger.versions(release) if each.status in ("published", "superseded")]
    if not standing:
        return None
    entry = max(standing, key=lambda each: each.number)
    folder = version_folder(store, entry.release, entry.number)
    manifest, digest = read_manifest(folder)
    if manifest is None or digest != entry.manifest or RECORD not in manifest.files:
        return None
    try:
        data = (folder / RECORD).read_bytes()
        if hashlib.sha256(data).hexdigest() != manifest.files[RECORD].sha256:
            return None
        return PublishedContract(
            release, entry.number, Contract.model_validate(json.loads(data)["replay"]["contract"])
        )
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return None


def check_contract(spec: ReleaseSpec, contract: Contract, ledger: Ledger, store: Path, registry: Path) -> None:
    """Refuse a contract that differs breakingly from the last published one, or from its registered text.

    Args:
        spec: the release spec.
        contract: its contract.
        ledger: knows what was published.
        store: the release store.
        registry: the folder of registered contracts; nothing is asked of it where the contract is not registered.
    Raises:
        ContractRefused: a breaking change without a new MAJOR; or a registered version with another content.
    Privacy: nothing is charged or read; published files only.
    """
    _check_registered(spec, contract, Registry(registry))
    before = last_published_contract(spec.release, ledger, store)
    if before is None:
        return
    compared = compare(before.contract, contract)
    if not compared.breaking:
        return
    if not compared.admitted:
        raise ContractRefused(
            list(breaking_findings(f"{spec.contract} ({before.release} v{before.number})", compared))
        )
    fields = ", ".join(change.field for change in compared.changes if change.effect != "compatible")
    logger.warning(
        "the contract of %s is %s since v%d, as %s announces: %s",
        *(spec.release, compared.verdict, before.number, contract.version, fields),
    )


def _check_registered(spec: ReleaseSpec, contract: Contract, registry: Registry) -> None:
    """A version that is registered means what was registered."""
    entry = next((each for each in registry.history(contract.id) if each.version == contract.version), None)
    if entry is None or entry.digest == contract.file_digest:
        return
    found = f"{contract.id} {contract.version} with another content than the registered {entry.file}"
    remedy = "use the registered file, or register the change under a new version: sudare contract register"
    raise ContractRefused([Finding(str(spec.contract), "version", found, "what was registered", remedy)])
