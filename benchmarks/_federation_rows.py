"""P3GM across five sites that are not alike, beside P3GM of the same rows in one place; epsilon 1 for a record.

Adult as in benchmarks/neural.py: each of three folds is held out once, generators make as many rows as they see, and
four classifiers that learn from these are tested on the real rows that were held out. The noise is that of one run a
fold: differences of a hundredth are within what other runs would give. Options are defaults, but for the rounds: over
Flower a round takes seconds, so that there are few of large batches, and a learning rate ten times the default's for
a twentieth of its steps. It was not chosen by a score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from secrets import token_hex
from statistics import fmean
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import numpy as np

from benchmarks._federation_data import ALPHA, LABEL, SITES, owned
from benchmarks._federation_runs import CPU, DELTA, EPSILON, grant_of
from benchmarks._neural_data import adult
from benchmarks._neural_fit import ArrayRows, Method, fitted_rows
from benchmarks._neural_learners import ranked
from benchmarks._neural_rows import learned, positive
from benchmarks._neural_tables import Codes, Table, folds_of
from benchmarks.results import Row, Setting, machine
from privacy.coordination.coordinator import Attempts, contribute_phase, run_phases
from privacy.federation.plan import Trust
from privacy.federation.rounds import AttemptLost, InProcessSites, SiteAnswer
from privacy.generators.generator import SynthesisTask
from privacy.generators.latent import PhasedOptions
from privacy.generators.p3gm_across import Across, P3gmAcross

FOLDS: Final = 3
ROUNDS, BATCH, RATE = 100, 4000, 0.02


def made_up_rows(data: Path, shares: Trust, server: Trust) -> list[Row]:
    """Measure real rows, P3GM in one place as it comes and with the federation's rounds, and across sites."""
    table = adult(data)
    parts = [(table.some(train), table.some(test)) for train, test in folds_of(len(table), FOLDS)]
    first = parts[0][0]
    rows = round(len(first), -3)
    declared = {"label": LABEL, "rows_about": rows}
    same = {"batch": BATCH, "epochs": ROUNDS * BATCH / rows, "learning_rate": RATE, "checkpoints": 20}
    ways: dict[str, Callable[[Table, int], Codes]] = {
        "real rows, without privacy": lambda train, seed: train.codes(),
        "P3GM in one place, its default 2,000 steps": lambda train, seed: _pooled(train, declared, seed),
        "P3GM in one place, rounds and batch of the federation": lambda train, seed: _pooled(
            train, {**declared, **same}, seed
        ),
        "P3GM across sites, noise in shares for 4 survivors, 1 of them curious": lambda train, seed: _across(
            train, shares, seed
        ),
        "P3GM across sites, noise by a trusted server": lambda train, seed: _across(train, server, seed),
    }
    settings: dict[str, Setting] = {
        **machine("numpy", "torch", "scikit-learn", "xgboost-cpu"),
        "epsilon": float(EPSILON),
        "delta": float(DELTA),
        "rows": len(first),
        "rows_of_sites_in_the_first_fold": [int(each) for each in np.bincount(_owners(first, 1))],
        "dirichlet": ALPHA,
        "rounds": ROUNDS,
        "batch": BATCH,
        "learning_rate": RATE,
        "folds": FOLDS,
        "runs_a_fold": 1,
    }
    return [row for name, way in ways.items() for row in _scored(name, way, parts, settings)]


def _scored(
    name: str, way: Callable[[Table, int], Codes], parts: Sequence[tuple[Table, Table]], settings: dict[str, Setting]
) -> list[Row]:
    """Return a row for AUROC and one for AUPRC: means of folds and classifiers."""
    found, seconds = [], []
    for seed, (train, test) in enumerate(parts, 1):
        begun = perf_counter()
        made = way(train, seed)
        seconds.append(round(perf_counter() - begun, 1))
        features, labels = train.made_up(made, seed=0)
        found.append(ranked((features, positive(train, labels)), learned(test)))
    rows = []
    for kind in ("auroc", "auprc"):
        folds = [scores["mean"][kind] for scores in found]
        each: dict[str, Setting] = {
            learner: round(fmean(scores[learner][kind] for scores in found), 4) for learner in found[0]
        }
        about: dict[str, Setting] = {"learners": each, "by_fold": [round(fold, 4) for fold in folds]}
        about |= {"seconds": [*seconds]}
        measured = round(fmean(folds), 4)
        rows.append(Row(f"{name}, {kind.upper()}", measured, "mean of 4 classifiers", settings=settings | about))
    return rows


def _pooled(train: Table, options: dict[str, Any], seed: int) -> Codes:
    return fitted_rows(Method("p3gm", options), train, seed=seed, epsilon=EPSILON, delta=DELTA).codes


def _across(train: Table, trust: Trust, seed: int) -> Codes:
    """Sum, train and sample over the sites in this process; each has a ledger of its own."""
    owners = _owners(train, seed)
    parts = [train.some(np.flatnonzero(owners == place)) for place in range(len(SITES))]
    rows_about = tuple(len(part) for part in parts)
    across = Across(SITES, rows_about, trust, ROUNDS, BATCH, Fraction(1), reserve=0, sums_reserve=0)
    asked = SynthesisTask(train.domain, {}, "add_remove", 1, EPSILON, DELTA, None, train.layout)
    options = PhasedOptions(label=LABEL, rows_about=sum(rows_about), learning_rate=RATE)
    phased = P3gmAcross(asked, options, across)
    with TemporaryDirectory() as folder:
        place, answers = Path(folder), dict[str, SiteAnswer]()
        for name, part in zip(SITES, parts, strict=True):
            answers[name] = _answer(phased, ArrayRows(part), grant_of(place / name, phased.plan.record_events))
        sums, trained = run_phases(
            grant_of(place / "coordinator", phased.plan.person_events),
            InProcessSites(phased.plan, answers),
            phased,
            plan=phased.plan,
            key="fed",
            execution=CPU,
            attempts=Attempts(lambda: token_hex(8), AttemptLost),
        )
    model, _ = phased.model(sums, trained.parameters)
    return model.sample(len(train), seed=seed).astype(np.uint16)


def _owners(train: Table, seed: int) -> Codes:
    return owned(train, np.random.default_rng(seed))


def _answer(phased: P3gmAcross, rows: ArrayRows, grant: Any) -> SiteAnswer:
    handles = (rows.rows(), rows.rows(phased.trained_layout.names))
    return lambda call: contribute_phase(grant, phased, *handles, call, plan=phased.plan, key="fed", execution=CPU)
