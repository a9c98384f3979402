"""One training in progress: parameters, the clipped sum of a sample's gradients, and the step after noise.

What this module is given of the rows it turns into clipped sums; sampling and noise are the grant's (law 1), and so
is the order of the two. A sum may be computed in pieces (`Execution.rows_at_once`): that is memory, not privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from privacy.arrays import Singles, Unsigned
from privacy.learning.clipping import Tape, add_clipped_sum, forward
from privacy.learning.layout import Head, RowLayout
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
from privacy.learning.network import Adam, Relu, Slot, rate
from privacy.learning.plan import Execution

# --- The learners' losses, one number a row; nothing in them mixes rows.


Apply = Callable[[str, Tensor], Tensor]
"""From the name of a part and its inputs to its outputs."""
Latents = Callable[[int, int], Tensor]
"""From a number of rows and of numbers a row to normals, shape (rows, numbers)."""
_LOG_VARIANCE_LIMIT = 20.0


class ClassifierLoss:
    """Cross entropy of the label's cell."""

    def __init__(self, learner: Classifier, layout: RowLayout, device: torch.device) -> None:
        label = next(head for head in layout.heads if head.column == learner.label)
        entries = torch.arange(layout.width, device=device)
        self._label = label
        self._features = entries[(entries < label.start) | (entries >= label.stop)]

    def __call__(self, rows: Tensor, apply: Apply, latents: Latents) -> Tensor:
        """Return one loss a row; `rows` are vectors of the layout."""
        outputs = apply("network", rows[:, self._features])
        wanted = rows[:, self._label.start : self._label.stop].argmax(1)
        return functional.cross_entropy(outputs, wanted, reduction="none")


class LatentLoss:
    """Reconstruction plus the divergence of the encoder from the prior."""

    def __init__(self, learner: LatentModel, layout: RowLayout, device: torch.device) -> None:
        self._learner = learner
        self._reconstruction = _Reconstruction.of(learner, layout, device)
        self._prior = None if learner.prior is None else _Prior.of(learner.prior, device)
        if isinstance(learner.mean, FixedMean):
            self._centre = torch.tensor(learner.mean.centre, device=device)
            self._axes = torch.tensor(learner.mean.axes, device=device)
        if learner.window is not None:
            self._low = torch.tensor(learner.window.low, device=device)
            self._factors = torch.tensor(learner.window.factors, device=device)

    def __call__(self, rows: Tensor, apply: Apply, latents: Latents) -> Tensor:
        """Return one loss a row: mean over the latent samples of the reconstruction, plus the divergence."""
        learner = self._learner
        if learner.window is not None:
            rows = ((rows - self._low) * self._factors).clamp(0.0, 1.0)
        mean = (rows - self._centre) @ self._axes if isinstance(learner.mean, FixedMean) else apply("mean", rows)
        noise = latents(rows.shape[0], learner.samples * learner.latent)
        noise = noise.reshape(rows.shape[0], learner.samples, learner.latent)
        if isinstance(learner.deviation, FixedDeviation):
            log_variance = None
            latent = mean[:, None] + noise * learner.deviation.deviation
        else:
            started = apply("deviation", rows) + learner.log_variance_start
            # Clamped to ±20, so that its exponential is finite whatever the encoder says.
            log_variance = started.clamp(-_LOG_VARIANCE_LIMIT, _LOG_VARIANCE_LIMIT)
            # The reparametrisation: noise of the row's own, moved and stretched by what its encoder says.
            latent = mean[:, None] + noise * (log_variance / 2).exp()[:, None]
        outputs = apply("decoder", latent)
        # Samples of a row are averaged before clipping: one row keeps one gradient.
        loss = self._reconstruction(outputs, rows[:, None].expand_as(outputs)).mean(1)
        if learner.kl_weight and len(learner.parts) > 1:  # else the divergence is a constant
            loss = loss + learner.kl_weight * self._divergence(mean, log_variance)
        return loss

    def _divergence(self, mean: Tensor, log_variance: Tensor | None) -> Tensor:
        """KL(N(mean, variance) || prior); of a mixture by the variational bound -log sum w exp(-KL to a component).

        Where the deviation is a constant, its own entropy is left out.
        Source: P3GM, equation 6 with one component on the left; Hershey, Olsen 2007.
        """
        if log_variance is None:
            fixed = self._learner.deviation
            deviation = fixed.deviation if isinstance(fixed, FixedDeviation) else 0.0
            variance, entropy = torch.full_like(mean, deviation**2), torch.zeros_like(mean[:, 0])
        else:
            variance, entropy = log_variance.exp(), log_variance.sum(1)
        if self._prior is None:
            # Closed form of the divergence from the standard normal, summed over the entries.
            return 0.5 * ((variance + mean.square()).sum(1) - mean.shape[1] - entropy)
        return self._prior.divergence(mean, variance, entropy)


