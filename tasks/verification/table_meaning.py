"""Are the tables that a record replays those of its product? The checks, in this order.

1. the product, read again, has the tables that the record replays, refined as the product says
2. the manifest's files are those that the record speaks of, no more and no fewer
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Final

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.release.product import AUTO, LambdaReference
from contracts.release.tables.levels import level_name, level_problems, levels_of
from contracts.release.tables.tables import RESIDUALS, TableSpec, TablesProduct, expand, form_problems, tables_of
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.suppression import Threshold, threshold_for
from tasks.records.model.version_statements import LevelStatement, Replay, TableStatement
from tasks.records.strict_json import printable, shown
from tasks.verification.record_identity import (
    FIXED_FILES,
    OTHER,
    check_file_list,
    check_forms,
    differences,
    read_again,
)

TOTAL_MEASUREMENTS: Final = "measurements/total.parquet"
RESIDUAL_MEASUREMENTS: Final = "measurements/residuals.parquet"
MOST_LEVEL_PROBLEMS: Final = 12


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


def csv_of(table: TableStatement | LevelStatement) -> str:
    """Return the name of a table's CSV file, which need not be there."""
    return table.data.removesuffix(".parquet") + ".csv"
