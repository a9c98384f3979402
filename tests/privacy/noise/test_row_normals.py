"""Latent vectors: their law, and that the proof of a step may hold them alike for the rows that two tables share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import norm

from privacy.learning.plan import Execution
from privacy.learning.training import Session, initial_state
from privacy.noise.lattice_gaussian import normals_from, row_normals
from privacy.noise.random_bytes import RandomBytes, SeededBytes
from tests.privacy.learning.reference_learners import mixed_codes, mixed_layout, p3gm
from tests.privacy.noise.noise_statistics import FALSE_ALARM, ScriptedBytes

BOUND = 0.5
ROWS = 60


def clipped_sum(codes: NDArray[np.uint8], source: RandomBytes) -> NDArray[np.float64]:
    learner = p3gm()
    session = Session(
        learner, mixed_layout(), initial_state(learner), step=0, steps=1, execution=Execution("cpu", 4096)
    )
    return session.clipped_sum(codes, bound=BOUND, normals=normals_from(source)).astype(np.float64)


def bytes_a_row() -> int:
    numbers = p3gm().samples * p3gm().latent
    return 8 * ((numbers + 1) // 2)


def test_with_the_same_latents_for_the_same_rows_a_row_more_moves_a_sum_by_its_own_gradient() -> None:
    """The coupling of the proof. The wrong case: latents by place from a seed move it by several bounds."""
    codes = mixed_codes(ROWS)
    script = SeededBytes(1).take(bytes_a_row() * ROWS)
    with_first = clipped_sum(codes, ScriptedBytes(script.tolist()))
    without = clipped_sum(codes[1:], ScriptedBytes(script[bytes_a_row() :].tolist()))
    assert 0.1 * BOUND < np.linalg.norm(with_first - without) < BOUND * (1 + 1e-4)
    seeded = clipped_sum(codes[1:], ScriptedBytes(script[: -bytes_a_row()].tolist()))
    assert np.linalg.norm(with_first - seeded) > 2 * BOUND


def test_a_seed_of_torch_has_32_bits() -> None:
    """Why no seed makes latents: another one by 2^32 is the same."""
    one, other = (torch.randn(4, generator=torch.Generator().manual_seed(5 + add)) for add in (0, 2**32))
    assert torch.equal(one, other)


@pytest.mark.stat
def test_latents_are_independent_normals() -> None:
    """n = 400,000 by DKW and neighbours in a row and from row to row, false alarm 1e-9; 10 % off is rejected."""
    drawn = row_normals(100_000, 4, source=SeededBytes(2)).astype(np.float64)
    ordered = np.sort(drawn.ravel())
    steps = np.arange(ordered.size + 1) / ordered.size

    def rejects(deviation: float) -> bool:
        exact = norm.cdf(ordered / deviation)
        distance = max((steps[1:] - exact).max(), (exact - steps[:-1]).max())
        return bool(distance > (np.log(2 / FALSE_ALARM) / (2 * ordered.size)) ** 0.5)

    assert not rejects(1.0)
    assert rejects(1.1)
    assert rejects(1 / 1.1)
    most = norm.isf(FALSE_ALARM / 20) / 100_000**0.5
    together = np.corrcoef(np.concatenate([drawn[1:], drawn[:-1]], axis=1).T) - np.eye(8)
    assert np.abs(together).max() < most
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 0] + 0.1 * drawn[:, 1])[0, 1]) > most


def test_a_row_s_latents_are_a_function_of_its_own_bytes() -> None:
    """Also where an odd number is asked for; other rows' bytes change nothing."""
    for size in (1, 4, 5):
        width = 8 * ((size + 1) // 2)
        script = SeededBytes(3).take(width * 9).reshape(9, width)
        whole = row_normals(9, size, source=ScriptedBytes(script.ravel().tolist()))
        turned = row_normals(9, size, source=ScriptedBytes(script[::-1].ravel().tolist()))
        assert whole.shape == (9, size)
        np.testing.assert_allclose(turned[::-1], whole, rtol=1e-6, atol=1e-7)
    assert row_normals(0, 3, source=SeededBytes(4)).shape == (0, 3)
