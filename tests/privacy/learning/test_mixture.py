"""Principal axes, mixtures, classes and clusters: what noiseless statistics give, and what noise leaves of it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from privacy.accounting.amounts import ATTO
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import ZeroConcentrated
from privacy.arrays import Unsigned
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.sums import SumQuery
from privacy.learning.binary_splitting import split_mixture
from privacy.learning.embedding import Embedding, embedding
from privacy.learning.kmeans import cluster_statistic, fit_clusters, initial_centres
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.mixture import (
    Covariance,
    Measure,
    Mixture,
    fit_mixture,
    initial_mixture,
    maximised,
    mixture_statistic,
    smallest_floor,
)
from privacy.learning.moments import Everyone, LabelCodes, MomentBlocks, Moments
from privacy.learning.principal_components import noise_edge, principal_components
from privacy.marginals.portable import PostProcessingSeed
from privacy.marginals.sensitivity import GaussianNoise
from tests.privacy.learning.learning_rows import private
from tests.privacy.ledger.ledgers import Place, ledger_with_account, request

SEED = PostProcessingSeed(13)
FINE = np.linspace(0, 1, 4001)[:, None]
PLANE = RowLayout(
    (
        ColumnLayout("x", "number", FINE),
        ColumnLayout("y", "number", FINE),
        ColumnLayout("label", "category", np.eye(3)),
    )
)
MEANS = np.array([[0.3, 0.3], [0.7, 0.4], [0.45, 0.75]])
SPREADS = np.array(
    [[[0.004, 0.002], [0.002, 0.003]], [[0.002, 0.0], [0.0, 0.006]], [[0.005, -0.002], [-0.002, 0.002]]]
)
SHARES = np.array([0.5, 0.3, 0.2])


def clouds(rows: int = 6000) -> Unsigned:
    random = np.random.default_rng(8)
    label = random.choice(3, size=rows, p=SHARES)
    points = MEANS[label] + np.einsum("nij,nj->ni", np.linalg.cholesky(SPREADS)[label], random.normal(size=(rows, 2)))
    codes = np.rint(np.clip(points, 0, 1) * 4000).astype(np.uint16)
    return np.concatenate([codes, label[:, None].astype(np.uint16)], axis=1)


def plane(bits: int = 11) -> Embedding:
    return embedding(PLANE, bound=Fraction(7, 10), bits=bits, columns=("x", "y"), centre=np.array([0.5, 0.5]))


def noiseless(codes: Unsigned, layout: RowLayout) -> Measure:
    return lambda statistic, _: statistic.blocks(statistic.total(codes, layout))


def noisy(grant: Grant, codes: Unsigned, layout: RowLayout, rho: Fraction) -> Measure:
    def measure(statistic: Moments, turn: int) -> MomentBlocks:
        drawn = grant.draw(
            SumQuery(private(codes, layout), statistic, GaussianNoise(rho)), key=f"{'-'.join(statistic.parts)}-{turn}"
        )
        return statistic.blocks(drawn.values, variance=drawn.variance)

    return measure


@pytest.fixture
def grant(sqlite_place: Place) -> Grant:
    """A grant with a budget of rho = 1/20, which is about epsilon 1 at delta 10^-9."""
    ledger = ledger_with_account(sqlite_place, RenyiCalculus(Fraction(12)))
    ledger.reserve(request(events=(ZeroConcentrated(Fraction(1, 20)),), delta=ATTO // 10**9))
    return open_grant(ledger, "run-1")


def starting(covariance: Covariance, components: int = 3, labels: int = 0) -> Mixture:
    variances = np.array([0.03, 0.03])
    return initial_mixture(
        components, variances=variances, covariance=covariance, floor=1e-4, seed=SEED, labels=labels
    )


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_without_noise_it_is_the_mixture_that_scikit_learn_fits(covariance: Covariance):
    """From the same beginning, the same rounds: weights, means and covariances agree to the lattice's coarseness."""
    codes, ball, begin = clouds(), plane(), starting(covariance)
    points = ball.vectors(codes, PLANE) * ball.unit
    peer = GaussianMixture(
        3,
        covariance_type="full" if covariance == "full" else "diag",
        weights_init=begin.weights,
        means_init=begin.means,
        precisions_init=np.linalg.inv(begin.covariances) if covariance == "full" else 1 / begin.covariances,
        max_iter=30,
        tol=0,
        reg_covar=0,
    )
    with pytest.warns(UserWarning, match="converge"):
        peer.fit(points)
    ours = fit_mixture(noiseless(codes, PLANE), begin, ball, rounds=30, weight_bits=12, floor=1e-5, least=1)
    np.testing.assert_allclose(ours.weights, peer.weights_, atol=2e-3)
    np.testing.assert_allclose(ours.means, peer.means_, atol=2e-3)
    np.testing.assert_allclose(ours.covariances, peer.covariances_, atol=2e-4)


