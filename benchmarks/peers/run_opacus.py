"""Opacus: seconds of one DP-SGD step of a 784-1000-784 decoder, with default hooks and ghost clipping, and without.

Standard output: JSON {"plain": s, "ghost": s, "hooks": s, "versions": {...}}, medians over interleaved repeats.
Noise is torch's own (Opacus' default, no secure mode).
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from statistics import median
from time import perf_counter
from typing import Any

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
BATCH, REPEATS, HOOK_REPEATS, THREADS = (int(text) for text in sys.argv[1:5])
ROWS, WIDTH, HIDDEN = 3000, 784, 1000


class Bernoulli(torch.nn.Module):
    """Cross entropy with logits, added up over a row."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, outputs: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Return one loss a row, or their mean."""
        each = torch.nn.functional.binary_cross_entropy_with_logits(outputs, rows, reduction="none").sum(1)
        return each if self.reduction == "none" else each.mean()


def decoder() -> torch.nn.Module:
    """Return a fresh decoder."""
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, WIDTH))


def stepper(mode: str, latents: torch.Tensor, rows: torch.Tensor) -> Callable[[], None]:
    """Return what makes one step."""
    model, criterion = decoder(), Bernoulli()
    optimizer: Any = torch.optim.Adam(model.parameters(), lr=1e-3, fused=mode == "plain")
    if mode != "plain":
        loader = DataLoader(TensorDataset(latents, rows), batch_size=BATCH)
        private: Any = PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            criterion=criterion,
            noise_multiplier=1.3,
            max_grad_norm=1.0,
            grad_sample_mode=mode,
            poisson_sampling=False,
        )
        model, optimizer = private[0], private[1]
        criterion = private[2] if mode == "ghost" else criterion

    def step() -> None:
        chosen = torch.randint(0, ROWS, (BATCH,))
        optimizer.zero_grad()
        criterion(model(latents[chosen]), rows[chosen]).backward()
        optimizer.step()

    return step


def main() -> None:
    """Time the three in turns."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    rows, latents = torch.rand(ROWS, WIDTH), torch.randn(ROWS, WIDTH)
    steps = {mode: stepper(mode, latents, rows) for mode in ("plain", "ghost", "hooks")}
    seconds: dict[str, list[float]] = {mode: [] for mode in steps}
    for repeat in range(REPEATS + 1):
        for mode, step in steps.items():
            if mode == "hooks" and repeat > HOOK_REPEATS:
                continue
            begun = perf_counter()
            step()
            if repeat:
                seconds[mode].append(perf_counter() - begun)
    report: dict[str, Any] = {mode: median(taken) for mode, taken in seconds.items()}
    report["ghost_over_plain"] = median(g / p for g, p in zip(seconds["ghost"], seconds["plain"], strict=True))
    print(json.dumps({**report, "versions": {package: version(package) for package in ("opacus", "torch")}}))


main()
