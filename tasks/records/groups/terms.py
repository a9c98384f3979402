"""The sections contract and unit: what the contract declares, and whose privacy counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from contracts.contract.contract import Column, Contract
from contracts.contract.linked import flat_name
from contracts.contract.linked_tables import Derivation, Link, LinkedTables, Reduction
from contracts.contract.terms import Scope
from contracts.domains.domain import NOTATION_KEYS
from contracts.message import SENTENCES, joined, message
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.grant.draw_replay import LOST
from tasks.records.groups.declarations import declares
from tasks.records.groups.field import NONE, FieldGroup, Run, auditor, public
from tasks.records.groups.origin import described, hour
from tasks.records.groups.post_processing import chosen
from tasks.records.sentences import OF_A_PERIOD
from tasks.storage.sources.gate_words import delivered, readable


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


# --- Settings that a run chose by itself, and whether what it read for that was paid for.


_PUBLIC = message("public data")
_ACCOUNTED = "accounted"


def chosen_settings(run: Run) -> list[dict[str, str]] | str:
    """List each setting that the spec left open, what it was chosen from, and whether that is accounted for."""
    return (_of_tables(run) if run.facts.of_tables else _of_rows(run)) or NONE


def _of_tables(run: Run) -> list[dict[str, str]]:
    product = run.facts.spec.tables_product
    listed = []
    if product.mechanism == "auto":
        noise = message(run.facts.tables_plan.mechanism)
        least = message("{noise}, of which less error is expected", noise=noise)
        found = message("{noise}, as residuals have", noise=noise) if product.noise_is_gaussian else least
        listed.append(_entry("mechanism", found, message("the public parameters of contract and spec"), _PUBLIC))
    for table in run.facts.tables:
        if table.refined.chosen is not None:
            of = table.refined.chosen.of
            value = str(table.refined.lambda_) if of == "lambda" else table.refined.method
            listed.append(
                _entry(
                    message("{setting} of {table}", setting=message(of), table=table.name),
                    value,
                    chosen(run, table),
                    _ACCOUNTED,
                )
            )
    return listed


def _of_rows(run: Run) -> list[dict[str, str]]:
    made = run.facts.fit[1].fitted
    listed = []
    if made.selections:
        text = message(
            "{number} private choices, each a draw of its own that was paid for", number=len(made.selections)
        )
        listed.append(_entry(message("what is measured"), message("see product.choices"), text, _ACCOUNTED))
    return listed


def _entry(setting: str, value: str, chosen_from: str, accounted: str) -> dict[str, str]:
    return {"setting": setting, "chosen": value, "from": chosen_from, "accounted": accounted}


# --- How linked tables became the one that was counted.


LinkStep = tuple[str, str, str]
"""What was done, how, and how it is accounted for."""
_REDUCTIONS: Final[Mapping[Reduction, str]] = {
    "sum": message("the sum"),
    "max": message("the largest value"),
    "min": message("the smallest value"),
}


def link_steps(contract: Contract) -> list[LinkStep]:
    """List what was done to linked tables; nothing for a contract of one table.

    Args:
        contract: over the base.
    """
    linked = contract.linked
    if linked is None:
        return []
    unit = str(contract.unit.column)
    what = message(
        "each row that is counted is one of {base}, with the columns of the rows that it leads to; a row without a "
        "key, or with one that no row has, is left out, and of rows that share a key one is taken by a keyed hash, "
        "for each {unit} by itself",
        base=contract.table,
        unit=unit,
    )
    steps: list[LinkStep] = [
        (message("linked tables"), what, message("no row of one {unit} depends on another", unit=unit))
    ]
    steps += [_link(linked, link, unit) for link in linked.terms.links]
    for table in linked.tables:
        steps += [_derived(linked, table.name, name, made, unit) for name, made in table.derived]
    return steps


def _link(linked: LinkedTables, link: Link, unit: str) -> LinkStep:
    named = message("link from {child} to {parent}", child=link.origin, parent=link.to)
    if link.at_most is not None:
        kept = message(
            "at most {rows} rows of {child} are kept for each row of {parent}, chosen uniformly at random, for each "
            "{unit} by itself",
            rows=link.at_most,
            child=link.child,
            parent=link.parent,
            unit=unit,
        )
        return named, kept, message("a factor of the rows of a {unit}", unit=unit)
    attributes = message("each row of {child} gets the columns of its {parent}", child=link.child, parent=link.parent)
    if link.child in linked.owned:
        unowned = message(
            "rows of {parent} belong to no {unit}, and are not protected", parent=link.parent, unit=unit
        )
        return named, attributes, unowned
    return named, attributes, message("rows of both belong to no {unit}, and are not protected", unit=unit)


def _derived(linked: LinkedTables, table: str, name: str, made: Derivation, unit: str) -> LinkStep:
    """Say what a derived column is made of."""
    named = message("derived column {column}", column=flat_name(linked, table, name))
    tests = joined([f"{column}: {', '.join(labels)}" for column, labels in made.where])
    if made.reduction == "count":
        rows = {"child": made.child, "parent": table}
        what = message("the kept rows of {child} for each row of {parent}", **rows)
        if made.where:
            what = message("the kept rows of {child} for each row of {parent}, where {tests}", **rows, tests=tests)
    else:
        value = f"{made.child}.{made.column}"
        of = {"reduction": _REDUCTIONS[made.reduction], "column": value, "parent": table}
        what = message("{reduction} of {column}, clipped to its bounds, in the rows kept for each {parent}", **of)
        if made.where:
            what = message(
                "{reduction} of {column}, clipped to its bounds, in the rows kept for each {parent}, where {tests}",
                **of,
                tests=tests,
            )
    return named, what, message("each {unit} by itself", unit=unit)


# --- Unprotected and preprocessing.


LOOK: Final = message(
    "the share of the rows of each column that do not fit the contract, are clipped or missing, how many rows bounds "
    "leave out, and whether ids repeat where each row is a unit, shown to the operator alone"
)
"""The look that every run gives its operator before the charge; the same words in all records."""


def exact_total(run: Run) -> dict[str, Any] | str:
    """Give the total that is published as it was declared, if one is."""
    declared = run.facts.contract.total
    if run.facts.plan.public_total is None or declared is None:
        return NONE
    return {"value": run.facts.plan.public_total, "declared_public_in": declared.reference}


def declared_totals(run: Run) -> list[dict[str, Any]] | str:
    """List the totals that the contract declares public, used or not."""
    return [{"value": total.value, "reference": total.reference} for total in run.facts.contract.invariants] or NONE


def declared_gates(run: Run) -> list[str] | str:
    """List the checks that the contract makes gates."""
    return list(run.facts.contract.gates) or NONE


def fixed_gates(run: Run) -> list[str]:
    """List the checks that stop every release like this one, whatever gates the contract declares."""
    source, contract = run.facts.spec.source, run.facts.contract
    gates = [*readable(source, contract), *delivered(contract)]
    if run.facts.spec.block is not None and source.by is None:
        gates.append(message("the rows are not those of another period of this release"))
    if source.by is not None:
        gates.append(message("the column {name} tells days", name=source.by))
    if source.select is not None:
        gates.append(message("the select could be evaluated to its end: {select}", select=source.select))
    return [
        *gates,
        message(
            "no more than the share that the workspace sets of the rows of a column do not fit the contract, are "
            "clipped or repeat an id, where a schedule starts the run"
        ),
    ]


NEW_VERSION: Final = message(
    "that there is a new version: a run of the same spec and contract on an unchanged table makes none, so a new "
    "version of a spec tells that the encoded table changed"
)


def run_time_facts(run: Run) -> list[str]:
    """List what the run shows about its own course."""
    entries = run.facts.entries
    limited = not run.facts.of_tables and getattr(run.facts.fit[0].options, "time_limit", None)
    far = [message("how far the fit came within its time limit, by the clock")] if limited else []
    drawn = [entry.body["key"] for entry in entries if entry.kind == "noise_drawn"]
    lost = sum(f"/{LOST}-" in key for key in drawn)
    again = (
        [message("that {number} interval(s) of a training were interrupted, and made again", number=lost)]
        if lost
        else []
    )
    return [
        *far,
        *again,
        message(
            "that the operator let the release go on, who could see what share of the rows of each column does not "
            "fit the contract; a command without a terminal stops above a share unless that is accepted beforehand"
        ),
        message("that the measurements were complete in the hour {hour}", hour=hour(run.facts.finished)),
        *([NEW_VERSION] if run.facts.spec.due is None else []),
        message(
            "the times of {number} journal entries in PROOF.json, to the hour, from {hour} on",
            number=len(entries),
            hour=hour(entries[0].at),
        ),
    ]


def quantities(run: Run) -> list[str]:
    """List every quantity that depends on the data and is published without noise, in words."""
    totals = run.facts.contract.invariants
    listed = [
        message("the total {total}, declared public ({reference})", total=total.value, reference=total.reference)
        for total in totals
    ]
    listed += [message("that {gate} (always checked)", gate=gate) for gate in fixed_gates(run)]
    listed += [
        message("that the check {gate} held (a gate of the contract)", gate=gate) for gate in run.facts.contract.gates
    ]
    return listed + run_time_facts(run)


UNPROTECTED = FieldGroup(
    "unprotected",
    "Unprotected quantities",
    (
        public("quantities", "Everything about the data that is visible without noise.", quantities),
        public("exact_total", "Exact total that the tables keep, where one is declared public.", exact_total),
        public("declared_totals", "Totals that the contract declares public.", declared_totals),
        public("declared_gates", "Checks that the contract lets stop a release.", declared_gates),
        public("fixed_gates", "Checks that stop any release of this source, period and product.", fixed_gates),
        public("run_time_facts", "What the course of the run shows.", run_time_facts),
        declares("tuned_on_data", "Thresholds or settings that were chosen by looking at the data."),
    ),
)

STEP: Final = ("step", "what", "accounted")


def steps(run: Run) -> list[dict[str, str]]:
    """List what happened to the rows before they were counted, and how that is accounted for."""
    source, contract = run.facts.spec.source, run.facts.contract
    alone = message("each row by itself")
    listed: list[tuple[str, str, str]] = []
    if source.select is not None:
        listed.append((message("row-wise select"), source.select, alone))
    if types := source.select_types(contract)[0]:
        fixed = ", ".join(f"{name}: {kind}" for name, kind in types.items())
        listed.append((message("fixed types of the columns that the select uses"), fixed, alone))
    if source.by is not None:
        listed.append(
            (OF_A_PERIOD, message("{column} in {period}", column=source.by, period=run.facts.spec.block), alone)
        )
    if source.engine is not None:
        listed.append((message("counted where the rows are"), source.engine, alone))
    listed += link_steps(contract)
    named = [dict(zip(STEP, step, strict=True)) for step in listed]
    return [*named, *encoding_steps(run, LOOK)]


def encoding_steps(run: Run, look: str) -> list[dict[str, str]]:
    """List what happens to the rows of every source; `look` says who sees what before the charge."""
    contract, listed = run.facts.contract, list[tuple[str, str, str]]()
    if contract.unit.column is not None:
        bound = message("the sensitivities are those of {rows} rows", rows=contract.unit.max_rows_per_unit)
        listed.append((message("contribution bounding"), truncation(run), bound))
    encoding = message(
        "contract {contract} {version}, {number} columns",
        contract=contract.id,
        version=contract.version,
        number=len(contract.columns),
    )
    listed.append((message("encoding to declared domains"), encoding, message("each row by itself")))
    listed.append((message("look before the charge"), look, "unaccounted"))
    return [dict(zip(STEP, step, strict=True)) for step in listed]


def domains(run: Run) -> dict[str, list[str]]:
    """List the columns by where their domain comes from."""
    found: dict[str, list[str]] = {}
    for column in run.facts.contract.columns:
        found.setdefault(column.domain.provenance.kind, []).append(column.name)
    return found


PREPROCESSING = FieldGroup(
    "preprocessing",
    "Preprocessing and tuning",
    (
        public("steps", "What was done to the rows, and how it is accounted for.", steps),
        public("domains", "Columns by the provenance of their domain; none is learned from the rows.", domains),
        declares("exploratory_access", "Who looked at the rows beforehand, and whether that was accounted for."),
        public(
            "chosen_by_the_run",
            "Settings that the run chose: from what, and whether that is accounted for.",
            chosen_settings,
        ),
        declares("hyperparameter_search", "How settings such as lambda were chosen."),
        declares("feature_selection", "How the published columns were chosen."),
    ),
)
