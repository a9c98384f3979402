"""Tables 1, 2 and 4 and figures 2-4 and 6: RMSE, mean error and nonzero share, every method on the same draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._tables_methods import (
    LAMBDA_GRID,
    OURS,
    PAPER_PENALTY,
    PENALTY_GRID,
    Counts,
    Tuned,
    lm,
    nnl,
    proposed,
    simplex,
)
from benchmarks.results import Row, Setting
from privacy.accounting.events import DiscreteLaplace
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SeededBytes

SEED: Final = 20260
RANGES: Final = (("all", 0, None), ("0", 0, 1), ("1-9", 1, 10), ("10-99", 10, 100), ("100-", 100, None))
WITHIN: Final = 0.03
NOISE: Final = "continuous Laplace 1/epsilon, exact total (the paper's convention; benchmark only)"
EXACT: Final = "discrete Laplace 1/epsilon, exact total"
Paper = dict[str, tuple[float | None, float | None]]
"""Method → (RMSE, nonzero share in per cent)."""


@dataclass(frozen=True)
class Errors:
    """Means over the draws.

    Args:
        rmse: by range of the true value [units].
        bias: mean error by range [units].
        nonzero: share of the cells above 0 [per cent].
    """

    rmse: dict[str, float]
    bias: dict[str, float]
    nonzero: float

    def by_range(self) -> dict[str, Setting]:
        """Return [RMSE, mean error] for each range."""
        return {name: [round(self.rmse[name], 4), round(self.bias[name], 4)] for name in self.rmse}


def errors(truth: Counts, tables: Sequence[Counts]) -> Errors:
    """Average the errors of several tables of the same truth."""
    rmse, bias = {}, {}
    for name, low, high in RANGES:
        inside = (truth >= low) if high is None else (truth >= low) & (truth < high)
        differences = [(table - truth)[inside].astype(np.float64) for table in tables]
        rmse[name] = float(np.mean([np.sqrt(np.mean(difference**2)) for difference in differences]))
        bias[name] = float(np.mean([difference.mean() for difference in differences]))
    return Errors(rmse, bias, 100 * float(np.mean([np.count_nonzero(table) / table.size for table in tables])))


def paper_rows(
    title: str, truth: Counts, epsilon: float, paper: Paper, draws: int, base: dict[str, Setting]
) -> list[Row]:
    """Run the paper's methods on its own noise; those that `paper` does not name are left out.

    Where a method has a λ, it is the best one for the truth, as the paper says of its own.
    """
    generator = np.random.default_rng(SEED)
    noisy = [truth + generator.laplace(0, 1 / epsilon, truth.shape) for _ in range(draws)]
    total = int(truth.sum())
    lambda_ = oracle(truth, noisy, proposed, [c / epsilon for c in LAMBDA_GRID])
    best_penalty = oracle(truth, noisy, nnl, [c / epsilon for c in PENALTY_GRID]) if "NNL" in paper else 0.0
    runs: list[tuple[str, str, Tuned, float]] = [
        ("Proposed", "Proposed", proposed, lambda_),
        ("Simplex", "Simplex", simplex, 0.0),
        ("NNL", "NNL", nnl, best_penalty),
        ("NNL, lambda fitted to the paper's figure", "", nnl, PAPER_PENALTY.get(epsilon, 0.0)),
        ("LM", "LM", lm, 0.0),
    ]
    rows, reached = [], {}
    for name, printed, method, parameter in runs:
        if name.split(",")[0] in paper:
            found = errors(truth, [method(table, total, parameter) for table in noisy])
            reached[name] = found.rmse["all"]
            settings = base | {"noise": NOISE, "draws": draws, "seed": SEED, "parameter": parameter}
            rows += _rows(f"{title}, {name}", found, paper.get(printed), settings)
    return rows + _gain_over_nnl(title, reached, paper, base | {"noise": NOISE, "draws": draws, "seed": SEED})


def _gain_over_nnl(title: str, reached: dict[str, float], paper: Paper, settings: dict[str, Setting]) -> list[Row]:
    """Put the paper's claim that NNL errs more beside what both err here, each at its best λ."""
    if "NNL" not in paper:
        return []
    theirs, ours = paper["NNL"][0], paper["Proposed"][0]
    claimed = round(theirs / ours, 4) if theirs is not None and ours is not None else None
    measured = reached["NNL"] / reached["Proposed"]
    return [_beside(f"{title}, RMSE of NNL over Proposed, each at its best lambda", measured, "x", claimed, settings)]


