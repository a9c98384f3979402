"""The release whose mechanism is attacked: a spec, or a version of which the record says how it was made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from contracts.contract.contract import Contract
from contracts.errors import Finding, SpecRefused
from contracts.release.linked_source import contract_of
from contracts.release.product_kinds import product_kinds
from contracts.release.source import Source
from contracts.release.spec import ChargeTerms, Publish, ReleaseSpec, load_spec
from contracts.release.spec_checks import check_spec
from privacy.private_table import PrivateTable, snapshot_mark
from tasks.evaluation.linked_scores import refuse_pictures
from tasks.evaluation.public_rows import published_files, refuse_own_rows
from tasks.products.product_kind import planning_of
from tasks.products.version_records import (
    RECORD,
    kind_of,
    mark_of_snapshot,
    published_classifier_record,
    published_record,
    published_tables_record,
)
from tasks.records.model.version_statements import RecordTerms
from tasks.storage.workspace.settings import Workspace
from tasks.verification.files.folder import open_version

_PUBLIC: Final = "an attack on confidential rows would be an access that nothing records: name public rows"
_WITHOUT: Final = "attack a release of columns without pictures"
_READ: Final[dict[str, Callable[[Path], tuple[Any, Any]]]] = {
    "synthetic": published_record,
    "classifier": published_classifier_record,
    "tables": published_tables_record,
}


@dataclass(frozen=True)
class Attacked:
    """The release whose mechanism is attacked; of a version with its folder and number."""

    spec: ReleaseSpec
    contract: Contract
    folder: Path | None = None
    version: int | None = None


def attacked_release(what: Path, source: Source, workspace: Workspace, period: str | None) -> Attacked:
    """Read a spec, or what a version's record says of its spec."""
    if what.suffix in (".yaml", ".yml"):
        spec = load_spec(what, period)
        contract = contract_of(spec)
        findings = check_spec(spec, contract)
        if findings:
            raise SpecRefused(findings)
        return Attacked(spec, contract)
    if period is not None:
        found, allowed = "a period of a version", "a period of a release spec with `period:`"
        raise SpecRefused([Finding("the command", "--period", found, allowed, "leave it out")])
    path = open_version(what)
    record, meaning = _READ[kind_of(path) or "synthetic"](path)
    with closing(workspace.open_ledger()) as ledger:
        versions = ledger.versions(record.release)
    published_files(path, versions, number=record.version, names=(RECORD,))
    return Attacked(spec_of_version(path, record, meaning.product, source), meaning.contract, path, record.version)


def spec_of_version(path: Path, record: RecordTerms, product: Any, source: Source) -> ReleaseSpec:
    """Return the spec of a version, with other rows.

    It is found at the path of the record. What options of the product read comes from the version's files.

    Args:
        path: the version's folder.
        record: its record.
        product: the product in it.
        source: of the rows.
    """
    charge = record.replay.charge
    terms = ChargeTerms(
        account=charge.account, epsilon=Decimal(charge.epsilon), delta=Decimal(charge.delta), large_delta="accepted"
    )
    return ReleaseSpec(
        release=record.release,
        contract=path / RECORD,
        source=source,
        charge=terms,
        product=product,
        publish=Publish(to="releases/"),
        path=path / RECORD,
        written_paths=(RECORD, source.name, "releases/"),
    )


def columns_of(attacked: Attacked) -> tuple[str, ...]:
    """Return the columns of the rows; refuse what shadow releases are not made of."""
    contract, product = attacked.contract, attacked.spec.product
    names = product.names(contract)
    if product_kinds()[product.kind].shadow is None:
        found, allowed = f"a release of kind {product.kind}", "a kind of which shadow releases are made"
        raise SpecRefused([Finding("the attack", "product.kind", found, allowed)])
    refuse_pictures(contract, names, "the attack", _WITHOUT)
    if attacked.spec.reference is not None:
        found = "a refinement chosen on an earlier version, which is made of confidential rows"
        raise SpecRefused([Finding("the attack", "product.refine", found, "a refinement of the release by itself")])
    return names


def refuse_rows_of(
    attacked: Attacked, table: PrivateTable, workspace: Workspace, *, what: str = "the holdout", remedy: str = _PUBLIC
) -> None:
    """Refuse the rows of the version, or of a spec those that any release was charged for."""
    if attacked.folder is not None:
        record, _ = _READ[kind_of(attacked.folder) or "synthetic"](attacked.folder)
        mark = mark_of_snapshot(attacked.folder)
        refuse_own_rows(table, mark=mark, spec_digest=record.replay.spec_digest, due=record.replay.due)
        return
    with closing(workspace.open_ledger()) as ledger:
        requests = [each.request for of in ledger.accounts() for each in ledger.charges(account=of.terms.name)]
    # A mark is of one spec: an edited spec, if only by its epsilon, would not find its own.
    own = (snapshot_mark(table.keyed_hash, each.spec_digest, each.due) == each.snapshot_hash for each in requests)
    if any(own):
        found, allowed = "rows that a release was charged for", "rows that anybody may see, of other people"
        raise SpecRefused([Finding(what, "rows", found, allowed, remedy)])


def adapted(attacked: Attacked, rows: int) -> tuple[ReleaseSpec, Contract, tuple[str, ...]]:
    """Return spec and contract for a shadow release of so many rows, and what was adapted.

    A declared total becomes that of the shadow, and so does `rows_about`; a batch keeps its sampling probability.
    """
    spec, contract, said = attacked.spec, attacked.contract, []
    if contract.total is not None:
        others = [each for each in contract.invariants if each.kind != "total"]
        total = contract.total.model_copy(update={"value": rows})
        contract = contract.model_copy(update={"invariants": (total, *others)})
        said.append(f"total {rows}")
    adapted_options = planning_of(spec.product.kind).adapted_options(spec, rows)
    if adapted_options is not None:
        spec, said = spec.with_options(adapted_options[0]), [*said, *adapted_options[1]]
    return spec, contract, tuple(said)
