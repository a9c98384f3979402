"""Is the record about this version, this contract and this charge? The checks, in this order.

1. release and version are the manifest's; once the contract is read, all that the manifest says of privacy
2. auditor-only values are withheld, and committed to; the record lists each data file once, and has one form
3. the contract, read again, hashes to its digest, and charge and record name the same contract, spec, account
4. the product, read again, has the tables that the record replays, refined as the product says
5. the manifest's files are those that the record speaks of, no more and no fewer
6. no CSV file has a label that a spreadsheet would run, unless the record says how it is written
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from contracts.canonical import canonical_json, digest, readable_json
from contracts.contract.contract import Contract
from contracts.contract.spreadsheet import formula_problem
from contracts.errors import Finding
from contracts.periods.redraw import due_run_key
from contracts.release.exchange_forms import EXCHANGE
from contracts.release.lambda_reference import AUTO, LambdaReference
from contracts.release.tables.all_marginals import RESIDUALS
from contracts.release.tables.expansion import expand, tables_of
from contracts.release.tables.levels import level_name, level_problems, levels_of
from contracts.release.tables.product import TableSpec, TablesProduct
from contracts.release.tables.table_form import form_problems
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.suppression import Threshold, threshold_for
from tasks.records.files.part_names import parts_among
from tasks.records.model.approval_statements import about, unsound
from tasks.records.model.auditor_statements import withheld
from tasks.records.model.journal_statements import ChargeBody
from tasks.records.model.release_statement import Manifest, stated_predicate
from tasks.records.model.statement import validation_findings
from tasks.records.model.version_statements import (
    LevelStatement,
    RecordTerms,
    Replay,
    ReplayTerms,
    TableStatement,
    recorded_contract,
)
from tasks.records.strict_json import other_form, printable, shown
from tasks.verification.inclusion import JournalledRun

ProductT = TypeVar("ProductT", bound=BaseModel)
FIXED_FILES: Final = frozenset({"record.json", "record.html", "croissant.json"})
DESCRIPTIONS: Final = frozenset({"record.ja.html", "label.html", "deployment.yaml", "lineage.json"})
"""The record for other readers."""
TOTAL_MEASUREMENTS: Final = "measurements/total.parquet"
RESIDUAL_MEASUREMENTS: Final = "measurements/residuals.parquet"
MOST_LEVEL_PROBLEMS: Final = 12
_PREDICATE: Final = "as the predicate in MANIFEST.json says"
OTHER: Final = "the record speaks of something else: do not believe the one or the other without asking the publisher"


@dataclass(frozen=True)
class Meaning:
    """What the record's replay block is about, read again.

    Args:
        contract: the contract.
        product: the product; its tables can be written out over the contract.
    """

    contract: Contract
    product: TablesProduct

    @cached_property
    def tables(self) -> tuple[TableSpec, ...]:
        """The product's tables, every short form written out."""
        return tables_of(self.product, self.contract)

    def threshold(self, event: DiscreteLaplace | DiscreteGaussian) -> Threshold | None:
        """Return the threshold under which a table with this noise is suppressed; None without such a rule."""
        rule = self.product.minimum_frequency
        return None if rule is None else threshold_for(rule, event)


def differences(pairs: Iterable[tuple[str, object, object]], *, where: str, allowed: str) -> Iterator[Finding]:
    """Yield a finding for each (field, found, expected) that differs; `allowed` says whose value is expected."""
    for field, found, expected in pairs:
        if found != expected:
            yield Finding(where, field, shown(found), f"{shown(expected)}, {allowed}", OTHER)


def check_predicate(manifest: Manifest, value: Any, *, where: str) -> list[Finding]:
    """Check what the manifest says of privacy; `value` was read as a record, and its contract as one."""
    stated = manifest.predicate
    listed = manifest.files.get(where)
    expected = stated_predicate(value, stated.record if listed is None else listed.sha256)
    pairs = [(name, found, getattr(stated, name)) for name, found in expected.items()]
    return list(differences(pairs, where=where, allowed=_PREDICATE))


