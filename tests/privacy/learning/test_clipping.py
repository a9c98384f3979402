"""DP-SGD: its plan, one value that sampling, clipping, noise and event come from, and its clipping."""

import math
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from privacy.accounting.amounts import AmountRefused
from privacy.accounting.claim import pld_epsilon
from privacy.accounting.events import Gaussian, PoissonSampledGaussian, PrivacyEvent, Pure, ZeroConcentrated
from privacy.accounting.renyi import best_epsilon
from privacy.learning import plan as calibration
from privacy.learning.clipping import Tape, add_clipped_sum
from privacy.learning.learners import Learner
from privacy.learning.network import CannotTrain, Linear, Slot
from privacy.learning.plan import (
    Execution,
    Schedule,
    TrainingPlan,
    calibrated_multiplier,
    checked_useful,
    signal_to_noise,
)
from privacy.learning.training import Session, initial_state
from privacy.noise.lattice_gaussian import normals_from
from privacy.noise.random_bytes import SeededBytes
from tests.privacy.learning.reference_learners import (
    LEARNERS,
    classifier,
    clustered,
    ghost,
    losses_of,
    mixed_codes,
    mixed_layout,
    p3gm,
    per_row_gradients,
    some_parameters,
)

ROWS = 9
LAYOUT = mixed_layout()


def some_rows(rows: int = ROWS, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(LAYOUT.vectors(mixed_codes(rows, seed)))


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("share", [0.1, 0.5, 10.0])
def test_the_clipped_sum_is_that_of_the_rows_own_gradients(name: str, share: float):
    """Relative to the bound, sums agree to 1e-6 and scales to 1e-5, with few, half and none of the rows clipped."""
    learner, rows = LEARNERS[name], some_rows()
    parameters = some_parameters(learner)
    each = per_row_gradients(learner, LAYOUT, rows, parameters)
    norms = np.linalg.norm(each, axis=1)
    bound = share * float(np.median(norms))
    scales = np.minimum(1, bound / norms)
    total, found = ghost(learner, LAYOUT, rows, parameters, bound)
    np.testing.assert_allclose(found.numpy(), scales, rtol=1e-5)
    wanted = (each * scales[:, None]).sum(0)
    assert np.linalg.norm(total.numpy() - wanted) <= 1e-6 * max(bound, np.linalg.norm(wanted)) * np.sqrt(ROWS)
    assert (0 < share < 1) == bool((found < 1).any())


@pytest.mark.parametrize("name", LEARNERS)
def test_each_rows_clipped_gradient_is_within_the_bound(name: str):
    """One row at a time, at a bound below every norm: the sum's norm is the bound, never above it."""
    learner, rows = LEARNERS[name], some_rows()
    parameters = some_parameters(learner, scale=1.0)
    for row in range(3):
        total, _ = ghost(learner, LAYOUT, rows[row : row + 1], parameters, 1e-3)
        norm = float(total.double().norm())
        assert 0.999e-3 < norm <= 1e-3 * (1 + 1e-6)


def test_positions_that_cancel_leave_no_row_unclipped():
    """A norm far below its terms but above the bound; the wrong case is the norm in float32, which is too low."""
    layer, random = Linear(288, 64), torch.Generator().manual_seed(1)
    inputs = torch.rand(8, 1, 288, generator=random) + 1e-4 * torch.randn(8, 49, 288, generator=random)
    pulls = torch.randn(8, 49, 64, generator=random) * 0.3
    pulls = pulls - pulls.mean(1, keepdim=True)
    products = (torch.bmm(inputs, inputs.mT) + 1) * torch.bmm(pulls, pulls.mT)
    assert float(products.sum((1, 2)).min()) < 0.01**2
    for row in range(8):
        tape, total = Tape(), torch.zeros(289 * 64)
        outputs = functional.linear(inputs[row : row + 1], torch.zeros(64, 288))
        kept = tape.keep(Slot("network", 0, layer, 0), inputs[row : row + 1], outputs)
        add_clipped_sum((kept * pulls[row]).sum((1, 2)), tape, bound=1e-3, total=total)
        assert 0.999e-3 < float(total.double().norm()) <= 1e-3 * (1 + 1e-4)


def with_and_without_the_last(learner: Learner, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
    """The sum of all rows, that without the last one at the same latent vectors, and the last one's scale."""
    parameters, sums, scale = some_parameters(learner), [], 0.0
    for taking_part in (1.0, 0.0):
        tape, total = Tape(), torch.zeros_like(parameters)
        losses = losses_of(learner, LAYOUT, rows, parameters, tape)
        weights = torch.ones(rows.shape[0])
        weights[-1] = taking_part
        scales = add_clipped_sum(losses * weights, tape, bound=0.5, total=total)
        sums.append(total)
        scale = float(scales[-1]) if taking_part else scale
    return sums[0], sums[1], scale


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("value", [0.5, 1e6, 1e30])
def test_adding_a_row_moves_the_sum_by_at_most_the_bound(name: str, value: float):
    """Also where the row's values are extreme, 10^30 in every entry."""
    rows = torch.cat([some_rows(), torch.full((1, LAYOUT.width), value)])
    after, before, _ = with_and_without_the_last(LEARNERS[name], rows)
    assert float((after - before).double().norm()) <= 0.5 * (1 + 1e-5)
    assert bool(torch.isfinite(after).all())


@pytest.mark.long
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["classifier", "p3gm", "sampling"])
def test_a_row_without_a_finite_gradient_is_left_out(name: str, value: float):
    """Its part of the sum is 0, and the others' parts are what they are without it."""
    rows = torch.cat([some_rows(), torch.full((1, LAYOUT.width), value)])
    after, before, scale = with_and_without_the_last(LEARNERS[name], rows)
    assert scale == 0
    torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-6)
    assert float(after.norm()) > 0.1


