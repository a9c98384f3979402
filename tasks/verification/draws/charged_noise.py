"""Was the noise what the charge planned, and its sensitivity what the contract demands? In this order.

    1. the record's draws are the journal's, one by one, and their events are those that the charge planned; those
       that follow, where the charge has a budget for draws chosen on the way, keep within it
    2. each draw belongs to a table of the product or to a coarser level of it, or is its total, over the whole domain
    3. each event's `moves` are the worst neighbour's, derived here anew from the adjacency and the rows of a unit

A neighbour under add_remove has one unit more or less: k rows come or go, at worst all in one cell. Under replace_one
one unit's k rows become other rows: at worst k leave one cell and k enter another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from contracts.contract.contract import Contract
from contracts.errors import Finding, SudareError
from contracts.release.tables.levels import Level, levels_of, table_cells
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace, event_from_json
from privacy.marginals.counts import coarsening
from privacy.refine.tables import draws_total
from tasks.records.model.version_statements import DrawStatement, Replay, ReplayTerms
from tasks.records.strict_json import printable, shown
from tasks.verification.inclusion import JournalledRun
from tasks.verification.recompute.adaptive_budget import check_budget, split
from tasks.verification.record_identity import OTHER, differences
from tasks.verification.table_meaning import Meaning

MOST_MOVES: Final = 2
"""An event that moves more cells is no marginal's: its loss is not recomputed."""
_KIND_OF: Final = {"laplace": "discrete_laplace", "gaussian": "discrete_gaussian"}
_UNDERSTATED: Final = "the stated loss does not follow from the contract: do not rely on the claimed guarantee"


def check_draws(
    replay: ReplayTerms, run: JournalledRun, *, where: str, complete: bool = True, reserved: bool = False
) -> list[Finding]:
    """Check that record, journal and charge agree on what was drawn.

    Args:
        replay: the record's replay block.
        run: the run as the journal has it.
        where: the record's file name.
        complete: all planned draws must have been made; else some may be missing (a fit that ran out of time, or a
            model whose cap left nothing to choose); those that were made have the planned order.
        reserved: some of the planned draws are a reserve beside a budget, which may not have been needed.
    """
    planned, budget = split(run.charge.events)
    counts = [("replay.draws", len(replay.draws), len(run.draws))]
    if budget is None and (complete or len(replay.draws) > len(planned)):
        counts.append(("replay.draws", len(replay.draws), len(planned)))
    findings = list(differences(counts[:1], where=where, allowed="the number of draws in the journal"))
    findings += differences(counts[1:], where=where, allowed="the number of events that the charge planned")
    findings += check_budget(run.charge.events, [draw.event for draw in run.draws], where=where, reserved=reserved)
    for place, (draw, entered) in enumerate(zip(replay.draws, run.draws, strict=False)):
        at = f"replay.draws[{place}]"
        pairs = [
            (f"{at}.{name}", getattr(draw, name), getattr(entered, name))
            for name in ("key", "number", "sha256", "event")
        ]
        pairs.append((f"{at}.cost", draw.cost, entered.costs.get(replay.charge.account)))
        findings += _compared(pairs, where, "as the journal says")
    if budget is not None:
        return findings  # which draws were planned, and that all of these were made, is checked with the budget
    wanted = planned if complete else _in_order(planned, [draw.event for draw in replay.draws])
    for place, (draw, event) in enumerate(zip(replay.draws, wanted, strict=False)):
        findings += _compared([(f"replay.draws[{place}].event", draw.event, event)], where, "as the charge planned")
    return findings


