"""scores.html: private scores as one self-contained page without script, for the auditor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb
from pathlib import Path
from typing import Any, Final

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from privacy.evaluation.membership import PrivateModelScores
from privacy.evaluation.rows import BOOTSTRAP, INDEPENDENT, PrivateScores, Scores, Yardstick
from privacy.evaluation.statistic_errors import PrivateStatisticErrors
from privacy.evaluation.table_errors import PrivateTableErrors
from tasks.records.charts import charts
from tasks.records.charts.pair_map import PairMap, pair_map
from tasks.records.page.style import FOLDER as PAGE_FOLDER
from tasks.records.page.style import style

MOST_MARGINALS: Final = 25
_FOLDER: Final = Path(__file__).parent
_INFORMATION: Final = "Error of the mutual information of pairs; darker for larger."
_ASSOCIATION: Final = "Error of the association of pairs; darker for larger."


@dataclass(frozen=True)
class ErrorRow:
    """One marginal: its columns, its error, and the error drawn against the largest of its order."""

    columns: str
    error: str
    bar: Markup


@dataclass(frozen=True)
class OrderView:
    """The marginals of one order.

    Args:
        alpha: columns of each.
        mean: their mean error.
        rows: the worst, at most `MOST_MARGINALS`.
        more: how many are not shown.
    """

    alpha: int
    mean: str
    rows: list[ErrorRow]
    more: int


def scores_page(scores: PrivateScores, *, release: str, version: int) -> str:
    """Render private scores.

    Args:
        scores: the scores.
        release, version: what was evaluated; escaped.
    Returns:
        HTML; private like the scores.
    """
    return _rendered(scores.scores, release=release, version=version, holdout=None)


def yardsticks(scores: Scores, name: str) -> tuple[str, str]:
    """Return what a score, by the name that people read, is for the real rows and for rows that learned nothing."""
    best, nothing = (scores.yardsticks.get(each) for each in (BOOTSTRAP, INDEPENDENT))
    what, _, learner = name.partition(", ")
    if what == "accuracy":
        share, least = scores.learned_from_real.get(learner), scores.majority
        return _four(share), _four(least)
    return _of(best, what, learner), _of(nothing, what, learner)


def _of(yardstick: Yardstick | None, what: str, learner: str) -> str:
    if yardstick is None:
        return ""
    if what == "pMSE ratio":
        ratio = yardstick.propensity.get(learner)
        return "" if ratio is None else f"{ratio:.2f}"
    if what.endswith("-way error"):
        return _four(yardstick.errors.get(int(what.partition("-")[0])))
    return _four(yardstick.association if what.startswith("association") else yardstick.mutual_information)


def _four(number: float | None) -> str:
    return "" if number is None else f"{number:.4f}"


def holdout_page(scores: Scores, *, release: str, version: int, because: str, file: str) -> str:
    """Render scores against rows that were declared public.

    Args:
        scores: the scores.
        release, version: what was evaluated; escaped.
        because, file: why the rows are public, and the file that has them; escaped.
    Returns:
        HTML, as public as the scores.
    """
    return _rendered(scores, release=release, version=version, holdout={"because": because, "file": file})


def _rendered(found: Scores, *, release: str, version: int, holdout: dict[str, str] | None) -> str:
    page: str = _template("scores.html.j2").render(
        release=release,
        version=version,
        holdout=holdout,
        rows="public" if holdout else "real",
        columns=found.columns,
        orders=[_order(found, alpha) for alpha in found.errors],
        left_out=[alpha for alpha in (1, 2, 3) if alpha <= len(found.columns) and alpha not in found.errors],
        number_of=lambda alpha: f"{comb(len(found.columns), alpha):,}",
        information=None if len(found.columns) < 2 else _pairs(found, found.mutual_information, _INFORMATION),
        association=_pairs(found, found.association, _ASSOCIATION) if found.association else None,
        association_error=f"{found.association_error or 0.0:.4f}",
        propensities=[
            (name, f"{each.pmse:.6f}", f"{each.expected:.6f}", f"{each.ratio:.2f}")
            for name, each in found.propensity.items()
        ],
        beside=lambda name: yardsticks(found, name),
        information_error=f"{found.mutual_information_error or 0.0:.4f}",
        accuracies=[(name, f"{share:.4f}", charts.share_bar(share, 1)) for name, share in found.accuracies.items()],
        style=style(PAGE_FOLDER / "record.css"),
    )
    return page


def tables_page(errors: PrivateTableErrors, *, release: str, version: int) -> str:
    """Render private errors of tables; arguments and result as for `scores_page`."""
    page: str = _template("tables.html.j2").render(
        release=release, version=version, tables=dict(errors.tables), style=style(PAGE_FOLDER / "record.css")
    )
    return page


def statistics_page(errors: PrivateStatisticErrors, *, release: str, version: int) -> str:
    """Render private errors of statistics; arguments and result as for `scores_page`."""
    page: str = _template("statistics_errors.html.j2").render(
        release=release, version=version, tables=dict(errors.tables), style=style(PAGE_FOLDER / "record.css")
    )
    return page


def model_page(scores: PrivateModelScores, *, release: str, version: int) -> str:
    """Render private scores of a model; arguments and result as for `scores_page`."""
    page: str = _template("model.html.j2").render(
        release=release, version=version, scores=scores, style=style(PAGE_FOLDER / "record.css")
    )
    return page


def attacks_page(report: Any, attacks: Sequence[tuple[Any, tuple[str, ...]]]) -> str:
    """Render what came of attacks.

    Args:
        report: an `AttackReport`.
        attacks: each kind, with what is said of it.
    Returns:
        HTML, public.
    """
    page: str = _template("attacks.html.j2").render(
        report=report, attacks=attacks, style=style(PAGE_FOLDER / "record.css")
    )
    return page


def _order(scores: Scores, alpha: int) -> OrderView:
    """Return the marginals of one order, the worst first."""
    error = scores.errors[alpha]
    pairs = sorted(zip(error.distances, error.cliques, strict=True), key=lambda pair: (-pair[0], pair[1]))
    largest = max(pairs[0][0], 1e-12)
    rows = [
        ErrorRow(
            " × ".join(scores.columns[place] for place in clique),
            f"{distance:.4f}",
            charts.share_bar(distance, largest),
        )
        for distance, clique in pairs[:MOST_MARGINALS]
    ]
    return OrderView(alpha, f"{error.mean:.4f}", rows, max(0, len(pairs) - MOST_MARGINALS))


def _pairs(scores: Scores, by_pair: Mapping[tuple[int, int], float], caption: str) -> PairMap:
    """Draw how far a number of each pair of columns is off."""
    width = len(scores.columns)
    errors = np.zeros((width, width))
    for (left, right), error in by_pair.items():
        errors[left, right] = errors[right, left] = error
    texts = [
        ["" if row == column else f"{errors[row, column]:.3f}" for column in range(width)] for row in range(width)
    ]
    return pair_map(scores.columns, errors, texts, caption)


@cache
def _template(name: str) -> Any:
    environment = Environment(
        loader=FileSystemLoader([_FOLDER, PAGE_FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
