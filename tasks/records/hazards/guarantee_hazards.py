"""Checklist of the guarantee: what makes a stated epsilon false or empty although every mechanism works."""

from __future__ import annotations

from typing import Final

from contracts.message import joined, message, plural
from privacy.accounting.calculus import RenyiCalculus
from tasks.records.groups.contract_terms import unit_phrase
from tasks.records.groups.field import Run
from tasks.records.hazards.hazard import CHOICES, TRAININGS, Hazard, draws, made_by


def _adaptive(run: Run) -> str:
    calculus = run.facts.account.terms.calculus
    loss = (
        message("Rényi losses of the fixed order {order}", order=calculus.order)
        if isinstance(calculus, RenyiCalculus)
        else message("pure losses")
    )
    return message(
        "the account adds up {loss}, for which a filter is sound; privacy loss distributions are never enforced",
        loss=loss,
    )


def _unit(run: Run) -> str:
    request = run.facts.charge.request
    return message(
        "the contract declares one unit ({unit}) and one relation ({relation}) for the whole release; the "
        "sensitivity of each of {draws} draws is derived from them by the grant",
        unit=unit_phrase(run.facts.contract),
        relation=message(request.adjacency),
        draws=draws(run),
    )


def _order(run: Run) -> str:
    reserved, first = (
        next(entry.sequence for entry in run.facts.entries if entry.kind == kind)
        for kind in ("charge_reserved", "noise_drawn")
    )
    return message(
        "the charge is entry {reserved} of the journal and durable before the first draw, entry {first}; an opened "
        "charge is never given back",
        reserved=reserved,
        first=first,
    )


def _retries(run: Run) -> str:
    opened = sum(entry.kind == "grant_opened" for entry in run.facts.entries)
    return plural(
        "one run for one spec and {one} ({run}…), opened {number} time; what was drawn is written down with its "
        "event "
        "and replayed, never drawn again",
        "one run for one spec and {one} ({run}…), opened {number} times; what was drawn is written down with its "
        "event and replayed, never drawn again",
        opened,
        one=message("snapshot") if run.facts.spec.due is None else message("due date"),
        run=run.facts.run_key[:12],
        number=opened,
    )


def _accounts(run: Run) -> str:
    names = [run.facts.account.terms.name, *(state.terms.name for state in run.facts.beside)]
    return message(
        "the source is bound to {population}; every account of these people whose days it touches is charged, in "
        "one transaction: {names}",
        population=run.facts.account.terms.population,
        names=joined(names),
    )


def _searched(run: Run) -> str:
    stated = run.facts.about.hyperparameter_search
    told = (
        message("not declared")
        if stated is None
        else message("none, as declared")
        if stated == "none"
        else message(stated.accounted)
    )
    return message(
        "what the run chose is in preprocessing.chosen_by_the_run, with what it read for that. What people tried "
        "beforehand, no "
        "run can know: {told}",
        told=told,
    )


HAZARDS: Final = (
    Hazard("neighbour relations or units mixed between parts of a release", _unit),
    Hazard(
        "sensitivity of one row, where a person has several",
        lambda run: message(
            "scaled to {rows} row(s) of a unit; further ones are dropped before anything is counted",
            rows=run.facts.charge.request.rows_per_unit,
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
        lambda run: message(
            "blocks are half-open days; this release was charged to {number} account(s) that cover all days of its "
            "source, else it is refused",
            number=1 + len(run.facts.beside),
        ),
    ),
    Hazard("a budget that belongs to a name, a view or a user instead of people", _accounts),
    Hazard("settings tuned on the data, unaccounted", _searched, limit=True),
    Hazard(
        "events stated by the caller instead of the draw: a step, batch or clipping that is not in the account",
        lambda run: message(
            "the grant writes each of {draws} values down with its event, before anyone sees the value",
            draws=draws(run),
        ),
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
        lambda run: message(
            "derived for {relation}: see unit.sensitivity", relation=message(run.facts.charge.request.adjacency)
        ),
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
        lambda run: message(
            "g units together have g times the loss; the unit here is {unit}", unit=unit_phrase(run.facts.contract)
        ),
        limit=True,
    ),
)