def _in_order(planned: Sequence[Mapping[str, Any]], drawn: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return for each draw the next planned event that is like it, or the next one of all where none is."""
    left, found = list(planned), []
    for event in drawn:
        if not left:
            break
        place = next((number for number, each in enumerate(left) if each == event), 0)
        found.append(left[place])
        left = left[place + 1 :]
    return found


def _compared(pairs: Sequence[tuple[str, object, object]], where: str, allowed: str) -> list[Finding]:
    """Compare values; of events, name the one field that differs."""
    findings: list[Finding] = []
    for field, found, expected in pairs:
        if isinstance(found, dict) and isinstance(expected, dict):
            parts = [(printable(f"{field}.{n}"), found.get(n), expected.get(n)) for n in sorted({*found, *expected})]
            texts = [(name, str(a), str(b)) for name, a, b in parts if a != b]
            findings += differences(texts, where=where, allowed=allowed)
        else:
            findings += differences([(field, found, expected)], where=where, allowed=allowed)
    return findings


def read_events(replay: Replay, *, where: str) -> tuple[tuple[CountNoise, ...], list[Finding]]:
    """Read the event of each draw; all are read, or the findings say which could not be."""
    events: list[CountNoise] = []
    findings = []
    for place, draw in enumerate(replay.draws):
        try:
            event = event_from_json(draw.event)
        except SudareError as error:
            found, allowed = printable(str(error)), "an event of discrete Laplace or discrete Gaussian noise"
            findings.append(Finding(where, f"replay.draws[{place}].event", found, allowed, _UNDERSTATED))
            continue
        if isinstance(event, DiscreteLaplace | DiscreteGaussian):
            events.append(event)
        else:
            allowed = "noise that was drawn"
            findings.append(Finding(where, f"replay.draws[{place}].event", event.kind, allowed, _UNDERSTATED))
    return (() if findings else tuple(events)), findings


def check_plan(replay: Replay, meaning: Meaning, *, where: str) -> list[Finding]:
    """Check that there is one draw for the total, where the product needs one, one for each table and each level."""
    contract, product = meaning.contract, meaning.product
    wanted: list[tuple[str, tuple[str, ...], Level | None]] = []
    wanted += [("total", (), None)] if draws_total(product, contract) else []
    for table in meaning.tables:
        coarser = levels_of(table, contract)
        wanted += [(f"table:{table.name}/{level.name}", table.columns, level) for level in coarser]
        cells = table_cells(table, contract)
        wanted.append((f"table:{table.name}", table.columns, cells if isinstance(cells, Level) else None))
    keys = [printable(draw.key) for draw in replay.draws]
    planned = [printable(key) for key, _, _ in wanted]
    if keys != planned:
        found, allowed = ", ".join(keys[:12]) or "none", ", ".join(planned[:12])
        return [Finding(where, "replay.draws", found, f"{allowed}, as the product says", OTHER)]
    findings: list[Finding] = []
    for place, (draw, (_, clique, level)) in enumerate(zip(replay.draws, wanted, strict=True)):
        shape = contract.shape(clique) if level is None else level.shape(clique)
        summed = None if level is None else coarsening(level).to_json()
        stated = None if draw.coarsening is None else draw.coarsening.model_dump()
        pairs = [
            (f"replay.draws[{place}].clique", draw.clique, clique),
            (f"replay.draws[{place}].shape", draw.shape, shape),
            (f"replay.draws[{place}].coarsening", str(stated), str(summed)),
        ]
        findings += differences(pairs, where=where, allowed="the whole declared domain of the table")
    return findings


def check_moves(draws: Sequence[DrawStatement], meaning: Meaning, *, where: str) -> list[Finding]:
    """Check each event's kind of noise and its sensitivity against the contract.

    Where the product leaves the kind to `auto`, all draws have one kind; which one is for `mechanism`.
    """
    worst = worst_moves(meaning.contract)
    kind = _KIND_OF.get(meaning.product.mechanism, draws[0].event.get("kind") if draws else None)
    findings = []
    for place, draw in enumerate(draws):
        at = f"replay.draws[{place}].event"
        if draw.event.get("kind") != kind:
            found = shown(draw.event.get("kind"))
            findings.append(Finding(where, f"{at}.kind", found, f"{kind}, as the product says", OTHER))
        if draw.event.get("moves") != worst:
            terms = f"{meaning.contract.adjacency} with {meaning.contract.unit.max_rows_per_unit} rows a unit"
            found = str(draw.event.get("moves"))[:60]
            findings.append(Finding(where, f"{at}.moves", found, f"{worst}, under {terms}", _UNDERSTATED))
    return findings


def worst_moves(contract: Contract) -> list[int]:
    """Derive what the worst neighbour does to a marginal: rows by which each changed cell changes."""
    rows = contract.unit.max_rows_per_unit
    cells_changed = {"add_remove": 1, "replace_one": 2}[contract.adjacency]
    return [rows] * cells_changed
