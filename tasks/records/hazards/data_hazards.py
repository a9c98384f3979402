"""Checklist of data collection: what is wrong or leaked before the first draw."""

from __future__ import annotations

from typing import Final

from contracts.message import joined, message
from contracts.release.about import Handling
from tasks.records.groups.contract_terms import truncation
from tasks.records.groups.field import Run
from tasks.records.hazards.hazard import TABLES, Hazard


def _domains(run: Run) -> str:
    kinds = [column.domain.provenance.kind for column in run.facts.contract.columns]
    parts = [message("{number} {kind}", number=kinds.count(kind), kind=message(kind)) for kind in sorted(set(kinds))]
    return message(
        "domains come from the contract, with their provenance ({kinds}); none is learned from the rows",
        kinds=joined(parts),
    )


def _gates(run: Run) -> str:
    gates = run.facts.contract.gates
    return message(
        "{gates}; what does not fit is clipped or mapped. That gates held is listed as unprotected, and stays exact",
        gates=message("declared gates: {names}", names=joined(gates)) if gates else message("no gate is declared"),
    )


def _explored(run: Run) -> str:
    return message(
        "{stated}; before each charge the run shows the operator alone how the rows fit the contract",
        stated=_declared_access(run),
    )


def _declared_access(run: Run) -> str:
    stated = run.facts.about.exploratory_access
    if stated is None:
        return message(
            "not declared: whoever looked at the rows, or chose columns and tables by them, is known to the "
            "publisher only"
        )
    if isinstance(stated, Handling):
        return message("declared: {what} ({how})", what=stated.what, how=message(stated.accounted))
    return message("none, as the publisher declares")


def _select(run: Run) -> str:
    select = run.facts.spec.source.select
    if select is None:
        return message("no select: the rows are those of the source")
    return message(
        "the select maps and filters rows one by one, checked on its parsed tree: no join, aggregate, window or limit"
    )


def _thresholds(run: Run) -> str:
    rule = run.facts.spec.tables_product.minimum_frequency
    fixed = (
        message("no threshold is set")
        if rule is None
        else message("k = {k} and t = {t} are written in the spec", k=rule.k, t=rule.t)
    )
    stated = run.facts.about.tuned_on_data
    told = (
        message("not declared")
        if stated is None
        else message("declared: none")
        if stated == "none"
        else message("declared: {what}", what=message(stated.accounted))
    )
    return message("{fixed}; whether any was tuned on the data: {told}", fixed=fixed, told=told)


HAZARDS: Final = (
    Hazard("domains, bounds or categories learned from the data", _domains),
    Hazard("validation that stops, or lets pass, by the data", _gates, limit=True),
    Hazard(
        "failing values, counts of failures or error texts given out",
        lambda run: message(
            "of {number} checks only pass or fail is kept, for auditors; a message names a field, never a value",
            number=len(run.facts.outcomes),
        ),
    ),
    Hazard("rows of one person that are not bounded, or bounded by looking at others", truncation),
    Hazard("a query on the way in by which one person changes many rows", _select),
    Hazard("thresholds tuned on the true counts", _thresholds, concerns=TABLES, limit=True),
    Hazard("people who explored the rows before the release was designed", _explored, limit=True),
    Hazard(
        "populations that overlap and are accounted apart",
        lambda run: message(
            "declared: {population}, {block}. That no other population shares these people stands on the publisher's "
            "word (limit 6)",
            population=run.facts.account.terms.population,
            block=message(run.facts.account.terms.block),
        ),
        limit=True,
    ),
    Hazard(
        "periods that are missing or named wrongly",
        lambda run: message(
            "the source is bound to its days for good; this release is of {block}. Whether a series has gaps is not "
            "checked",
            block=run.facts.account.terms.block,
        ),
        limit=True,
    ),
    Hazard(
        "what is declared public is not",
        lambda run: message(
            "domains, structural zeros, {number} total(s) and their references are taken on the owner's word (limit "
            "3)",
            number=len(run.facts.contract.invariants),
        ),
        limit=True,
    ),
)
