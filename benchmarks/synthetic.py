"""The AIM evaluation beside ours and beside the peers, measured in one run.

    python -m benchmarks.synthetic [--data DIR] [--peers DIR] [--kept DIR] [--only SECTION ...]

Adult comes with the repository; Bank, in DIR/bank/bank-additional-full.csv.gz, is left out without --data (or
SUDARE_BENCHMARK_DATA). Peers that are not installed in --peers (or SUDARE_BENCHMARK_PEERS) are left out. Runs are
kept in --kept and taken from there when they are there already; times are only as good as the machine was quiet.
Rows of the same words in the files of results are replaced, and the others stay.

Errors are the L1 distance of raw counts over the number of real rows, twice the half-L1 that mbi's scripts print.
The paper declares neighbours by replacement and calibrates as for add_remove; each row names its adjacency.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import _synthetic_figures as figures
from benchmarks import _synthetic_frontier as frontier
from benchmarks import _synthetic_limits as limits
from benchmarks import _synthetic_rows as sections
from benchmarks import _synthetic_structure as structure
from benchmarks._synthetic_auto import chosen_by_auto
from benchmarks._synthetic_bench import Bench
from benchmarks._synthetic_data import (
    WIDEST_COLUMNS,
    Categorical,
    acs,
    adult,
    adult_of_15_columns,
    bank,
    ten_million,
    wide,
)
from benchmarks._synthetic_inference import RELEASES, intervals
from benchmarks._synthetic_joined import JOINED_SEEDS, pairs_of_joined
from benchmarks._synthetic_linked import linked_rows
from benchmarks._synthetic_paper import ACCURACY
from benchmarks._synthetic_peers import Runs, peers
from benchmarks._synthetic_stress import stress
from benchmarks._synthetic_values import SEEDS, values_as_numbers
from benchmarks.results import Row, write_again

Section = Callable[[Bench, list[Categorical]], list[Row]]


def main() -> None:
    """Measure the sections that are asked for, and write the rows of each to the results file where it belongs."""
    asked = _arguments()
    bench = Bench(Runs(asked.kept), peers(asked.peers))
    tables = [adult()]
    if asked.data is None:
        print("Bank is left out: no --data and no SUDARE_BENCHMARK_DATA")
    else:
        tables.append(bank(asked.data))
    if asked.data is None and {"values", "joined", "inference"} & set(asked.only or ()):
        raise SystemExit("values, joined and inference need --data DIR with nist_acs/")
    reads_acs = asked.data is not None and not WITH_ACS.isdisjoint(asked.only or SECTIONS)
    more = [*tables, acs(asked.data)] if reads_acs else tables
    for name in asked.only or SECTIONS:
        write_again(file_of(name), SECTIONS[name](bench, more if name in WITH_ACS else tables))


def file_of(section: str) -> str:
    """Name the file of results where a section's rows belong."""
    return next((file for file, sections in FILES.items() if section in sections), f"synthetic_{section}")


