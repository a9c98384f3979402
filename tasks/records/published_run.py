"""A run as its version publishes it: what fields of the record are filled from wherever the record is explained.

A field is a function of a run. Here the record, the journal's entries and the files stand in the place of the run:
contract, product and charge, draws, accounts, what was made. A field that asks for more raises `Unpublished`; its
value then stands in the record's declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, cast

from contracts.contract.contract import checks
from contracts.release.product_kinds import product_kinds
from contracts.release.terms import About
from privacy.ledger.entries import Entry
from privacy.ledger.terms import (
    TERMS,
    AccountState,
    Charge,
    ChargePart,
    ChargeRequest,
    VersionEntry,
    request_from_json,
    terms_from_json,
)
from tasks.records.facts import reservation
from tasks.records.files.classifier_files import CARD, INPUTS, WEIGHTS
from tasks.records.files.part_names import parts_among
from tasks.records.files.synthetic_files import MODEL_ARRAYS, MODEL_VALUES
from tasks.records.files.tidy_tables import WrittenFile
from tasks.records.groups.field import Run
from tasks.records.model.declarations import Declarations, SoftwareStatement
from tasks.records.model.journal_statements import Proof
from tasks.records.model.manifest import Manifest
from tasks.records.model.record_kinds import ShownFile, kind_of, record_part
from tasks.records.model.statement import FileStatement
from tasks.records.model.version_statements import Record, RecordTerms, recorded_contract
from tasks.records.software import software
from tasks.records.unpublished import Published, Unpublished

# --- The data files of a version.


_FIXED: dict[str, str] = {
    WEIGHTS: "weights",
    INPUTS: "inputs",
    CARD: "card",
    MODEL_VALUES: "model",
    MODEL_ARRAYS: "model",
}


def files_of(record: RecordTerms, signed: Mapping[str, FileStatement]) -> tuple[WrittenFile, ...]:
    """Return the data files in the record's order.

    Args:
        record: says how many rows they have, and of which columns.
        signed: the manifest's files; give digest and size.
    Raises:
        Unpublished: a file of the record that nothing in it leads to, or that the manifest has not.
    """
    paths = [file.path for file in record.files]
    shown: dict[str, ShownFile] = {name: ("", role, "dense") for name, role in _FIXED.items()}
    for path, (draw, role, form) in record_part(kind_of(record)).files(record):
        shown[path] = (draw, role, form)
        if path.startswith("data/"):
            shown[f"{path.removesuffix('.parquet')}.csv"] = (draw, role, form)
            shown |= dict.fromkeys(parts_among(path, paths), (draw, "part", form))
    if not {*paths} <= {*shown} & {*signed}:
        raise Unpublished("files")
    return tuple(
        WrittenFile(
            file.path,
            shown[file.path][0],
            shown[file.path][1],
            file.rows,
            tuple((column.name, column.type) for column in file.columns),
            signed[file.path].sha256,
            signed[file.path].bytes,
            shown[file.path][2],
        )
        for file in record.files
    )


__all__ = ["RunEvidence", "Unpublished", "evidence", "published_run"]


@dataclass(frozen=True)
class RunEvidence:
    """What journal and manifest say of a run.

    Args:
        entries: its journal entries up to the last draw.
        accounts: the charged accounts as the charge left them, the named one first.
        files: the version's files by path.
    """

    entries: tuple[Entry, ...]
    accounts: tuple[AccountState, ...]
    files: Mapping[str, FileStatement]


def evidence(proof: Proof, manifest: Manifest) -> RunEvidence:
    """Return what a version's journal and manifest say of its run.

    Raises:
        LookupError: the proof has no charge, or not the openings of its accounts.
    """
    listed = [each.entry for each in proof.entries if _of_the_run(each.entry.kind)]
    entries = tuple(
        Entry(**{name: getattr(each, name) for name in ("sequence", "previous", "kind", "at", "body")})
        for each in listed
    )
    opened = {each.entry.body["name"]: each.entry.body for each in proof.entries if each.entry.kind == _OPENED}
    named, taken = _reserved(entries)["account"], reservation(entries)
    accounts = tuple(
        AccountState(
            terms_from_json({term: opened[name][term] for term in TERMS}),
            opened[name]["cap"],
            taken[name]["after"],
            "open",
        )
        for name in sorted(taken, key=lambda name: (name != named, name))
    )
    return RunEvidence(entries, accounts, manifest.files)


_OPENED = "account_opened"


def _of_the_run(kind: str) -> bool:
    return kind != _OPENED and not kind.startswith("version_")


def _reserved(entries: tuple[Entry, ...]) -> Mapping[str, Any]:
    """Return the reservation that counts: of a charge that was returned and reserved again the last one."""
    return _last(entries, "charge_reserved")


def _last(entries: tuple[Entry, ...], kind: str) -> Mapping[str, Any]:
    """Return the body of the last entry of a kind.

    Raises:
        LookupError: there is none.
    """
    for entry in reversed(entries):
        if entry.kind == kind:
            return entry.body
    raise LookupError(f"no entry {kind}")


def published_run(record: RecordTerms, found: RunEvidence) -> Run:
    """Return a run of which only what the version publishes is known.

    Args:
        record: the record.
        found: what journal and manifest say of the run.
    Privacy: reads published statements only.
    """
    replay, stated = record.replay, record.declarations
    contract = recorded_contract(replay.contract)
    kind, entries, accounts = str(replay.product["kind"]), found.entries, found.accounts
    reserved = _reserved(entries)
    product = product_kinds()[kind].load("spec").model_validate(replay.product)
    known: dict[str, Any] = {
        "run_key": reserved["run_key"],
        "spec": _spec(record, product, reserved),
        "contract": contract,
        "charge": _charge(reserved, entries),
        "account": accounts[0],
        "other_accounts": accounts[1:],
        "earlier": tuple(_earlier(each.release, each.amount) for each in stated.earlier_charges),
        "entries": entries,
        "outcomes": tuple(Published(name=check.name, gate=check.gate) for check in checks(contract)),
        "version": VersionEntry(record.release, record.version, reserved["run_key"], "allocated", None),
        "supersedes": record.supersedes,
        "started": entries[0].at,
        "finished": entries[-1].at,
        "software": _software(stated.software),
        "pld_epsilon": float("inf") if stated.second_epsilon == "infinite" else stated.second_epsilon,
        "claim_source": stated.claim_source,
        "about": About.model_validate(stated.about),
        "of_tables": isinstance(record, Record),
        "execution": None,
        "approvals": replay.approvals,
        "distances": {key: Published(to_json=each.model_dump) for key, each in replay.distances.items()},
    }
    known |= record_part(kind_of(record)).published(record, contract, product, accounts, reserved)
    files = files_of(record, found.files)
    return cast(Run, Published(facts=Published(**known), files=files))


def _earlier(release: str, amount: int) -> Published:
    return Published(request=Published(release=release), amount_of=lambda account: amount)


def _charge(reserved: Mapping[str, Any], entries: tuple[Entry, ...]) -> Charge:
    names = {field.name for field in fields(ChargeRequest)}
    request = request_from_json({"source": "", **{name: reserved[name] for name in names - {"source"}}})
    security = _last(entries, "grant_opened")["security"]
    parts = tuple(ChargePart(part["account"], part["amount"]) for part in reserved["parts"])
    return Charge(request, parts, "opened", security)


def _spec(record: RecordTerms, product: Any, reserved: Mapping[str, Any]) -> Published:
    replay, stated = record.replay, record.declarations
    charge = Published(account=replay.charge.account, epsilon=Decimal(replay.charge.epsilon))
    return Published(
        release=record.release,
        digest=replay.spec_digest,
        due=replay.due,
        block=reserved["days"],
        charge=Published(account=charge.account, epsilon=charge.epsilon, delta=Decimal(replay.charge.delta)),
        product=product,
        source=_source(stated),
        publish=Published(
            formulas=replay.formulas, formats=stated.formats, labels=replay.labels, exchange=replay.exchange
        ),
        **{f"{replay.product['kind']}_product": product},
    )


def _source(stated: Declarations) -> Published:
    source = stated.source
    if source is None:
        return Published()
    types = dict(source.select_types)
    return Published(
        format=source.format,
        files=source.files,
        select=source.select,
        by=source.by,
        engine=source.engine,
        select_types=lambda contract: (types, []),
    )


def _software(stated: SoftwareStatement) -> Published:
    """Return what computed the release; audits are those that are stored with its code, where that runs here."""
    here = software()
    audits = {"audits": here.audits, "audited_code": here.audited_code} if stated.code == here.code else {}
    return Published(
        packages=stated.packages,
        python=stated.python,
        platform=stated.platform,
        code=stated.code,
        commit=stated.commit,
        dirty=stated.dirty,
        installed=("",) * min(stated.distributions, 1_000_000),
        installed_sha256=stated.distributions_sha256,
        container=stated.container,
        **audits,
    )
