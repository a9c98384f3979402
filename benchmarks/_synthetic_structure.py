"""Is structure worth its charge? AIM beside independent columns and a tree, where it can hardly be afforded.

Then tables of 120 and of 500 columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import mean, stdev
from typing import Any, Final

from benchmarks._synthetic_bench import Bench, settings_of
from benchmarks._synthetic_data import Categorical
from benchmarks._synthetic_paper import DELTA, EPSILON, TRIALS
from benchmarks._synthetic_peers import Made
from benchmarks.results import Row, Setting
from privacy.accounting.events import event_from_json
from privacy.accounting.renyi import best_epsilon, rho_for
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.rows import alpha_way_error

AT_MOST: Final = {"0.1": 1.0, "1": 0.75}
VERY_WIDE: Final = ("gaussian_copula", "latent_factors", "aim")
VERY_WIDE_AT_MOST: Final = 0.7
VERY_WIDE_SECONDS: Final = 300.0
VERY_WIDE_GIGABYTES: Final = 2.0
CHARGE_SPENT: Final = 0.99
WIDEST: Final = "latent_factors"
WIDEST_OPTIONS: Final = {"max_model_megabytes": 400}
WIDEST_AT_MOST: Final = 0.8
WIDEST_SECONDS: Final = 1200.0


def affordable(bench: Bench, table: Categorical) -> list[Row]:
    """AIM's error of pairs over the better of independent columns and MST, at a small and a middle epsilon."""
    rows = []
    for epsilon, target in AT_MOST.items():
        made = {
            name: [
                bench.runs.ours(name, table, seed=seed, epsilon=epsilon, delta=DELTA, options=None) for seed in TRIALS
            ]
            for name in ("independent", "mst", "aim")
        }
        errors = {name: bench.errors(each, table)["2"] for name, each in made.items()}
        other = min(mean(errors["independent"]), mean(errors["mst"]))
        ratio = mean(errors["aim"]) / other
        settings = settings_of(table, made["aim"]) | {"epsilon": epsilon, "adjacency": "add_remove"}
        settings |= {name: list(found) for name, found in errors.items()}
        settings |= {"sd": round(stdev(errors["aim"]), 4)}
        what = f"{table.name}, epsilon {epsilon}: aim's 2-way error over the better of independent and mst"
        rows.append(Row(what, round(ratio, 3), "ratio", target=target, holds=ratio <= target, settings=settings))
    return rows


def very_wide(bench: Bench, table: Categorical) -> list[Row]:
    """120 columns, one run of each: error over MST's, time, memory, and what of its charge AIM spends."""
    made = {name: _once(bench, name, table) for name in ("mst", *VERY_WIDE)}
    errors = {name: bench.errors([each], table)["2"][0] for name, each in made.items()}
    rows = []
    for name in VERY_WIDE:
        report, settings = made[name].report, settings_of(table, [made[name]]) | dict(errors)
        for what, value, unit, target in (
            ("2-way error over mst's", errors[name] / errors["mst"], "ratio", VERY_WIDE_AT_MOST),
            ("time of the run", report["seconds"], "s", VERY_WIDE_SECONDS),
            ("peak memory", report["peak_gigabytes"], "GB", VERY_WIDE_GIGABYTES),
        ):
            rows.append(_at_most(f"{table.name}, {name}, {what}", value, unit, target, settings))
    spent, settings = _charge_spent(made["aim"].report["draws"]), settings_of(table, [made["aim"]])
    what = f"{table.name}, aim, share of the charge that is spent"
    holds = spent >= CHARGE_SPENT
    return [*rows, Row(what, round(spent, 4), "of rho", target=CHARGE_SPENT, holds=holds, settings=settings)]


def widest(bench: Bench, table: Categorical) -> list[Row]:
    """500 columns, one run of each: error over that of independent columns, time, memory."""
    made = {
        name: _once(bench, name, table, options) for name, options in (("independent", {}), (WIDEST, WIDEST_OPTIONS))
    }
    # `evaluate` leaves out so many pairs.
    real = EncodedRows(table.columns, table.shape, table.codes)
    errors = {name: alpha_way_error(real, each.rows, alpha=2).mean for name, each in made.items()}
    report, settings = made[WIDEST].report, settings_of(table, [made[WIDEST]]) | dict(errors)
    ratio, about = errors[WIDEST] / errors["independent"], f"{table.name}, {WIDEST}"
    return [
        _at_most(f"{about}, 2-way error over independent's", ratio, "ratio", WIDEST_AT_MOST, settings),
        _at_most(f"{about}, time of the run", report["seconds"], "s", WIDEST_SECONDS, settings),
        Row(f"{about}, peak memory", report["peak_gigabytes"], "GB", settings=settings),
    ]


def _once(bench: Bench, name: str, table: Categorical, options: Mapping[str, Any] | None = None) -> Made:
    return bench.runs.ours(name, table, seed=TRIALS[0], epsilon=EPSILON, delta=DELTA, options=options)


def _charge_spent(draws: Sequence[Mapping[str, Any]]) -> float:
    """Return what of rho the draws cost, of all that epsilon and delta allow."""
    delta = Fraction(DELTA)
    spent, _ = best_epsilon([event_from_json(draw["event"]) for draw in draws], delta)
    return float(rho_for(Fraction(spent), delta) / rho_for(Fraction(EPSILON), delta))


def _at_most(what: str, value: float, unit: str, target: float, settings: dict[str, Setting]) -> Row:
    return Row(what, round(value, 3), unit, target=target, holds=value <= target, settings=settings)