@pytest.mark.stat
def test_at_epsilon_one_the_clouds_are_still_found(grant: Grant):
    """Ten rounds of rho = 1/200 on n = 20,000 rows: means within 0.05, shares within 0.08. In simulated runs the
    largest error is 0.0044 +- 0.0017, and 0.0032 +- 0.0009: false alarms below 1e-9."""
    ball = plane(9)
    made = fit_mixture(
        noisy(grant, clouds(20_000), PLANE, Fraction(1, 200)),
        starting("full"),
        ball,
        rounds=10,
        weight_bits=9,
        floor=1e-3,
        least=100,
    )
    order = np.argsort(np.linalg.norm(made.means[:, None] - (MEANS - 0.5), axis=2), axis=0)[0]
    assert sorted(order.tolist()) == [0, 1, 2]
    assert np.abs(made.means[order] - (MEANS - 0.5)).max() < 0.05
    assert np.abs(made.weights[order] - SHARES).max() < 0.08
    assert (np.linalg.eigvalsh(made.covariances) >= 1e-3 - 1e-9).all()


def test_each_label_gets_its_own_components():
    """A mixture a label: rows count only for their own label's components, and shares follow the labels."""
    codes, labels = clouds(), LabelCodes("label", 3)
    begin = starting("diagonal", components=2, labels=3)
    assert begin.owners is not None
    made = fit_mixture(
        noiseless(codes, PLANE), begin, plane(), rounds=15, weight_bits=9, floor=1e-5, least=1, labels=labels
    )
    shares = np.bincount(codes[:, 2]) / len(codes)
    np.testing.assert_allclose([made.weights[begin.owners == label].sum() for label in range(3)], shares, atol=1e-3)
    for label in range(3):
        mine = begin.owners == label
        mean = made.weights[mine] @ made.means[mine] / made.weights[mine].sum()
        np.testing.assert_allclose(mean, MEANS[label] - 0.5, atol=0.01)


def test_what_noise_spoils_is_put_right():
    """Counts below zero or below `least`, means outside the bound, covariances that are none: all end in range."""
    random = np.random.default_rng(3)
    begin = starting("full")
    blocks = MomentBlocks(
        np.array([-50.0, 20.0, 400.0]), random.normal(size=(3, 2)) * 900, random.normal(size=(3, 2, 2)) * 300
    )
    made = maximised(blocks, begin, bound=0.7, floor=0.01, least=100)
    assert np.array_equal(made.means[:2], begin.means[:2])
    assert np.array_equal(made.covariances[:2], begin.covariances[:2])
    assert (made.weights > 0).all()
    assert made.weights.sum() == pytest.approx(1)
    assert np.linalg.norm(made.means[2]) <= 0.7 + 1e-12
    values = np.linalg.eigvalsh(made.covariances[2])
    assert 0.01 - 1e-12 <= values.min() <= values.max() <= 0.49 + 1e-12
    nothing = maximised(
        MomentBlocks(-np.ones(3), np.ones((3, 2)), np.ones((3, 2))), starting("diagonal"), bound=1, floor=0.1, least=1
    )
    np.testing.assert_allclose(nothing.weights, 1 / 3)
    with pytest.raises(ValueError, match="counts, sums and second moments"):
        maximised(MomentBlocks(counts=np.ones(3)), begin, bound=1, floor=0.1, least=1)


def test_a_floor_too_low_for_whole_numbers_is_refused_beforehand():
    """And at the lowest floor that is allowed the sharpest component fits."""
    ball = plane(6)
    least = smallest_floor(ball)
    with pytest.raises(ValueError, match="floor must be from"):
        fit_mixture(
            lambda *_: pytest.fail("measured"),
            starting("full"),
            ball,
            rounds=1,
            weight_bits=4,
            floor=least / 2,
            least=1,
        )
    for turn in range(20):
        angle = np.pi * turn / 20
        turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        sharp = turned @ np.diag([least, 0.49]) @ turned.T
        mixture_statistic(
            replace(starting("full"), covariances=np.repeat(sharp[None], 3, axis=0)), ball, weight_bits=4
        )


