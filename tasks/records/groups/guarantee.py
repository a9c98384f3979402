"""The section guarantee: the guarantee, from what was charged and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import isfinite
from typing import Any, Final

from contracts.message import SENTENCES, joined, message
from contracts.release.tables.tables import RESIDUALS
from privacy.accounting.amounts import ATTO, PICO, atto_to_text, loss_up, pico_to_text
from privacy.accounting.calculus import Calculus, RenyiCalculus
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.accounting.posterior import (
    PRIORS,
    LossPair,
    epsilon_of_attribute,
    exceptions,
    largest_posterior,
    loss_about_a_row,
    odds_bound,
)
from privacy.accounting.renyi import best_epsilon
from privacy.ledger.terms import AccountState, Charge, ChargeRequest
from privacy.table_plans.plan import PlannedDraw
from tasks.records.facts import reservation
from tasks.records.groups.declarations import declares
from tasks.records.groups.field import NONE, FieldGroup, Run, public
from tasks.records.groups.origin import hour
from tasks.records.sentences import ANY_COLUMN, PRESENCE, ROWS, WHOLE, meaning, mechanism_choice

# --- What an attacker can learn at most, in numbers.


def beliefs(epsilon: int, delta: int) -> dict[str, str]:
    """Give the largest belief after the release, by the belief before."""
    factor = odds_bound(epsilon, delta)
    return {f"{float(100 * prior):g} %": largest_posterior(prior, factor) for prior in PRIORS}


def about_a_unit(run: Run) -> dict[str, Any]:
    """Give what can come to be believed of one unit: that it is in the table, or what the table says of it."""
    request = run.facts.charge.request
    present = request.adjacency == "add_remove"
    return {
        "hypothesis": PRESENCE if present else ROWS,
        "at_most": beliefs(request.epsilon, request.delta),
        "except_with_probability": atto_to_text(exceptions(request.epsilon, request.delta)),
    }


def about_attributes(run: Run) -> list[dict[str, Any]] | str:
    """Give for each column of the contract what can be learned of it alone."""
    if not run.facts.of_tables:
        return WHOLE
    return [_attribute(run, column.name) for column in run.facts.contract.columns]


def about_the_largest_attribute(run: Run) -> dict[str, Any]:
    """Give what can be learned of the column that the release tells most of, of a unit known to be in the table."""
    request = run.facts.charge.request
    if not run.facts.of_tables:
        loss = loss_about_a_row(request.epsilon, request.delta, adjacency=request.adjacency)
        return {"column": ANY_COLUMN, **_about(loss)}
    losses = {column.name: _loss(run, column.name) for column in run.facts.contract.columns}
    column = max(losses, key=lambda name: losses[name].epsilon)
    return {"column": column, **_about(losses[column])}


def _attribute(run: Run, column: str) -> dict[str, Any]:
    about = _about(_loss(run, column))
    del about["delta"]
    return {"column": column, "draws": len(_counting(run, column)), **about}


def _about(loss: LossPair) -> dict[str, Any]:
    """Give a loss about one of many values, and the beliefs that it allows."""
    return {
        "epsilon": pico_to_text(loss.epsilon),
        "delta": atto_to_text(loss.delta),
        "odds_factor": f"{Context(prec=4, rounding=ROUND_CEILING).plus(odds_bound(loss.epsilon, 0)):g}",
        "at_most": beliefs(loss.epsilon, loss.delta),
        "except_with_probability": atto_to_text(exceptions(loss.epsilon, loss.delta)),
    }


def _loss(run: Run, column: str) -> LossPair:
    request, residuals = run.facts.charge.request, run.facts.tables_plan.residuals
    if residuals is not None:
        event = residuals.column_event(column)
        found = 0 if event is None else loss_up(best_epsilon([event], Fraction(request.delta, ATTO))[0])
        return LossPair(found, request.delta)
    events = [draw.event for draw in _counting(run, column)]
    epsilon = epsilon_of_attribute(events, rows_per_unit=request.rows_per_unit, delta=request.delta)
    return LossPair(epsilon, request.delta)


def _counting(run: Run, column: str) -> list[PlannedDraw]:
    return [draw for draw in run.facts.tables_plan.measured if column in draw.clique]


def means(run: Run) -> str:
    """Say what a bound about one column is about."""
    request = run.facts.charge.request
    return meaning(request.adjacency, request.rows_per_unit, synthetic=not run.facts.of_tables)


LEARNABLE: Final = (
    public(
        "largest_posterior", "Largest belief about one unit after the release, by the belief before.", about_a_unit
    ),
    public(
        "largest_attribute",
        "Largest belief about the column that the release tells most of, of a unit known to be in the table.",
        about_the_largest_attribute,
    ),
    public(
        "per_attribute",
        "Largest belief about one column of one unit, by the loss of the draws that count it.",
        about_attributes,
    ),
    public("per_attribute_means", "What the bound about one column is about, and what not.", means),
)


CONVERSION = message("Canonne, Kamath, Steinke 2020, Proposition 12")
OF_ONE_VERSION = message(
    "This is of what one version says, given that it is made. That a spec gets another version tells that the "
    "encoded table changed since the one before, exactly and outside of epsilon."
)
_ACCOUNTANTS = ("sudare", "dp-accounting")


def variant(request: ChargeRequest) -> str:
    """Name the kind of guarantee that the charge claims."""
    return message("pure differential privacy") if request.delta == 0 else message("approximate differential privacy")


def definition(run: Run) -> str:
    """Write the guarantee as an inequality, with its numbers, and say whether it is of one version or a schedule."""
    due = run.facts.spec.due
    return joined([inequality(run), OF_ONE_VERSION if due is None else of_a_schedule(due)], SENTENCES)


def inequality(run: Run) -> str:
    """Write the guarantee as an inequality, with its numbers."""
    request = run.facts.charge.request
    epsilon, delta = pico_to_text(request.epsilon), atto_to_text(request.delta)
    return (
        message(
            "For neighbours T and T' and any set S of possible releases: "
            "P[T gives S] <= exp({epsilon}) P[T' gives S] + {delta}.",
            epsilon=epsilon,
            delta=delta,
        )
        if request.delta
        else message(
            "For neighbours T and T' and any set S of possible releases: P[T gives S] <= exp({epsilon}) P[T' gives "
            "S].",
            epsilon=epsilon,
        )
    )


def of_a_schedule(due: str) -> str:
    """Say that the bound holds of a version on a schedule and of its being there."""
    return message(
        "That this version is made does not depend on the rows, gates apart. It was due on {due}, and is charged and "
        "made whatever the rows are. So the bound is of the version and of its being there, and the account's cap is "
        "that of all dates together.",
        due=due,
    )


def odds_factor(epsilon: int) -> str:
    """Return exp(epsilon), rounded up to four digits.

    Args:
        epsilon: [10⁻¹²].
    """
    context = Context(prec=4, rounding=ROUND_CEILING)
    exact = (Decimal(epsilon) / PICO).exp(Context(prec=50))
    return format(context.plus(exact), "f" if exact < 10**6 else "g")


def conversion(run: Run) -> str:
    """Say by which theorem the claimed epsilon follows from the events."""
    request = run.facts.charge.request
    if request.delta == 0:
        return message("Basic composition: the pure losses of the draws add up.")
    if request.failure:
        what = (
            message("Basic composition: the pure losses of the draws add up.")
            if run.facts.claim_source == "pure"
            else message(
                "Rényi losses of the draws, fixed beforehand, add up; the best order is converted by {source}.",
                source=CONVERSION,
            )
        )
        rest = message(
            "Selections of keys may fail with {failure}, which is a part of delta; losses are stated at the rest.",
            failure=atto_to_text(request.failure),
        )
        return joined([what, rest], SENTENCES)
    if run.facts.claim_source == "pld":
        return message(
            "Privacy loss distributions of the draws, fixed beforehand, are composed; discrete Gaussian noise counts "
            "as continuous noise of a variance less by 4. The account is charged the draws' Rényi losses."
        )
    return message(
        "Rényi losses of the draws, fixed beforehand, add up; the best order is converted by {source}.",
        source=CONVERSION,
    )


def account_rule(calculus: Calculus) -> str:
    """Say in which loss the account adds up, and why its cap holds for charges chosen adaptively."""
    if not calculus.selection_delta:
        return _losses_rule(calculus)
    second = message(
        "A part of delta, {delta}, is set aside for selections of keys: losses convert at the rest, and a charge is "
        "admitted while what all selections may fail with adds up to at most that part.",
        delta=atto_to_text(calculus.selection_delta),
    )
    return joined([_losses_rule(calculus), second], SENTENCES)


def _losses_rule(calculus: Calculus) -> str:
    """Say how losses add up."""
    if isinstance(calculus, RenyiCalculus):
        return message(
            "Rényi losses of the fixed order {order} add up; a charge is admitted while their sum stays within the "
            "cap, which converts to the account's epsilon at its delta by {source}.",
            order=calculus.order,
            source=CONVERSION,
        )
    return message("Pure losses add up; a charge is admitted while their sum stays within the cap.")


def native(run: Run) -> dict[str, Any]:
    """Give the loss in the account's own units."""
    return {"calculus": run.facts.account.terms.calculus.to_json(), "loss": pico_to_text(run.facts.charge.amount)}


