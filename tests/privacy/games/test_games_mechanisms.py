"""Games on sums, DP-SGD, refined tables and a generator, played fast; the broken grants; attacks on made-up rows.

Confidence of what is shipped is 1 - 1e-9 a game, so that one which just keeps its claim fails with probability below
1e-9; that of the twins is 99.9 %, and they fail to be found out with less, as their bounds are far above the claim.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from math import exp
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import privacy_games
from benchmarks.games import (
    cell_sums,
    distinct_counts,
    federated,
    generators,
    keys,
    private_clips,
    quantiles,
    quotas,
    residuals,
    sums,
    surrogate,
    tables,
    training,
    votes,
    weighted_sums,
)
from benchmarks.games.game import Game, play
from benchmarks.games.generators import GAMES, PAIRS, exact_rows, game_on, marginals_of
from benchmarks.games.leaks import guesses, leak, shadow, shadow_leak
from benchmarks.privacy_games import ATTACKS, FAMILIES, Kept, played_code
from privacy.games.inference import allowed_area, nearness
from privacy.games.results import code_digest

CONFIDENCE, CONTROL = 1 - 1e-9, 0.999
ROOT = Path(__file__).parents[3]
FAST: dict[str, tuple[Callable[[], Game], float]] = {
    **{name: (made, 1.0) for name, made in sums.GAMES.items()},
    **{name: (made, 0.25) for name, made in cell_sums.GAMES.items()},
    # Of a quarter of the plays, one in twelve would not find its twin out.
    "cell_sums_alone_gaussian": (cell_sums.alone_turned, 1.0),
    **{name: (made, 0.25) for name, made in weighted_sums.GAMES.items()},
    # In 10 plays of a quarter the twins' bounds lay six and five of their deviations above the claims.
    **{name: (made, 0.5) for name, made in residuals.GAMES.items()},
    # In 16 plays the twins' bounds lay seven of their deviations above the claims.
    **{name: (made, 0.1) for name, made in votes.GAMES.items()},
    # In 30 plays the twins' bounds lay ten of their deviations above the claims.
    **{name: (made, 0.25) for name, made in distinct_counts.GAMES.items()},
    # Sixty cells an output: thirty times the noise that is due is found out in few.
    "distinct_units_replace_one": (distinct_counts.units_moved, 0.02),
    **{name: (made, 0.25) for name, made in quotas.GAMES.items()},
    # In 30 plays the twin's bound lay nine of its deviations above the claim, and four in a quarter of the trials.
    "quota_replace_one": (quotas.GAMES["quota_replace_one"], 1.0),
    "clip_histogram": (private_clips.replaced, 0.25),
    "private_clip": (private_clips.clipped, 0.0125),
    **{name: (made, 0.25) for name, made in keys.GAMES.items()},
    "quantile_tree": (quantiles.tree, 0.25),
    # 9,000 medians a table: the twin's bound is above the claim by a third, six deviations of its counts.
    "quantile_median": (quantiles.median, 0.03),
    "lattice_noise": (training.lattice_noise, 1.0),
    "dp_sgd": (training.whole_batches, 0.125),
    # The twin's sums are normal but for steps of 0.08 deviations; by Clopper and Pearson 1 play in 25 misses it.
    "federated_counts": (lambda: replace(federated.counts_across(), twin_method="gaussian"), 0.3),
    "federated_sums": (federated.sums_across, 1.0),
    "refined_table": (tables.refined, 0.1),
    "fixed": (lambda: game_on(marginals_of("fixed", cliques=PAIRS), 144, "exact n", look=exact_rows), 1.0),
}


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize("name", FAST)
def test_the_shipped_one_stays_below_its_claim_and_its_twin_does_not(name: str):
    """n = 100,000 sums, cells, keys; 400,000 entries, 30,000 counts, 1,000 trainings, 144 fits; false alarm 1e-9."""
    made, share = FAST[name]
    played = play(made().quick(share), confidence=CONFIDENCE, control_confidence=CONTROL)
    assert played.holds
    assert played.caught
    assert played.control.epsilon <= played.control.largest_certifiable


@pytest.mark.long
@pytest.mark.stat
def test_with_one_site_that_tells_and_one_that_drops_a_whole_share_of_noise_is_left():
    """n = 300; 30 % of the deviation is 7 standard errors, false alarm 1e-12. The twin leaves 1 / sqrt(3)."""
    game = federated.training_across()
    for play_, whole in ((game.shipped, True), (game.twin, False)):
        seen = np.concatenate([play_(True, 150) - 1, play_(False, 150)])
        assert (abs(float(seen.std()) - 1) < 0.3) is whole


@pytest.mark.parametrize("name", ["aim", "privbayes", "p3gm", "ae", "vae", "dp_gm"])
def test_the_attacker_of_a_generator_s_twin_sees_what_is_broken(name: str):
    """A few fits of each table; where the twin's leak is certain, each fit of one is told from each of the other."""
    made = GAMES[name]()
    there, not_there = (made.twin(each, 3) for each in (True, False))
    shipped = made.shipped(True, 2)
    assert shipped.shape == (2, 3)
    assert all(np.isfinite(scores).all() for scores in (there, not_there, shipped))
    if name in ("aim", "dp_gm"):
        assert leak(there, not_there).area == 1
    if name == "p3gm":
        assert (there == 0).all()


