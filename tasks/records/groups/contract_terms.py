"""The sections contract and unit: what the contract declares, and whose privacy counts."""

from __future__ import annotations

from typing import Any, Final

from contracts.contract.contract import Column, Contract
from contracts.contract.privacy_terms import Scope
from contracts.domains.domain_terms import NOTATION_KEYS
from contracts.message import SENTENCES, joined, message
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from tasks.records.groups.field import NONE, FieldGroup, Run, auditor, public
from tasks.records.groups.release_identity import described


def columns(run: Run) -> list[dict[str, Any]]:
    """Describe each column's domain, without its labels (those are in the contract under `replay`)."""
    return [_column(column) for column in run.facts.contract.columns]


def _column(column: Column) -> dict[str, Any]:
    domain = column.domain
    return {
        "name": column.name,
        "logical_type": column.logical_type,
        "description": column.description or NONE,
        "domain": domain.kind,
        "cells": column.size,
        "values": domain.extent,
        "nulls": message("counted as {value}", value=domain.nulls.to)
        if domain.nulls.to is not None
        else message("a cell of their own"),
        "read_as_null": list(domain.missing) or NONE,
        **_notation(column),
        "misfits": domain.misfit_rule,
        "provenance": domain.provenance.kind,
        "reference": domain.provenance.reference or NONE,
    }


def _notation(column: Column) -> dict[str, str]:
    """Say how texts and instants are read where the contract declares it; what is published is as ever."""
    written = {key: getattr(column.domain, key, None) for key in NOTATION_KEYS}
    declared = [f'{key}: "{value}"' for key, value in written.items() if value is not None]
    return {"notation": ", ".join(declared)} if declared else {}


def structural_zeros(run: Run) -> list[dict[str, list[str]]] | str:
    """List the combinations that are declared impossible."""
    zeros = run.facts.contract.structural_zeros
    return [{name: list(labels) for name, labels in zero.assignment} for zero in zeros] or NONE


def orders(run: Run) -> list[str] | str:
    """List the orders between columns that are declared."""
    pairs = [each.less_or_equal for each in run.facts.contract.constraints]
    return [f"{pair[0]} <= {pair[1]}" for pair in pairs if pair is not None] or NONE


def dependencies(run: Run) -> list[str] | str:
    """List the functional dependencies that are declared; their mappings are in the contract under `replay`."""
    constraints = run.facts.contract.constraints
    found = [each.determines for each in constraints if each.determines is not None]
    missing = [each.null_exactly_where for each in constraints if each.null_exactly_where is not None]
    said: list[str] = [message("{one} determines {other}", one=each.by, other=each.column) for each in found]
    said += [
        message("{one} determines whether {other} is missing", one=each.by, other=each.column) for each in missing
    ]
    return said or NONE


def validation_leakage(run: Run) -> str:
    """Say what the public learns from validation: only that the gates held."""
    gates = [outcome.name for outcome in run.facts.outcomes if outcome.gate]
    others = len(run.facts.outcomes) - len(gates)
    checks = message("Checks against the contract whose outcome is for auditors only: {number}.", number=others)
    shown = (
        message("That the gates held ({gates}) shows in the release being there.", gates=joined(gates))
        if gates
        else message("None is a gate.")
    )
    return joined([checks, shown], SENTENCES)


CONTRACT = FieldGroup(
    "contract",
    "Contract",
    (
        public("contract_id", "The contract.", lambda run: run.facts.contract.id),
        public("contract_version", "Its version.", lambda run: run.facts.contract.version),
        public("contract_digest", "SHA-256 of its canonical JSON.", lambda run: run.facts.contract.digest),
        public(
            "contract_format",
            "Version of the Open Data Contract Standard.",
            lambda run: run.facts.contract.apiVersion,
        ),
        public("table", "The table that it is about.", lambda run: run.facts.contract.table),
        public("columns", "Type, domain with provenance, nulls and misfits of each column.", columns),
        public("structural_zeros", "Combinations declared impossible; their cells are zero.", structural_zeros),
        public("functional_dependencies", "Columns that determine others, as declared.", dependencies),
        public("orders", "Columns that are never above others, as declared.", orders),
        public(
            "limitations",
            "What the contract warns of.",
            lambda run: described(run, "limitations"),
            absent="the contract has no `description: {limitations: ...}`",
        ),
        public(
            "usage",
            "What the contract says about use and attribution.",
            lambda run: described(run, "usage"),
            absent="the contract has no `description: {usage: ...}`",
        ),
        auditor(
            "validation_outcomes",
            "Pass or fail of each check of the contract.",
            lambda run: [vars(outcome) for outcome in run.facts.outcomes],
        ),
        public("validation_leakage", "How the outcome of validation is treated.", validation_leakage),
    ),
)


