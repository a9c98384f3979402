"""One DP-SGD step of a 784-1000-784 decoder beside a step without privacy, all of it included: exact Poisson sample,
clipped sum, secure noise, optimizer.

Both are timed in turns in one process, by the wall and by the processor time of all its threads, with two threads and
with one. So what else the machine does falls on both alike; medians, and the median of the ratio of neighbours.
`--peer PYTHON` names an interpreter with Opacus (`pip install opacus==1.6.0 torch==2.13.0`), which is timed in the
same way in a process of its own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from statistics import median
from subprocess import PIPE, run
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np
import torch

from benchmarks.results import Row, Setting, machine, write
from privacy.grant.queries.training import noisy_step
from privacy.grant.sampled_noise import SampledNoise
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.learners import FixedDeviation, FixedMean, LatentModel, parameters_of
from privacy.learning.network import Adam, perceptron
from privacy.learning.plan import Execution, Schedule
from privacy.learning.training import Session, initial_state
from privacy.noise.bernoulli import poisson_sample
from privacy.noise.lattice_gaussian import add_noise
from privacy.noise.random_bytes import SecureBytes

ROWS: Final = 60_000
WIDTH: Final = 784
HIDDEN: Final = 1_000
BATCH: Final = 300
REPEATS: Final = 61
PEER_HOOKS: Final = 5
THREADS: Final = 2
MOST: Final = 2.0
Times = dict[str, list[tuple[float, float]]]
"""Seconds of each action's repeats: by the wall, and of the processor."""
SCRIPT: Final = Path(__file__).parent / "peers" / "run_opacus.py"


def main() -> None:
    """Measure and write results/dp_sgd.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=Path, help="a Python that has Opacus")
    peer = parser.parse_args().peer
    codes = np.random.default_rng(1).integers(0, 256, (ROWS, WIDTH)).astype(np.uint8)
    steps = {"private": _private_step(codes), "plain": _plain_step(codes)}
    seconds = {}
    for threads in (1, THREADS):
        torch.set_num_threads(threads)
        seconds[threads] = _in_turns(steps)
    found = _opacus(peer)
    settings = _settings(found)
    peers = {name: f"Opacus {name}: {found[name]:.3f}" if found else None for name in ("ghost", "hooks", "plain")}
    times = ", ".join(text for text in (peers["ghost"], peers["hooks"]) if text) or None
    wall = {name: median(pair[0] for pair in pairs) for name, pairs in seconds[THREADS].items()}
    rows = [
        *_ratios(seconds, found, settings),
        _row("one DP-SGD step, secure noise included", wall["private"], "s", settings, None, times),
        _row("one step without privacy", wall["plain"], "s", settings, None, peers["plain"]),
        *_parts(settings),
    ]
    write("dp_sgd", rows)


def _ratios(seconds: dict[int, Times], found: dict[str, Any], settings: dict[str, Setting]) -> list[Row]:
    """Compare the two steps by each clock, with two threads and with one."""
    rows = []
    for threads in (THREADS, 1):
        for place, clock in enumerate(("wall", "processor time")):
            pairs = zip(seconds[threads]["private"], seconds[threads]["plain"], strict=True)
            ratio = median(private[place] / plain[place] for private, plain in pairs)
            share = f"Opacus ghost: {found['ghost_over_plain']:.2f}" if found and threads > 1 and not place else None
            what = f"one DP-SGD step over one without privacy: {clock}, {threads} thread{'s' if threads > 1 else ''}"
            rows.append(_row(what, ratio, "ratio", settings, MOST, share))
    return rows


def _private_step(codes: np.ndarray[Any, np.dtype[np.uint8]]) -> Callable[[], None]:
    """Return one step of ours: rows as codes, the decoder's input a projection of them."""
    layout = RowLayout((ColumnLayout("pixels", "array", np.linspace(0, 1, 256)[:, None], length=WIDTH),))
    axes = np.linalg.qr(np.random.default_rng(2).normal(size=(WIDTH, WIDTH)))[0]
    decoder = perceptron(WIDTH, HIDDEN, outputs=WIDTH)
    mean = FixedMean(np.zeros(WIDTH), axes)
    learner = LatentModel(WIDTH, decoder, mean, FixedDeviation(0.0), None, Adam(1e-3), seed=1)
    schedule = Schedule(ROWS, BATCH, Fraction(10), checkpoints=1, reserve=0)
    plan = schedule.plan(noise_multiplier=Fraction(13, 10), clipping_norm=Fraction(1))
    execution, source = Execution("cpu"), SecureBytes()
    session = Session(learner, layout, initial_state(learner), step=0, steps=plan.steps, execution=execution)
    clipped_to = plan.clipped_to(parameters_of(learner))
    return lambda: noisy_step(session, codes, plan=plan, clipped_to=clipped_to, noise=SampledNoise(source))