def test_a_fit_is_the_same_every_time():
    """Public beginnings and whole numbers in between: the statistics of all rounds have the same digests."""
    codes, ball, seen = clouds(500), plane(), []

    def measure(statistic: Moments, turn: int) -> MomentBlocks:
        seen.append(statistic.digest)
        return statistic.blocks(statistic.total(codes, PLANE))

    for _ in range(2):
        fit_mixture(measure, starting("full"), ball, rounds=4, weight_bits=9, floor=1e-4, least=1)
    assert seen[:4] == seen[4:]
    assert len(set(seen)) == 4


def low_rank(rows: int = 4000, width: int = 40, rank: int = 3) -> tuple[RowLayout, Unsigned, np.ndarray]:
    """Rows near a space of few dimensions about the middle of the cube."""
    random = np.random.default_rng(2)
    space = np.linalg.qr(random.normal(size=(width, rank)))[0]
    entries = (
        0.5
        + (random.normal(size=(rows, rank)) * [0.4, 0.3, 0.25]) @ space.T
        + random.normal(size=(rows, width)) * 0.01
    )
    layout = RowLayout(tuple(ColumnLayout(f"c{place}", "number", FINE) for place in range(width)))
    return layout, np.rint(np.clip(entries, 0, 1) * 4000).astype(np.uint16), space


def angle(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.arccos(min(1.0, np.linalg.svd(one.T @ other)[1].min())))


@pytest.mark.stat
def test_principal_axes_are_found_at_small_noise(grant: Grant):
    """n = 4,000 rows of 40 numbers: the axes of numpy's SVD without noise, their space within 0.35 at rho = 1/100.
    `noise_edge` tells the three true moments from the others. In simulated runs the angle is 0.131 +- 0.014, the
    third moment 3.9 +- 0.09 edges and the fourth 0.88 +- 0.055: false alarms below 1e-9."""
    layout, codes, space = low_rank()
    ball = embedding(layout, bound=Fraction(1), bits=12, centre=np.full(40, 0.5))
    statistic = Moments(ball, Everyone(), ("full",))
    exact = principal_components(noiseless(codes, layout)(statistic, 0).squares[0], dimension=3)  # type: ignore[index]
    vectors = ball.vectors(codes, layout) * ball.unit
    peer = np.linalg.svd(vectors, full_matrices=False)
    np.testing.assert_allclose(np.abs((exact.axes * peer[2][:3].T).sum(axis=0)), 1, atol=1e-9)
    np.testing.assert_allclose(exact.moments, peer[1][:3] ** 2, rtol=1e-9)
    assert angle(exact.axes, space) < 0.05
    drawn = grant.draw(SumQuery(private(codes, layout), statistic, GaussianNoise(Fraction(1, 100))), key="pca")
    found = principal_components(statistic.blocks(drawn.values).squares[0], dimension=6)  # type: ignore[index]
    assert angle(found.axes[:, :3], space) < 0.35
    edge = noise_edge(40, drawn.variance**0.5 / statistic.move * 5 / 7)
    assert (found.moments > 1.5 * edge).tolist() == [True, True, True, False, False, False]


def test_axes_are_orthonormal_turned_and_refused_beyond_the_width():
    random = np.random.default_rng(5)
    matrix = random.normal(size=(8, 8))
    made = principal_components(matrix + matrix.T, dimension=8)
    np.testing.assert_allclose(made.axes.T @ made.axes, np.eye(8), atol=1e-12)
    assert (made.axes[np.argmax(np.abs(made.axes), axis=0), np.arange(8)] > 0).all()
    assert (made.moments >= 0).all()
    assert (np.diff(made.moments) <= 0).all()
    for squares, dimension in ((matrix, 9), (matrix, 0), (matrix[:4], 2)):
        with pytest.raises(ValueError, match="dimension must be"):
            principal_components(squares, dimension=dimension)


def test_without_noise_clusters_are_those_of_scikit_learn():
    """From the same centres, Lloyd's rounds; sizes as assigned."""
    codes, ball = clouds(), plane()
    points = ball.vectors(codes, PLANE) * ball.unit
    begin = initial_centres(3, variances=np.array([0.03, 0.03]), seed=SEED)
    peer = KMeans(3, init=begin, n_init=1, max_iter=100, tol=0).fit(points)
    ours = fit_clusters(noiseless(codes, PLANE), begin, ball, rounds=60, least=1)
    np.testing.assert_allclose(ours.centres, peer.cluster_centers_, atol=2e-3)
    np.testing.assert_allclose(ours.counts, np.bincount(peer.labels_), atol=15)


