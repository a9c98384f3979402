"""A release takes the least noise that its claim and its accounts allow, and one of exactly the cap fits."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from contracts.contract.contract import Contract
from contracts.release.classifier import ClassifierProduct
from contracts.release.synthetic import SyntheticProduct
from privacy.accounting import claim
from privacy.accounting import claim as second_backend
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus
from privacy.accounting.claim import dominating, pld_epsilon, release_claim
from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    PoissonSampledGaussian,
    PrivacyEvent,
    ZeroConcentrated,
)
from privacy.accounting.renyi import best_order
from privacy.classifiers.trainer import plan_classifier, trainer
from privacy.generators.calibration import (
    Calibrated,
    FittedPlan,
    MultiplierRange,
    calibrated,
    generator,
    plan_synthetic,
)
from privacy.generators.generator import CannotGenerate, GeneratorPlan
from privacy.learning.network import CannotTrain
from privacy.learning.plan import Schedule, calibrated_multiplier
from tasks.verification.recompute.loss_inversion import delta_at
from tests.tasks.products.synthetic.test_pictures import contract_at

DELTA = Decimal("1e-9")
ATTOS = 10**9
TRAINED = {"rows_about": 30_000, "epochs": 2, "batch": 3000, "hidden": (), "checkpoints": 2}
GENERATORS: dict[str, dict[str, Any]] = {
    "ae": {**TRAINED, "dimensions": 2},
    "aim": {},
    "dp_gm": {**TRAINED, "clusters": 2, "latent": 1, "encoder_hidden": ()},
    "fixed": {"cliques": [["age"], ["sex"]]},
    "independent": {},
    "mst": {},
    "p3gm": {**TRAINED, "dimensions": 2},
    "privbayes": {},
    "vae": {**TRAINED, "latent": 1, "encoder_hidden": ()},
}
OTHERS: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "p3gm, linear": ("p3gm", ("age", "sex"), {"label": "sex", "decoder": "linear", "rows_about": 30_000}),
    "class_pictures": ("class_pictures", ("picture", "shape"), {"label": "shape"}),
}
"""Of other columns: a generator, its columns and its options."""
TRAINERS: dict[str, dict[str, Any]] = {
    "anonymized_learning": {"rows_about": 30_000, "epochs": 1, "hidden": (), "publish_noise": True},
    "anonymizing_first": {"hidden": (), "epochs": 1},
    "dp_sgd": TRAINED,
    "learning_first": {"hidden": (), "epochs": 1, "publish_noise": True},
}


COLUMNS = ("age", "sex", "income")


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loss distributions of a fifth of the points: a search tabulates dozens of them."""
    claim._claim.cache_clear()
    monkeypatch.setattr(second_backend, "_POINTS", second_backend._POINTS // 5)
    yield
    claim._claim.cache_clear()


def planned(
    contract: Contract, name: str, epsilon: Decimal, rooms: tuple[MultiplierRange, ...], delta: Decimal = DELTA
) -> Any:
    terms: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rooms": rooms}
    if name in OTHERS:
        made_by, columns, options = OTHERS[name]
        product = SyntheticProduct(kind="synthetic", generator=made_by, columns=columns)
        return plan_synthetic(product, contract, generator(made_by).options.model_validate(options), **terms)
    if name in GENERATORS:
        product = SyntheticProduct(kind="synthetic", generator=name, columns=COLUMNS)
        return plan_synthetic(product, contract, generator(name).options.model_validate(GENERATORS[name]), **terms)
    model = ClassifierProduct(kind="classifier", trainer=name, label="sex", columns=COLUMNS)
    return plan_classifier(model, contract, trainer(name).options.model_validate(TRAINERS[name]), **terms)


def exact_room(calculus: Calculus, epsilon: Decimal, delta: int = ATTOS) -> MultiplierRange:
    return MultiplierRange(calculus, calculus.cap(int(epsilon * PICO), delta))


def check(plan: FittedPlan[Any], room: MultiplierRange, epsilon: Decimal) -> None:
    assert room.calculus.cost(plan.events) <= room.remaining
    assert plan.epsilon <= epsilon * PICO
    if plan.claimed_by == "pld":
        delta = delta_at([event.to_json() for event in plan.events], Fraction(plan.epsilon, PICO))
        assert delta is not None
        assert delta * ATTO <= ATTOS * (1 - 1e-5)


@pytest.mark.long
@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("name", [*GENERATORS, *OTHERS, *TRAINERS])
def test_a_release_of_exactly_the_cap_fits_whatever_makes_it(contract: Contract, tmp_path: Path, name: str):
    """At the account's own order, and at one that was chosen for something else."""
    epsilon = Decimal("8")
    contract = contract_at(tmp_path) if name == "class_pictures" else contract
    for factor in (1, Fraction(3, 2)):
        order = best_order(Fraction(epsilon), Fraction(DELTA)) * factor
        room = exact_room(RenyiCalculus(order), epsilon)
        check(planned(contract, name, epsilon, (room,)), room, epsilon)


@pytest.mark.parametrize("name", ["aim", "mst", "independent", "privbayes", "fixed", "learning_first"])
def test_a_pure_release_of_exactly_a_pure_cap_fits(contract: Contract, name: str):
    epsilon = Decimal("1")
    room = exact_room(PureCalculus(), epsilon, 0)
    plan = planned(contract, name, epsilon, (room,), Decimal(0))
    assert room.calculus.cost(plan.events) <= room.remaining


def stepped(epsilon: Fraction) -> GeneratorPlan:
    schedule = Schedule(1000, 50, Fraction(2), checkpoints=40, reserve=0)
    try:
        multiplier = calibrated_multiplier(schedule, epsilon=epsilon, delta=Fraction(1, 10**9))
    except CannotTrain as refused:
        raise CannotGenerate(str(refused)) from refused
    plan = schedule.plan(noise_multiplier=multiplier, clipping_norm=Fraction(1))
    return GeneratorPlan(plan.events, (), 0, 0, {})


def turned(epsilon: Fraction, rooms: tuple[MultiplierRange, ...]) -> Calibrated:
    return calibrated(stepped, epsilon=epsilon, delta=ATTOS, rooms=rooms)


@pytest.mark.long
@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 10), Fraction(1), Fraction(10)])
def test_the_claim_comes_within_a_thousandth_of_the_charge_where_there_is_room(epsilon: Fraction):
    """Less noise than Rényi losses allow, by 2 % or more, and the auditor accepts it."""
    made = turned(epsilon, ())
    claimed = Fraction(made.claim.epsilon, PICO)
    assert made.claim.by == "pld"
    assert 0.999 * float(epsilon) <= claimed <= epsilon
    assert made.noise_epsilon > epsilon * Fraction(102, 100)
    delta = delta_at([event.to_json() for event in made.plan.events], claimed)
    assert delta is not None
    assert delta <= 1e-9 * (1 - 1e-5)