def test_a_row_of_a_cluster_moves_its_members_block_alone():
    """Each member's block is the member's own clipped sum over its rows; a row more moves one block, by the bound."""
    learner, rows = clustered(), mixed_codes(30)
    start = initial_state(learner)
    sums = []
    for count in (30, 29):
        session = Session(learner, LAYOUT, start, step=0, steps=1, execution=Execution("cpu", 7))
        sums.append(
            session.clipped_sum(rows[:count], bound=0.5, normals=normals_from(SeededBytes(3))).astype(np.float64)
        )
    blocks = np.cumsum([0, *(sum(part.parameters for _, part in member.parts) for member in learner.members)])
    norms = [np.linalg.norm(sums[0][a:b]) for a, b in pairwise(blocks)]
    places = (LAYOUT.vectors(rows) - learner.space.centre) @ learner.space.axes
    nearest = np.square(places[:, None] - learner.centres).sum(2).argmin(1)
    assert len(set(nearest.tolist())) == 3
    assert all(0 < norm <= 0.5 * (nearest == k).sum() * (1 + 1e-5) for k, norm in enumerate(norms))
    # deterministic members (no latent noise): the difference is the last row's, in its block
    moved = [np.linalg.norm((sums[0] - sums[1])[a:b]) for a, b in pairwise(blocks)]
    assert np.count_nonzero(np.array(moved) > 1e-5) == 1
    assert moved[nearest[29]] == pytest.approx(0.5, rel=1e-4)


def test_pieces_of_a_sample_add_up_to_its_sum():
    """Two tapes into one total are one tape: memory, not privacy."""
    learner, rows = classifier(), some_rows(20)
    parameters = some_parameters(learner)
    whole, _ = ghost(learner, LAYOUT, rows, parameters, 0.3)
    total = torch.zeros_like(parameters)
    for start in (0, 7, 14):
        tape = Tape()
        losses = losses_of(learner, LAYOUT, rows[start : start + 7], parameters, tape)
        add_clipped_sum(losses, tape, bound=0.3, total=total)
    torch.testing.assert_close(total, whole, rtol=1e-5, atol=1e-6)


def test_a_loss_that_mixes_rows_would_be_seen():
    """The wrong case: divide by the batch's largest loss, and the reference no longer agrees."""
    learner, rows = p3gm(), some_rows()
    parameters = some_parameters(learner)
    tape, total = Tape(), torch.zeros_like(parameters)
    losses = losses_of(learner, LAYOUT, rows, parameters, tape)
    add_clipped_sum(losses / losses.max(), tape, bound=1e9, total=total)
    each = per_row_gradients(learner, LAYOUT, rows, parameters)
    assert np.linalg.norm(total.numpy() - each.sum(0)) > 1e-2 * np.linalg.norm(each.sum(0))


def test_a_networks_kept_layers_are_all_that_have_parameters():
    learner, tape = classifier(), Tape()
    losses_of(learner, LAYOUT, some_rows(), some_parameters(learner), tape)
    assert [slot.place for slot in tape.slots] == [0, 2, 4]
    assert all(isinstance(each, torch.Tensor) and not each.requires_grad for each in tape.inputs)


MNIST = Schedule(60_000, 300, Fraction(10), checkpoints=10, reserve=1)
DELTA = Fraction(1, 10**5)
SMALL = TrainingPlan(Fraction(1, 20), Fraction(10), 40, Fraction(1), Fraction(3, 2), 10, 2)


def test_a_plan_is_charged_for_every_interval_and_its_reserve():
    assert SMALL.events == (PoissonSampledGaussian(Fraction(3, 2), Fraction(1, 20), 10),) * 6
    assert (SMALL.checkpoints, SMALL.standard_deviation) == (4, Fraction(3, 2))
    with pytest.raises(FrozenInstanceError):
        SMALL.steps = 50  # type: ignore[misc]