def check_identity(record: RecordTerms, manifest: Manifest, *, where: str) -> list[Finding]:
    """Check that the record is the manifest's, and open about what it holds back."""
    stated = manifest.predicate
    pairs = [("release", record.release, stated.release), ("version", record.version, stated.version)]
    findings = list(differences(pairs, where=where, allowed=_PREDICATE))
    if record.auditor is not None:
        remedy = "values for auditors only were published: tell the publisher"
        findings.append(Finding(where, "auditor", "values", "no such section in a published record", remedy))
    if record.auditor_commitment is None:
        remedy = "auditors cannot tell whether their copy is of this record: ask the publisher"
        findings.append(Finding(where, "auditor_commitment", "nothing", "the commitment to the full record", remedy))
    return findings + _check_listed_files(record, manifest, where)


def without_exchange(manifest: Manifest, record: RecordTerms) -> Manifest:
    """Return the manifest without the files of the forms of exchange that a record states; rule 10 checks those."""
    if not record.replay.exchange:
        return manifest
    kept = tuple(each for each in manifest.subject if not each.name.startswith(EXCHANGE))
    return Manifest.model_construct(**{**dict(manifest), "subject": kept})


def check_form(record: RecordTerms, value: Any, *, where: str) -> list[Finding]:
    """Check that the record is written in the one form that it has: `value` is what was read as `record`."""
    found, understood = withheld(value), withheld(record.model_dump(mode="json", by_alias=True))
    findings, paths = [], [file.path for file in record.files]
    if canonical_json(found) != canonical_json(understood):
        findings.append(other_form(readable_json(found), readable_json(understood), where))
    if paths != sorted(paths):
        findings.append(Finding(where, "files", "in another order", "in the order of their paths", OTHER))
    return findings


def _check_listed_files(record: RecordTerms, manifest: Manifest, where: str) -> list[Finding]:
    """Check that the record lists each data file of the manifest once, and no other."""
    listed, signed = [file.path for file in record.files], set(manifest.files) - FIXED_FILES - DESCRIPTIONS
    twice = {path for path in listed if listed.count(path) > 1} if len(listed) > len(set(listed)) else set()
    return [
        Finding(
            where,
            printable(f"files, {name}"),
            f"listed {'twice' if name in twice else 'once' if name in listed else 'nowhere'}",
            "each data file of the manifest once, and no other",
            OTHER,
        )
        for name in sorted(set(listed) ^ signed | twice)
    ]


def read_again(
    replay: ReplayTerms, kind: type[ProductT], *, where: str
) -> tuple[tuple[Contract, ProductT] | None, list[Finding]]:
    """Read contract and product of a record again, by the same models that the release used."""
    findings: list[Finding] = []
    contract, product = None, None
    try:
        contract = recorded_contract(replay.contract)
    except ValidationError as error:
        findings += validation_findings(error, where=where, at="replay.contract")
    try:
        product = kind.model_validate(replay.product)
    except ValidationError as error:
        findings += validation_findings(error, where=where, at="replay.product")
    if contract is None or product is None:
        return None, findings
    return (contract, product), findings


def read_meaning(replay: Replay, *, where: str) -> tuple[Meaning | None, list[Finding]]:
    """Read what a release of tables is about."""
    read, findings = read_again(replay, TablesProduct, where=where)
    if read is None:
        return None, findings
    contract, product = read
    meaning, names = Meaning(contract, product), [column.name for column in contract.columns]
    findings += check_forms(contract, product, replay, where)
    placed, problems = expand(product, names)
    for problem in problems:
        found, allowed = printable(problem.found), printable(problem.allowed)
        findings.append(Finding(where, "replay.product.tables", found, allowed, OTHER))
    columns = set(names)
    for _, table in placed:
        wrong = _check_size(table, meaning, columns, where)
        findings += wrong or _check_levels(table, contract, where)
    return (None if findings else meaning), findings


def check_forms(contract: Contract, product: BaseModel, replay: ReplayTerms, where: str) -> list[Finding]:
    """Check that contract and product are written as they were understood, and the contract hashes to its digest."""
    forms = [
        ("replay.contract", replay.contract, contract),
        ("replay.product", replay.product, product),
    ]
    findings = [
        Finding(where, field, "another form of it", "the one form in which it is recorded", OTHER)
        for field, written, understood in forms
        if digest(written) != digest(understood.model_dump(mode="json"))
    ]
    found = contract.digest
    if found != replay.contract_digest:
        allowed = f"{found}, the digest of the recorded contract"
        findings.append(Finding(where, "replay.contract_digest", replay.contract_digest, allowed, OTHER))
    return findings


