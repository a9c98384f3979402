"""Tables 3 and 4: seconds and peak memory, each case in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._baselines import nonnegative_lasso, rescale_to_total
from benchmarks._tables_data import national_mesh, simulated_mesh
from benchmarks.results import Row, Setting
from privacy.accounting.events import DiscreteLaplace
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SecureBytes
from privacy.refine.lambda_choice import choose_lambda_auto
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.simplex import project_simplex, round_to_total

REPEATS: Final = 7
LAMBDA: Final = {0.1: 0.012, 1.0: 0.0012, 10.0: 0.0}
NNL_PENALTY: Final = 4.8
"""λ·ε of eq. 5; how long it takes does not depend on it."""
PROJECTIONS: Final = ("projection", "projection, in place", "sort")


def rows(mesh: Path | None, base: dict[str, Setting]) -> list[Row]:
    """Time one run of noise and refinement at each size, and the projection alone."""
    found = []
    for side, target, paper in ((64, None, 0.0016), (256, None, 0.0224), (1024, 0.12, 0.4825)):
        found += [_timed(f"simulated:{side}", "fixed", 0.1, target, paper, base)]
    found += [_timed("simulated:1024", "tuned", 0.1, None, 4.6763, base)]
    found += [_timed("simulated:1024", "float noise and sort", 0.1, None, None, base)]
    found += [_timed("simulated:1024", "NNL, closed form", 0.1, None, None, base)]
    if mesh is None:
        return found
    where = str(mesh)
    found += [
        _timed(where, "fixed", 0.1, 1.2, 250.62 / 25, base),
        _timed(where, "tuned", 0.1, 2.0, 2409.15 / 25, base),
    ]
    found += [_timed(where, "float noise and sort", 0.1, None, None, base)]
    for epsilon in LAMBDA:
        for case in PROJECTIONS:
            found.append(_timed(where, case, epsilon, None if case == "sort" else 0.15, None, base))
    return found


def _timed(
    data: str, case: str, epsilon: float, target: float | None, paper: float | None, base: dict[str, Setting]
) -> Row:
    """Run one case in a fresh process, so that its peak memory is its own."""
    command = [sys.executable, "-m", "benchmarks._tables_times", data, case, str(epsilon)]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    seconds = answer.pop("seconds")
    peer = f"numpy sort, same run: {answer['sort_seconds']:.3g} s" if "sort_seconds" in answer else None
    holds = None if target is None else seconds <= target
    settings = base | {"repeats": REPEATS, "statistic": "median"} | answer
    what = f"{answer['cells']:,} cells, epsilon {epsilon:g}: {case}"
    return Row(what, round(seconds, 4), "s", target=target, holds=holds, paper=paper, peer=peer, settings=settings)


def _case(truth: NDArray[np.int64], case: str, epsilon: float) -> dict[str, float]:
    """Measure one case; projections beside the sort-based one on the same cells, in turns."""
    total, inverse_scale = int(truth.sum()), Fraction(str(epsilon))
    if case in PROJECTIONS:
        noisy = truth + discrete_laplace(truth.size, inverse_scale=inverse_scale, source=SecureBytes())
        return _projections(noisy, total, case)
    run = {
        "fixed": lambda: _release(truth, total, inverse_scale, LAMBDA[epsilon]),
        "tuned": lambda: _release(truth, total, inverse_scale, None),
        "float noise and sort": lambda: _by_float_and_sort(truth, total, epsilon, LAMBDA[epsilon]),
        "NNL, closed form": _nnl(truth, total, epsilon),
    }[case]
    return {"seconds": _median(run)}


def _projections(noisy: NDArray[np.int64], total: int, case: str) -> dict[str, float]:
    """Time the projection alone; in place works on a copy of the table each time."""
    ours, sort = [], []
    for turn in range(REPEATS + 1):
        cells = noisy.copy()
        out = cells.view(np.float64) if case == "projection, in place" else None
        start = perf_counter()
        sorted_projection(cells, total) if case == "sort" else project_simplex(cells, total, out=out)
        middle = perf_counter()
        if turn:
            ours.append(middle - start)
        if turn and case != "sort":
            start = perf_counter()
            sorted_projection(noisy, total)
            sort.append(perf_counter() - start)
    return {"seconds": median(ours)} | ({"sort_seconds": median(sort)} if sort else {})


def _nnl(truth: NDArray[np.int64], total: int, epsilon: float) -> Callable[[], object]:
    """The paper's peer on a noisy table, rescaled; it reports that NNL ran out of memory at this size."""
    noisy = truth + np.random.default_rng().laplace(0, 1 / epsilon, truth.size)
    return lambda: rescale_to_total(nonnegative_lasso(noisy, penalty=NNL_PENALTY / epsilon), total)


def _release(truth: NDArray[np.int64], total: int, inverse_scale: Fraction, lambda_: float | None) -> None:
    """Noise and refinement as a release runs them: exact noise, negative ℓ2 in place, whole numbers."""
    noisy = discrete_laplace(truth.size, inverse_scale=inverse_scale, source=SecureBytes())
    noisy += truth
    if lambda_ is None:
        lambda_ = choose_lambda_auto(noisy, total, event=DiscreteLaplace(inverse_scale, (1,)), integers=True).lambda_
    values = negative_l2(noisy, total, lambda_=lambda_, out=noisy.view(np.float64))
    round_to_total(values, total, out=values.view(np.int64))


def _by_float_and_sort(truth: NDArray[np.int64], total: int, epsilon: float, lambda_: float) -> None:
    """The paper's way in numpy: floating-point noise, projection by sorting, no rounding."""
    noisy = truth + np.random.default_rng().laplace(0, 1 / epsilon, truth.size)
    sorted_projection(noisy / (1 - lambda_), total)


def sorted_projection(values: NDArray[np.int64] | NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Project by eq. 9 and 10 as printed."""
    descending = np.sort(values)[::-1]
    thetas = (np.cumsum(descending) - total) / np.arange(1, values.size + 1)
    theta = thetas[np.flatnonzero(descending > thetas)[-1]]
    projected: NDArray[np.float64] = np.maximum(values - theta, 0.0)
    return projected


def _median(run: Callable[[], object]) -> float:
    """Return the median seconds of the repeats, after one to warm up."""
    seconds = []
    for turn in range(REPEATS + 1):
        start = perf_counter()
        run()
        if turn:
            seconds.append(perf_counter() - start)
    return median(seconds)


def main() -> None:
    """Measure the case of the command line and print it as JSON."""
    data, case, epsilon = sys.argv[1:]
    kind, _, side = data.partition("simulated:")
    truth = (simulated_mesh(int(side)) if not kind else national_mesh(Path(data))).reshape(-1)
    answer = _case(truth, case, float(epsilon))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(answer | {"cells": truth.size, "peak_memory_mib": round(peak)}))


if __name__ == "__main__":
    main()