def test_every_game_can_be_asked_for_by_name():
    for family, names in FAMILIES.items():
        assert sorted(names) == sorted(import_module(f"benchmarks.games.{family}").GAMES)
    assert sorted(ATTACKS) == sorted(surrogate.ATTACKS)


def test_generators_are_attacked_on_at_most_27_cells():
    assert int(np.prod(generators.DOMAIN.shape)) == 27


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_allowed_area_is_that_of_the_best_attack_on_the_worst_mechanism(epsilon: float):
    """Randomized response with a chance of delta to tell the truth: its ROC has three edges, summed by hand."""
    delta = 0.1
    tell, keep = delta, (1 - delta) / (1 + exp(epsilon))
    false_rates = np.array([0, 0, keep, keep + (1 - delta - keep), 1])
    true_rates = np.array([0, tell, tell + keep * exp(epsilon), 1, 1])
    area = float(np.sum(np.diff(false_rates) * (true_rates[1:] + true_rates[:-1]) / 2))
    assert allowed_area(epsilon, delta) == pytest.approx(area)
    assert allowed_area(0.0, 0.0) == pytest.approx(0.5)


def test_a_leak_is_the_share_of_pairs_in_order_and_what_is_found_at_few_false_alarms():
    random = np.random.default_rng(1)
    members, others = random.normal(1, 1, 4000), random.normal(0, 1, 4000)
    found = leak(members, others)
    assert found.area == pytest.approx(np.mean(members[:, None] > others[None, :]), abs=1e-9)
    assert found.true_rate == pytest.approx(np.mean(members > np.quantile(others, 0.99)), abs=0.01)
    assert leak(np.ones(50), np.ones(50)).area == 0.5
    assert leak(np.ones(50), np.ones(50)).true_rate == pytest.approx(0.01)
    assert leak(np.ones(50), np.zeros(50)).true_rate == 1


def made_up(rows: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 5, (rows, 8))


def test_rows_that_are_handed_out_are_recognised_and_fresh_ones_are_not():
    """Distance, attribute and shadow attacks, against a copy of the table and against rows of the same population."""
    members, others, fresh = (made_up(300, seed) for seed in (1, 2, 3))
    for attack in (nearness, lambda made, people: guesses(made, people, secret=3)):
        assert leak(attack(members, members), attack(members, others)).area > 0.85
        assert 0.4 < leak(attack(fresh, members), attack(fresh, others)).area < 0.6
    target = np.full((1, 8), 4)
    tables_ = [made_up(50, seed) for seed in range(80)]
    there = np.array([shadow(np.concatenate([each, target]), target) for each in tables_[:40]])
    not_there = np.array([shadow(each, target) for each in tables_[40:]])
    assert shadow_leak(there, not_there).area > 0.95
    assert 0.2 < shadow_leak(not_there[:20], not_there[20:]).area < 0.8


@pytest.mark.parametrize("key", ["membership_distance", "attribute"])
def test_mst_on_adult_does_not_give_its_people_away_and_a_copy_does(key: str):
    """1,000 people of the table and 1,000 others; an area above the allowed 0.73 is 20 standard deviations away."""
    told = surrogate.attacked(key)
    assert told["holds"]
    assert told["negative_control"]["caught"]
    assert told["area"] < 0.6


@pytest.mark.services
def test_the_command_plays_what_it_is_asked_for():
    """In two processes, by name; a quick run writes nothing."""
    command = [sys.executable, "-m", "benchmarks.privacy_games", "--quick", "--only", "laplace", "minimum_frequency"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.count("below the claim") == 2
    assert "2 in " in done.stdout
    assert "0 failed" in done.stdout


def test_a_game_is_kept_for_the_code_that_was_played(tmp_path: Path):
    """A run of other code or games does not find it, and one whose code changed meanwhile is not kept."""
    now = Kept(tmp_path / "games", played_code())
    now.put("laplace", "a line", {"game": "laplace", "holds": True})
    assert now.get("laplace") == ("a line", {"game": "laplace", "holds": True})
    assert now.get("gaussian") is None
    other = Kept(now.folder, "0" * 64)
    assert other.get("laplace") is None
    other.put("gaussian", "a line", {"game": "gaussian"})
    assert other.get("gaussian") is None
    assert [path.suffix for path in now.folder.iterdir()] == [".json"]


def test_a_game_that_is_written_anew_is_played_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its code is not among what is attacked, so the digest that records quote does not know it."""
    (tmp_path / "a_game.py").write_text("TRIALS = 10")
    monkeypatch.setattr(privacy_games, "GAMES_FOLDER", tmp_path)
    before, attacked = played_code(), code_digest()
    (tmp_path / "a_game.py").write_text("TRIALS = 20")
    assert played_code() != before
    assert code_digest() == attacked
