"""What the tests of trainings share: small layouts, rows, learners, and a per-row reference in float64."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privacy.learning.clipping import Tape, add_clipped_sum, forward
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.learners import (
    Classifier,
    ClusteredModel,
    FixedDeviation,
    FixedMean,
    GaussianMixture,
    LatentModel,
    Learner,
    learner_slots,
    parameters_of,
)
from privacy.learning.network import Adam, Linear, Network, Relu, Sgd, Slot, perceptron
from privacy.learning.training import loss_of
from privacy.noise.lattice_gaussian import normals_from
from privacy.noise.random_bytes import SeededBytes

CPU = torch.device("cpu")


def mixed_layout() -> RowLayout:
    """A nullable number, a category of three, an array of 4 x 4 pixels of 16 levels: 2 + 3 + 16 entries."""
    levels = np.linspace(0, 1, 16)[:, None]
    number = np.concatenate([np.linspace(0.05, 0.95, 10)[:, None], np.zeros((10, 1))], axis=1)
    return RowLayout(
        (
            ColumnLayout("age", "number", np.concatenate([number, [[0.0, 1.0]]])),
            ColumnLayout("kind", "category", np.eye(3)),
            ColumnLayout("picture", "array", levels, length=16),
        )
    )


def mixed_codes(rows: int, seed: int = 0) -> NDArray[np.uint8]:
    generator = np.random.default_rng(seed)
    cells = [11, 3, *[16] * 16]
    return np.stack([generator.integers(0, size, rows) for size in cells], axis=1).astype(np.uint8)


def classifier(**changed: Any) -> Classifier:
    """A small network that tells the category of a `mixed_layout` row from the rest."""
    given = {
        "network": perceptron(18, 16, 12, outputs=3),
        "label": "kind",
        "optimizer": Sgd(0.1),
        "seed": 1,
        **changed,
    }
    return Classifier(**given)


def mixture(latent: int = 2, components: int = 3) -> GaussianMixture:
    generator = np.random.default_rng(5)
    factors = np.tril(generator.normal(0, 0.3, (components, latent, latent)))
    factors[:, np.arange(latent), np.arange(latent)] = generator.uniform(0.5, 1.5, (components, latent))
    weights = generator.dirichlet(np.ones(components))
    return GaussianMixture(weights, generator.normal(0, 1, (components, latent)), factors)


def fixed_mean(width: int = 21, latent: int = 2) -> FixedMean:
    generator = np.random.default_rng(6)
    return FixedMean(generator.uniform(0, 1, width), np.linalg.qr(generator.normal(0, 1, (width, latent)))[0])


def p3gm(**changed: Any) -> LatentModel:
    given = {
        "latent": 2,
        "decoder": perceptron(2, 12, outputs=21),
        "mean": fixed_mean(),
        "deviation": perceptron(21, 7, outputs=2),
        "prior": mixture(),
        "optimizer": Adam(0.01),
        "seed": 2,
        **changed,
    }
    return LatentModel(**given)


def autoencoder(**changed: Any) -> LatentModel:
    return p3gm(deviation=FixedDeviation(0.0), **changed)


def vae(**changed: Any) -> LatentModel:
    return p3gm(mean=perceptron(21, 9, outputs=2), prior=None, **changed)


def sampling(**changed: Any) -> LatentModel:
    """Three latent samples a row, which a layer sees as three positions."""
    return p3gm(decoder=perceptron(2, 24, 8, outputs=21), samples=3, **changed)


def clustered(**changed: Any) -> ClusteredModel:
    """Three autoencoders, told apart by the projection of a row."""
    space = fixed_mean()
    centres = (mixed_layout().vectors(mixed_codes(3)) - space.centre) @ space.axes
    return ClusteredModel(**{"members": (autoencoder(),) * 3, "space": space, "centres": centres, **changed})


LEARNERS: dict[str, Learner] = {
    "classifier": classifier(),
    "p3gm": p3gm(),
    "autoencoder": autoencoder(),
    "vae": vae(samples=2),
    "sampling": sampling(),
    "gaussian": vae(numbers="gaussian", number_variance=0.25, kl_weight=0.5),
    "wild": vae(numbers="gaussian", number_variance=1e-6, kl_weight=1000.0, samples=8),
}


def placed(learner: Learner) -> dict[str, dict[int, Slot]]:
    found: dict[str, dict[int, Slot]] = {name: {} for name, _ in learner.parts}
    for slot in learner_slots(learner):
        found[slot.part][slot.place] = slot
    return found


def some_parameters(learner: Learner, scale: float = 0.5) -> torch.Tensor:
    return torch.randn(parameters_of(learner), generator=torch.Generator().manual_seed(3)) * scale


def latents(seed: int) -> Callable[[int, int], torch.Tensor]:
    normals = normals_from(SeededBytes(seed))
    return lambda rows, size: torch.from_numpy(normals(rows, size))


def losses_of(
    learner: Learner, layout: RowLayout, rows: torch.Tensor, parameters: torch.Tensor, tape: Tape | None
) -> torch.Tensor:
    networks, places = dict(learner.parts), placed(learner)

    def apply(part: str, values: torch.Tensor) -> torch.Tensor:
        return forward(networks[part], places[part], parameters, values, tape)

    loss = loss_of(learner, layout, CPU)
    return loss(rows, apply, latents(9))


def ghost(
    learner: Learner, layout: RowLayout, rows: torch.Tensor, parameters: torch.Tensor, bound: float
) -> tuple[torch.Tensor, torch.Tensor]:
    tape, total = Tape(), torch.zeros_like(parameters)
    scales = add_clipped_sum(losses_of(learner, layout, rows, parameters, tape), tape, bound=bound, total=total)
    return total, scales


def per_row_gradients(
    learner: Learner, layout: RowLayout, rows: torch.Tensor, parameters: torch.Tensor
) -> NDArray[np.float64]:
    """One backward pass a row, in float64, through plain torch functions: shape (rows, parameters)."""
    return np.stack([_gradient(learner, layout, rows, parameters, row) for row in range(rows.shape[0])])


def _gradient(
    learner: Learner, layout: RowLayout, rows: torch.Tensor, parameters: torch.Tensor, row: int
) -> NDArray[np.float64]:
    leaf = parameters.double().clone().requires_grad_()
    apply = partial(_plain, dict(learner.parts), placed(learner), leaf)
    loss = _in_float64(loss_of(learner, layout, CPU))
    losses = loss(rows.double(), apply, latents(9))
    (gradient,) = torch.autograd.grad(losses[row], leaf)
    return np.asarray(gradient.numpy())


def _in_float64(part: Any) -> Any:
    for name, value in vars(part).items():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            object.__setattr__(part, name, value.double())
        elif type(value).__module__ == "privacy.learning.training":
            _in_float64(value)
    return part


def _plain(
    networks: dict[str, Network], places: dict[str, dict[int, Slot]], leaf: torch.Tensor, part: str, values: Any
) -> torch.Tensor:
    layers: Sequence[Any] = networks[part].layers
    for place, layer in enumerate(layers):
        slot = places[part].get(place)
        weights = leaf[slot.weights].view(layer.weight_shape) if slot else None
        match layer:
            case Linear():
                values = values @ weights.T + leaf[slot.biases]  # type: ignore[union-attr]
            case Relu():
                values = values * (values > 0)
    return torch.as_tensor(values)
