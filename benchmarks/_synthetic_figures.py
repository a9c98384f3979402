"""The paper's figures for ours: errors by method, ε by step, errors by step, chosen pairs, mutual information."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import mean, stdev
from typing import Any, Final

from benchmarks._plots import Line, bars, heat, lines
from benchmarks._synthetic_bench import Bench
from benchmarks._synthetic_data import Categorical
from benchmarks._synthetic_paper import EPSILON, METHODS, TRIALS
from benchmarks._synthetic_peers import Made
from benchmarks._synthetic_steps import chosen_pairs, composition
from benchmarks.results import FOLDER, Row, Setting, machine
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.rows import mutual_information

FIGURES: Final = FOLDER / "synthetic"
STEP_DELTA: Final = "1e-5"
STEP_EPSILONS: Final = ("1", "5")
SHOWN: Final = ("aim-k2", "aim-k3", "aim-noinit", "aim-lap", "privbayes")
CLOSE: Final = 1.1


def errors_by_method(bench: Bench, table: Categorical) -> None:
    """Draw figures 1 and 2, with mutual information beside (figure 8), and figures 6 and 7."""
    made = {name: bench.ours(name, table) for name in SHOWN}
    found = {name: bench.errors(each, table) for name, each in made.items()}
    groups = {
        f"{alpha}-way": {name: (mean(error[alpha]), stdev(error[alpha])) for name, error in found.items()}
        for alpha in ("1", "2", "3")
    }
    bars(FIGURES / f"{table.name}-errors.svg", f"{table.name}, epsilon 1: error by method", "L1 / N", groups)
    kept = {
        name: [bench.runs.scores(run, table)["mutual_information_error"] for run in each]
        for name, each in made.items()
    }
    about = {"all pairs": {name: (mean(errors), stdev(errors)) for name, errors in kept.items()}}
    path = FIGURES / f"{table.name}-information-error.svg"
    bars(path, f"{table.name}, epsilon 1: error of mutual information", "nats", about)
    real = EncodedRows(table.columns, table.shape, table.codes)
    maps = {"real": _information(real)}
    maps |= {name: _information(made[name][0].rows) for name in ("aim-k2", "aim-noinit", "privbayes")}
    heat(FIGURES / f"{table.name}-information.svg", f"{table.name}: mutual information [nats]", table.columns, maps)


def steps(bench: Bench, table: Categorical) -> list[Row]:
    """Draw figures 3 to 5, and return ε at the end of a run by each accountant."""
    rows = []
    for epsilon in STEP_EPSILONS:
        for name in ("aim-k2", "aim-k3"):
            rows += _spent(bench, table, name, epsilon)
    generator, options = METHODS["aim-k2"]
    runs = [
        bench.runs.ours(generator, table, seed=seed, epsilon=EPSILON, delta=STEP_DELTA, options=options, steps=True)
        for seed in TRIALS
    ]
    for trial, made in enumerate(runs, 1):
        _errors_by_step(table, made.report["steps"], trial)
    return [*rows, *_chosen(bench, table, runs)]


def _spent(bench: Bench, table: Categorical, name: str, epsilon: str) -> list[Row]:
    """Figure 3: ε by step."""
    generator, options = METHODS[name]
    made = bench.runs.ours(generator, table, seed=TRIALS[0], epsilon=epsilon, delta=STEP_DELTA, options=options)
    found = composition(made.report["draws"], Fraction(STEP_DELTA), bench.peers.get("prv"))
    drawn = [
        Line("zCDP", [(step["draws"], step["zcdp"]) for step in found]),
        Line("zCDP, measurements", [(step["draws"], step["measurements"]["zcdp"]) for step in found]),
        Line("PLD, measurements", _known(found, lambda step: step["measurements"]["pld"])),
        Line("PLD, choices as pure", _known(found, lambda step: step["pld"])),
    ]
    if "prv" in found[0]["measurements"]:
        both = [step["measurements"]["prv"] for step in found]
        points = [(step["draws"], prv[1]) for step, prv in zip(found, both, strict=True)]
        drawn.append(Line("prv_accountant, measurements", points, [(prv[0], prv[2]) for prv in both]))
    title = f"{table.name}, {name}, epsilon {epsilon}, delta {STEP_DELTA}: epsilon spent"
    lines(FIGURES / f"{table.name}-{name}-spent-{epsilon}.svg", title, "draws", "epsilon", drawn)
    last = found[-1]
    settings: dict[str, Setting] = machine("dp-accounting") | {"delta": STEP_DELTA, "run": made.name, "end": last}
    exact, peer = last["measurements"]["pld"], last["measurements"].get("prv")
    ratio = last["measurements"]["zcdp"] / exact if exact else None
    what = f"{table.name}, {name} at epsilon {epsilon}: zCDP's epsilon of all measurements over the numerical one"
    return (
        []
        if ratio is None
        else [
            Row(
                what,
                round(ratio, 4),
                "ratio",
                target=CLOSE,
                holds=ratio <= CLOSE,
                paper="hardly different",
                peer=f"prv_accountant {peer[0]:.4f} to {peer[2]:.4f}" if peer else None,
                settings=settings,
            )
        ]
    )


def _known(found: Sequence[Mapping[str, Any]], of: Any) -> list[tuple[float, float]]:
    return [(step["draws"], of(step)) for step in found if of(step) is not None]


def _errors_by_step(table: Categorical, found: Sequence[Mapping[str, Any]], trial: int) -> None:
    """Figure 4: the model's error after each measurement; a dotted line where the one-way marginals end."""
    first = sum(1 for step in found[: len(table.columns)] if len(step["clique"]) == 1)
    drawn = [
        Line(f"{alpha}-way", [(place, step["errors"][alpha]) for place, step in enumerate(found, 1)])
        for alpha in ("1", "2", "3")
    ]
    title = f"{table.name}, aim-k2, trial {trial}: error by step"
    path = FIGURES / f"{table.name}-steps-{trial}.svg"
    lines(path, title, "measurements", "L1 / N", drawn, marks=[first + 0.5])


