"""Checklist of the guarantee: what makes a stated epsilon false or empty although every mechanism works."""

from __future__ import annotations

from typing import Final

from privacy.accounting.calculus import RenyiCalculus
from tasks.records.groups.contract_terms import unit_phrase
from tasks.records.groups.field import Run
from tasks.records.hazards.hazard import CHOICES, TRAININGS, Hazard, draws, made_by


def _adaptive(run: Run) -> str:
    calculus = run.facts.account.terms.calculus
    loss = (
        f"Rényi losses of the fixed order {calculus.order}" if isinstance(calculus, RenyiCalculus) else "pure losses"
    )
    return f"the account adds up {loss}, for which a filter is sound; privacy loss distributions are never enforced"


def _unit(run: Run) -> str:
    request = run.facts.charge.request
    return (
        f"the contract declares one unit ({unit_phrase(run.facts.contract)}) and one relation "
        f"({request.adjacency}) for "
        f"the whole release; the sensitivity of each of {draws(run)} draws is derived from them by the grant"
    )


def _order(run: Run) -> str:
    reserved, first = (
        next(entry.sequence for entry in run.facts.entries if entry.kind == kind)
        for kind in ("charge_reserved", "noise_drawn")
    )
    return (
        f"the charge is entry {reserved} of the journal and durable before the first draw, entry {first}; an "
        f"opened charge "
        "is never given back"
    )


def _retries(run: Run) -> str:
    opened = sum(entry.kind == "grant_opened" for entry in run.facts.entries)
    one = "snapshot" if run.facts.spec.due is None else "due date"
    return (
        f"one run for one spec and {one} ({run.facts.run_key[:12]}…), opened {opened} time; what was drawn is "
        f"written "
        "down with its event and replayed, never drawn again"
    )


def _accounts(run: Run) -> str:
    names = [run.facts.account.terms.name, *(state.terms.name for state in run.facts.beside)]
    return (
        f"the source is bound to {run.facts.account.terms.population}; every account of these people whose days "
        f"it touches "
        f"is charged, in one transaction: {', '.join(names)}"
    )


def _searched(run: Run) -> str:
    stated = run.facts.about.hyperparameter_search
    told = "not declared" if stated is None else "none, as declared" if stated == "none" else stated.accounted
    return (
        "what the run chose is in preprocessing.chosen_by_the_run, with what it read for that. What people "
        "tried beforehand, "
        "no run "
        f"can know: {told}"
    )


HAZARDS: Final = (
    Hazard("neighbour relations or units mixed between parts of a release", _unit),
    Hazard(
        "sensitivity of one row, where a person has several",
        lambda run: (
            f"scaled to {run.facts.charge.request.rows_per_unit} row(s) of a unit; further ones are dropped "
            f"before anything "
            "is counted"
        ),
    ),
    Hazard("filters that are unsound for draws chosen adaptively", _adaptive),
    Hazard(
        "parallel composition assumed",
        "never assumed: every draw is charged as if each unit were in it",
    ),
    Hazard(
        "losses kept in floating point, rounded down, negative or NaN",
        "whole numbers of 10^-12 (delta: 10^-18), rounded against the spender; zero, negative, NaN and infinite "
        "ones refused",
    ),
    Hazard("charging after the draw, or giving back what was drawn", _order),
    Hazard("a run that is started twice, or retried, draws twice", _retries),
    Hazard(
        "gaps between time blocks, by which a release is charged to nobody",
        lambda run: (
            f"blocks are half-open days; this release was charged to {1 + len(run.facts.beside)} account(s) that "
            f"cover all "
            "days of its source, else it is refused"
        ),
    ),
    Hazard("a budget that belongs to a name, a view or a user instead of people", _accounts),
    Hazard("settings tuned on the data, unaccounted", _searched, limit=True),
    Hazard(
        "events stated by the caller instead of the draw: a step, batch or clipping that is not in the account",
        lambda run: f"the grant writes each of {draws(run)} values down with its event, before anyone sees the value",
    ),
    Hazard(
        "a selection whose scores are exact, or whose budget counts other measurements than were made",
        "each choice is an exponential mechanism on scores whose sensitivity the grant derives; each measurement "
        "is charged "
        "as it is made",
        concerns=CHOICES,
    ),
    Hazard(
        "the Gaussian sensitivity of add_remove under replacement of a row",
        lambda run: f"derived for {run.facts.charge.request.adjacency}: see unit.sensitivity",
        concerns=made_by("aim", "mst"),
    ),
    Hazard(
        "shuffled or fixed batches accounted as Poisson samples",
        "every step draws a true Poisson sample, empty ones too, exactly, with the probability of its event",
        concerns=TRAININGS,
    ),
    Hazard(
        "division by the size of the batch that came out",
        "gradients are divided by the expected size of a batch, which is public; clipping norm and noise are one "
        "plan",
        concerns=TRAININGS,
    ),
    Hazard(
        "one unit is protected, not a group",
        lambda run: f"g units together have g times the loss; the unit here is {unit_phrase(run.facts.contract)}",
        limit=True,
    ),
)
