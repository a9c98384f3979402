"""How many exact draws a second one core makes, beside OpenDP's exact samplers where they are installed.

Both are called from Python for a whole vector: ours returns the noise as an array, OpenDP adds it to a list of
zeros and returns a list. The peer's number has the same unit.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from statistics import median
from time import perf_counter
from typing import Any, Final

from benchmarks.results import Row, installed, machine, write
from privacy.noise.discrete_gaussian import discrete_gaussian
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SecureBytes

DRAWS: Final = 4_000_000
PEER_DRAWS: Final = 100_000
REPEATS: Final = 7
LAPLACE_TARGET: Final = 10.0
GAUSSIAN_TARGET: Final = 3.0
UNIT: Final = "million draws/s"


def main() -> None:
    """Measure every setting and write results/noise.json."""
    rows = [_laplace(Fraction(text)) for text in ("0.1", "1")]
    rows += [_gaussian(sigma) for sigma in (1, 10, 100, 1000)]
    write("noise", rows)


def _laplace(epsilon: Fraction) -> Row:
    """Measure discrete Laplace noise for counts under add_remove: inverse scale epsilon."""
    source = SecureBytes()
    measured = _rate(lambda: discrete_laplace(DRAWS, inverse_scale=epsilon, source=source), DRAWS)
    peer = _peer("laplace", "l1_distance", "i32", float(1 / epsilon))
    return _row(f"discrete Laplace, epsilon {float(epsilon):g}", measured, LAPLACE_TARGET, peer)


def _gaussian(sigma: int) -> Row:
    """Measure discrete Gaussian noise."""
    source, squared = SecureBytes(), Fraction(sigma * sigma)
    measured = _rate(lambda: discrete_gaussian(DRAWS, sigma_squared=squared, source=source), DRAWS)
    peer = _peer("gaussian", "l2_distance", "f64", float(sigma))
    return _row(f"discrete Gaussian, sigma {sigma}", measured, GAUSSIAN_TARGET, peer)


def _row(what: str, measured: float, target: float, peer: str) -> Row:
    """Put one measurement beside its target."""
    settings = machine("numpy", "cryptography", "opendp")
    settings |= {"draws": DRAWS, "peer_draws": PEER_DRAWS, "repeats": REPEATS, "threads": 1, "statistic": "median"}
    holds = measured >= target
    return Row(what, round(measured, 2), UNIT, target=target, holds=holds, peer=peer, settings=settings)


def _rate(draw: Callable[[], object], draws: int) -> float:
    """Return million draws a second: the median of the repeats, after one to warm up."""
    draw()
    seconds = []
    for _ in range(REPEATS):
        start = perf_counter()
        draw()
        seconds.append(perf_counter() - start)
    return draws / median(seconds) / 1e6


def _peer(mechanism: str, distance: str, distance_type: str, scale: float) -> str:
    """Measure OpenDP's sampler of the same distribution in the same way."""
    try:
        opendp: Any = import_module("opendp.prelude")
    except ImportError:
        return "opendp: not installed"
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T="i32")), getattr(opendp, distance)(T=distance_type)
    measure = getattr(opendp.m, f"make_{mechanism}")(*space, scale=scale)
    zeros = [0] * PEER_DRAWS
    return f"opendp {installed('opendp')}: {_rate(lambda: measure(zeros), PEER_DRAWS):.3f}"


if __name__ == "__main__":
    main()
