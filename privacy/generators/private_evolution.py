"""Private evolution: made-up rows for which the confidential rows vote, round by round.

    BEGIN     made-up rows, uniform over what the contract allows
    MEASURE   each confidential row votes for the made-up row nearest to it           one draw of votes a round
    SELECT    those with votes, drawn in proportion in the first rounds, then those with most
    CHANGE    copies of the selected ones, a little less each round
    ESTIMATE  the last candidates, weighted by what their noisy votes are above 0

A vote sees all columns at once. So what a label owes to many columns together is learned without a marginal of them.
Nothing is exact: not the columns by themselves, and not the labels' shares, which are part of the votes.

Source: Lin et al. 2024; Tran et al. 2026 (Tab-PE). Deviates: labels' shares come from noisy votes; all is whole
numbers, from a seed that is an option, since candidates are made between draws.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from contracts.contract.impossible_cells import Clique
from contracts.message import message
from privacy.accounting.events import CountNoise
from privacy.generators.fit_times import ROWS_ASSUMED, assumed_rows_note
from privacy.generators.fitting import noise_in_words
from privacy.generators.generator import (
    CannotGenerate,
    CountsSource,
    DrawSeed,
    FitProgress,
    Fitted,
    GeneratorPlan,
    Model,
    PlannedStep,
    Spending,
    SynthesisTask,
)
from privacy.generators.projection import labelled_layout
from privacy.generators.weighted_rows import MOST_ROWS, MOST_WEIGHT, WeightedRows
from privacy.grant.draws import Draws
from privacy.grant.queries.votes import VoteMeasurement, VoteQuery
from privacy.learning.candidates import MOST_COLUMNS, Candidates
from privacy.learning.layout import RowLayout
from privacy.marginals.blocks import NothingPossible
from privacy.marginals.count_noise import variance
from privacy.marginals.graph import CellDomain
from privacy.marginals.inference import GraphicalModel
from privacy.marginals.model import sample
from privacy.marginals.portable import PostProcessingSeed
from privacy.marginals.sensitivity import NoiseKind

# --- How made-up rows go on from noisy votes.


Codes = NDArray[np.int64]
RATE_BITS: Final = 16
ONE: Final = 2**RATE_BITS
_BEFORE: Final = ONE // 2
_AFTER: Final = ONE // 100
_TRIALS: Final = 4
_BITS: Final = 24
"""Of a uniform number. Times twice a rate of 16 bits, times `MOST_CELLS`, it stays below 2^63."""
MOST_CELLS: Final = 2**20
_MOST_SUM: Final = 2**40
"""Of weights: a word of 64 bits, taken modulo their sum, is even to within 2^-24."""


@dataclass(frozen=True, eq=False)
class Evolution:
    """What rows may be, and where randomness comes from; public.

    Args:
        domain: columns with their cells.
        layout: the same columns; says which are numbers, and which may be missing.
        impossible: structural zeros: for some cliques True where no row can be.
        label: a column that a row keeps as it begins; None for none.
        seed: public.
    """

    domain: CellDomain
    layout: RowLayout
    impossible: Mapping[Clique, NDArray[np.bool_]]
    label: str | None
    seed: PostProcessingSeed

    def begin(self, members: int) -> Codes:
        """Return the first rows, shape (about `members`, columns): of each possible label as many, at least one.

        Raises:
            NothingPossible: no row is possible.
        """
        uniform = GraphicalModel(
            self.domain,
            tuple(self.impossible),
            tuple(np.where(excluded, -np.inf, 0.0) for excluded in self.impossible.values()),
            float(members),
        )
        if self.label is None:
            return sample(uniform, members, seed=self.seed.derived("begin")).astype(np.int64)
        cells = self.domain.sizes((self.label,))[0]
        found: list[Codes] = []
        for label in range(cells):
            own = self.seed.derived(f"begin/{label}")
            try:
                rows = sample(uniform, max(1, members // cells), seed=own, where={self.label: label})
            except NothingPossible:
                continue
            found.append(rows.astype(np.int64))
        if not found:
            raise NothingPossible("no row is possible under the declared structural zeros and constraints")
        return np.concatenate(found)

    def drawn(self, rows: Codes, votes: NDArray[np.int64], count: int, turn: int) -> Codes:
        """Draw rows in proportion to their votes, where these are positive; evenly where none are."""
        weights = brought_down(np.maximum(votes, 0), most=_MOST_SUM)
        ends = np.cumsum(weights if weights.any() else np.ones_like(weights))
        words = self.seed.derived(f"draw/{turn}").words(0, count)
        places = (words % np.uint64(ends[-1])).astype(np.int64)
        return rows[np.searchsorted(ends, places, side="right")]

    def changed(self, rows: Codes, rate: int, turn: int) -> Codes:
        """Change every row a little.

        Args:
            rows: possible rows, shape (rows, columns).
            rate: how much [2^-16].
            turn: tells one change from others.
        Returns:
            possible rows, of the same shape and labels.
        """
        found, seed = rows.copy(), self.seed.derived(f"change/{turn}")
        waiting = np.arange(len(rows))
        for trial in range(_TRIALS):
            made = self._moved(rows[waiting], rate, seed.derived(f"{trial}"))
            fine = self._possible(made)
            found[waiting[fine]] = made[fine]
            waiting = waiting[~fine]
            if not waiting.size:
                break
        return found

    def _moved(self, rows: Codes, rate: int, seed: PostProcessingSeed) -> Codes:
        """Change rows, column by column, whatever the contract excludes."""
        found = rows.copy()
        for place, column in enumerate(self.layout.columns):
            if column.name == self.label:
                continue
            # Two streams a column: how far, or to which cell; and whether.
            first, second = (_uniform(seed.words(2 * place + each, len(rows))) for each in (0, 1))
            known = column.table.shape[0] - column.nullable
            anew = (first * known) >> _BITS
            if column.kind != "number":
                found[:, place] = np.where(second < rate << _BITS - RATE_BITS, anew, rows[:, place])
                continue
            # Uniform from -rate · cells to rate · cells, rounded to whole cells.
            reach = rate * known
            moves = ((first * (2 * reach + 1) >> _BITS) - reach + ONE // 2) >> RATE_BITS
            missing = rows[:, place] == known
            moved = np.where(missing, known, np.clip(rows[:, place] + moves, 0, known - 1))
            if column.nullable:
                # A number goes missing, or what is missing becomes a number, with a quarter of the rate as chance.
                flipped = second < rate << _BITS - RATE_BITS - 2
                moved = np.where(flipped, np.where(missing, anew, known), moved)
            found[:, place] = moved
        return found

    def _possible(self, rows: Codes) -> NDArray[np.bool_]:
        fine = np.ones(len(rows), dtype=np.bool_)
        for clique, excluded in self.impossible.items():
            fine &= ~excluded[tuple(rows[:, self.domain.place(name)] for name in clique)]
        return fine


def _uniform(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return whole numbers from 0 to 2^24 - 1."""
    return (words >> np.uint64(64 - _BITS)).astype(np.int64)