@dataclass(frozen=True)
class _Prior:
    """A mixture, ready for divergences; `precisions` are diagonals, `log_determinants` those of the covariances."""

    log_weights: Tensor
    means: Tensor
    inverses: Tensor
    precisions: Tensor
    log_determinants: Tensor

    @classmethod
    def of(cls, prior: GaussianMixture, device: torch.device) -> _Prior:
        # In float64, for a factor may be badly conditioned; only the results become float32.
        factors = torch.tensor(prior.factors, dtype=torch.float64)
        identity = torch.eye(factors.shape[1], dtype=torch.float64).expand_as(factors)
        inverses = torch.linalg.solve_triangular(factors, identity, upper=False)
        # log det(L L') is twice the sum of the logarithms of L's diagonal.
        logs = 2 * torch.diagonal(factors, dim1=1, dim2=2).log().sum(1)
        parts = (
            torch.tensor(prior.weights).log(),
            torch.tensor(prior.means),
            inverses,
            # The precision L'^-1 L^-1 has the diagonal sum_i (L^-1)_ij^2.
            inverses.square().sum(1),
            logs,
        )
        return cls(*(part.to(device=device, dtype=torch.float32) for part in parts))

    def divergence(self, mean: Tensor, variance: Tensor, entropy: Tensor) -> Tensor:
        """-log sum_b w_b exp(-KL(N(mean, variance) || N_b)), shape (rows,)."""
        apart = mean[:, None] - self.means
        # KL of two Gaussians: trace, Mahalanobis distance, dimension, and the ratio of the determinants.
        whitened = torch.einsum("bij,nbj->nbi", self.inverses, apart)
        traces = variance @ self.precisions.T
        each = 0.5 * (traces + whitened.square().sum(2) - mean.shape[1] + self.log_determinants - entropy[:, None])
        # logsumexp does not underflow where all components are far away.
        return -torch.logsumexp(self.log_weights - each, dim=1)


