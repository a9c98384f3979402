"""Clipped sums of per-row gradients without a gradient per row: ghost norms and weighted second products.

Where (one letter each), for one layer and one row
    a   its inputs, one column a position (several latent samples of a row are several positions)
    g   gradients of the row's loss with respect to the layer's outputs, one column a position

    gradient of the weights = g a',  of the biases = g 1,   so
    |gradient|^2 = sum over positions p, r of (g_p . g_r) (a_p . a_r + 1)       for one position: |g|^2 (|a|^2 + 1)
    sum of clipped gradients = sum over rows of c g a',     c = min(1, bound / |gradient|)

One backward pass gives g for every layer and row; the weights' own gradients are computed once, already weighted by
c. That is as many matrix products as an ordinary step has.

A row whose gradient is not finite is left out: its clipped gradient is 0, which is within the bound like any other.

Source: Goodfellow 2015, "Efficient per-example gradient computations"; for positions, Li, Tramèr, Liang, Hashimoto
2022, "ghost clipping".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from privacy.learning.network import Network, Slot


@dataclass
class Tape:
    """What a forward pass leaves for the clipped sums: each layer's inputs and outputs."""

    slots: list[Slot] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    def keep(self, slot: Slot, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Remember a layer's inputs and outputs; the outputs take part in the backward pass."""
        # Parameters carry no gradients: the graph of the backward pass begins at the first layer's outputs.
        if not outputs.requires_grad:
            outputs.requires_grad_()
        self.slots.append(slot)
        self.inputs.append(inputs.detach())
        self.outputs.append(outputs)
        return outputs


def forward(
    network: Network, placed: dict[int, Slot], parameters: Tensor, values: Tensor, tape: Tape | None
) -> Tensor:
    """Compute a network's outputs.

    Args:
        network: the network.
        placed: where the parameters of each of its layers lie, by the layer's place.
        parameters: the flat vector, without gradients.
        values: one input a row, shape (rows, ...); a second dimension of samples is kept for linear layers.
        tape: where layers are remembered; None without a backward pass.
    """
    for place in range(len(network.layers)):
        if place not in placed:
            values = functional.relu(values)
            continue
        slot = placed[place]
        weights = parameters[slot.weights].view(slot.layer.weight_shape)
        outputs = functional.linear(values, weights, parameters[slot.biases])
        values = outputs if tape is None else tape.keep(slot, values, outputs)
    return values


def add_clipped_sum(losses: Tensor, tape: Tape, *, bound: float, total: Tensor) -> Tensor:
    """Add the clipped gradients of all rows' losses to a flat vector.

    Args:
        losses: one a row, shape (rows,).
        tape: of the forward pass.
        bound: the largest norm that a row's gradient keeps, > 0.
        total: the flat vector that is added to, float32, shape (parameters,).
    Returns:
        Tensor: how each row was scaled, from 0 to 1, shape (rows,); private.
    Privacy: adding or removing a row changes `total` by at most `bound` in L2 norm, up to rounding in float32.
    """
    # One backward pass for all rows: a row's loss does not depend on other rows, so that the derivative of the sum by
    # a row's outputs is that row's own.
    gradients = [each.detach() for each in torch.autograd.grad(losses.sum(), tape.outputs)]
    with torch.no_grad():
        layers = [
            _layer(slot, inputs, gradient, losses.shape[0])
            for slot, inputs, gradient in zip(tape.slots, tape.inputs, gradients, strict=True)
        ]
        squared = torch.stack([layer.squared_norms() for layer in layers]).sum(0)
        # min(1, bound / norm): what lies within the bound stays as it is.
        scales = bound / squared.sqrt().clamp(min=bound)
        # 0 times infinity is no number: such rows leave the inputs and gradients too, not only the scales.
        lost = ~torch.isfinite(squared)
        if bool(lost.any()):
            scales = torch.where(lost, torch.zeros_like(scales), scales)
            for layer in layers:
                layer.leave_out(lost)
        for layer in layers:
            layer.add_weighted(scales, total)
    return scales


@dataclass
class _Linear:
    """One linear layer: inputs (rows, positions, in), gradients (rows, positions, out)."""

    slot: Slot
    inputs: Tensor
    gradients: Tensor

    def squared_norms(self) -> Tensor:
        """Squared norm of each row's gradient."""
        if self.inputs.shape[1] == 1:
            # |g a'|² + |g|² = |g|² (|a|² + 1): the weights' part and the biases'.
            a, g = self.inputs[:, 0], self.gradients[:, 0]
            return g.square().sum(1) * (a.square().sum(1) + 1)
        return _by_positions(self.inputs, self.gradients)

    def leave_out(self, lost: Tensor) -> None:
        """Make what is kept of these rows 0."""
        self.inputs = self.inputs.masked_fill(lost[:, None, None], 0.0)
        self.gradients = self.gradients.masked_fill(lost[:, None, None], 0.0)

    def add_weighted(self, scales: Tensor, total: Tensor) -> None:
        """Add the weighted sum of the rows' gradients."""
        # One matrix product sums c g a' over all rows and positions.
        weighted = (self.gradients * scales[:, None, None]).flatten(0, 1)
        total[self.slot.weights].view(self.slot.layer.weight_shape).addmm_(weighted.T, self.inputs.flatten(0, 1))
        total[self.slot.biases].add_(weighted.sum(0))


def _layer(slot: Slot, inputs: Tensor, gradient: Tensor, rows: int) -> _Linear:
    """Lay a layer's inputs and gradients out by rows and positions; several samples of a row are more positions."""
    return _Linear(slot, inputs.reshape(rows, -1, slot.layer.inputs), gradient.reshape(rows, -1, slot.layer.outputs))


def _by_positions(inputs: Tensor, gradients: Tensor) -> Tensor:
    """Sum the products of positions: inputs (rows, positions, in), gradients (rows, positions, out).

    In float64: where positions cancel, float32 would leave nothing of a norm above the bound, and clip nothing.
    """
    inputs, kind = inputs.double(), gradients.dtype
    gradients = gradients.double()
    # Sum over pairs of positions of (a_p . a_r + 1) (g_p . g_r), without a gradient for each row.
    products = torch.bmm(inputs, inputs.mT) + 1
    # Rounding may leave a sum of squares just below 0.
    return (products * torch.bmm(gradients, gradients.mT)).sum((1, 2)).clamp_(min=0).to(kind)
