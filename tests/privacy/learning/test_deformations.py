"""Deformations of pictures in whole numbers: against an independent interpolation, and what strangers may write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import affine_transform

from privacy.learning.deformations import ONE, Deformation
from privacy.learning.portable_normal import normal_steps
from privacy.marginals.portable import PostProcessingSeed

SEED = PostProcessingSeed(11)
HEIGHT, WIDTH = 9, 12
SOME = Deformation(HEIGHT, WIDTH, ONE // 10, ONE // 5, ONE)


def pictures(rows: int = 200) -> NDArray[np.int32]:
    generator = np.random.default_rng(4)
    i, j = np.mgrid[0:HEIGHT, 0:WIDTH]
    middle = generator.uniform(3, 5, (rows, 2, 1, 1))
    away = (i - middle[:, 0]) ** 2 + (j - middle[:, 1] - 1) ** 2
    return np.rint(250 * np.exp(-away / 6)).astype(np.int32).reshape(rows, HEIGHT * WIDTH)


def test_no_deformation_changes_nothing() -> None:
    still = Deformation(HEIGHT, WIDTH, 0, 0, 0)
    assert (still(pictures(), SEED, 3) == pictures()).all()
    assert still(pictures(0), SEED, 3).shape == (0, HEIGHT * WIDTH)


def test_it_is_the_interpolation_of_another_library_up_to_its_finer_steps() -> None:
    """Places are rounded down to 2^-8: with slopes of up to 90 levels a place that is half a level either way."""
    found, given = SOME(pictures(), SEED, 7), pictures()
    a, b, c, d, s, t = (
        normal_steps(SEED.words(7, 6 * len(given))).reshape(-1, 6).T
        * np.array([SOME.scale, SOME.turn, SOME.turn, SOME.scale, SOME.shift, SOME.shift])[:, None]
        / ONE**2
    )
    middle = np.array([HEIGHT - 1, WIDTH - 1]) / 2
    for row, picture in enumerate(given):
        matrix = np.array([[1 + a[row], b[row]], [c[row], 1 + d[row]]])
        offset = middle - matrix @ middle + [s[row], t[row]]
        expected = affine_transform(
            picture.reshape(HEIGHT, WIDTH).astype(float), matrix, offset, order=1, mode="nearest"
        )
        assert np.abs(found[row].reshape(HEIGHT, WIDTH) - expected).max() <= 1.5, row
    assert (found != given).any(axis=1).mean() > 0.9


def test_levels_stay_between_the_least_and_the_largest_of_their_picture() -> None:
    given = np.random.default_rng(2).integers(3, 17, (500, HEIGHT * WIDTH)).astype(np.int32)
    found = replace(SOME, shift=6 * ONE, turn=ONE)(given, SEED, 0)
    assert (found.min(axis=1) >= given.min(axis=1)).all()
    assert (found.max(axis=1) <= given.max(axis=1)).all()


def test_pictures_are_deformed_each_by_itself_however_many_there_are() -> None:
    """The words of a picture do not depend on how many follow in its piece of work, but on its place among all."""
    many = np.repeat(pictures(2)[:1], 2500, axis=0)
    found = SOME(many, SEED, 1)
    assert len(np.unique(found, axis=0)) > 2400
    assert (SOME(many[:1100], SEED, 1) == found[:1100]).all()
    assert (SOME(many, SEED, 2) != found).any()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"height": 0}, "height must be a whole number from 1 to 4096"),
        ({"width": 5000}, "width must be a whole number"),
        ({"scale": -1}, "scale must be a whole number from 0 to 4096"),
        ({"turn": 4097}, "turn must be a whole number"),
        ({"turn": 0.5}, "turn must be a whole number"),
        ({"shift": True}, "shift must be a whole number"),
        ({"lean": 3}, "exactly height, width, scale, turn and shift"),
    ],
)
def test_what_a_stranger_writes_is_checked(changed: dict[str, Any], message: str) -> None:
    assert Deformation.from_json(SOME.to_json()) == SOME
    with pytest.raises(ValueError, match=message):
        Deformation.from_json({**SOME.to_json(), **changed})