class _Reconstruction:
    """-log p(x | outputs), one number a row and sample, by the layout's heads."""

    def __init__(self, learner: LatentModel, heads: tuple[Head, ...], device: torch.device, width: int) -> None:
        self._bernoulli = learner.numbers == "bernoulli"
        self._scale = 1 / (2 * learner.number_variance)
        choices = [head for head in heads if head.kind == "choice"]
        self._choices = [(head.start, head.stop) for head in choices]
        plain = [head for head in heads if head.kind != "choice"]
        # Cross entropy of numbers alone: one call covers all entries.
        self._all = not choices and self._bernoulli and all(head.kind == "unit" for head in plain)
        kinds = {
            kind: [e for h in plain if h.kind == kind for e in range(h.start, h.stop)] for kind in ("unit", "flag")
        }
        self._units = torch.tensor(kinds["unit"], dtype=torch.int64, device=device)
        self._flags = torch.tensor(kinds["flag"], dtype=torch.int64, device=device)
        # the flag of each number's column, or an entry past the end where it has none
        flagged = {head.column: head.start for head in plain if head.kind == "flag"}
        present = [flagged.get(h.column, width) for h in plain if h.kind == "unit" for _ in range(h.start, h.stop)]
        self._present = torch.tensor(present, dtype=torch.int64, device=device) if flagged else None

    @classmethod
    def of(cls, learner: LatentModel, layout: RowLayout, device: torch.device) -> _Reconstruction:
        return cls(learner, layout.heads, device, layout.width)

    def __call__(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """Add up the heads' losses; outputs and rows (rows, samples, width). A missing number costs nothing."""
        if self._all:
            return functional.binary_cross_entropy_with_logits(outputs, rows, reduction="none").sum(2)
        total = torch.zeros(outputs.shape[:2], device=outputs.device)
        if self._units.numel():
            given, wanted = outputs[..., self._units], rows[..., self._units]
            if self._bernoulli:
                each = functional.binary_cross_entropy_with_logits(given, wanted, reduction="none")
            else:
                each = (given.sigmoid() - wanted).square() * self._scale
            if self._present is not None:
                # The padded entry is 0, so that a number without a flag always counts.
                each = each * (1 - functional.pad(rows, (0, 1))[..., self._present])
            total = total + each.sum(2)
        if self._flags.numel():
            given, wanted = outputs[..., self._flags], rows[..., self._flags]
            total = total + functional.binary_cross_entropy_with_logits(given, wanted, reduction="none").sum(2)
        for start, stop in self._choices:
            total = total - (rows[..., start:stop] * functional.log_softmax(outputs[..., start:stop], dim=2)).sum(2)
        return total


class ClusteredLoss:
    """The loss of the member whose centre is nearest."""

    def __init__(self, learner: ClusteredModel, layout: RowLayout, device: torch.device) -> None:
        self._members = [LatentLoss(member, layout, device) for member in learner.members]
        self._centre = torch.tensor(learner.space.centre, device=device)
        self._axes = torch.tensor(learner.space.axes, device=device)
        self._centres = torch.tensor(learner.centres, device=device)

    def __call__(self, rows: Tensor, apply: Apply, latents: Latents) -> Tensor:
        """Return each member's losses of all rows, shape (members * rows,); for looking at made-up rows."""
        return torch.cat([self._of(k, rows, apply, latents) for k in range(len(self._members))])

    def apart(self, rows: Tensor) -> Iterator[tuple[LossFunction, Tensor]]:
        """Yield each member's loss with the rows that are its own, where there are some."""
        # A row's member depends on that row and on public centres alone.
        places = (rows - self._centre) @ self._axes
        nearest = (places[:, None] - self._centres).square().sum(2).argmin(1)
        for k in range(len(self._members)):
            own = rows[nearest == k]
            if own.shape[0]:
                yield partial(self._of, k), own

    def _of(self, k: int, rows: Tensor, apply: Apply, latents: Latents) -> Tensor:
        return self._members[k](rows, lambda part, values: apply(f"{k}/{part}", values), latents)


LossFunction = Callable[[Tensor, Apply, Latents], Tensor]
"""From rows, what applies networks, and what draws latent vectors to one loss a row."""


def loss_of(learner: Learner, layout: RowLayout, device: torch.device) -> ClassifierLoss | LatentLoss | ClusteredLoss:
    """Return the loss of a learner on rows of a layout."""
    match learner:
        case Classifier():
            return ClassifierLoss(learner, layout, device)
        case LatentModel():
            return LatentLoss(learner, layout, device)
        case ClusteredModel():
            return ClusteredLoss(learner, layout, device)


def apart(loss: LossFunction, rows: Tensor) -> Iterator[tuple[LossFunction, Tensor]]:
    """Yield losses with the rows that they are of: all rows together, but for those of clusters."""
    if isinstance(loss, ClusteredLoss):
        yield from loss.apart(rows)
    elif rows.shape[0]:
        yield loss, rows


RowNormals = Callable[[int, int], NDArray[np.float32]]
"""From a number of rows and of numbers a row to normals, shape (rows, numbers)."""
_ADAM_EPSILON: Final = 1e-8


@dataclass(frozen=True)
class TrainingState:
    """All that a training needs to go on; released with each checkpoint.

    Args:
        parameters: shape (parameters,).
        moments: the optimizer's, shape (kinds, parameters).
        average: the parameters' exponential average; shape (0,) where none is kept.
    """

    parameters: Singles
    moments: Singles
    average: Singles

    def to_vector(self) -> Singles:
        """Lay the state out as one vector."""
        return np.concatenate([self.parameters, self.moments.ravel(), self.average])

    @classmethod
    def of(cls, learner: Learner, vector: Singles) -> TrainingState:
        """Take a vector apart."""
        size, kinds = parameters_of(learner), moment_kinds(learner)
        moments = vector[size : size * (1 + kinds)].reshape(kinds, size)
        return cls(vector[:size], moments, vector[size * (1 + kinds) :])

    @property
    def trained(self) -> Singles:
        """The parameters that are handed out."""
        return self.average if self.average.size else self.parameters


def moment_kinds(learner: Learner) -> int:
    """How many vectors the optimizer keeps beside the parameters."""
    if isinstance(learner.optimizer, Adam):
        return 2
    return 1 if learner.optimizer.momentum else 0


def state_size(learner: Learner) -> int:
    """Entries of a checkpoint."""
    return parameters_of(learner) * (1 + moment_kinds(learner) + (learner.averaging is not None))


def initial_state(learner: Learner) -> TrainingState:
    """Draw initial parameters from the learner's public seed: He's variance before a ReLU, 1/inputs elsewhere."""
    generator = torch.Generator().manual_seed(learner.seed)
    parameters = torch.zeros(parameters_of(learner))
    networks = dict(learner.parts)
    for slot in learner_slots(learner):
        after = networks[slot.part].layers[slot.place + 1 : slot.place + 2]
        gain = 2.0 if any(isinstance(layer, Relu) for layer in after) else 1.0
        # Variance gain / inputs keeps the scale of activations from layer to layer.
        spread = (gain / prod(slot.layer.weight_shape[1:])) ** 0.5
        parameters[slot.weights] = torch.randn(prod(slot.layer.weight_shape), generator=generator) * spread
    values: Singles = parameters.numpy()
    average = values.copy() if learner.averaging is not None else np.empty(0, np.float32)
    return TrainingState(values, np.zeros((moment_kinds(learner), values.size), np.float32), average)


class Session:
    """A training on one device.

    Args:
        learner: what is trained; it fits the layout.
        layout: how rows lie in vectors.
        state: where to go on.
        step: steps done so far.
        steps: steps in all, for the rate's decay.
        execution: device and memory.
    """

    def __init__(
        self,
        learner: Learner,
        layout: RowLayout,
        state: TrainingState,
        *,
        step: int,
        steps: int,
        execution: Execution,
    ) -> None:
        self._learner, self._layout, self._step, self._steps = learner, layout, step, steps
        self._device = torch.device(execution.chosen_device())
        self._rows_at_once = execution.rows_at_once
        self._loss = loss_of(learner, layout, self._device)
        self._parameters = torch.tensor(state.parameters, device=self._device)
        self._moments = torch.tensor(state.moments, device=self._device)
        self._average = torch.tensor(state.average, device=self._device)
        self._total = torch.zeros_like(self._parameters)
        self._done = torch.tensor(float(step), device=self._device)
        self._networks = dict(learner.parts)
        self._placed: dict[str, dict[int, Slot]] = {name: {} for name in self._networks}
        for slot in learner_slots(learner):
            self._placed[slot.part][slot.place] = slot

    def clipped_sum(self, codes: Unsigned, *, bound: float, normals: RowNormals) -> Singles:
        """Sum the clipped gradients of rows, in pieces that memory holds.

        Args:
            codes: the sampled rows, shape (rows, codes); there may be none.
            bound: the largest norm that a row's gradient keeps.
            normals: draws latent vectors' normals, each row's independent of all others and secret: the guarantee
                needs both (`privacy.noise.lattice_gaussian`).
        Returns:
            float32, shape (parameters,), to be overwritten by whoever adds noise; private.
        """
        self._total.zero_()
        for start in range(0, codes.shape[0], self._rows_at_once):
            piece = self._layout.vectors(codes[start : start + self._rows_at_once])
            rows = torch.from_numpy(piece).to(self._device)
            # A row's gradient is clipped by itself, so that pieces and clusters change no row's share.
            for loss, own in apart(self._loss, rows):
                tape = Tape()
                losses = loss(own, partial(self._apply, tape=tape), partial(self._latents, normals))
                add_clipped_sum(losses, tape, bound=bound, total=self._total)
        summed: Singles = self._total.cpu().numpy()
        return summed

    def advance(self, noisy: Singles, *, expected_batch_size: float) -> None:
        """Make one step along a noisy sum of gradients."""
        # Divided by the declared batch size: that of the sample is private.
        gradient = torch.from_numpy(noisy).to(self._device).div_(expected_batch_size)
        learning_rate = rate(self._learner.optimizer, self._step, self._steps)
        self._step += 1
        if isinstance(self._learner.optimizer, Adam):
            self._adam(gradient, self._learner.optimizer, learning_rate)
        else:
            if self._learner.optimizer.momentum:
                # Momentum: v = momentum · v + gradient, and the parameters follow v.
                gradient = self._moments[0].mul_(self._learner.optimizer.momentum).add_(gradient)
            self._parameters.add_(gradient, alpha=-learning_rate)
        if self._learner.averaging is not None:
            # average = averaging · average + (1 - averaging) · parameters
            self._average.lerp_(self._parameters, 1 - self._learner.averaging)

    def state(self) -> TrainingState:
        """Return what a training can go on from, as arrays of its own."""
        tensors = (self._parameters, self._moments, self._average)
        return TrainingState(*(np.array(tensor.cpu().numpy()) for tensor in tensors))

    def diverged(self) -> bool:
        """Say whether the parameters, which are released, are lost: not finite, or no finite loss on a made-up row.

        Privacy: post-processing; no private row takes part.
        """
        if not bool(torch.isfinite(self._parameters).all()):
            return True
        # Code 0 in every column: whether a training is lost must not be read off a private row.
        made_up = torch.from_numpy(self._layout.vectors(np.zeros((1, self._layout.code_width), np.uint8)))
        with torch.no_grad():
            loss = self._loss(made_up.to(self._device), partial(self._apply, tape=None), self._no_latents)
        return not bool(torch.isfinite(loss).all())

    def _latents(self, normals: RowNormals, rows: int, size: int) -> Tensor:
        return torch.from_numpy(normals(rows, size)).to(self._device)

    def _no_latents(self, rows: int, size: int) -> Tensor:
        return torch.zeros(rows, size, device=self._device)

    def _apply(self, part: str, values: Tensor, tape: Tape | None) -> Tensor:
        return forward(self._networks[part], self._placed[part], self._parameters, values, tape)

    def _adam(self, gradient: Tensor, optimizer: Adam, learning_rate: float) -> None:
        """Make Adam's step; its kernel counts the steps itself, beforehand."""
        self._done += 1
        torch._fused_adam_(  # the kernel of torch.optim.Adam(fused=True)
            [self._parameters],
            [gradient],
            [self._moments[0]],
            [self._moments[1]],
            [],
            [self._done],
            lr=learning_rate,
            beta1=optimizer.first,
            beta2=optimizer.second,
            weight_decay=0.0,
            eps=_ADAM_EPSILON,
            amsgrad=False,
            maximize=False,
        )
