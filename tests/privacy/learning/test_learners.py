"""Losses against other derivations, networks against what they refuse, optimizers against torch's."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from privacy.learning.learners import FixedDeviation, GaussianMixture, LatentModel, learner_digest, parameters_of
from privacy.learning.network import Adam, CannotTrain, Linear, Network, Relu, Sgd, perceptron
from privacy.learning.plan import Execution
from privacy.learning.training import LatentLoss, Session, TrainingState, initial_state
from tests.privacy.learning.reference_learners import (
    CPU,
    autoencoder,
    classifier,
    clustered,
    fixed_mean,
    latents,
    mixed_codes,
    mixed_layout,
    mixture,
    p3gm,
    vae,
)

LAYOUT = mixed_layout()
ROWS = torch.from_numpy(LAYOUT.vectors(mixed_codes(5)))


def divergence(learner: LatentModel, mean: Any, log_variance: Any) -> Tensor:
    loss = LatentLoss(learner, LAYOUT, CPU)
    return loss._divergence(torch.tensor(mean), None if log_variance is None else torch.tensor(log_variance))


def test_the_divergence_from_one_component_is_that_of_two_gaussians():
    """With one component the bound is the divergence itself: mean of the log ratio over 400,000 draws, to 1 %."""
    factor = np.array([[0.8, 0.0], [0.3, 0.6]])
    prior = GaussianMixture(np.ones(1), np.array([[0.5, -0.2]]), factor[None])
    mean, variance = np.array([0.1, 0.4]), np.array([0.3, 0.05])
    found = float(divergence(p3gm(prior=prior), mean[None].astype("f4"), np.log(variance)[None].astype("f4")))
    draws = np.random.default_rng(0).normal(mean, np.sqrt(variance), (400_000, 2))
    ratio = multivariate_normal(mean, np.diag(variance)).logpdf(draws)
    ratio = ratio - multivariate_normal([0.5, -0.2], factor @ factor.T).logpdf(draws)
    assert found == pytest.approx(float(ratio.mean()), rel=1e-2)


def test_the_divergence_from_a_mixture_is_equation_six():
    """-log sum of weight exp(-KL) over components, each KL in closed form with full covariances."""
    prior, mean, log_variance = mixture(), np.array([0.3, -0.5]), np.array([-1.0, 0.2])
    each = []
    for component in range(3):
        factor = prior.factors[component].astype(float)
        covariance, apart = factor @ factor.T, prior.means[component] - mean
        inverse = np.linalg.inv(covariance)
        traced = np.trace(inverse @ np.diag(np.exp(log_variance))) + apart @ inverse @ apart - 2
        each.append(0.5 * (traced + np.linalg.slogdet(covariance)[1] - log_variance.sum()))
    wanted = -np.log((prior.weights * np.exp(-np.array(each))).sum())
    found = divergence(p3gm(prior=prior), mean[None].astype("f4"), log_variance[None].astype("f4"))
    assert float(found) == pytest.approx(float(wanted), rel=1e-5)


def test_the_divergence_from_the_standard_normal_is_the_autoencoders():
    mean, log_variance = np.array([[0.3, -0.5]], "f4"), np.array([[-1.0, 0.2]], "f4")
    wanted = 0.5 * (np.exp(log_variance) + mean**2 - 1 - log_variance).sum()
    standard = GaussianMixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    for learner in (vae(), p3gm(prior=standard)):
        assert float(divergence(learner, mean, log_variance)) == pytest.approx(float(wanted), rel=1e-5)


def outputs_loss(learner: LatentModel, outputs: Tensor, rows: Tensor) -> Tensor:
    return LatentLoss(learner, LAYOUT, CPU)._reconstruction(outputs[:, None], rows[:, None])[:, 0]


def test_reconstruction_adds_up_the_heads_and_a_missing_number_costs_only_its_flag():
    """Against sums written out: number 0, flag 1, choice 2..5, pixels 5..21."""
    outputs = torch.randn(5, 21, generator=torch.Generator().manual_seed(1))
    rows = ROWS.clone()
    rows[0, 0], rows[0, 1] = 0.0, 1.0
    rows[1, 1] = 0.0

    def bernoulli(place: slice) -> Tensor:
        chance = torch.sigmoid(outputs[:, place].double())
        return -(rows[:, place] * chance.log() + (1 - rows[:, place]) * (1 - chance).log()).sum(1)

    choice = -(rows[:, 2:5] * torch.log_softmax(outputs[:, 2:5].double(), 1)).sum(1)
    present = 1 - rows[:, 1]
    beside = bernoulli(slice(1, 2)) + choice
    wanted = bernoulli(slice(0, 1)) * present + bernoulli(slice(5, 21)) + beside
    torch.testing.assert_close(outputs_loss(p3gm(), outputs, rows).double(), wanted, rtol=1e-5, atol=1e-5)
    squares = (outputs.sigmoid() - rows).square() / (2 * 0.25)
    gaussian = squares[:, 0] * present + squares[:, 5:].sum(1) + beside
    found = outputs_loss(p3gm(numbers="gaussian", number_variance=0.25), outputs, rows)
    torch.testing.assert_close(found.double(), gaussian.double(), rtol=1e-5, atol=1e-5)


def test_an_autoencoder_trains_its_decoder_alone():
    """Its divergence is a constant, its latent vector is the projection: no randomness in the loss."""
    learner = autoencoder()
    assert [name for name, _ in learner.parts] == ["decoder"]
    loss, seen = LatentLoss(learner, LAYOUT, CPU), []

    def apply(part: str, values: Tensor) -> Tensor:
        seen.append(values)
        return torch.zeros(5, 1, 21)

    for seed in (1, 2):
        loss(ROWS, apply, latents(seed))
    torch.testing.assert_close(seen[0], seen[1])
    mean = (ROWS.numpy() - learner.mean.centre) @ learner.mean.axes  # type: ignore[union-attr]
    np.testing.assert_allclose(seen[0][:, 0].numpy(), mean, rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    ("optimizer", "reference"),
    [
        (Adam(0.01, 0.8, 0.99), lambda leaf: torch.optim.Adam([leaf], 0.01, betas=(0.8, 0.99))),
        (Sgd(0.1), lambda leaf: torch.optim.SGD([leaf], 0.1)),
        (Sgd(0.1, 0.9), lambda leaf: torch.optim.SGD([leaf], 0.1, momentum=0.9)),
    ],
)
@pytest.mark.parametrize("stop", [None, 3])
def test_steps_are_those_of_torch_also_after_a_checkpoint(optimizer: Any, reference: Any, stop: int | None):
    """Six steps in one go, or three, a checkpoint, and three more."""
    learner = classifier(optimizer=optimizer, averaging=0.5)
    state = initial_state(learner)
    leaf = torch.tensor(state.parameters, requires_grad=True)
    other, generator = reference(leaf), torch.Generator().manual_seed(4)
    given = {"steps": 6, "execution": Execution("cpu")}
    session = Session(learner, LAYOUT, state, step=0, **given)  # type: ignore[arg-type]
    average = torch.tensor(state.parameters)
    for step in range(6):
        if step == stop:
            again = TrainingState.of(learner, session.state().to_vector())
            session = Session(learner, LAYOUT, again, step=step, **given)  # type: ignore[arg-type]
        gradient = torch.randn(parameters_of(learner), generator=generator)
        leaf.grad = gradient / 10
        other.step()
        session.advance(gradient.numpy().copy(), expected_batch_size=10.0)
        average = 0.5 * average + 0.5 * leaf.detach()
    np.testing.assert_allclose(session.state().parameters, leaf.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(session.state().trained, average.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "layers"),
    [
        ((4,), (Linear(5, 2),)),
        ((4,), (Relu(),)),
        ((4,), ()),
        ((4,), (Linear(4, 4), Relu(), Linear(3, 2))),
        ((4,), (Linear(4, 2), object())),
        ((4.0,), (Linear(4, 2),)),
        ((4,), (Linear(4, -2),)),
        ((2**20,), (Linear(2**20, 2**20),)),
    ],
)
def test_networks_that_do_not_fit_together_are_refused(inputs: Any, layers: Any):
    with pytest.raises(CannotTrain):
        Network(inputs, layers)


@pytest.mark.parametrize(
    ("make", "changed"),
    [
        (p3gm, {"latent": 3}),
        (p3gm, {"decoder": perceptron(2, 4, outputs=20)}),
        (p3gm, {"deviation": perceptron(21, 4, outputs=3)}),
        (p3gm, {"deviation": 0.5}),
        (p3gm, {"mean": None}),
        (p3gm, {"prior": mixture(latent=3)}),
        (p3gm, {"prior": "normal"}),
        (p3gm, {"numbers": "poisson"}),
        (p3gm, {"number_variance": 0.0}),
        (p3gm, {"kl_weight": -1.0}),
        (p3gm, {"samples": 0}),
        (p3gm, {"seed": -1}),
        (p3gm, {"averaging": 1.0}),
        (p3gm, {"optimizer": "adam"}),
        (clustered, {"members": (autoencoder(),)}),
        (clustered, {"members": (autoencoder(), autoencoder(seed=9))}),
        (clustered, {"members": [autoencoder(), autoencoder()]}),
        (clustered, {"centres": np.zeros((2, 2))}),
        (clustered, {"centres": np.zeros((3, 3))}),
        (clustered, {"space": fixed_mean(width=20)}),
        (clustered, {"members": (autoencoder(), autoencoder(), autoencoder(latent=3))}),
    ],
)
def test_a_latent_or_clustered_model_that_does_not_fit_its_rows_is_refused(make: Any, changed: dict[str, Any]):
    make().check(LAYOUT)
    with pytest.raises(CannotTrain):
        make(**changed).check(LAYOUT)


def test_arrays_that_are_no_prior_and_constants_out_of_range_are_refused():
    good = mixture()
    for changed in (
        {"weights": np.array([0.5, 0.6, -0.1])},
        {"weights": np.ones(2) / 2},
        {"factors": np.transpose(good.factors, (0, 2, 1)) + 1},
        {"factors": -good.factors},
        {"means": np.full((3, 2), np.nan)},
        {"means": [[0.0, 0.0]] * 3},
    ):
        with pytest.raises(CannotTrain):
            replace(good, **changed)  # type: ignore[arg-type]
    for deviation in (-1.0, float("nan"), 1):
        with pytest.raises(CannotTrain):
            FixedDeviation(deviation)
    for wrong in ({"learning_rate": 0.0}, {"learning_rate": float("nan")}, {"momentum": 1.0}, {"decay": "fast"}):
        with pytest.raises(CannotTrain):
            Sgd(**{"learning_rate": 0.1, **wrong})  # type: ignore[arg-type]


def test_a_learners_digest_tells_arrays_and_numbers_apart():
    known = {
        learner_digest(each) for each in (p3gm(), p3gm(seed=3), p3gm(prior=None), vae(), classifier(), clustered())
    }
    moved = replace(mixture(), means=mixture().means + np.float32(1e-3))
    assert len(known | {learner_digest(p3gm(prior=moved))}) == 7
    assert learner_digest(p3gm()) in known


@pytest.mark.parametrize("backend", ["cuda", "mkldnn"])
def test_products_in_fewer_bits_than_float32_are_refused(backend: str):
    """Norms and sums would be off by 2^-8 or 2^-11 of the bound, where C / 1024 is the room that there is."""
    matmul = getattr(torch.backends, backend).matmul
    Execution("cpu").chosen_device()
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "tf32"
        with pytest.raises(CannotTrain, match="precision of float32 products is tf32"):
            Execution("cpu").chosen_device()
    finally:
        matmul.fp32_precision = before
    assert Execution("cpu").chosen_device() == "cpu"
