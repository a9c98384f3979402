"""Checklist of data collection: what is wrong or leaked before the first draw."""

from __future__ import annotations

from typing import Final

from contracts.release.about import Handling
from tasks.records.groups.contract_terms import truncation
from tasks.records.groups.field import Run
from tasks.records.hazards.hazard import TABLES, Hazard


def _domains(run: Run) -> str:
    kinds = [column.domain.provenance.kind for column in run.facts.contract.columns]
    parts = [f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))]
    return (
        f"domains come from the contract, with their provenance ({', '.join(parts)}); none is learned from the rows"
    )


def _gates(run: Run) -> str:
    gates = run.facts.contract.gates
    named = f"declared gates: {', '.join(gates)}" if gates else "no gate is declared"
    return (
        f"{named}; what does not fit is clipped or mapped. That gates held is listed as unprotected, and stays exact"
    )


def _explored(run: Run) -> str:
    return (
        f"{_declared_access(run)}; before each charge the run shows the operator alone how the rows fit the contract"
    )


def _declared_access(run: Run) -> str:
    stated = run.facts.about.exploratory_access
    if stated is None:
        return (
            "not declared: whoever looked at the rows, or chose columns and tables by them, is known to the "
            "publisher only"
        )
    if isinstance(stated, Handling):
        return f"declared: {stated.what} ({stated.accounted})"
    return "none, as the publisher declares"


def _select(run: Run) -> str:
    select = run.facts.spec.source.select
    if select is None:
        return "no select: the rows are those of the source"
    return (
        "the select maps and filters rows one by one, checked on its parsed tree: no join, aggregate, window or limit"
    )


def _thresholds(run: Run) -> str:
    rule = run.facts.spec.tables_product.minimum_frequency
    fixed = "no threshold is set" if rule is None else f"k = {rule.k} and t = {rule.t} are written in the spec"
    stated = run.facts.about.tuned_on_data
    told = (
        "not declared"
        if stated is None
        else "declared: none"
        if stated == "none"
        else f"declared: {stated.accounted}"
    )
    return f"{fixed}; whether any was tuned on the data: {told}"


HAZARDS: Final = (
    Hazard("domains, bounds or categories learned from the data", _domains),
    Hazard("validation that stops, or lets pass, by the data", _gates, limit=True),
    Hazard(
        "failing values, counts of failures or error texts given out",
        lambda run: (
            f"of {len(run.facts.outcomes)} checks only pass or fail is kept, for auditors; a message names a "
            f"field, never a value"
        ),
    ),
    Hazard("rows of one person that are not bounded, or bounded by looking at others", truncation),
    Hazard("a query on the way in by which one person changes many rows", _select),
    Hazard("thresholds tuned on the true counts", _thresholds, concerns=TABLES, limit=True),
    Hazard("people who explored the rows before the release was designed", _explored, limit=True),
    Hazard(
        "populations that overlap and are accounted apart",
        lambda run: (
            f"declared: {run.facts.account.terms.population}, {run.facts.account.terms.block}. That no other "
            f"population "
            "shares these people stands on the publisher's word (limit 6)"
        ),
        limit=True,
    ),
    Hazard(
        "periods that are missing or named wrongly",
        lambda run: (
            f"the source is bound to its days for good; this release is of {run.facts.account.terms.block}. "
            f"Whether a "
            "series has gaps is not checked"
        ),
        limit=True,
    ),
    Hazard(
        "what is declared public is not",
        lambda run: (
            f"domains, structural zeros, {len(run.facts.contract.invariants)} total(s) and their references are "
            f"taken on the "
            "owner's word (limit 3)"
        ),
        limit=True,
    ),
)