def _chosen(bench: Bench, table: Categorical, runs: Sequence[Made]) -> list[Row]:
    """Figure 5: which pairs were measured, and the error of those that were against those that were not."""
    maps, rows = {}, []
    for trial, made in enumerate(runs, 1):
        counts = chosen_pairs(made.report["steps"])
        maps[f"trial {trial}"] = _grid(table.columns, {frozenset(pair): count for pair, count in counts.items()})
        known = {frozenset(pair) for pair in counts}
        distances = bench.runs.scores(made, table)["alpha_way_error"]["2"]["by_marginal"]
        inside = [each["error"] for each in distances if frozenset(each["columns"]) in known]
        outside = [each["error"] for each in distances if frozenset(each["columns"]) not in known]
        if inside and outside:
            settings = machine("numpy") | {"run": made.name, "pairs_measured": len(known)}
            what = f"{table.name}, aim-k2, trial {trial}: mean error of the pairs that were measured"
            rows.append(
                Row(
                    what,
                    round(mean(inside), 4),
                    "L1 / N",
                    target=round(mean(outside), 4),
                    holds=mean(inside) < mean(outside),
                    paper="below the others'",
                    settings=settings,
                )
            )
    heat(
        FIGURES / f"{table.name}-chosen.svg",
        f"{table.name}, aim-k2: how often a pair was measured",
        table.columns,
        maps,
    )
    return rows


def _information(rows: EncodedRows) -> list[list[float | None]]:
    found = mutual_information(rows)
    return [
        [None if left == right else float(found[left, right]) for right in range(len(found))]
        for left in range(len(found))
    ]


def _grid(names: Sequence[str], counts: Mapping[frozenset[str], int]) -> list[list[float | None]]:
    return [[None if a == b else float(counts.get(frozenset((a, b)), 0)) for b in names] for a in names]