def _check_size(table: TableSpec, meaning: Meaning, columns: set[str], where: str) -> list[Finding]:
    field = "replay.product.tables"
    unknown = [name for name in table.columns if name not in columns]
    if unknown:
        return [Finding(where, field, f"the column {shown(unknown[0])}", "columns of the contract", OTHER)]
    problems = form_problems(table, meaning.product, meaning.contract, ())
    return [Finding(where, field, printable(p.found), printable(p.allowed), OTHER) for p in problems]


def _check_levels(table: TableSpec, contract: Contract, where: str) -> list[Finding]:
    """Check that the hierarchy's levels partition each other on the labels of the contract."""
    field = printable(f"replay.product.tables, {table.name}")
    problems = level_problems(table, contract)[:MOST_LEVEL_PROBLEMS]
    return [Finding(where, field, shown(problem.found), printable(problem.allowed), OTHER) for problem in problems]


def check_charge(record: RecordTerms, contract: Contract, run: JournalledRun, *, where: str) -> list[Finding]:
    """Check that record, contract and journal name the same release, spec, contract, account, unit and relation."""
    replay, charge = record.replay, run.charge
    journalled = [
        ("release", record.release, charge.release),
        ("replay.spec_digest", replay.spec_digest, charge.spec_digest),
        ("replay.contract_digest", replay.contract_digest, charge.contract_digest),
        ("replay.charge.account", replay.charge.account, charge.account),
        ("replay.adjacency", replay.adjacency, charge.adjacency),
        ("replay.contract.unit", contract.unit.column or "row", charge.unit),
        ("replay.contract.unit.scope", contract.unit.scope, charge.scope),
        ("replay.rows_per_unit", replay.rows_per_unit, charge.rows_per_unit),
        ("replay.contract, total", None if contract.total is None else contract.total.value, charge.public_total),
        ("replay.due", replay.due, charge.due),
        ("supersedes", record.supersedes, run.published.supersedes),
    ]
    declared = [
        ("replay.adjacency", replay.adjacency, contract.adjacency),
        ("replay.rows_per_unit", replay.rows_per_unit, contract.unit.max_rows_per_unit),
    ]
    return [
        *differences(journalled, where=where, allowed="as the charge in the journal says"),
        *differences(declared, where=where, allowed="as the contract says"),
        *_check_due(replay, charge, where),
        *_check_approvals(record, charge, where),
    ]


def _check_approvals(record: RecordTerms, charge: ChargeBody, where: str) -> Iterator[Finding]:
    """Check that enough of those who may approve have signed this charge, each with a key of its own."""
    stated = record.replay.approvals
    if stated is None:
        return
    for found, allowed in unsound(stated, about(record.release, charge.model_dump(mode="json"))):
        yield Finding(where, "replay.approvals", found, allowed, OTHER)


def check_formulas(replay: ReplayTerms, contract: Contract, names: Iterable[str], *, where: str) -> list[Finding]:
    """Refuse, as the spec's reader does, labels in CSV files that a spreadsheet would run and nobody chose to write.

    Args:
        replay: the record's replay block.
        contract: the contract.
        names: the manifest's files.
        where: the record's file name.
    """
    formulas, csv = replay.formulas, any(name.endswith(".csv") for name in names)
    problem = formula_problem(contract.columns, formulas, replay.labels) if csv else None
    if problem is None:
        return []
    found, allowed = f"{formulas or 'nothing'}, with {problem.found}", problem.allowed
    return [Finding(where, "replay.formulas", printable(found), printable(allowed), OTHER)]


def _check_due(replay: ReplayTerms, charge: ChargeBody, where: str) -> list[Finding]:
    """Check that the run of a due date has the key that spec, contract and date give; no row is in it."""
    if replay.due is None:
        return []
    key = due_run_key(
        charge.release, spec_digest=charge.spec_digest, contract_digest=charge.contract_digest, due=replay.due
    )
    pairs = [("the run's key, by its due date", charge.run_key, key)]
    return list(differences(pairs, where=where, allowed="as spec, contract and due date give it"))


