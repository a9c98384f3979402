"""What a spec's tables must be: columns of the contract, files of their own, cells that the method can refine."""

from __future__ import annotations

from typing import Final

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.reading.scalars import FieldPath, Problem, nearest, show, word_list
from contracts.release.product import unfit_name
from contracts.release.spec import ReleaseSpec
from contracts.release.tables.levels import level_name, level_problems, levels_of
from contracts.release.tables.tables import RESIDUALS, TableSpec, expand, form_problems

RESERVED_TABLE: Final = "total"
RESERVED_COLUMNS: Final = frozenset({"count", "noisy", "variance", "lower", "upper", "structural_zero"})


def tables_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """List what in a release of tables does not fit its contract: its tables, its mechanism and its total."""
    findings, product = table_findings(spec, contract), spec.tables_product
    if product.noise_is_gaussian and not spec.charge.delta:
        apart = product.split != RESIDUALS
        noise = "mechanism gaussian" if apart else "split residuals, which has Gaussian noise"
        other = "mechanism: laplace" if apart else "another split with mechanism: laplace"
        remedy = f"give delta a small positive value, or choose {other}"
        problem = Problem(f"delta 0 with {noise}", "a delta above 0", remedy)
        findings.append(spec.finding(("charge", "delta"), problem))
    if product.total == "invariant" and contract.total is None:
        remedy = "write total: noisy, or declare the public total in the contract's invariants"
        problem = Problem("invariant, but the contract declares no public total", "noisy", remedy)
        findings.append(spec.finding(("product", "total"), problem))
    return findings


def table_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """List what in a spec's tables does not fit its contract: columns of it, and not too many cells for their form.

    Args:
        spec: a release of tables.
        contract: the contract that it names.
    """
    names = [column.name for column in contract.columns]
    pictures = contract.pictures()
    tables, problems = expand(spec.tables_product, [name for name in names if name not in pictures])
    findings = [spec.finding(("product", "tables"), problem) for problem in problems]
    for place, table in tables:
        at: FieldPath = ("product", "tables", place)
        unknown = [(spot, name) for spot, name in enumerate(table.columns) if name not in names]
        for spot, name in unknown:
            remedy = nearest(name, names)
            if name == contract.unit.column:
                remedy = "drop it: it is the privacy unit's id, which is never published"
            problem = Problem(f"the column {name!r}", word_list(names), remedy, ("columns", spot))
            findings.append(spec.finding(at, problem))
        for spot, name in enumerate(table.columns):
            if name in pictures:
                found, remedy = f"{name!r}, a column of pictures", "drop it: a picture has no cells to count"
                problem = Problem(found, "columns of single values", remedy, ("columns", spot))
                findings.append(spec.finding(at, problem))
        if not unknown and not set(pictures) & set(table.columns):
            problems = form_problems(table, spec.tables_product, contract, ("tables", place))
            findings += [spec.finding(("product",), problem) for problem in problems]
            findings += _neighbour_findings(spec, contract, at, table)
            findings += _level_findings(spec, contract, at, table, {other.name.casefold() for _, other in tables})
        findings += _name_findings(spec, at, table)
    return findings


def _level_findings(
    spec: ReleaseSpec, contract: Contract, at: FieldPath, table: TableSpec, names: set[str]
) -> list[Finding]:
    """The levels of a hierarchy partition each other, and their files are named like no other table."""
    problems = level_problems(table, contract)
    if table.bins and spec.tables_product.refine.consistent:
        found, allowed = "bins in a release with `consistent: true`", "one of the two: margins have other cells there"
        problems.append(Problem(found, allowed, "drop one, or publish the table in a release of its own", ("bins",)))
    if problems:
        return [spec.finding(at, problem) for problem in problems]
    findings = []
    for level in levels_of(table, contract):
        name = level_name(table.name, level.name)
        if name.casefold() in names:
            found = f"the level {level.name!r}, whose file would be {name!r}"
            remedy = "rename that table, or the level"
            findings.append(spec.finding((*at, "hierarchy"), Problem(found, "a name that no table has", remedy)))
        elif unfit_name(name) is not None:
            allowed = f"a name that, after the table's, fits a file: {unfit_name(name)}"
            findings.append(spec.finding((*at, "hierarchy"), Problem(f"the level {show(level.name)}", allowed)))
    return findings


def _neighbour_findings(spec: ReleaseSpec, contract: Contract, at: FieldPath, table: TableSpec) -> list[Finding]:
    """Refinement by the neighbourhood needs cells that have neighbours."""
    if spec.tables_product.method_of(table) != "neighbourhood" or contract.ordered_axes(table.columns):
        return []
    found = (
        f"table {table.name!r} of {', '.join(table.columns)}: no column with ordered cells, but method neighbourhood"
    )
    allowed = "with that method a column of numbers or dates in bins, in every table"
    remedy = "choose method: empirical_bayes, or auto, which picks for each table"
    return [spec.finding((*at, "columns"), Problem(found, allowed, remedy))]


def _name_findings(spec: ReleaseSpec, at: FieldPath, table: TableSpec) -> list[Finding]:
    """Published files and columns must not be named like those that every version has."""
    findings = []
    if table.name.lower() == RESERVED_TABLE:
        remedy = "give the table another name: {columns: [...], name: ...}"
        problem = Problem(f"a table named {table.name!r}", "a name other than total", remedy)
        findings.append(spec.finding(at, problem))
    reserved = RESERVED_COLUMNS | ({"suppressed"} if spec.tables_product.minimum_frequency is not None else set())
    for spot, name in enumerate(table.columns):
        if name.lower() in reserved:
            allowed = "a column not named " + ", ".join(sorted(reserved))
            remedy = "rename it in the contract, and in the source by a select"
            findings.append(spec.finding(at, Problem(f"the column {name!r}", allowed, remedy, ("columns", spot))))
    return findings
