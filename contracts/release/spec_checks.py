"""What a release spec must be beside its contract: `check_spec` lists all that does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Final

from contracts.contract.contract import Contract
from contracts.contract.labels import code_problems, formula_problem, name_problems
from contracts.domains.notation import NumberNotation
from contracts.errors import Finding
from contracts.periods.period_rules import TOTAL_OF_ALL, by_problems
from contracts.reading.scalars import FieldPath, Problem, spelled
from contracts.release.address import is_address, read_address
from contracts.release.exchange_forms import exchange_problems
from contracts.release.linked_source import linked_findings
from contracts.release.product import ProductSpec
from contracts.release.product_kinds import product_kinds
from contracts.release.source import credentials_problems
from contracts.release.spec import ReleaseSpec
from contracts.sql.select import check_by, check_unit

MOST_DELTA: Final = Decimal("1e-3")
"""Beyond it, or beyond one over the declared rows, a delta must be accepted."""


def check_spec(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """List what in a spec does not fit its contract; empty means that it fits.

    Args:
        spec: the release spec.
        contract: the contract that it names.
    """
    findings = linked_findings(spec, contract)
    if findings:
        return findings
    findings = _unit_findings(spec, contract) + _by_findings(spec, contract)
    untyped = [] if findings else spec.source.select_types(contract)[1]
    findings += [spec.finding(("source",), problem) for problem in untyped] + _formula_findings(spec, contract)
    findings += _delta_findings(spec, contract) + _notation_findings(spec, contract)
    fits: list[Finding] = product_kinds()[spec.product.kind].load("check")(spec, contract)
    if fits:
        return findings + fits
    publish = spec.publish
    if publish.credentials is not None:
        to = read_address(publish.to) if is_address(publish.to) else Path(publish.to)
        findings += [spec.finding(("publish",), problem) for problem in credentials_problems(to)]
    exchanged = exchange_problems(publish.exchange, publish.formats, spec.product, contract)
    findings += [spec.finding(("publish", "exchange"), problem) for problem in exchanged]
    if publish.labels is None:
        return findings
    beside = label_problems(spec.product, contract)
    return findings + [spec.finding(at, problem) for at, problem in beside]


def label_problems(product: ProductSpec, contract: Contract) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what keeps the columns of `labels: columns` from a release, with its place in the spec.

    Args:
        product: which fits the contract.
        contract: its contract.
    """
    tables = product.labelled(contract)
    if not tables:
        remedy = "drop `labels:`; the rows of tables and statistics begin with labels"
        problem = Problem(f"labels: columns with kind {product.kind}", "kind tables or statistics", remedy)
        yield ("publish", "labels"), problem
    refused: set[Problem] = set()
    for table in tables:
        columns = [contract.column(name) for name in table.by]
        problems = [*name_problems(columns, table.others), *(each for c in columns for each in code_problems(c))]
        for problem in problems:
            if problem not in refused:
                refused.add(problem)
                yield ("product", *table.at), problem


def large_delta(spec: ReleaseSpec, contract: Contract) -> str | None:
    """Say what makes the spec's delta a large one; None where it is small.

    To publish the whole row of one in n people, chosen by chance, is (0, 1/n)-DP: such a delta allows it.
    """
    delta, rows = spec.charge.delta, declared_rows(spec, contract)
    if delta > MOST_DELTA:
        return f"above {spelled(MOST_DELTA)}"
    if rows is not None and delta * rows > 1:
        return f"above one over the {rows:,} declared rows"
    return None


def declared_rows(spec: ReleaseSpec, contract: Contract) -> int | None:
    """Return the number of rows that the contract declares, else the product's `rows_about`; None without either.

    A delta can be held against no other number: a noisy one is drawn after the charge, an exact one is private.
    """
    rows = str(contract.total.value if contract.total is not None else spec.product.rows_about)
    return int(rows) if re.fullmatch(r"[0-9]{1,18}", rows) else None


def _delta_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """Refuse a delta at which whole rows of a few people may be published, unless the spec accepts it."""
    why = large_delta(spec, contract)
    if why is None or spec.charge.large_delta is not None:
        return []
    remedy = "take a delta far below one over the number of people, or write large_delta: accepted beside it"
    allowed = f"at most {spelled(MOST_DELTA)} and one over the declared rows, or large_delta: accepted"
    return [spec.finding(("charge", "delta"), Problem(f"{spelled(spec.charge.delta)}, {why}", allowed, remedy))]


def _notation_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """SQLite stores numbers among texts, and both arrive as texts: a decimal comma would make 1.5 no number."""
    named = [c.name for c in contract.columns if isinstance(c.domain.notation, NumberNotation)]
    if "sqlite" not in spec.source.format or not named:
        return []
    found = f"an SQLite table, and column {named[0]!r} with `decimal:` or `grouping:`"
    remedy = "leave the notation out and write the number by `select:`: CAST(replace(x, ',', '.') AS DOUBLE) AS x"
    problem = Problem(found, "a source whose columns hold texts or numbers: CSV, Parquet, DuckDB, PostgreSQL", remedy)
    return [spec.finding(("source", "path"), problem)]


def _formula_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """A CSV file has no label that a spreadsheet would run, unless the spec says what becomes of it."""
    if "csv" not in spec.publish.formats:
        return []
    problem = formula_problem(contract.columns, spec.publish.formulas, spec.publish.labels)
    if problem is None:
        return []
    remedy = f"{problem.remedy}; or leave csv out of `formats:`"
    return [spec.finding(("publish", "formats"), replace(problem, remedy=remedy))]


def _unit_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """The select passes the id of the privacy unit through, or rows a unit would not be bounded (law 4)."""
    if spec.source.select is None or contract.unit.column is None:
        return []
    return spec.select_findings(check_unit(spec.source.select, contract.unit.column))


def _by_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """The column that tells periods apart is one of days, and the source's own."""
    if spec.source.by is None:
        return []
    problems = by_problems(spec.source.by, contract)
    if contract.total is not None and spec.product.keeps_total:
        at = spec.product.total_at
        return [spec.finding(at, TOTAL_OF_ALL), *(spec.finding(("source", "by"), problem) for problem in problems)]
    if problems or spec.source.select is None:
        return [spec.finding(("source", "by"), problem) for problem in problems]
    return spec.select_findings(check_by(spec.source.select, spec.source.by))