@pytest.mark.usefixtures("coarse")
def test_another_machines_last_bits_lead_to_the_same_plan(monkeypatch: pytest.MonkeyPatch):
    """Libraries of linear algebra differ by the machine in the last bits of a loss: the last units of a claim."""

    def planned(off: int) -> Fraction:
        def elsewhere(events: tuple[PrivacyEvent, ...], delta: int) -> claim.Claim:
            made = release_claim(events, delta)
            return replace(made, epsilon=made.epsilon + off)

        monkeypatch.setattr("privacy.generators.calibration.release_claim", elsewhere)
        return turned(Fraction(1), ()).noise_epsilon

    here = planned(0)
    assert here > 1
    assert [planned(off) for off in (-500, -50, 50, 500)] == [here] * 4


@pytest.mark.long
@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 10), Fraction(1), Fraction(10)])
def test_exact_caps_are_filled_at_any_order(epsilon: Fraction):
    """At the best order and another: it fits, and with 0.3 % less noise it would not, or would claim more."""
    best = best_order(epsilon, Fraction(1, 10**9))
    for factor in (Fraction(1), Fraction(2)):
        calculus = RenyiCalculus(best * factor)
        room = MultiplierRange(calculus, calculus.cap(int(epsilon * PICO), ATTOS))
        made = turned(epsilon, (room,))
        assert room.holds(made.plan.events)
        less = [
            replace(event, noise_multiplier=event.noise_multiplier * Fraction(997, 1000))
            for event in made.plan.events
            if isinstance(event, PoissonSampledGaussian)
        ]
        assert not room.holds(less) or release_claim(less, ATTOS).epsilon > epsilon * PICO