@pytest.mark.stat
def test_clusters_at_epsilon_one_half(grant: Grant):
    """Six rounds of rho = 1/500 on n = 20,000 rows: every centre within 0.06 of a cloud's. In simulated runs the
    largest error is below 0.02, and the sizes' sum is off by 44: false alarms below 1e-9."""
    ball = plane(9)
    begin = initial_centres(3, variances=np.array([0.03, 0.03]), seed=SEED)
    made = fit_clusters(noisy(grant, clouds(20_000), PLANE, Fraction(1, 500)), begin, ball, rounds=6, least=100)
    away = np.linalg.norm(made.centres[:, None] - (MEANS - 0.5), axis=2)
    assert sorted(np.argmin(away, axis=1).tolist()) == [0, 1, 2]
    assert away.min(axis=1).max() < 0.06
    assert made.counts.sum() == pytest.approx(20_000, abs=400)


def test_a_plan_needs_no_data():
    """A stand-in with the same bits and parts has the moves of whatever the rounds will measure."""
    ball = plane()
    fitted = Mixture(SHARES, MEANS - 0.5, SPREADS)
    planned = mixture_statistic(starting("full"), ball, weight_bits=9)
    assert planned.moves("add_remove", 1) == mixture_statistic(fitted, ball, weight_bits=9).moves("add_remove", 1)
    clusters = cluster_statistic(np.zeros((3, 2)), ball)
    assert clusters.moves("replace_one", 1) == (2048,) * 4


def two() -> Mixture:
    """Two components in three dimensions; the first is longest along (1, 1, 0), the second along the last axis."""
    generator = np.random.default_rng(4)
    turned = np.linalg.qr(np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]).T)[0]
    first = turned @ np.diag([9.0, 1.0, 0.5]) @ turned.T
    means = generator.normal(0, 1, (2, 3))
    return Mixture(np.array([0.7, 0.3]), means, np.stack([first, np.diag([1.0, 2.0, 5.0])]), np.array([0, 1]))


def moments(mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    weights = mixture.weights / mixture.weights.sum()
    mean = weights @ mixture.means
    away = mixture.means - mean
    return mean, np.tensordot(weights, mixture.covariances + away[:, :, None] * away[:, None, :], axes=1)


def test_halves_have_together_the_moments_that_the_one_had():
    whole = two()
    made = split_mixture(whole, np.array([True, True]), floor=1e-9)
    assert made.owners is not None
    assert made.owners.tolist() == [0, 0, 1, 1]
    assert made.weights == pytest.approx([0.35, 0.35, 0.15, 0.15])
    for before, after in zip(moments(whole), moments(made), strict=True):
        assert after == pytest.approx(before)
    apart = made.means[1] - made.means[0]
    assert np.abs(apart / np.linalg.norm(apart)) == pytest.approx([np.sqrt(0.5), np.sqrt(0.5), 0])


def test_halves_of_a_normal_are_as_far_apart_as_the_rows_on_either_side():
    """200,000 rows along one axis: means and variances of both sides, against the formula; 5 standard errors."""
    rows = 200_000
    drawn = np.abs(np.random.default_rng(2).normal(0, 3, rows))
    one = Mixture(np.ones(1), np.zeros((1, 1)), np.full((1, 1, 1), 9.0), np.array([0]))
    made = split_mixture(one, np.array([True]), floor=1e-9)
    error = 5 * 3 / np.sqrt(rows)
    assert made.means[1, 0] == pytest.approx(drawn.mean(), abs=error)
    assert made.covariances[1, 0, 0] == pytest.approx(drawn.var(), abs=6 * error)


def test_what_is_not_chosen_stays_and_no_variance_is_below_the_floor():
    whole = two()
    made = split_mixture(whole, np.array([False, True]), floor=1e-9)
    assert made.weights == pytest.approx([0.7, 0.15, 0.15])
    assert made.means[0] == pytest.approx(whole.means[0])
    assert made.covariances[0] == pytest.approx(whole.covariances[0])
    raised = split_mixture(whole, np.array([True, True]), floor=0.8)
    assert np.linalg.eigvalsh(raised.covariances).min() == pytest.approx(0.8)


def test_components_without_owners_or_full_covariances_are_refused():
    whole = two()
    for wrong in (
        Mixture(whole.weights, whole.means, whole.covariances, None),
        Mixture(whole.weights, whole.means, np.ones((2, 3)), np.array([0, 1])),
    ):
        with pytest.raises(ValueError, match="full covariances and owners"):
            split_mixture(wrong, np.array([True, True]), floor=1e-9)
