"""What the page shows of a synthetic release: the measured marginals with their noise, and which columns meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from contracts.contract.contract import Contract
from contracts.message import AND, joined, message, plural
from tasks.records.charts import charts
from tasks.records.charts.contact_sheet import ContactSheet, contact_sheets
from tasks.records.charts.pair_map import PairMap, pair_map
from tasks.records.draws.draws import NUMBERS
from tasks.records.files.tidy_tables import DATA, MEASUREMENTS
from tasks.records.page.published_tables import ReadFile
from tasks.records.relations import kept_relations
from tasks.records.values import Values

MOST_ROWS: Final = 60


@dataclass(frozen=True)
class MeasuredRow:
    """One measured marginal: its columns, cells and noise, the noise drawn against the largest, its file."""

    columns: str
    cells: str
    deviation: str
    half_width: str
    bar: Markup
    file: str


@dataclass(frozen=True)
class SumRow:
    """Noisy sums over rows: what was added up, the rows' vectors, how many numbers, their noise, their file."""

    what: str
    vectors: str
    numbers: str
    noise: list[tuple[str, str]]
    file: str


@dataclass(frozen=True)
class TrainingRow:
    """One training: what was trained and how, its parameters, the noise of a step, its draws, its file."""

    what: str
    parameters: str
    noise: str
    draws: str
    file: str


@dataclass(frozen=True)
class SyntheticView:
    """The synthetic part of the page.

    Args:
        relations: which relations between columns are kept.
        measured: the marginals, at most `MOST_ROWS`.
        sums: the sums over rows, at most `MOST_ROWS`.
        trainings: the trainings by DP-SGD.
        counted: how many of each, in words.
        more: how many marginals and sums are not shown.
        meetings: which columns were measured together, darker for less noise.
        expected: error that noise alone was expected to make, by number of columns.
        files: the data files.
        sheets: contact sheets of columns of pictures.
    """

    relations: str | None
    measured: list[MeasuredRow]
    sums: list[SumRow]
    trainings: list[TrainingRow]
    counted: str
    more: int
    meetings: PairMap | None
    expected: list[tuple[str, str]]
    files: list[str]
    sheets: list[ContactSheet]


def synthetic_view(record: dict[str, Any], values: Values, contract: Contract, read: ReadFile) -> SyntheticView:
    """Prepare the part of the page about synthetic rows.

    Args:
        record: the public record of a version of synthetic rows.
        values: its values.
        contract: gives the columns.
        read: reads the version's files.
    """
    measured, draws = values["product.measured"], {draw["key"]: draw for draw in values["ledger.draws"]}
    marginals = [each for each in measured if draws[each["key"]]["what"] == "measurement"]
    sums = [each for each in measured if "sums" in each]
    trainings = [each for each in measured if "trained" in each]
    largest = max((float(each["deviation"]) for each in marginals), default=1.0)
    shown = [_measured_row(each, draws[each["key"]], largest) for each in marginals[:MOST_ROWS]]
    summed = [_sum_row(each) for each in sums[:MOST_ROWS]]
    stated = values["product.expected_error"]
    columns, label = values["product.columns"], values["product.options"].get("label")
    cliques = {draw["key"]: draw["clique"] for draw in record["replay"]["draws"]}
    return SyntheticView(
        relations=kept_relations(record["replay"]),
        measured=shown,
        sums=summed,
        trainings=[_training_row(each, draws) for each in trainings],
        counted=_counted(marginals, sums, trainings),
        more=len(marginals) + len(sums) - len(shown) - len(summed),
        meetings=_meetings(columns, [(cliques[each["key"]], float(each["deviation"])) for each in marginals]),
        expected=[] if isinstance(stated, str) else list(stated.items()),
        files=[file["path"] for file in values["output.files"] if not file["path"].startswith(f"{MEASUREMENTS}/0")],
        sheets=contact_sheets(
            [contract.column(name) for name in columns], label, read(f"{DATA}/{record['release']}.parquet")
        ),
    )


def _measured_row(entry: Mapping[str, Any], draw: Mapping[str, Any], largest: float) -> MeasuredRow:
    deviation = float(entry["deviation"])
    return MeasuredRow(
        f"{entry['columns']} ({entry['table']})" if "table" in entry else entry["columns"],
        f"{entry['cells']:,}",
        f"{deviation:.3g}",
        f"{draw['half_width_95']:,}",
        charts.share_bar(deviation, largest),
        entry["file"],
    )


def _counted(marginals: Sequence[Any], sums: Sequence[Any], trainings: Sequence[Any]) -> str:
    """Say how many marginals, sums over rows and trainings there are."""
    counts = [
        plural("{number} marginal", "{number} marginals", len(marginals), number=len(marginals)),
        plural("{number} sum over rows", "{number} sums over rows", len(sums), number=len(sums)),
        plural("{number} training", "{number} trainings", len(trainings), number=len(trainings)),
    ]
    kinds = [count for count, of in zip(counts, (marginals, sums, trainings), strict=True) if of]
    return joined(kinds, AND) if kinds else message("nothing")


def _training_row(entry: Mapping[str, Any], draws: Mapping[str, Any]) -> TrainingRow:
    training = f"{entry['key'].rpartition('/')[0]}/"
    number = sum(key.startswith(training) for key in draws)
    return TrainingRow(entry["trained"], f"{entry['cells']:,}", entry["noise"], f"{number:,}", entry["file"])


def _sum_row(entry: Mapping[str, Any]) -> SumRow:
    noise: list[tuple[str, str]] = [
        (NUMBERS[part], f"{float(deviation):.3g}") for part, deviation in entry["deviation"].items()
    ]
    return SumRow(entry["sums"], entry["vectors"], f"{entry['cells']:,}", noise, entry["file"])


def _meetings(names: Sequence[str], measured: Sequence[tuple[list[str], float]]) -> PairMap | None:
    """Find the least noise with which each pair of columns, and each column, was measured."""
    if not measured:
        return None
    least = np.full((len(names), len(names)), np.inf)
    for clique, deviation in measured:
        places = [names.index(name) for name in clique]
        for one in places:
            for other in places:
                if one != other or len(places) == 1:
                    least[one, other] = min(least[one, other], deviation)
    darkness = np.where(np.isfinite(least), 1.0 / np.maximum(least, 1e-9), 0.0)
    texts = [[f"{noise:.2g}" if np.isfinite(noise) else "" for noise in row] for row in least]
    return pair_map(names, darkness, texts, message("Which columns were measured together; darker for less noise."))
