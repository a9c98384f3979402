"""What the page shows of a synthetic release: the measured marginals with their noise, and which columns meet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from privacy.grant.measurement import SumMeasurement
from privacy.learning.trained import Trained
from privacy.marginals.uncertainty import half_width
from privacy.table_plans.plan import CONFIDENCE
from tasks.records.charts import charts
from tasks.records.charts.contact_sheet import ContactSheet, contact_sheets
from tasks.records.charts.pair_map import PairMap, pair_map
from tasks.records.facts import RunFacts
from tasks.records.files.synthetic_files import measurement_name
from tasks.records.files.tidy_tables import DATA, MEASUREMENTS
from tasks.records.fitted_groups import sum_entries as sums
from tasks.records.fitted_groups import training_entries as trainings

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

    measured: list[MeasuredRow]
    sums: list[SumRow]
    trainings: list[TrainingRow]
    counted: str
    more: int
    meetings: PairMap | None
    expected: list[tuple[str, str]]
    files: list[str]
    sheets: list[ContactSheet]


def synthetic_view(facts: RunFacts, values: dict[str, Any], folder: Path) -> SyntheticView | None:
    """Prepare the synthetic part of the page from released values; None for a release of tables."""
    if facts.synthesis is None:
        return None
    drawn = facts.synthesis.fitted.measurements
    largest = max((each.variance**0.5 for each in drawn), default=1.0)
    shown = [
        MeasuredRow(
            " × ".join(each.clique) or "total",
            f"{each.values.size:,}",
            f"{each.variance**0.5:.3g}",
            f"{half_width(each.event, CONFIDENCE):,}",
            charts.share_bar(each.variance**0.5, largest),
            f"{MEASUREMENTS}/{measurement_name(each)}.parquet",
        )
        for each in drawn[:MOST_ROWS]
    ]
    stated = values["K.expected_error"]
    expected = [] if isinstance(stated, str) else list(stated.items())
    files = [file["path"] for file in values["P.files"] if not file["path"].startswith(f"{MEASUREMENTS}/0")]
    sheets = contact_sheets(facts, folder / DATA / f"{facts.spec.release}.parquet")
    summed = [_sum_row(each) for each in facts.synthesis.fitted.sums[:MOST_ROWS]]
    trained = [_training_row(each, facts) for each in trainings.last_numbers(facts)]
    more = len(facts.synthesis.measured) - len(shown) - len(summed)
    return SyntheticView(shown, summed, trained, _counted(facts), more, _meetings(facts), expected, files, sheets)


def _counted(facts: RunFacts) -> str:
    """Say how many marginals, sums over rows and trainings there are."""
    fitted = facts.synthetic[1].fitted
    kinds = [("marginal", fitted.measurements), ("sum over rows", fitted.sums), ("training", fitted.trainings)]
    many = {"marginal": "marginals", "sum over rows": "sums over rows", "training": "trainings"}
    parts = [f"{len(each)} {name if len(each) == 1 else many[name]}" for name, each in kinds if each]
    return " and ".join(parts) or "nothing"


def _training_row(each: tuple[Trained, int], facts: RunFacts) -> TrainingRow:
    trained, number = each
    told = trainings.told(trained, number)
    draws = sum(other is trained for other, _ in trainings.drawn(facts))
    return TrainingRow(told["trained"], f"{told['cells']:,}", told["noise"], f"{draws:,}", told["file"])


def _sum_row(each: SumMeasurement) -> SumRow:
    return SumRow(
        sums.what(each.statistic),
        sums.vectors(each.statistic),
        f"{each.values.size:,}",
        [(sums.NUMBERS[part], f"{deviation:.3g}") for part, deviation in sums.deviations(each).items()],
        f"{MEASUREMENTS}/{measurement_name(each)}.parquet",
    )


def _meetings(facts: RunFacts) -> PairMap | None:
    """Find the least noise with which each pair of columns, and each column, was measured."""
    plan, made = facts.synthetic
    if not made.fitted.measurements:
        return None
    names = plan.asked.domain.columns
    least = np.full((len(names), len(names)), np.inf)
    for each in made.fitted.measurements:
        places = [names.index(name) for name in each.clique]
        for one in places:
            for other in places:
                if one != other or len(places) == 1:
                    least[one, other] = min(least[one, other], each.variance**0.5)
    darkness = np.where(np.isfinite(least), 1.0 / np.maximum(least, 1e-9), 0.0)
    texts = [[f"{noise:.2g}" if np.isfinite(noise) else "" for noise in row] for row in least]
    return pair_map(names, darkness, texts, "Which columns were measured together; darker for less noise.")
