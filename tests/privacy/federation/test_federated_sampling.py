"""That a site samples its rows by coins of its own: what it contributes is a sum over some of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from privacy.federation.plan import FederatedPlan, Trust
from privacy.federation.rounds import Call, lifted
from privacy.learning.network import Sgd, perceptron
from privacy.learning.plan import Execution, TrainingPlan
from privacy.learning.training import Session, initial_state
from privacy.noise.lattice_gaussian import normals_from
from privacy.noise.random_bytes import SecureBytes
from tests.privacy.federation.sites import Site
from tests.privacy.learning.reference_learners import classifier, mixed_codes, mixed_layout
from tests.privacy.ledger.ledgers import Place

ROUNDS, TABLE = 3, 400
LAYOUT = mixed_layout()
LEARNER = classifier(network=perceptron(18, 4, outputs=3), optimizer=Sgd(0.5))
CPU = Execution("cpu", rows_at_once=512)
SERVER = Trust("server", secure_aggregation=False, server="the office", fewest=1, colluding=0, sites_per_person=1)
HALF = FederatedPlan(
    TrainingPlan(Fraction(1, 2), Fraction(TABLE), ROUNDS, Fraction(1), Fraction(2), 1, reserve=0),
    ("north", "east"),
    (TABLE, TABLE),
    SERVER,
)
ALL = replace(HALF, training=replace(HALF.training, sampling_probability=Fraction(1)))
LEAST, MOST = (int(binom.ppf(chance, TABLE, 0.5)) for chance in (1e-11, 1 - 1e-11))
"""135 to 265 of 400 rows."""


def counted(place: Place, plan: FederatedPlan) -> list[float]:
    """Return of how many rows each round's contribution is the sum: all rows are the same, so it tells them."""
    codes = np.repeat(mixed_codes(1), TABLE, axis=0)
    site, start = Site(place, codes, plan), initial_state(LEARNER)
    session = Session(LEARNER, LAYOUT, start, step=0, steps=ROUNDS, execution=CPU)
    bound = plan.clipped_to(start.parameters.size)
    one = session.clipped_sum(codes[:1], bound=bound, normals=normals_from(SecureBytes())).astype(np.float64)
    found = []
    for number in range(ROUNDS):
        sent = site(Call(number, f"{number:016x}", start.parameters))
        assert sent is not None
        total = lifted(sent.residues) * plan.lattice
        rows = float(total @ one / (one @ one))
        assert np.abs(total - rows * one).max() < 2 * plan.lattice + 1e-3
        found.append(rows)
    return found


@pytest.mark.stat
def test_a_contribution_is_a_sum_over_about_half_of_the_rows(sqlite_place: Place) -> None:
    """n = 400 rows in each of 3 rounds, q = 1/2; false alarm 6e-11; the rounds have samples of their own. That three
    samples are of one size has a chance of 0.1 %, so what they have in common is not looked at."""
    for rows in counted(sqlite_place, HALF):
        assert abs(rows - round(rows)) < 0.1
        assert LEAST <= rows <= MOST


def test_with_q_1_it_is_a_sum_over_all_of_them(tmp_path: Path) -> None:
    """The wrong case of the test above: sites that do not sample."""
    place = Place(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path)
    try:
        for rows in counted(place, ALL):
            assert rows == pytest.approx(TABLE, abs=0.1)
            assert not LEAST <= rows <= MOST
    finally:
        place.close()