def _fifth_root(turn: int, whole: int) -> int:
    """Return the fifth root of turn / whole, rounded down [2^-16]."""
    return bisect_right(range(ONE + 1), turn * ONE**5 // whole, key=lambda root: root**5) - 1


def rates(changes: int) -> tuple[int, ...]:
    """Return the rate of each change, falling from 1/2 to 1/100 with the fifth root of time [2^-16]."""
    return tuple(_BEFORE - (_BEFORE - _AFTER) * _fifth_root(turn, changes + 2) // ONE for turn in range(changes))


def brought_down(weights: NDArray[np.int64], *, most: int) -> NDArray[np.int64]:
    """Halve weights until their sum is at most `most`; those above 0 stay above 0."""
    # Python's whole numbers: noise of many candidates may sum to more than 64 bits hold.
    while sum(weights.tolist()) > most:
        weights = (weights + 1) // 2
    return weights


def most_voted(votes: NDArray[np.int64], count: int) -> NDArray[np.intp]:
    """Return the places of those with most votes, the first of equals first."""
    return np.argsort(-votes, kind="stable")[:count]


_MEGABYTE: Final = 2**20
_MOST_CANDIDATES: Final = 100_000
_FIRST: Final = 4
"""Rounds in which rows are drawn by their votes; then those with most are kept."""
_SECONDS: Final = 0.5
_SECONDS_PER_ENTRY: Final = 7e-8
_SECONDS_PER_DISTANCE: Final = 5e-9
_SECONDS_PER_DIFFERENCE: Final = 4e-11
"""Measured on one thread, with 2,000 and 30,000 rows of 10 and 110 entries and 1,000 and 4,000 candidates."""


class PrivateEvolutionOptions(BaseModel):
    """Options of `private_evolution`; unknown options are refused.

    Args:
        label: a column of listed values: rows vote for made-up rows of their own label; without it for any.
        members: about how many made-up rows go on from round to round; not fewer than the label has cells.
        children: changed copies of each that stand beside it in the later rounds.
        rounds: of votes. The charge is shared by all of them alike.
        seed: of all that is made at random between draws; public. Choose it without looking at the data.
        noise: kind of noise; gaussian unless delta is 0, when not given.
        rows_about: about how many rows there are; declared. With it, rounds that noise drowns are refused [rows].
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    label: str | None = None
    members: int = Field(default=1000, ge=2, le=_MOST_CANDIDATES)
    children: int = Field(default=3, ge=0, le=100)
    rounds: int = Field(default=14, ge=1, le=1000)
    seed: int = Field(default=0, ge=0, lt=2**63)
    noise: NoiseKind | None = None
    rows_about: int | None = Field(default=None, ge=1, le=10**12)


class PrivateEvolution:
    """Has the rows vote for made-up ones, and goes on from what they chose."""

    name: ClassVar[str] = "private_evolution"
    options = PrivateEvolutionOptions

    def plan(self, task: SynthesisTask, options: PrivateEvolutionOptions) -> GeneratorPlan:
        """Plan a draw of votes a round.

        Raises:
            CannotGenerate: no such label, fewer than two or too many columns, too many cells or candidates, no
                possible row, too small a charge, or rounds whose noise is above the declared rows.
        """
        layout = _layout(task, options)
        most = options.members * (1 + options.children)
        if most > _MOST_CANDIDATES:
            raise CannotGenerate(
                f"options.members: {options.members} with {options.children} children each are {most} "
                f"candidates; allowed: {_MOST_CANDIDATES}; do: lower members or children"
            )
        members = len(_begun(_evolution(task, layout, options), options))
        spending = Spending(task, options.noise)
        parts = spending.split(spending.total, [1] * options.rounds)
        events = tuple(map(spending.event, parts))
        split = _stages(options, members)
        rows = task.public_total or options.rows_about
        if rows is not None:
            _refuse_drowned(spending, options, members, rows)
        steps = tuple(
            PlannedStep(f"votes for {count:,} candidates", rounds, rounds / options.rounds, noise_in_words(events))
            for rounds, count in split
            if rounds
        )
        # Codes, and of each vector itself, its square, and the copy of a label's candidates, in float64.
        megabytes = 8 * most * (layout.code_width + 3 * layout.width) / _MEGABYTE
        notes = (_rows_needed(events[-1], split), *assumed_rows_note(rows))
        seconds = _seconds(split, layout.width, rows or ROWS_ASSUMED)
        return GeneratorPlan(events, steps, megabytes, seconds, {}, notes=notes)

    def fit(
        self,
        task: SynthesisTask,
        options: PrivateEvolutionOptions,
        plan: GeneratorPlan,
        counts: CountsSource,
        grant: Draws,
        progress: FitProgress,
        seed: DrawSeed,
    ) -> Fitted[Model]:
        """Let rows vote, round by round.

        Raises:
            GrantExceeded: more was planned than the grant holds; nothing was drawn.
        Privacy: exactly the planned events; candidates follow from the votes before and the public seed.
        """
        layout = _layout(task, options)
        evolution, spending = _evolution(task, layout, options), Spending(task, options.noise)
        rows, falling = counts.rows(layout.names), rates(options.rounds - 1)
        # BEGIN
        candidates = _begun(evolution, options)
        members, drawn = len(candidates), list[VoteMeasurement]()
        for turn, part in enumerate(spending.split(spending.total, [1] * options.rounds)):
            progress(turn / options.rounds, "counting votes")
            # MEASURE
            asked = VoteQuery(rows, Candidates(layout.names, candidates, options.label), spending.buys(part))
            drawn.append(grant.draw(asked, key=f"votes-{turn + 1:04d}"))
            if turn + 1 == options.rounds:
                break
            # SELECT and CHANGE
            votes = drawn[-1].values
            if turn < _FIRST:
                selected = evolution.drawn(candidates, votes, members, turn)
                candidates = evolution.changed(selected, falling[turn], turn * (1 + options.children))
            else:
                selected = candidates[most_voted(votes, members)]
                made = (
                    evolution.changed(selected, falling[turn], turn * (1 + options.children) + child)
                    for child in range(options.children)
                )
                candidates = np.concatenate([selected, *made])
        progress(1.0, "done")
        model, notes = _estimated(task, candidates, drawn, members)
        return Fitted(model, tuple(drawn), notes)


def _layout(task: SynthesisTask, options: PrivateEvolutionOptions) -> RowLayout:
    layout = labelled_layout(task, options.label, PrivateEvolution.name)
    if len(layout.columns) < 2:
        raise CannotGenerate(
            "private_evolution: one column alone has nothing to do with others; allowed: at least two columns; "
            "do: add columns, or take independent"
        )
    if len(layout.columns) > MOST_COLUMNS:
        raise CannotGenerate(
            f"private_evolution: {len(layout.columns):,} columns; allowed: {MOST_COLUMNS:,}; do: name fewer columns"
        )
    wide = next((each.name for each in layout.columns if each.table.shape[0] > MOST_CELLS), None)
    if wide is not None:
        raise CannotGenerate(
            f"private_evolution: column {wide!r} has {layout.column(wide).table.shape[0]:,} cells; allowed: "
            f"{MOST_CELLS:,}; do: take coarser bins"
        )
    return layout


def _evolution(task: SynthesisTask, layout: RowLayout, options: PrivateEvolutionOptions) -> Evolution:
    return Evolution(task.domain, layout, task.impossible, options.label, PostProcessingSeed(options.seed))


def _begun(evolution: Evolution, options: PrivateEvolutionOptions) -> Codes:
    """Return the first rows.

    Raises:
        CannotGenerate: no possible row, or fewer members than the label has cells.
    """
    label = options.label
    cells = 1 if label is None else evolution.domain.sizes((label,))[0]
    if options.members < cells:
        raise CannotGenerate(
            f"options.members: {options.members} rows for the {cells} cells of {label!r}; allowed: at least "
            "one a cell; do: raise members, or name another label"
        )
    try:
        return evolution.begin(options.members)
    except NothingPossible as nothing:
        raise CannotGenerate(str(nothing)) from nothing


def _stages(options: PrivateEvolutionOptions, members: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return how many rounds there are with how many candidates, first those without children."""
    first = min(_FIRST + 1, options.rounds)
    return (first, members), (options.rounds - first, members * (1 + options.children))


def _seconds(split: Sequence[tuple[int, int]], width: int, rows: int) -> float:
    """Say roughly how long votes take [s]: rows are written as vectors, and compared with the candidates."""
    rounds, pairs = sum(each for each, _ in split), sum(each * count for each, count in split)
    each_pair = _SECONDS_PER_DISTANCE + width * _SECONDS_PER_DIFFERENCE
    return _SECONDS + rows * (rounds * width * _SECONDS_PER_ENTRY + pairs * each_pair)


def _last_noise(spending: Spending, options: PrivateEvolutionOptions, members: int) -> float:
    """Return the standard deviation of the sum of all noisy votes of the last round [rows]."""
    event = spending.event(spending.split(spending.total, [1] * options.rounds)[-1])
    return sqrt(variance(event) * _last_candidates(_stages(options, members)))


def _last_candidates(split: Sequence[tuple[int, int]]) -> int:
    return next(count for rounds, count in reversed(split) if rounds)


def _refuse_drowned(spending: Spending, options: PrivateEvolutionOptions, members: int, rows: int) -> None:
    """Refuse rounds of which noise alone makes up more votes than there are rows; by public numbers alone.

    Raises:
        CannotGenerate: with the most rounds for which that is not so.
    """

    def drowns(rounds: int) -> bool:
        return _last_noise(spending, options.model_copy(update={"rounds": rounds}), members) > rows

    if not drowns(options.rounds):
        return
    # The noise of a round grows with their number: the most rounds are between none and those that are asked for.
    most = bisect_left(range(1, options.rounds), True, key=drowns)
    noise = _last_noise(spending, options, members)
    fewer = f"at most {most} rounds" if most else "which even one round is above"
    remedy = f"write rounds: {most} or fewer, or lower members" if most else "raise epsilon, or lower members"
    raise CannotGenerate(
        f"options.rounds: {options.rounds}, each with noise of {noise:,.0f} votes in all for about {rows:,} rows; "
        f"allowed: noise below the number of rows, {fewer}; do: {remedy}"
    )


def _rows_needed(event: CountNoise, split: Sequence[tuple[int, int]]) -> str:
    """Say with how many rows a candidate of the last round has as many votes as noise."""
    noise, candidates = variance(event) ** 0.5, _last_candidates(split)
    return (
        f"with {noise * candidates:,.0f} rows a made-up row of the last round has {noise:.3g} votes on average, "
        "as many as the standard deviation of their noise; with far fewer rows, lower options.members or "
        "take another generator"
    )


def _estimated(
    task: SynthesisTask, candidates: Codes, drawn: Sequence[VoteMeasurement], members: int
) -> tuple[WeightedRows, tuple[str, ...]]:
    """Return the last candidates that have most votes, weighted by them; and what to know of them."""
    votes = drawn[-1].values
    kept = most_voted(votes, members)
    kept = kept[votes[kept] > 0] if votes.max() > 0 else kept
    # Noise may be of any size.
    weights = brought_down(np.maximum(votes[kept], 1), most=MOST_WEIGHT)
    rows = task.public_total if task.public_total is not None else _total(drawn)
    note = message(
        "the rows are made of {kept} of the last {count} candidates, which had {mean} votes each on average, with "
        "noise of standard deviation {deviation}",
        kept=kept.size,
        count=votes.size,
        mean=f"{rows / votes.size:.3g}",
        deviation=f"{drawn[-1].variance ** 0.5:.3g}",
    )
    return WeightedRows(task.domain, rows, candidates[kept], weights), (note,)


def _total(drawn: Sequence[VoteMeasurement]) -> int:
    """Return the number of rows: every round adds all of them up, and the fewer candidates the less noise it has."""
    weights = [Fraction(1, each.values.size) for each in drawn]
    sums = [sum(each.values.tolist()) for each in drawn]
    mean = sum((weight * found for weight, found in zip(weights, sums, strict=True)), Fraction(0)) / sum(weights)
    return min(max(0, round(mean)), MOST_ROWS)