def second_accountant(run: Run) -> dict[str, Any] | None:
    """Give what the second accountant computes for the same events, where it applies."""
    if run.facts.pld_epsilon is None:
        return None
    version = run.facts.software.packages.get("dp-accounting", "unknown")
    epsilon = run.facts.pld_epsilon if isfinite(run.facts.pld_epsilon) else "infinite"
    return {
        "epsilon": epsilon,
        "method": message("privacy loss distributions, dp-accounting {version}", version=version),
    }


def accountants(run: Run) -> dict[str, str]:
    """Give the versions of what computed the losses."""
    packages = run.facts.software.packages
    return {name: packages[name] for name in _ACCOUNTANTS if name in packages}


GUARANTEE = FieldGroup(
    "guarantee",
    "Guarantee",
    (
        public("variant", "Kind of guarantee.", lambda run: variant(run.facts.charge.request)),
        public(
            "epsilon",
            "Privacy loss of this release, rounded up.",
            lambda run: pico_to_text(run.facts.charge.request.epsilon),
        ),
        public(
            "delta",
            "Failure probability at which epsilon is stated.",
            lambda run: atto_to_text(run.facts.charge.request.delta),
        ),
        public("definition", "What epsilon and delta bound.", definition),
        public(
            "odds_factor",
            "exp(epsilon): the most by which the release multiplies anybody's odds between two neighbouring tables.",
            lambda run: odds_factor(run.facts.charge.request.epsilon),
        ),
        public("native_loss", "Loss in the calculus of the account.", native),
        public("conversion", "How the claim follows from the draws.", conversion),
        public(
            "second_accountant",
            "The same, by an independent library; for information.",
            second_accountant,
            absent="it is asked where delta is above 0 and every draw is Gaussian noise, or moves cells by one",
        ),
        public("accountants", "Versions of the accounting libraries.", accountants),
        declares("delta_rationale", "Why this delta."),
        *LEARNABLE,
    ),
)


