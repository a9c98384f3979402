"""What in a federation spec does not fit its contract."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.contract.spreadsheet import formula_problem
from contracts.errors import Finding
from contracts.reading.scalars import word_list
from contracts.release.federation_spec import FederationTerms, GeneratorTerms, TablesTerms
from contracts.release.synthetic import synthetic_problems
from contracts.release.table_rules import RESERVED_COLUMNS

MOST_CELLS: Final = 10**7


def check_federation(spec: FederationTerms, contract: Contract, *, where: str) -> list[Finding]:
    """List what in a federation spec does not fit its contract; empty means that it fits. `where` names the file."""
    without = [site.name for site in spec.sites if site.key is None]
    if spec.site_keys and without:
        found = f"no key for {', '.join(without)}"
        return [Finding(where, "sites", found, "a key for every site, or for none")]
    if contract.linked is not None:
        remedy = "give the federation a contract of one table, at every party"
        return [Finding(where, "contract", "linked tables", "one table at every site", remedy)]
    if contract.total is not None:
        found, allowed = (
            "a declared total (`invariants`)",
            "no total: nothing says whose it is, a site's or that of all",
        )
        remedy = "take the total out of the contract of the federation, at every party"
        return [Finding(where, "contract", found, allowed, remedy)]
    formulas = None if spec.learner is not None else formula_problem(contract.columns, spec.formulas)
    if formulas is not None:
        return [Finding(where, "formulas", formulas.found, formulas.allowed, formulas.remedy)]
    if spec.tables is not None:
        return _table_findings(where, "tables.cliques", spec.tables, contract) or _product_findings(where, spec)
    if spec.generator is not None:
        return _generator_findings(where, spec.generator, contract)
    if spec.learner is None:
        return []
    names, findings = [column.name for column in contract.columns], []
    given = spec.learner.columns or tuple(names)
    for column in (*given, spec.learner.label):
        if column not in given or column not in names:
            allowed = word_list(list(given) if column in names else names)
            findings.append(Finding(where, "learner", f"the column {column!r}", allowed))
    return [*findings, *_relation_findings(where, contract)]


def _product_findings(where: str, spec: FederationTerms) -> list[Finding]:
    """Tables can be published under the names of their columns."""
    try:
        product = spec.product
    except ValidationError as error:
        wrong = "; ".join(str(each["msg"]) for each in error.errors(include_url=False))
        return [Finding(where, "tables.cliques", wrong, "tables that a release can publish")]
    clash = {name for each in product.tables for name in each.columns} & RESERVED_COLUMNS  # type: ignore[union-attr]
    found = f"the column {min(clash, default='')!r}"
    remedy = "rename it in the contract, and in the source by a select"
    allowed = f"columns not named {', '.join(sorted(RESERVED_COLUMNS))}"
    return [Finding(where, "tables.cliques", found, allowed, remedy)] if clash else []


def _relation_findings(where: str, contract: Contract) -> list[Finding]:
    """Rows are sampled by coins, which is accounted for under one relation only."""
    terms = (contract.adjacency, contract.unit.max_rows_per_unit)
    if terms == ("add_remove", 1):
        return []
    found = f"adjacency {terms[0]}, up to {terms[1]} rows a unit"
    return [Finding(where, "contract", found, "add_remove, one row a unit: rows are sampled")]


def _generator_findings(where: str, terms: GeneratorTerms, contract: Contract) -> list[Finding]:
    """Columns are single values that can be published, and options are those that a federation may give."""
    problems = [
        Finding(where, ".".join(("generator", *map(str, at))), problem.found, problem.allowed, problem.remedy)
        for at, problem in synthetic_problems(terms.product, contract)
    ]
    if problems:
        return problems
    pictures = contract.pictures(terms.product.names(contract))
    if pictures:
        allowed = "columns of single values: rows are written as CSV"
        problems.append(Finding(where, "generator.columns", f"{pictures[0]!r} holds pictures", allowed))
    try:
        tables = terms.tables
    except ValidationError as error:
        wrong = ", ".join(".".join(map(str, each["loc"])) for each in error.errors(include_url=False))
        allowed = "cliques alone: lists of columns"
        return [*problems, Finding(where, "generator.options", f"something else in {wrong}", allowed)]
    if tables is None:
        return [*problems, *_relation_findings(where, contract)]
    problems += _table_findings(where, "generator.options.cliques", tables, contract)
    outside = {name for clique in tables.cliques for name in clique} - set(terms.product.names(contract))
    if outside and not problems:
        found, allowed = f"the column {min(outside)!r}", "columns of the rows that are made"
        problems.append(Finding(where, "generator.options.cliques", found, allowed))
    return problems


def _table_findings(where: str, field: str, tables: TablesTerms, contract: Contract) -> list[Finding]:
    """Tables name columns that have cells, each once, and are not too large to be sent."""
    names = [column.name for column in contract.columns if column.name not in contract.pictures()]
    findings = []
    for place, clique in enumerate(tables.cliques):
        at = f"{field}[{place}]"
        unknown = [name for name in clique if name not in names]
        findings += [Finding(where, at, f"the column {name!r}", word_list(names)) for name in unknown]
        if not clique or len(set(clique)) < len(clique):
            findings.append(Finding(where, at, "no columns, or one of them twice", "columns, each once"))
        elif not unknown and contract.cells(clique) > MOST_CELLS:
            found = f"{contract.cells(clique)} cells"
            findings.append(Finding(where, at, found, f"at most {MOST_CELLS}", "take fewer columns"))
    if not tables.cliques or len({*tables.cliques}) < len(tables.cliques):
        findings.append(Finding(where, field, "no tables, or one of them twice", "tables, each once"))
    return findings
