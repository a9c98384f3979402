"""Linked tables of a spec beside those of its contract: each has a file, and the base is one that units own."""

from __future__ import annotations

from pathlib import Path

from contracts.contract.contract import Contract
from contracts.contract.linked import base_problem
from contracts.contract.odcs import load_contract
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import Problem, nearest, word_list
from contracts.release.product import DATABASES, format_of_name
from contracts.release.source import Source
from contracts.release.spec import ReleaseSpec

_TABLES = "tables"


def table_sources(source: Source) -> dict[str, Source]:
    """Return the source of each table by its name in the contract.

    Args:
        source: of linked tables, without problems.
    """
    path = Path(str(source.path))
    found = {}
    for name, place in (source.tables or {}).items():
        alone: dict[str, object] = {"tables": None, "base": None, "table": None, "delimiter": None}
        if format_of_name(path.name) in DATABASES:
            alone["table"] = place
        else:
            delimiter = source.delimiter if format_of_name(place) == "csv" else None
            alone |= {"path": path / place, "delimiter": delimiter}
        found[name] = source.model_copy(update=alone)
    return found


def linked_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """List what does not fit between the tables of a spec and those of its contract."""
    tables, linked = spec.source.tables, contract.linked
    if linked is None:
        if tables is None:
            return []
        remedy = "name its file as `path`, or link the tables in the contract (docs/linked-tables.md)"
        problem = Problem("`tables` for a contract of one table", "the source of that table", remedy)
        return [spec.finding(("source", _TABLES), problem)]
    names = [table.name for table in linked.tables]
    if tables is None:
        remedy = f"add `tables:` with a file for each of {', '.join(names)}, and `base:`"
        problem = Problem("one table for a contract of linked ones", "`tables` and `base`", remedy)
        return [spec.finding(("source",), problem)]
    findings = []
    for name in names:
        if name not in tables:
            problem = Problem(f"no file for the table {name!r}", word_list(names), f"add `{name}:` with its file")
            findings.append(spec.finding(("source", _TABLES), problem))
    for name in tables:
        if name not in names:
            problem = Problem(f"the table {name!r}", word_list(names), nearest(name, names) or "drop it")
            findings.append(spec.finding(("source", _TABLES, name), problem))
    return findings


def contract_of(spec: ReleaseSpec) -> Contract:
    """Read the contract of a spec; of linked tables, that over the base which the spec names.

    Raises:
        ContractRefused: the contract is incomplete.
        SpecRefused: the base is none of its tables, or no unit owns its rows.
    """
    contract = load_contract(spec.contract)
    base = spec.source.base
    if contract.linked is None or base is None:
        return contract
    problem = base_problem(contract.linked, base)
    if problem is not None:
        raise SpecRefused([spec.finding(("source", "base"), problem)])
    return contract.over(base)
