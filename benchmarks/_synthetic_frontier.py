"""Ours beside mbi's AIM where structure is dense and where epsilon is small, and beside dpmm.

    normals     30 columns of 16 equal bins of [-4, 4]: mixtures of 8 hidden normal numbers and noise, 20,000 rows
    eeg         30 consecutive samples of 11,500 recordings of the brain, in 16 equal bins of ±512 microvolt

Errors are the mean L1 distance of all pairs over the number of rows. mbi's AIM runs with its defaults, once on
each dense table and at epsilon 10. There some of its marginals are computed in another way (`peers.mbi_projection`):
it would take hours.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._neural_data import ESR_NARROWER, esr
from benchmarks._synthetic_bench import Bench, ratio_of_means, settings_of, versions_of
from benchmarks._synthetic_data import SEED, Categorical
from benchmarks._synthetic_paper import DELTA, EPSILON, TRIALS
from benchmarks.results import Row

COLUMNS: Final = 30
BINS: Final = 16
NORMAL_ROWS: Final = 20_000
HIDDEN: Final = 8
_OWN: Final = 0.5
_BOUND: Final = 4.0
DENSE: Final = ("aim", "mst", "gaussian_copula", "latent_factors")
DENSE_AT_MOST: Final = 0.80
OVER_AIM_AT_MOST: Final = {"0.1": ("aim", 0.95), "1": ("aim", 0.90), "10": ("aim-numpy", 0.95)}
"""By epsilon: how mbi's is run (`benchmarks.peers.run_mbi`), and the target."""
LONG: Final = ("aim-numpy",)
"""What takes a peer most of an hour is run once."""
QUICK: Final = range(10)
"""Trials of ours beside those of a peer."""
DPMM: Final = {"aim-k2": "aim", "mst": "mst", "privbayes": "privbayes"}
"""Ours, and dpmm's name of the same method."""


def normals() -> Categorical:
    """Return 20,000 made-up rows of 30 correlated normal columns of variance 1 in 16 equal bins of [-4, 4]."""
    random = np.random.default_rng(SEED)
    loadings = random.normal(size=(HIDDEN, COLUMNS))
    loadings *= sqrt(1 - _OWN**2) / np.linalg.norm(loadings, axis=0)
    mixed = random.normal(size=(NORMAL_ROWS, HIDDEN)) @ loadings + _OWN * random.normal(size=(NORMAL_ROWS, COLUMNS))
    codes = np.clip((mixed + _BOUND) * BINS / (2 * _BOUND), 0, BINS - 1).astype(np.int64)
    return _dense("normals", codes)


def eeg(data: Path) -> Categorical:
    """Return 30 consecutive samples of the recordings of Epileptic Seizure Recognition; `data` holds esr/."""
    return _dense("eeg", esr(data, bins=BINS, bound=min(ESR_NARROWER)).codes()[:, :COLUMNS].astype(np.int64))


def dense(bench: Bench, table: Categorical) -> list[Row]:
    """Each of ours on a densely correlated table over mbi's AIM, one run of each, with times and memory."""
    theirs = bench.theirs("mbi", "aim-numpy", table, trials=TRIALS[:1])
    made = {
        name: bench.runs.ours(name, table, seed=TRIALS[0], epsilon=EPSILON, delta=DELTA)
        for name in (*DENSE, "independent")
    }
    errors = {name: bench.errors([each], table)["2"][0] for name, each in made.items()}
    other = bench.errors(theirs, table)["2"][0] if theirs else None
    rows = []
    for name, error in errors.items():
        settings = settings_of(table, [made[name]]) | {"error": error, "peer": versions_of(theirs)}
        settings |= {each: made[name].report[each] for each in ("seconds", "cpu_seconds")}
        if theirs:
            settings |= {f"peer_{each}": theirs[0].report[each] for each in ("seconds", "peak_gigabytes")}
        what = f"{table.name}, {name}, 2-way error"
        if other is None or name != min(errors, key=errors.__getitem__):
            rows.append(Row(what, round(error, 4), "L1 / N", peer=other, settings=settings))
            continue
        ratio = error / other
        what = f"{what}, the least of ours, over that of mbi's AIM"
        held = ratio <= DENSE_AT_MOST
        rows.append(Row(what, round(ratio, 3), "ratio", DENSE_AT_MOST, held, peer=round(other, 4), settings=settings))
    return rows


def epsilons(bench: Bench, table: Categorical) -> list[Row]:
    """AIM's 2-way error over that of mbi's AIM at three epsilons."""
    return [
        _over_peer(bench, table, "aim-k2", ("mbi", run), target, epsilon=epsilon)
        for epsilon, (run, target) in OVER_AIM_AT_MOST.items()
    ]


def beside_dpmm(bench: Bench, table: Categorical) -> list[Row]:
    """The 2-way error of three methods over that of dpmm's."""
    return [_over_peer(bench, table, method, ("dpmm", name), 1.0) for method, name in DPMM.items()]


def _over_peer(
    bench: Bench, table: Categorical, method: str, peer: tuple[str, str], target: float, *, epsilon: str = EPSILON
) -> Row:
    """Ten trials of ours, which take seconds, and three of a peer's; one of a peer's that takes most of an hour."""
    made = bench.ours(method, table, epsilon=epsilon, trials=QUICK)
    theirs = bench.theirs(*peer, table, epsilon=epsilon, trials=TRIALS[:1] if peer[1] in LONG else TRIALS)
    errors = bench.errors(made, table)["2"]
    settings = settings_of(table, made) | {"epsilon": epsilon, "ours": list(errors), "peer": versions_of(theirs)}
    settings |= {"cpu_seconds": [each.report["cpu_seconds"] for each in made]}
    what = f"{table.name}, epsilon {epsilon}: {peer[1].removesuffix('-numpy')}'s 2-way error"
    if not theirs:
        return Row(what, round(mean(errors), 4), "L1 / N", settings=settings)
    other = bench.errors(theirs, table)["2"]
    ratio, error = ratio_of_means(errors, other)
    settings |= {"theirs": list(other), "ratio_se": round(error, 3)}
    settings |= {"peer_cpu_seconds": [each.report["cpu_seconds"] for each in theirs]}
    what = f"{what} over that of {peer[0]}'s"
    return Row(what, round(ratio, 3), "ratio", target, ratio <= target, peer=round(mean(other), 4), settings=settings)


def _dense(name: str, codes: NDArray[np.int64]) -> Categorical:
    cells = tuple(str(code) for code in range(BINS))
    columns = {f"x{place:02d}": cells for place in range(codes.shape[1])}
    return Categorical(name, columns, codes, "x00")
