"""Unprotected and preprocessing: what is published without protection, and what was done with the data before."""

from __future__ import annotations

from typing import Any, Final

from contracts.message import message
from privacy.grant.draw_replay import LOST
from tasks.records.groups.choices import chosen_settings
from tasks.records.groups.contract_terms import truncation
from tasks.records.groups.declarations import declares
from tasks.records.groups.field import NONE, FieldGroup, Run, public
from tasks.records.groups.linked_words import link_steps
from tasks.records.groups.release_identity import hour
from tasks.records.sentences import OF_A_PERIOD
from tasks.storage.sources.gate_words import delivered, readable

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