@pytest.mark.long
@pytest.mark.usefixtures("coarse")
def test_between_the_two_the_noise_is_the_least_that_the_account_holds():
    calculus = RenyiCalculus(Fraction(30))
    free, plain = turned(Fraction(1), ()), stepped(Fraction(1))
    middle = (calculus.cost(free.plan.events) + calculus.cost(plain.events)) // 2
    made = turned(Fraction(1), (MultiplierRange(calculus, middle),))
    assert 0.995 * middle < calculus.cost(made.plan.events) <= middle
    assert 1 < made.noise_epsilon < free.noise_epsilon


@pytest.mark.long
def test_an_account_with_less_room_than_that_gets_the_plain_plan_and_refuses():
    """The noise is not raised beyond what the release's epsilon needs: the ledger says what would fit."""
    calculus = RenyiCalculus(best_order(1, Fraction(1, 10**9)))
    room = MultiplierRange(calculus, calculus.cap(PICO, ATTOS) // 2)
    made = turned(Fraction(1), (room,))
    assert made.noise_epsilon == 1
    assert not room.holds(made.plan.events)


def test_noise_that_does_not_depend_on_the_charge_is_left_as_it_is():
    plan = GeneratorPlan((Gaussian(Fraction(40)),), (), 0, 0, {})
    made = calibrated(lambda _: plan, epsilon=Fraction(1), delta=ATTOS, rooms=())
    assert made.noise_epsilon == 1
    assert made.claim.epsilon < PICO


@pytest.mark.parametrize(
    "events",
    [
        (DiscreteLaplace(Fraction(1, 10), (1,)),),
        (ZeroConcentrated(Fraction(1, 100)),),
        (Gaussian(Fraction(5)), ZeroConcentrated(Fraction(1, 100))),
        (DiscreteGaussian(Fraction(3), (1,)),),
    ],
)
def test_what_is_not_gaussian_noise_keeps_the_renyi_claim(events: tuple[PrivacyEvent, ...]):
    assert dominating(events) is None
    assert release_claim(events, ATTOS).by != "pld"


def test_a_delta_near_the_librarys_roundings_keeps_the_renyi_claim():
    steps = PoissonSampledGaussian(Fraction(3), Fraction(1, 100), 10_000)
    assert release_claim((steps,), 10**9).by == "pld"
    assert release_claim((steps,), 10**6).by == "renyi"
    assert release_claim((replace(steps, steps=10**8),), 10**9).by == "renyi"


def test_a_fifth_of_the_points_loosens_a_claim_by_less_than_a_millionth(monkeypatch: pytest.MonkeyPatch):
    """What the searches here count with: the coarser distribution bounds from above too."""
    events = (PoissonSampledGaussian(Fraction(1), Fraction(1, 10), 20), Gaussian(Fraction(4)))
    fine = pld_epsilon(events, Fraction(DELTA))
    monkeypatch.setattr(second_backend, "_POINTS", second_backend._POINTS // 5)
    found = pld_epsilon(events, Fraction(DELTA))
    assert fine is not None
    assert found is not None
    assert fine * (1 - 1e-9) <= found <= fine * (1 + 1e-6)


@pytest.mark.long
@pytest.mark.parametrize("steps", [100, 5000, 20_000])
@pytest.mark.parametrize("delta", [Fraction(1, 10**6), Fraction(1, 10**10), Fraction(1, 10**11)])
def test_the_room_that_a_claim_leaves_is_more_than_the_library_errs(steps: int, delta: Fraction):
    """What its transforms add to delta, by the inversion, is below a fifth of 10^-12 + 10^-15 a step."""
    events = (PoissonSampledGaussian(Fraction(3, 5), Fraction(1, 1000), steps), Gaussian(Fraction(4)))
    epsilon = pld_epsilon(events, delta)
    assert epsilon is not None
    exact = delta_at([event.to_json() for event in events], Fraction(epsilon))
    assert exact is not None
    assert exact - float(delta) < (1e-12 + 1e-15 * steps) / 5 + 1e-5 * float(delta)


def test_all_unsampled_noise_is_one_gaussian():
    events = (DiscreteGaussian(Fraction(104), (6, 8)), Gaussian(Fraction(1)), Gaussian(Fraction(2)))
    (one,) = dominating(events) or ()
    assert isinstance(one, Gaussian)
    assert float(one.noise_multiplier) == pytest.approx((1 + 1 + 0.25) ** -0.5, rel=1e-11)
    assert one.noise_multiplier**2 <= 1 / Fraction("2.25")
