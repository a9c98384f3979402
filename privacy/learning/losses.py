"""The learners' losses, one number a row; nothing in them mixes rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from privacy.learning.layout import Head, RowLayout
from privacy.learning.learners import (
    Classifier,
    ClusteredModel,
    FixedDeviation,
    FixedMean,
    GaussianMixture,
    LatentModel,
    Learner,
)

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
