"""Figures 3 and 4 of the paper: how good made-up rows are after every epoch of a training.

The noise is that of the whole training, which is fitted once. Its checkpoints are durable and paid for; the fit is
then run again with a grant that replays all draws and hands out an earlier checkpoint's parameters, so that the
generator itself makes the model of that epoch: post-processing. Figure 4's data, Kaggle Credit, cannot be had here;
Adult stands in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from benchmarks._neural_fit import DELTA, EPSILON, ArrayRows, Kept, Method, charged
from benchmarks._neural_tables import Codes, Table
from benchmarks._plots import Line, lines
from benchmarks.results import FOLDER, Row, Setting, machine
from privacy.arrays import Singles
from privacy.grant.measurement import DurableDraw
from privacy.grant.queries.query import Query
from privacy.grant.queries.training import TrainingQuery

SHOWN: Final = 10
"""Points of a line."""
MADE_UP: Final = 20_000
SEED: Final = 1
NEARLY: Final = 0.95
FIGURES: Final = FOLDER / "neural"
Score = Callable[[Codes], float]


@dataclass(frozen=True)
class Curve:
    """How a training went.

    Args:
        generator: its name.
        points: epochs passed, and the score of rows made up then.
    """

    generator: str
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        """The score at the end."""
        return self.points[-1][1]

    @property
    def arrival(self) -> float:
        """Epochs until the score stays at 95 % of what it comes to."""
        late = [place for place, (_, score) in enumerate(self.points) if score < NEARLY * self.last]
        return self.points[min(late[-1] + 1, len(self.points) - 1) if late else 0][0]


def convergence(kept: Kept, methods: Sequence[Method], table: Table, score: Score, what: str) -> list[Row]:
    """Draw a line a generator, and say who is fast and who is good in the end.

    Args:
        table: what is trained on.
        score: of made-up codes.
        what: what the score is, in words.
    """
    curves = {}
    for method in methods:
        mark = ["convergence", table.name, len(table), method.generator, dict(method.options), SHOWN, MADE_UP]
        points = kept.score(mark, lambda method=method: _curve(method, table, score))  # type: ignore[misc]
        curves[method.generator] = Curve(method.generator, tuple((epoch, found) for epoch, found in points))
    if not curves:
        return []
    figure = FIGURES / f"{table.name}-convergence.svg"
    drawn = [Line(name, curve.points) for name, curve in curves.items()]
    lines(figure, f"{table.name}, epsilon 1: score after every epoch", "epochs", what, drawn)
    settings: dict[str, Setting] = {
        **machine("numpy", "torch"),
        "figure": figure.name,
        "curves": {name: [list(point) for point in curve.points] for name, curve in curves.items()},
        "rows": len(table),
        "made_up_rows": MADE_UP,
        "epsilon": str(EPSILON),
        "delta": str(DELTA),
    }
    return [row for name, curve in curves.items() for row in _rows(table.name, name, curves, curve, what, settings)]


def _rows(
    table: str, name: str, curves: Mapping[str, Curve], curve: Curve, what: str, settings: dict[str, Setting]
) -> list[Row]:
    fastest = min(each.arrival for each in curves.values()) if name == "ae" else None
    best = max(each.last for each in curves.values()) if name == "p3gm" else None
    return [
        Row(
            f"{table}, {name}, epochs to {NEARLY:.0%} of the end's score",
            curve.arrival,
            "epochs",
            target=None if fastest is None else f"the least of all: {fastest:g}",
            holds=None if fastest is None else curve.arrival <= fastest,
            paper="AE is the fastest" if fastest is not None else None,
            settings=settings,
        ),
        Row(
            f"{table}, {name}, score at the end",
            round(curve.last, 4),
            what,
            target=None if best is None else f"the best of all: {best:.4f}",
            holds=None if best is None else curve.last >= best,
            paper="P3GM is the best" if best is not None else None,
            settings=settings,
        ),
    ]


def _curve(method: Method, table: Table, score: Score) -> list[tuple[float, float]]:
    """Train once, then make the model of some of its checkpoints."""
    with TemporaryDirectory() as folder, _recorded() as parameters:
        release = charged(method, table, Path(folder), seed=SEED, epsilon=EPSILON, delta=DELTA)
        rows = ArrayRows(table)
        release.fit(rows)
        found, checkpoints = list(parameters), len(parameters)
        shown = sorted({round(share * checkpoints / SHOWN) for share in range(1, SHOWN + 1)} - {0})
        epochs = float(release.options.epochs)
        points = []
        for place in shown:
            fitted = release.fit(rows, grant=_Earlier(release.grant, found[place - 1]))
            codes = fitted.model.sample(min(MADE_UP, len(table)), seed=SEED).astype(np.uint16)
            points.append((round(epochs * place / checkpoints, 3), score(codes)))
            print(f"{table.name}, {method.generator}: {points[-1]}", flush=True)
    return points


class _Earlier:
    """A grant whose trainings end with given parameters; all else is the grant's own.

    Args:
        grant: with all draws made.
        parameters: of an earlier checkpoint.
    """

    def __init__(self, grant: Any, parameters: Singles) -> None:
        self._grant, self._parameters = grant, parameters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grant, name)

    def draw(self, query: Query[Any], **named: Any) -> Any:
        """Replay the draw; of a training hand out the earlier parameters."""
        drawn = self._grant.draw(query, **named)
        return replace(drawn, parameters=self._parameters) if isinstance(query, TrainingQuery) else drawn


@contextmanager
def _recorded() -> Iterator[list[Singles]]:
    """Note the parameters of each checkpoint, in order."""
    real = TrainingQuery.inspect
    found: list[Singles] = []

    def inspected(query: TrainingQuery, drawn: DurableDraw, place: int) -> None:
        found.append(query._state(drawn.values).trained.copy())
        real(query, drawn, place)

    TrainingQuery.inspect = inspected  # type: ignore[method-assign]
    try:
        yield found
    finally:
        TrainingQuery.inspect = real  # type: ignore[method-assign]
