"""Where AIM must not break: little noise, all columns of Adult, ten million rows."""

from __future__ import annotations

from statistics import mean
from typing import Final

from benchmarks._synthetic_bench import ALPHAS, Bench, no_higher, settings_of, timed, versions_of
from benchmarks._synthetic_data import Categorical
from benchmarks._synthetic_paper import DELTA, EPSILON, METHODS, TRIALS
from benchmarks.results import Row

WIDE_SECONDS: Final = 300.0
WIDE_GIGABYTES: Final = 4.0
LONG_GIGABYTES: Final = 8.0
LONG_SHARE: Final = 0.1
LARGE_EPSILONS: Final = ("10", "100")
SLOWER_AT_MOST: Final = 3


def large_epsilons(bench: Bench, table: Categorical) -> list[Row]:
    """AIM finishes at ε = 10 and 100 within three times its time at 1, and the error falls."""
    before = bench.ours("aim-k2", table)
    limit = SLOWER_AT_MOST * mean(each.report["seconds"] for each in before)
    last, rows = mean(bench.errors(before, table)["2"]), []
    for epsilon in LARGE_EPSILONS:
        made = bench.ours("aim-k2", table, epsilon=epsilon)
        settings = settings_of(table, made) | {"epsilon": epsilon}
        error, seconds = mean(bench.errors(made, table)["2"]), mean(each.report["seconds"] for each in made)
        what = f"{table.name}, aim-k2 at epsilon {epsilon}"
        rows.append(
            Row(
                f"{what}, 2-way error",
                round(error, 4),
                "L1 / N",
                target=round(last, 4),
                holds=error < last,
                settings=settings,
            )
        )
        rows.append(
            Row(
                f"{what}, time of a run",
                round(seconds, 1),
                "s",
                target=round(limit, 1),
                holds=seconds <= limit,
                paper="more than 2 days",
                settings=settings,
            )
        )
        last = error
    return rows


def wide(bench: Bench, table: Categorical) -> list[Row]:
    """All 15 columns of Adult."""
    made, theirs = bench.ours("aim-k2", table), bench.theirs("mbi", "aim", table)
    settings = settings_of(table, made) | {"peer": versions_of(theirs)}
    peak = max(each.report["peak_gigabytes"] for each in made)
    peer_peak = max((each.report["peak_gigabytes"] for each in theirs), default=None)
    errors, other = bench.errors(made, table), bench.errors(theirs, table) if theirs else {}
    rows = [
        no_higher(f"{table.name}, aim-k2, {alpha}-way error", errors[alpha], other.get(alpha, []), settings)
        for alpha in ALPHAS
    ]
    rows.append(timed(f"{table.name}, aim-k2, time of a run", made, WIDE_SECONDS, theirs, settings))
    rows.append(
        Row(
            f"{table.name}, aim-k2, peak memory",
            peak,
            "GB",
            target=WIDE_GIGABYTES,
            holds=peak <= WIDE_GIGABYTES,
            peer=peer_peak,
            settings=settings,
        )
    )
    return rows


def long(bench: Bench, table: Categorical) -> list[Row]:
    """10 million rows, one run: how much of it reads data, and the peak memory."""
    generator, options = METHODS["aim-k2"]
    made = bench.runs.ours(generator, table, seed=TRIALS[0], epsilon=EPSILON, delta=DELTA, options=options)
    report, settings = made.report, settings_of(table, [made])
    share = report["counting_seconds"] / report["seconds"]
    return [
        Row(
            f"{table.name}, aim-k2, share of the run that counts rows",
            round(share, 4),
            "of the time",
            target=LONG_SHARE,
            holds=share <= LONG_SHARE,
            settings=settings,
        ),
        Row(f"{table.name}, aim-k2, time of the run", report["seconds"], "s", settings=settings),
        Row(
            f"{table.name}, reading and encoding the rows before it",
            report["reading_seconds"],
            "s",
            settings=settings,
        ),
        Row(
            f"{table.name}, aim-k2, peak memory",
            report["peak_gigabytes"],
            "GB",
            target=LONG_GIGABYTES,
            holds=report["peak_gigabytes"] <= LONG_GIGABYTES,
            settings=settings,
        ),
    ]