def check_tables(replay: Replay, meaning: Meaning, *, where: str) -> list[Finding]:
    """Check that the tables that are replayed are those of the product, refined as the product says.

    What the product leaves to the noisy values is chosen again when the refinement is replayed (`replay`).
    """
    named = [("replay.tables", [t.name for t in replay.tables], [t.name for t in meaning.tables])]
    findings = list(differences(named, where=where, allowed="the product's tables in their order"))
    if findings:
        found, allowed = (", ".join(printable(name) for name in names[:12]) for names in named[0][1:])
        return [Finding(where, "replay.tables", found, f"{allowed}, as the product says", OTHER)]
    findings += _check_reference(replay, meaning.product, where)
    product, refine, contract = meaning.product, meaning.product.refine, meaning.contract
    for place, (table, planned) in enumerate(zip(replay.tables, meaning.tables, strict=True)):
        pairs = [
            ("columns", table.columns, planned.columns),
            ("integers", table.integers, refine.integers),
            ("data", table.data, f"data/{planned.name}.parquet"),
            ("measurements", table.measurements, f"measurements/{planned.name}.parquet"),
        ]
        method = product.method_of(planned)
        if method not in (AUTO, "neighbourhood"):  # the latter falls back where neighbours tell nothing
            pairs.append(("method", table.method, method))
        if method == "hierarchy":
            pairs.append(("lambda", recorded_lambda(table), None))
        elif not isinstance(refine.lambda_, str | LambdaReference) and refine.sparsity is None and method != AUTO:
            pairs.append(("lambda", recorded_lambda(table), refine.lambda_))
        pairs += _level_pairs(table, planned, contract)
        at = [(f"replay.tables[{place}].{field}", found, expected) for field, found, expected in pairs]
        findings += differences(at, where=where, allowed="as the product says")
    return findings


def _check_reference(replay: Replay, product: TablesProduct, where: str) -> list[Finding]:
    """Check that the record names the version on which the product has λ chosen, and no other."""
    stated, planned = replay.reference, product.reference
    found = "none" if stated is None else f"{stated.release}/{stated.version}"
    expected = "none" if planned is None else planned.reference
    return list(differences([("replay.reference", found, expected)], where=where, allowed="as the product says"))


def _level_pairs(table: TableStatement, planned: TableSpec, contract: Contract) -> list[tuple[str, object, object]]:
    """Pair what the record says of a table's levels with what they must be."""
    names = [level.name for level in levels_of(planned, contract)]
    files = [level_name(planned.name, name) for name in names]
    return [
        ("levels", ", ".join(level.name for level in table.levels), ", ".join(names)),
        ("levels.data", [level.data for level in table.levels], [f"data/{name}.parquet" for name in files]),
        (
            "levels.measurements",
            [level.measurements for level in table.levels],
            [f"measurements/{name}.parquet" for name in files],
        ),
    ]


def recorded_lambda(table: TableStatement) -> Decimal | None:
    """Return λ as the record has it."""
    return None if table.lambda_ is None else Decimal(table.lambda_)


def check_files(replay: Replay, names: Iterable[str], *, where: str) -> list[Finding]:
    """Check that the record accounts for every file of the manifest, and the manifest for every one of the record."""
    stated: list[TableStatement | LevelStatement] = [*replay.tables]
    stated += [level for table in replay.tables for level in table.levels]
    required = FIXED_FILES | {each.data for each in stated} | {each.measurements for each in stated}
    required |= total_files(replay)
    return check_file_list(required, {csv_of(each) for each in stated}, names, where=where)


def total_files(replay: Replay) -> frozenset[str]:
    """Name the files of a measured total, and of residuals, of which a total follows that is not declared."""
    if any(draw.key == RESIDUALS for draw in replay.draws):
        return frozenset(
            {RESIDUAL_MEASUREMENTS} | ({TOTAL_MEASUREMENTS} if replay.total.kind != "invariant" else set())
        )
    return frozenset({TOTAL_MEASUREMENTS} if any(not draw.clique for draw in replay.draws) else ())


def check_file_list(
    required: Iterable[str], optional: Iterable[str], names: Iterable[str], *, where: str
) -> list[Finding]:
    """Check that all required files are there, and besides only optional ones, and parts of data files."""
    required, optional, listed = set(required), set(optional), set(names)
    for name in required:
        optional |= set(parts_among(name, listed)) if name.startswith("data/") else set()
    missing = [
        Finding(where, "files", f"no {printable(n)}", "every file of the record", OTHER) for n in required - listed
    ]
    extra = [
        Finding(
            where,
            "files",
            shown(name),
            "only files that the record speaks of",
            "nobody says what it is: do not use it",
        )
        for name in listed - required - optional - DESCRIPTIONS
    ]
    return sorted(missing + extra, key=lambda finding: finding.found)


def csv_of(table: TableStatement | LevelStatement) -> str:
    """Return the name of a table's CSV file, which need not be there."""
    return table.data.removesuffix(".parquet") + ".csv"
