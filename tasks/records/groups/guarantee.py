"""The section guarantee: the guarantee, from what was charged and drawn."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from math import isfinite
from typing import Any

from contracts.message import SENTENCES, joined, message
from privacy.accounting.amounts import PICO, atto_to_text, pico_to_text
from privacy.accounting.calculus import Calculus, RenyiCalculus
from privacy.ledger.terms import ChargeRequest
from tasks.records.groups.declarations import declares
from tasks.records.groups.field import FieldGroup, Run, public
from tasks.records.groups.posterior_words import LEARNABLE

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
    return {
        "calculus": run.facts.account.terms.calculus.to_json(),
        "loss": pico_to_text(run.facts.charge.amount),
    }


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