def _plain_step(codes: np.ndarray[Any, np.dtype[np.uint8]]) -> Callable[[], None]:
    """Return one ordinary step of the same decoder: its inputs are at hand as floats."""
    rows = torch.from_numpy(codes[: 10 * BATCH].astype(np.float32) / 255)
    latents = rows @ torch.linalg.qr(torch.randn(WIDTH, WIDTH))[0]
    network = torch.nn.Sequential(torch.nn.Linear(WIDTH, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, WIDTH))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    loss = torch.nn.BCEWithLogitsLoss(reduction="sum")

    def step() -> None:
        chosen = torch.randint(0, rows.shape[0], (BATCH,))
        optimizer.zero_grad()
        (loss(network(latents[chosen]), rows[chosen]) / BATCH).backward()
        optimizer.step()

    return step


def _parts(settings: dict[str, Setting]) -> list[Row]:
    """Measure sampling, noise, and the random bytes of the noise, by themselves."""
    source, total = SecureBytes(), np.zeros(2 * WIDTH * HIDDEN + HIDDEN + WIDTH, np.float32)
    chance = Fraction(BATCH, ROWS)
    seconds = _in_turns(
        {
            "sample": lambda: poisson_sample(ROWS, probability=chance, source=source),
            "noise": lambda: add_noise(total, standard_deviation=Fraction(13, 10), source=source),
            "bytes": lambda: [source.take(1 << 17) for _ in range(4 * total.size >> 17)],
        }
    )
    sample, noise, drawn = (1000 * median(pair[1] for pair in seconds[name]) for name in ("sample", "noise", "bytes"))
    entries = f"{total.size:,} numbers, processor time"
    return [
        _row(f"exact Poisson sample of {ROWS:,} rows, processor time", sample, "ms", settings, 0.3, None),
        _row(f"secure Gaussian noise for {entries}", noise, "ms", settings, 15.0, None),
        _row(f"of it, four random bytes a number for {entries}", drawn, "ms", settings, None, None),
    ]


def _in_turns(actions: Mapping[str, Callable[[], object]]) -> Times:
    """Time actions in turns, after one round to warm up."""
    seconds: Times = {name: [] for name in actions}
    for repeat in range(REPEATS + 1):
        for name, action in actions.items():
            begun = perf_counter(), process_time()
            action()
            if repeat:
                seconds[name].append((perf_counter() - begun[0], process_time() - begun[1]))
    return seconds


def _opacus(peer: Path | None) -> dict[str, Any]:
    """Time Opacus; nothing where it is not there."""
    if peer is None:
        return {}
    command = [str(peer), str(SCRIPT), *map(str, (BATCH, REPEATS, PEER_HOOKS, THREADS))]
    found: dict[str, Any] = json.loads(run(command, stdout=PIPE, text=True, check=True).stdout)
    return found


def _settings(found: dict[str, Any]) -> dict[str, Setting]:
    told: dict[str, Setting] = {"batch": BATCH, "rows": ROWS, "repeats": REPEATS, "threads": THREADS}
    return {**machine("torch", "numpy", "cryptography"), **told, "peer": found.get("versions", "not measured")}


def _row(
    what: str, measured: float, unit: str, settings: dict[str, Setting], target: float | None, peer: str | None
) -> Row:
    holds = None if target is None else measured <= target
    return Row(what, round(measured, 4), unit, target=target, holds=holds, peer=peer, settings=settings)


if __name__ == "__main__":
    main()