def our_rows(
    title: str, truth: Counts, epsilon: float, paper: Paper, draws: int, base: dict[str, Setting]
) -> list[Row]:
    """Run every estimator of ours, and negative ℓ2 with the oracle's λ, on the same exact draws."""
    inverse_scale, total = Fraction(str(epsilon)), int(truth.sum())
    source, event = SeededBytes(SEED), DiscreteLaplace(inverse_scale, (1,))
    noisy = [
        truth + discrete_laplace(truth.size, inverse_scale=inverse_scale, source=source).reshape(truth.shape)
        for _ in range(draws)
    ]
    lambda_ = oracle(truth, noisy, proposed, [0.0, *(c / epsilon for c in LAMBDA_GRID)])
    settings = base | {"noise": EXACT, "draws": draws, "seed": SEED}
    best = errors(truth, [proposed(table, total, lambda_) for table in noisy])
    rows = _our(
        f"{title}, exact noise, negative l2, oracle lambda", best, paper, settings | {"lambda": lambda_}, best
    )
    for name, estimator in OURS.items():
        found = errors(truth, [estimator(table, total, event) for table in noisy])
        rows += _our(f"{title}, exact noise, {name}", found, paper, settings, best)
    return rows


def oracle(
    truth: Counts, noisy: Sequence[NDArray[np.int64] | NDArray[np.float64]], method: Tuned, grid: Sequence[float]
) -> float:
    """Return the parameter with the least mean RMSE, which only somebody who knows the truth can find."""
    total = int(truth.sum())

    def rmse(parameter: float) -> float:
        return float(np.mean([np.sqrt(np.mean((method(table, total, parameter) - truth) ** 2.0)) for table in noisy]))

    return min(grid, key=rmse)


def _rows(
    title: str, found: Errors, paper: tuple[float | None, float | None] | None, settings: dict[str, Setting]
) -> list[Row]:
    """Put RMSE and nonzero share beside the paper's; each must be within 3 %."""
    rmse, share = paper or (None, None)
    ranged = settings | {"rmse_and_mean_error_by_range": found.by_range()}
    return [
        _beside(f"{title}: RMSE", found.rmse["all"], "units", rmse, ranged),
        _beside(f"{title}: nonzero", found.nonzero, "%", share, settings),
    ]


def _beside(what: str, measured: float, unit: str, paper: float | None, settings: dict[str, Setting]) -> Row:
    """Compare one number with the paper's."""
    holds = None if paper is None else abs(measured / paper - 1) <= WITHIN
    target = None if paper is None else "paper within 3 %"
    return Row(what, round(measured, 4), unit, target=target, holds=holds, paper=paper, settings=settings)


def _our(title: str, found: Errors, paper: Paper, settings: dict[str, Setting], best: Errors) -> list[Row]:
    """Put ours beside the paper's best line, and beside negative ℓ2 at the oracle's λ on the same draws."""
    rmse, share = paper["Proposed"]
    against = f"oracle negative l2: {best.rmse['all']:.4g}, ratio {found.rmse['all'] / best.rmse['all']:.4f}"
    ranged = settings | {"rmse_and_mean_error_by_range": found.by_range()}
    auto = "lambda auto" in title
    holds = found.rmse["all"] <= 1.01 * best.rmse["all"] if auto else None
    return [
        Row(
            f"{title}: RMSE",
            round(found.rmse["all"], 4),
            "units",
            target="oracle within 1 %" if auto else None,
            holds=holds,
            paper=rmse,
            peer=against,
            settings=ranged,
        ),
        Row(f"{title}: nonzero", round(found.nonzero, 3), "%", paper=share, settings=settings),
    ]