def _scale(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return [row for table in tables for row in sections.bootstrap(table)]


def _accuracy(bench: Bench, tables: list[Categorical]) -> list[Row]:
    rows = []
    for table in tables:
        rows += sections.accuracy_of_the_real(bench, table)
        for method in ACCURACY[table.name]:
            rows += sections.accuracy(bench, table, method)
        rows += sections.gaussian_over_laplace(bench, table)
    return rows


def _aim(bench: Bench, tables: list[Categorical]) -> list[Row]:
    theirs = bench.theirs("mbi", "aim", tables[0])
    rows = sections.against(bench, tables[0], "aim-k2", theirs)
    return rows + sections.against(bench, tables[0], "aim-k2", theirs, adjacency="replace_one")


def _mst(bench: Bench, tables: list[Categorical]) -> list[Row]:
    rows = sections.against(bench, tables[0], "mst", bench.theirs("mbi", "mst", tables[0]))
    return rows + sections.other_sampling(bench, tables[0])


def _privbayes(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return sections.privbayes(bench, tables[0])


def _variants(bench: Bench, tables: list[Categorical]) -> list[Row]:
    for table in tables:
        figures.errors_by_method(bench, table)
    return [row for table in tables for row in sections.variants(bench, table)]


def _epsilon(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return limits.large_epsilons(bench, tables[0])


def _wide(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return limits.wide(bench, adult_of_15_columns())


def _long(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return limits.long(bench, ten_million(adult_of_15_columns()))


def _steps(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return figures.steps(bench, tables[0])


def _affordable(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return [row for table in tables for row in structure.affordable(bench, table)]


def _very_wide(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return structure.very_wide(bench, wide())


def _widest(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return structure.widest(bench, wide(WIDEST_COLUMNS))


def _values(bench: Bench, tables: list[Categorical]) -> list[Row]:
    data = _arguments().data
    return [] if data is None else [row for name in SEEDS for row in values_as_numbers(data, name)]


def _joined(bench: Bench, tables: list[Categorical]) -> list[Row]:
    asked = _arguments()
    if asked.data is None:
        return []
    return [row for name in JOINED_SEEDS for row in pairs_of_joined(asked.data, asked.kept, name)]


def _stress(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return stress(bench)


def _dense(bench: Bench, tables: list[Categorical]) -> list[Row]:
    data = _arguments().data
    return [row for table in _dense_tables(data) for row in frontier.dense(bench, table)]


def _dense_tables(data: Path | None) -> list[Categorical]:
    return [frontier.normals(), *([] if data is None else [frontier.eeg(data)])]


def _epsilons(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return frontier.epsilons(bench, tables[0])


def _dpmm(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return frontier.beside_dpmm(bench, tables[0])


def _auto(bench: Bench, tables: list[Categorical]) -> list[Row]:
    wide_ones = [table for table in tables if table.name != "bank"]
    return [row for table in [*wide_ones, frontier.normals()] for row in chosen_by_auto(bench, table)]


def _linked(bench: Bench, tables: list[Categorical]) -> list[Row]:
    return linked_rows()


def _inference(bench: Bench, tables: list[Categorical]) -> list[Row]:
    asked = _arguments()
    if asked.data is None:
        return []
    return [row for name in RELEASES for row in intervals(asked.data, asked.kept, name)]


SECTIONS: Final[dict[str, Section]] = {
    "scale": _scale,
    "aim": _aim,
    "mst": _mst,
    "privbayes": _privbayes,
    "accuracy": _accuracy,
    "variants": _variants,
    "epsilon": _epsilon,
    "wide": _wide,
    "long": _long,
    "steps": _steps,
    "affordable": _affordable,
    "very_wide": _very_wide,
    "widest": _widest,
    "values": _values,
    "joined": _joined,
    "stress": _stress,
    "dense": _dense,
    "epsilons": _epsilons,
    "dpmm": _dpmm,
    "auto": _auto,
    "linked": _linked,
    "inference": _inference,
}

FILES: Final[dict[str, tuple[str, ...]]] = {
    "synthetic": ("scale", "aim", "mst", "privbayes", "accuracy", "variants", "epsilon", "wide", "long", "steps"),
    "synthetic_structure": ("affordable", "very_wide", "widest"),
    "synthetic_frontier": ("dense", "epsilons", "dpmm"),
}
"""Files of results with more than one section; another section has a file of its own name."""
WITH_ACS: Final = {"affordable", "auto"}
"""Sections that read the table of the American Community Survey too."""


def _arguments() -> argparse.Namespace:
    """Read where the data and the peers are, and which sections are wanted."""
    parser = argparse.ArgumentParser(description="synthetic microdata beside the paper and the peers")
    data, others = os.environ.get("SUDARE_BENCHMARK_DATA"), os.environ.get("SUDARE_BENCHMARK_PEERS")
    parser.add_argument("--data", type=Path, default=Path(data) if data else None)
    parser.add_argument("--peers", type=Path, default=Path(others) if others else None)
    parser.add_argument("--kept", type=Path, default=Path("build") / "synthetic")
    parser.add_argument("--only", nargs="+", choices=sorted(SECTIONS), default=None)
    return parser.parse_args()


if __name__ == "__main__":
    main()
