"""Ghost norms and clipped sums against a gradient per row in float64."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional

from privacy.learning.clipping import Tape, add_clipped_sum
from privacy.learning.learners import Learner
from privacy.learning.network import Linear, Slot
from privacy.learning.plan import Execution
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
def test_the_clipped_sum_is_that_of_the_rows_own_gradients(name: str, share: float) -> None:
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
def test_each_rows_clipped_gradient_is_within_the_bound(name: str) -> None:
    """One row at a time, at a bound below every norm: the sum's norm is the bound, never above it."""
    learner, rows = LEARNERS[name], some_rows()
    parameters = some_parameters(learner, scale=1.0)
    for row in range(3):
        total, _ = ghost(learner, LAYOUT, rows[row : row + 1], parameters, 1e-3)
        norm = float(total.double().norm())
        assert 0.999e-3 < norm <= 1e-3 * (1 + 1e-6)


def test_positions_that_cancel_leave_no_row_unclipped() -> None:
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
def test_adding_a_row_moves_the_sum_by_at_most_the_bound(name: str, value: float) -> None:
    """Also where the row's values are extreme, 10^30 in every entry."""
    rows = torch.cat([some_rows(), torch.full((1, LAYOUT.width), value)])
    after, before, _ = with_and_without_the_last(LEARNERS[name], rows)
    assert float((after - before).double().norm()) <= 0.5 * (1 + 1e-5)
    assert bool(torch.isfinite(after).all())


@pytest.mark.long
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["classifier", "p3gm", "sampling"])
def test_a_row_without_a_finite_gradient_is_left_out(name: str, value: float) -> None:
    """Its part of the sum is 0, and the others' parts are what they are without it."""
    rows = torch.cat([some_rows(), torch.full((1, LAYOUT.width), value)])
    after, before, scale = with_and_without_the_last(LEARNERS[name], rows)
    assert scale == 0
    torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-6)
    assert float(after.norm()) > 0.1


def test_a_row_of_a_cluster_moves_its_members_block_alone() -> None:
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


def test_pieces_of_a_sample_add_up_to_its_sum() -> None:
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


def test_a_loss_that_mixes_rows_would_be_seen() -> None:
    """The wrong case: divide by the batch's largest loss, and the reference no longer agrees."""
    learner, rows = p3gm(), some_rows()
    parameters = some_parameters(learner)
    tape, total = Tape(), torch.zeros_like(parameters)
    losses = losses_of(learner, LAYOUT, rows, parameters, tape)
    add_clipped_sum(losses / losses.max(), tape, bound=1e9, total=total)
    each = per_row_gradients(learner, LAYOUT, rows, parameters)
    assert np.linalg.norm(total.numpy() - each.sum(0)) > 1e-2 * np.linalg.norm(each.sum(0))


def test_a_networks_kept_layers_are_all_that_have_parameters() -> None:
    learner, tape = classifier(), Tape()
    losses_of(learner, LAYOUT, some_rows(), some_parameters(learner), tape)
    assert [slot.place for slot in tape.slots] == [0, 2, 4]
    assert all(isinstance(each, torch.Tensor) and not each.requires_grad for each in tape.inputs)
