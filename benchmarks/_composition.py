"""How tightly a mixed account composes, beside dp_accounting: a list of releases whose parameters are written here.

A hundred tables with discrete Laplace noise, a hundred with discrete Gaussian noise, twenty models trained by
DP-SGD. dp_accounting has events for all three; its Laplace is the continuous one, whose curve is below the discrete
one's, so that the same list is also composed with binary randomized response in its place, which is exactly what a
count under discrete Laplace noise is to one neighbour.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

import dp_accounting
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant

from benchmarks.results import Row, Setting, machine
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus, best_order
from privacy.accounting.claim import pld_epsilon
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, PoissonSampledGaussian, PrivacyEvent
from privacy.accounting.renyi import best_epsilon

TABLES: Final = 100
MODELS: Final = 20
LAPLACE: Final = DiscreteLaplace(Fraction(1, 20), (1,))
GAUSSIAN: Final = DiscreteGaussian(Fraction(625), (1,))
TRAINING: Final = PoissonSampledGaussian(Fraction(5, 2), Fraction(1, 100), 300)
DELTAS: Final = (Fraction(1, 10**9), Fraction(1, 10**6))
# The officer opens the account with the next multiple of one half above what the plan needs.
_CAP_STEP: Final = Fraction(1, 2)
_BEST_TARGET: Final = 1.02
_ENFORCED_TARGET: Final = 1.06
_ADD_OR_REMOVE: Final = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE


def rows() -> list[Row]:
    """Compose the list by every accountant, at both deltas."""
    return [row for delta in DELTAS for row in _rows(delta)]


def _rows(delta: Fraction) -> list[Row]:
    """Compare all figures at one delta."""
    events: list[PrivacyEvent] = [*[LAPLACE] * TABLES, *[GAUSSIAN] * TABLES, *[TRAINING] * MODELS]
    best, order = best_epsilon(events, delta)
    theirs = _library(RdpAccountant(neighboring_relation=_ADD_OR_REMOVE), float(delta))
    responses = _library_with_responses(float(delta))
    cap = math.ceil(Fraction(best) / _CAP_STEP) * _CAP_STEP
    calculus = RenyiCalculus(best_order(cap, delta))
    enforced = calculus.claim(calculus.cost(events), int(delta * ATTO)) / PICO
    about: dict[str, Setting] = {
        **machine("dp-accounting"),
        "delta": str(delta),
        "epsilon_best_order": best,
        "best_order": order,
        "epsilon_enforced": enforced,
        "account": {"cap_epsilon": str(cap), "order": str(calculus.order)},
        "epsilon_dp_accounting_rdp": theirs,
        "epsilon_dp_accounting_rdp_with_randomized_response": responses,
        "events": [f"{TABLES} x {LAPLACE}", f"{TABLES} x {GAUSSIAN}", f"{MODELS} x {TRAINING}"],
    }
    at = f"at delta {float(delta):g}"

    def ratio(what: str, ours: float, peer: float, target: float) -> Row:
        return Row(what, ours / peer, "ratio", target, ours / peer <= target, None, peer, about)

    listed = f"{TABLES} Laplace + {TABLES} Gaussian + {MODELS} DP-SGD {at}"
    return [
        ratio(f"{listed}: best order / dp_accounting RDP", best, theirs, _BEST_TARGET),
        ratio(f"{listed}: enforced / dp_accounting RDP", enforced, theirs, _ENFORCED_TARGET),
        ratio(f"{listed}: best order / dp_accounting RDP with randomized response", best, responses, _BEST_TARGET),
        ratio(
            f"{listed}: enforced / dp_accounting RDP with randomized response", enforced, responses, _ENFORCED_TARGET
        ),
        _losses(listed, events, delta, about),
    ]


def _losses(listed: str, events: list[PrivacyEvent], delta: Fraction, about: dict[str, Setting]) -> Row:
    """Show both programs' privacy loss distributions; ours takes the discrete Laplace as it is."""
    ours = pld_epsilon(events, delta)
    theirs = _library(dp_accounting.pld.PLDAccountant(_ADD_OR_REMOVE), float(delta))
    return Row(
        f"{listed}: epsilon by loss distributions", ours or math.inf, "epsilon", None, None, None, theirs, about
    )


def _library(accountant: Any, delta: float) -> float:
    """Compose the list, its Laplace noise continuous, by an accountant of dp_accounting."""
    accountant.compose(dp_accounting.LaplaceDpEvent(1 / float(LAPLACE.inverse_scale)), TABLES)
    _compose_the_rest(accountant)
    return float(accountant.get_epsilon(delta))


def _library_with_responses(delta: float) -> float:
    """Compose the list by dp_accounting's RDP, randomized response in the Laplace noise's place.

    The library offers randomized response under replacement only, and sampling under add_remove only. The curves of
    both are added here at the library's default orders and converted by its own function.
    """
    responses = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    lie = 2 / (1 + math.exp(LAPLACE.inverse_scale))
    responses.compose(dp_accounting.RandomizedResponseDpEvent(lie, 2), TABLES)
    rest = RdpAccountant(neighboring_relation=_ADD_OR_REMOVE)
    _compose_the_rest(rest)
    epsilon, _ = rdp_privacy_accountant.compute_epsilon(rest.orders, rest.rdp + responses.rdp, delta)
    return float(epsilon)


def _compose_the_rest(accountant: Any) -> None:
    """Add the Gaussian tables and the models."""
    accountant.compose(dp_accounting.GaussianDpEvent(math.sqrt(GAUSSIAN.sigma_squared)), TABLES)
    gaussian = dp_accounting.GaussianDpEvent(float(TRAINING.noise_multiplier))
    step = dp_accounting.PoissonSampledDpEvent(float(TRAINING.sampling_probability), gaussian)
    accountant.compose(step, MODELS * TRAINING.steps)