# --- The section ledger.


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
        public("account_epsilon", "Cap and loss of the account as epsilon, after this release.", account_epsilon),
        public("other_charges", "Charges before this one; those of failed runs stay.", other_charges),
        public("also_charged", "Other accounts of these people, for other time blocks; charged too.", also_charged),
        public("refresh_rule", "When a new account is opened for the same people.", refresh_rule),
    ),
)


# --- The section noise.


SAMPLERS = {
    "discrete_laplace": message("discrete Laplace on the integers, sampled exactly, without floating point"),
    "discrete_laplace_vector": message("discrete Laplace on the integers, sampled exactly, without floating point"),
    "discrete_gaussian": message("discrete Gaussian on the integers, sampled exactly, without floating point"),
}
MECHANISMS = {
    "laplace": message("laplace mechanism on marginals"),
    "gaussian": message("gaussian mechanism on marginals"),
}
ENTROPY = {
    "csprng": message("AES-256 in counter mode under keys from the operating system's CSPRNG; keys are never stored"),
    "seeded": message("a seeded generator: for tests, never published"),
}


def samplers(run: Run) -> list[str]:
    """Name how each kind of noise that was drawn is sampled."""
    return [SAMPLERS[kind] for kind in sorted({event.kind for event in run.facts.charge.request.events})]


def entropy(run: Run) -> str | None:
    """Say what the noise was drawn from, as the ledger has it."""
    return None if run.facts.charge.security is None else ENTROPY[run.facts.charge.security]


def choice(run: Run) -> dict[str, Any]:
    """Say who chose the mechanism, and the expected error of each kind of noise that was weighed."""
    return mechanism_choice(run.facts.spec.tables_product, run.facts.tables_plan)


def timing_policy(run: Run) -> str:
    """Say what the journal tells of when noise was drawn, and that the duration of draws is not hidden."""
    times = sorted({hour(entry.at) for entry in run.facts.entries if entry.kind == "noise_drawn"})
    drawn = sum(entry.kind == "noise_drawn" for entry in run.facts.entries)
    return message(
        "the journal tells of {number} draws only in which hour each was made ({hours}). How long a draw takes is "
        "not hidden from whoever can watch the machine: samplers are exact, and not constant in time",
        number=drawn,
        hours=joined(times),
    )


NOISE = FieldGroup(
    "noise",
    "Mechanism and noise",
    (
        public("mechanism", "How noise is added.", lambda run: MECHANISMS[run.facts.tables_plan.mechanism]),
        public("mechanism_choice", "Who chose it, and the error that is expected of each kind of noise.", choice),
        public("samplers", "How the noise is sampled.", samplers),
        public("entropy", "Where its randomness comes from.", entropy),
        public("code", "Digest of the source files of Sudare that ran.", lambda run: run.facts.software.code),
        public("packages", "Versions of the libraries that ran.", lambda run: dict(run.facts.software.packages)),
        public("python", "Version of Python.", lambda run: run.facts.software.python),
        public("platform", "Operating system and machine type.", lambda run: run.facts.software.platform),
        public("timing_policy", "How the duration of draws is hidden.", timing_policy),
    ),
)