def unit_phrase(contract: Contract) -> str:
    """Name one privacy unit: one row, or one id with its rows."""
    unit = contract.unit
    if unit.column is None:
        return message("one row")
    if unit.max_rows_per_unit == 1:
        return message("one {unit} (one row)", unit=unit.column)
    return message("one {unit} (at most {rows} rows)", unit=unit.column, rows=unit.max_rows_per_unit)


def neighbours(run: Run) -> str:
    """Say which two tables must be hard to tell apart."""
    unit = unit_phrase(run.facts.contract)
    if run.facts.contract.adjacency == "add_remove":
        return message("Two tables that are the same but for {unit}, left out or added.", unit=unit)
    return message("Two tables that are the same but for {unit}, replaced by any other.", unit=unit)


def truncation(run: Run) -> str:
    """Say how the rows of a unit were bounded."""
    unit = run.facts.contract.unit
    if unit.column is None:
        return message("none: each row is a unit")
    return message(
        "at most {rows} rows of each {unit} are kept, chosen uniformly at random and independently of other units, "
        "before anything is counted",
        rows=unit.max_rows_per_unit,
        unit=unit.column,
    )


def sensitivities(run: Run) -> list[dict[str, Any]]:
    """List the distinct sensitivities of the events that were charged."""
    events = run.facts.charge.request.events
    moves = sorted({event.moves for event in events if isinstance(event, DiscreteLaplace | DiscreteGaussian)})
    return [{"l1": sum(map(abs, move)), "l2_squared": sum(part * part for part in move)} for move in moves]


def group_privacy(run: Run) -> str:
    """Say what several units together are protected by, and somebody who is in several time blocks."""
    contract = run.facts.contract
    unit = message("The guarantee is for {unit}, in one time block.", unit=unit_phrase(contract))
    blocks = (
        message(
            "What somebody in several time blocks loses is bounded by the sum of what the accounts of those blocks "
            "allow."
        )
        if contract.unit.scope == "block"
        else message(
            "What somebody in several time blocks loses over all of them is bounded by an account whose block is "
            "lifetime."
        )
    )
    several = (
        message(
            "A person with g of them, or a group of g, is protected by g times the epsilon; delta grows "
            "to at most g * exp((g - 1) * epsilon) * delta."
        )
        if run.facts.charge.request.delta
        else message("A person with g of them, or a group of g, is protected by g times the epsilon.")
    )
    return joined([unit, several, blocks], SENTENCES)


SCOPE_WORDS: Final[dict[Scope, str]] = {
    "block": message("within one time block"),
    "lifetime": message("over all time blocks"),
}
"""How people read the scope of a unit."""


UNIT = FieldGroup(
    "unit",
    "Privacy unit",
    (
        public("unit", "Whose privacy counts.", lambda run: unit_phrase(run.facts.contract)),
        public(
            "id_column",
            "Column that says which rows belong together.",
            lambda run: run.facts.contract.unit.column or NONE,
        ),
        public(
            "scope",
            "Over which of its data a unit is bounded by accounts: each time block by itself (block), or all of them "
            "together (lifetime).",
            lambda run: run.facts.contract.unit.scope,
        ),
        public(
            "rows_per_unit",
            "Most rows of one unit that were counted.",
            lambda run: run.facts.charge.request.rows_per_unit,
        ),
        public(
            "adjacency",
            "The neighbour relation, one for the whole release.",
            lambda run: run.facts.charge.request.adjacency,
        ),
        public("neighbours", "What the relation means here.", neighbours),
        public("truncation", "How rows beyond the bound were dropped.", truncation),
        public(
            "sensitivity", "Most that one unit changes one table: L1, and the square of L2 [rows].", sensitivities
        ),
        public("group_privacy", "What the guarantee says about several units.", group_privacy),
    ),
)
