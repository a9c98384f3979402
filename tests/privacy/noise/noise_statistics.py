"""What the noise tests share: exact distributions, the statistics that judge draws, and crafted byte sources."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import exp, floor, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.noise.discrete_gaussian import discrete_gaussian
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import RandomBytes

FALSE_ALARM = 1e-9
"""The rate of each single decision below."""
Cdf = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def noise_of(event: CountNoise, size: int, *, source: RandomBytes) -> NDArray[np.int64]:
    if isinstance(event, DiscreteLaplace):
        return discrete_laplace(size, inverse_scale=event.inverse_scale, source=source)
    return discrete_gaussian(size, sigma_squared=event.sigma_squared, source=source)


def laplace_cdf(t: float) -> Cdf:
    """P(X <= x): 1 - r^(x+1)/(1+r) from 0 on, r^-x/(1+r) below."""

    def cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
        below_zero = np.exp(-t * np.abs(x)) / (1 + exp(-t))
        return np.where(x < 0, below_zero, 1 - np.exp(-t * (np.abs(x) + 1)) / (1 + exp(-t)))

    return cdf


def gaussian_cdf(sigma: float) -> Cdf:
    """P(X <= x), summed up; beyond sigma 10,000 by the normal distribution with x + 1/2. The latter errs by at most
    the midpoint rule's error, max|phi'|/(24 sigma^2) < 2e-10, far below what n sees."""
    if sigma > 10_000:
        return lambda x: norm.cdf((x + 0.5) / sigma)
    reach = int(40 * sigma) + 2
    mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma * sigma))
    total = np.concatenate([[0.0], np.cumsum(mass) / mass.sum()])
    return lambda x: total[np.clip(x.astype(np.int64) + reach + 1, 0, total.size - 1)]


def chi_square_p(draws: NDArray[np.int64], cdf: Cdf, *, cells: int = 60, least: float = 100.0) -> float:
    """The p-value of Pearson's test in cells between quantiles of the draws, each with `least` expected."""
    inner = np.unique(np.quantile(draws, np.linspace(0, 1, cells + 1)[1:-1]).astype(np.int64))
    # quantiles concentrate: add every single value around 0 so that the small ones are judged one by one
    edges = np.unique(np.concatenate([inner, np.arange(-12, 13)]))
    cumulative = np.concatenate([[0.0], cdf(edges.astype(np.float64)), [1.0]])
    keep, start = [], 0.0
    for index, value in enumerate(cumulative[1:-1]):
        if (value - start) * draws.size >= least and (1 - value) * draws.size >= least:
            keep.append(index)
            start = value
    edges = edges[keep]
    expected = np.diff(np.concatenate([[0.0], cdf(edges.astype(np.float64)), [1.0]])) * draws.size
    observed = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=edges.size + 1)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(chi2.sf(statistic, edges.size))


def dkw_rejects(draws: NDArray[np.int64], cdf: Cdf) -> bool:
    """Dvoretzky-Kiefer-Wolfowitz (Massart's constant): sup|F_n - F| > sqrt(log(2/alpha)/(2n)); rigorous for any F."""
    values, counts = np.unique(draws, return_counts=True)
    empirical, exact = np.cumsum(counts) / draws.size, cdf(values.astype(np.float64))
    before = cdf(values.astype(np.float64) - 1)
    distance = max(np.abs(empirical - exact).max(), np.abs(empirical - counts / draws.size - before).max())
    return bool(distance > sqrt(log(2 / FALSE_ALARM) / (2 * draws.size)))


def lag_rejects(draws: NDArray[np.int64], lags: Sequence[int]) -> bool:
    """Whether the signs, the sizes or the last bits at any of these lags go together (normal limit, all lags)."""
    magnitude = np.abs(draws)
    scores = (np.sign(draws), np.unique(magnitude, return_inverse=True)[1], draws & 1)
    threshold = norm.isf(FALSE_ALARM / (2 * len(scores) * len(lags)))
    for score in scores:
        centred = score - score.mean()
        if not centred.any():
            continue
        centred = centred / centred.std()
        if any(abs(centred[lag:] @ centred[:-lag]) > threshold * sqrt(draws.size - lag) for lag in lags):
            return True
    return False


def neighbours_p(draws: NDArray[np.int64], *, groups: int = 6) -> float:
    """The p-value of the chi-square test of independence between a draw and the next, in disjoint pairs."""
    edges = np.unique(np.quantile(draws, np.linspace(0, 1, groups + 1)[1:-1]))
    cell = np.searchsorted(edges, draws[: draws.size // 2 * 2]).reshape(-1, 2)
    size = edges.size + 1
    table = np.bincount(cell[:, 0] * size + cell[:, 1], minlength=size * size).reshape(size, size)
    table = table[np.ix_(table.sum(1) > 0, table.sum(0) > 0)]
    expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    return float(chi2.sf(statistic, (table.shape[0] - 1) * (table.shape[1] - 1)))


class ScriptedBytes:
    security = "seeded"

    def __init__(self, *script: Sequence[int]) -> None:
        self.script = [np.array(part, np.uint8) for part in script]

    def take(self, n: int) -> NDArray[np.uint8]:
        part = self.script.pop(0)
        assert part.size == n
        return part


class ConstantBytes:
    security = "seeded"

    def __init__(self, value: int) -> None:
        self.value = value

    def take(self, n: int) -> NDArray[np.uint8]:
        return np.full(n, self.value, np.uint8)


def point_bytes(points: list[tuple[int, int, int]], tries: int) -> list[int]:
    """Lay points out as tries; the rest are points of the first slice, at the foot of its cap."""
    padded = points + [(0, 0, 0)] * (tries - len(points))
    return word_bytes(*(word for column in zip(*padded, strict=True) for word in column))


def word_bytes(*words: int) -> list[int]:
    return [byte for word in words for byte in word.to_bytes(8, "little")]


def exp_minus_digits(x: Fraction, shift: int, share: Callable[[Fraction], Fraction]) -> int:
    """floor(256^shift share(e^-x)) for an increasing `share`, from the exponential series in fractions alone. For x >
    0 the terms x^n/n! of e^-x alternate and fall once n > x, so that from there on consecutive partial sums enclose
    e^-x. Add terms until both ends give the same whole number."""
    term, total, n = Fraction(1), Fraction(1), 0
    while True:
        n += 1
        term = -term * x / n
        previous, total = total, total + term
        if n > x:
            low, high = sorted((previous, total))
            low_digits = floor(share(max(low, Fraction(0))) * 256**shift)
            if low_digits == floor(share(high) * 256**shift):
                return low_digits