def test_a_schedule_takes_its_probability_from_the_declared_rows():
    assert (MNIST.sampling_probability, MNIST.steps, MNIST.checkpoint_every) == (Fraction(1, 200), 2000, 200)
    uneven = Schedule(1_000, 30, Fraction(3), checkpoints=7, reserve=0)
    assert uneven.steps % uneven.checkpoint_every == 0
    assert uneven.steps >= 100
    plan = MNIST.plan(noise_multiplier=Fraction(2), clipping_norm=Fraction(1, 2))
    assert (plan.expected_batch_size, plan.standard_deviation) == (300, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sampling_probability": 0.05},
        {"sampling_probability": Fraction(3, 2)},
        {"sampling_probability": Fraction(0)},
        {"expected_batch_size": Fraction(0)},
        {"expected_batch_size": Fraction(8193)},
        {"steps": 0},
        {"steps": 41},
        {"steps": True},
        {"clipping_norm": Fraction(0)},
        {"noise_multiplier": Fraction(1, 100)},
        {"noise_multiplier": 1.5},
        {"checkpoint_every": 50},
        {"reserve": -1},
    ],
)
def test_a_plan_that_says_nothing_exact_is_refused(wrong: dict[str, Any]):
    with pytest.raises((CannotTrain, AmountRefused)):
        replace(SMALL, **wrong)


def test_a_batch_larger_than_the_declared_rows_is_refused_with_what_to_do():
    with pytest.raises(CannotTrain, match=r"batch is 301; allowed: at most the declared number of rows, 300; do: "):
        Schedule(300, 301, Fraction(1), checkpoints=1, reserve=0)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(8)])
def test_the_calibrated_multiplier_is_the_least_that_fits(epsilon: Fraction):
    """Its events cost at most epsilon at their best order, one step of the grid less costs more, and PLD less."""
    multiplier = calibrated_multiplier(MNIST, epsilon=epsilon, delta=DELTA)
    plan = MNIST.plan(noise_multiplier=multiplier, clipping_norm=Fraction(1))
    spent, _ = best_epsilon(plan.events, DELTA)
    assert 0.998 * float(epsilon) < spent <= epsilon
    less = MNIST.plan(noise_multiplier=multiplier - Fraction(2, 10_000), clipping_norm=Fraction(1))
    assert best_epsilon(less.events, DELTA)[0] > float(epsilon) * (1 - 1e-4)
    composed = pld_epsilon(plan.events, DELTA)
    assert composed is not None
    assert composed < spent


def test_what_stands_beside_the_training_is_paid_for():
    beside = (ZeroConcentrated(Fraction(1, 200)),)
    alone = calibrated_multiplier(MNIST, epsilon=1, delta=DELTA)
    together = calibrated_multiplier(MNIST, epsilon=1, delta=DELTA, beside=beside)
    plan = MNIST.plan(noise_multiplier=together, clipping_norm=Fraction(1))
    assert together > alone
    assert best_epsilon([*plan.events, *beside], DELTA)[0] <= 1


def test_an_epsilon_that_no_noise_reaches_is_refused_with_one_that_would_do():
    with pytest.raises(CannotTrain, match="do: an epsilon of at least"):
        calibrated_multiplier(MNIST, epsilon=Fraction(1, 10**6), delta=DELTA)


def test_noise_that_drowns_everything_is_refused_with_what_would_do():
    plan = replace(SMALL, noise_multiplier=Fraction(20))
    assert signal_to_noise(plan, 10_000) == pytest.approx(math.sqrt(40) * 10 / (20 * 100))
    with pytest.raises(CannotTrain, match=r"an epsilon of about 9\.5, a batch of about 95 rows"):
        checked_useful(plan, 10_000, epsilon=1)
    assert checked_useful(plan, 100, epsilon=1) is plan


def test_no_batch_of_more_than_the_declared_rows_is_advised():
    """It would be refused in turn: a plan of 3 rows named a batch of 148."""
    plan = replace(SMALL, noise_multiplier=Fraction(20), sampling_probability=Fraction(1, 4))
    with pytest.raises(CannotTrain, match=r"an epsilon of about 9\.5, many more rows, or a smaller network"):
        checked_useful(plan, 10_000, epsilon=1)


@pytest.mark.parametrize("multiplier", [Fraction(1, 2), Fraction(2), Fraction(60)])
@pytest.mark.parametrize("beside", [(), (Gaussian(Fraction(9)), Pure(Fraction(1, 10)))])
def test_the_orders_that_are_passed_over_cost_more(multiplier: Fraction, beside: tuple[PrivacyEvent, ...]):
    """The best order and whether any fits are what a search of all of them finds."""
    costs = calibration._Costs(
        (PoissonSampledGaussian(multiplier, Fraction(1, 50), 300), *beside), Fraction(1, 10**9)
    )
    every = [costs.at(order) for order in calibration._ORDERS]
    assert costs.best() == (every.index(min(every)), min(every))
    assert costs.fit(min(every))
    assert not costs.fit(min(every) * (1 - 1e-12))
