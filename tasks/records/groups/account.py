"""The section ledger: what each draw cost, and what the account lost and has left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contracts.message import message
from contracts.release.tables.all_marginals import RESIDUALS
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.accounting.calculus import Calculus
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.ledger.terms import AccountState, Charge
from privacy.table_plans.plan import PlannedDraw
from tasks.records.facts import reservation
from tasks.records.groups.field import NONE, FieldGroup, Run, public
from tasks.records.groups.guarantee import account_rule


def taken(run: Run) -> dict[str, int]:
    """Return what the journal says that the charge took from the named account: amount, before and after."""
    return reservation(run.facts.entries)[run.facts.account.terms.name]


def draws(run: Run) -> list[dict[str, Any]]:
    """List the draws as the journal has them, with the noise that was planned for them."""
    entered = [entry.body for entry in run.facts.entries if entry.kind == "noise_drawn"]
    account = run.facts.account.terms.name
    return [
        _draw(body, account, run.facts.tables_plan.draw(body["key"]))
        for body in sorted(entered, key=lambda body: body["number"])
    ]


def _draw(body: Mapping[str, Any], account: str, planned: PlannedDraw) -> dict[str, Any]:
    moves = body["event"]["moves"]
    return {
        "key": body["key"],
        "columns": list(planned.clique) or NONE,
        "level": NONE if planned.coarsening is None else planned.coarsening.level,
        "cells": planned.cells,
        "event": body["event"],
        # Moves of residuals state a norm and no change of single numbers.
        **({} if planned.key == RESIDUALS else {"l1_sensitivity": sum(map(abs, moves))}),
        "l2_sensitivity_squared": sum(move * move for move in moves),
        "noise": noise_words(planned.event),
        "variance": planned.variance,
        "half_width_95": planned.half_width,
        "share": str(planned.share),
        "cost": pico_to_text(body["costs"][account]),
    }


def noise_words(event: DiscreteLaplace | DiscreteGaussian) -> str:
    """Name the distribution of the noise with its scale."""
    if isinstance(event, DiscreteLaplace):
        return message("discrete Laplace, scale {scale}", scale=f"{float(1 / event.inverse_scale):.6g}")
    return message("discrete Gaussian, sigma {sigma}", sigma=f"{float(event.sigma_squared) ** 0.5:.6g}")


def account_epsilon(run: Run) -> dict[str, str]:
    """Give the account's cap, and what all its charges amount to, as epsilon at its delta."""
    terms = run.facts.account.terms
    return {
        "cap": pico_to_text(terms.epsilon),
        "lost": pico_to_text(run.facts.account.claim),
        "delta": atto_to_text(terms.delta),
        **selections(terms.calculus, taken(run)),
    }


def selections(calculus: Calculus, part: Mapping[str, int]) -> dict[str, str]:
    """Give the part of δ that is set aside for selections of keys, and what they may fail with before and after.

    Args:
        calculus: of the account; nothing is given where it sets nothing aside.
        part: what the journal says that the charge took from it.
    """
    if not calculus.selection_delta:
        return {}
    return {
        "for_selections": atto_to_text(calculus.selection_delta),
        "selections_before": atto_to_text(part["failure_before"]),
        "selections_after": atto_to_text(part["failure_after"]),
    }


def other_charges(run: Run) -> list[dict[str, str]] | str:
    """List the charges that the account had before this one; an opened one stays charged, published or not."""
    account = run.facts.account.terms.name
    return [_charge(charge, account) for charge in run.facts.earlier] or NONE


def _charge(charge: Charge, account: str) -> dict[str, str]:
    return {"release": charge.request.release, "amount": pico_to_text(charge.amount_of(account))}


def also_charged(run: Run) -> list[dict[str, str]] | str:
    """List the other accounts of these people that the release was charged to, with what each lost and has left."""
    parts = reservation(run.facts.entries)
    return [_with_parts(state, parts[state.terms.name]) for state in run.facts.other_accounts] or NONE


def _with_parts(state: AccountState, part: Mapping[str, int]) -> dict[str, str]:
    return {
        "account": state.terms.name,
        "block": state.terms.block,
        "composition": account_rule(state.terms.calculus),
        "before": pico_to_text(part["before"]),
        "charged": pico_to_text(part["amount"]),
        "after": pico_to_text(part["after"]),
        "left": pico_to_text(state.cap - part["after"]),
        **selections(state.terms.calculus, part),
    }


def refresh_rule(run: Run) -> str:
    """Say that no account is ever filled up again, and what another account of these people would be."""
    terms = run.facts.account.terms
    return message(
        "never: the cap of {account} is for good, for all that is ever published of {population} in {block}. Other "
        "days have accounts of their own; an account whose days overlap these inherits what was charged, and is "
        "charged too",
        account=terms.name,
        population=terms.population,
        block=terms.block,
    )


LEDGER = FieldGroup(
    "ledger",
    "Ledger",
    (
        public("account", "Whose loss is bounded.", lambda run: run.facts.account.terms.name),
        public("run", "Key of the run; the same run never pays or draws twice.", lambda run: run.facts.run_key),
        public("draws", "Each draw of noise: event, sensitivity, scale, share of the budget, cost.", draws),
        public(
            "composition",
            "How losses add up and what the cap admits.",
            lambda run: account_rule(run.facts.account.terms.calculus),
        ),
        public("cap", "Most that the account may lose.", lambda run: pico_to_text(run.facts.account.cap)),
        public("before", "What it had lost before this release.", lambda run: pico_to_text(taken(run)["before"])),
        public(
            "charged", "What this release was charged, rounded up.", lambda run: pico_to_text(run.facts.charge.amount)
        ),
        public("after", "What it had lost after.", lambda run: pico_to_text(taken(run)["after"])),
        public("left", "What was left.", lambda run: pico_to_text(run.facts.account.cap - taken(run)["after"])),
        public(
            "account_epsilon",
            "Cap and loss of the account as epsilon, after this release.",
            account_epsilon,
        ),
        public("other_charges", "Charges before this one; those of failed runs stay.", other_charges),
        public("also_charged", "Other accounts of these people, for other time blocks; charged too.", also_charged),
        public("refresh_rule", "When a new account is opened for the same people.", refresh_rule),
    ),
)
