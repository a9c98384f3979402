"""Attacks on shadow releases: each row is in a release or not by the toss of a coin, and an attacker is scored.

    1. LEARN    on the first half of the releases, whose coins the attacker knows: which score, which rows to speak of
    2. GUESS    the coins of the second half, which had no part in 1
    3. HOLD     what was guessed right against the claim (`privacy.games.coin_guesses`)

A coin decides whether a row is in (add_remove), or which of two rows is in (replace_one), so that the two tables that
a guess tells apart are neighbours of the claim's own relation. What the attacker learns from is public rows, and
releases that were made of them.

Source: Shokri, Stronati, Song, Shmatikov 2017 (shadow models); Carlini et al. 2022 (likelihood ratios, rates at few
false positives); Steinke, Nasr, Jagielski 2023 (coins, and what right guesses prove).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import log, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from privacy.arrays import Floats
from privacy.evaluation.membership import attack, beyond, chosen_weight, guessed, likelihood_ratios
from privacy.games.coin_guesses import allowed_advantage, chance_of, chance_over, least_epsilon
from privacy.games.inference import allowed_area

Inside = NDArray[np.bool_]
SURE: Final = 0.95
"""Confidence of intervals and of `least_epsilon`."""
FALSE_ALARM: Final = 1e-6
"""Chance at most that a command says of a sound claim that it does not hold."""
SHARES: Final = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
"""Of the coins an attacker may speak of so many, the surest."""
_UNSURE_OF_CHOICE: Final = 1e-3
"""Small, so that a rule of few lucky guesses is not chosen among so many."""
_LEAST_CHANCE: Final = 1e-12


@dataclass(frozen=True, eq=False)
class Trials:
    """Which rows were in which release.

    Args:
        inside: shape (releases, rows).
        references: the first so many releases are those whose coins the attacker knows; at least two.
        paired: rows i and i + half stand for each other, one of them in each release; else each has its own coin.
    """

    inside: Inside
    references: int
    paired: bool

    def of_coins(self, scores: Floats) -> Floats:
        """Return the scores of coins from those of rows."""
        half = scores.shape[-1] // 2
        return scores[..., :half] - scores[..., half:] if self.paired else scores

    @property
    def heads(self) -> Inside:
        """How the coins fell, shape (releases, coins)."""
        return self.inside[:, : self.inside.shape[1] // 2] if self.paired else self.inside


@dataclass(frozen=True)
class TestedClaim:
    """What the releases claim: (epsilon, delta)-differential privacy under the relation of the coins."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class AttackVerdict:
    """What came of an attack.

    Args:
        advantage: share of the members that it takes for such, less that of others; mean over the releases.
        low, high: 95 % interval of it, by Student's t over the releases.
        allowed_advantage: the largest that the claim allows.
        area: under the ROC curve, all releases together; one half is guessing.
        allowed_area: the largest that the claim allows.
        caught_at_1_percent: share of the members that are told at 1 % false positives.
        coins, guesses, right: tossed for the second half; spoken of; told right.
        least_epsilon: at the claim's delta, proven with 95 % confidence.
        largest_provable: what an attacker who is never wrong would prove.
        chance: that a sound claim has so many right guesses, at most.
        holds: whether the claim is not refuted; no proof of it.
    """

    advantage: float
    low: float
    high: float
    allowed_advantage: float
    area: float
    allowed_area: float
    caught_at_1_percent: float
    coins: int
    guesses: int
    right: int
    least_epsilon: float
    largest_provable: float
    chance: float
    holds: bool

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return {name: float(f"{value:.6g}") if type(value) is float else value for name, value in vars(self).items()}


@dataclass(frozen=True)
class Guessing:
    """How often the secret value of a row was guessed right.

    Args:
        members, others: of rows in the release, and of rows that are not.
        without: of all rows, from the population alone, by somebody who has seen no release.
        most_frequent: of all rows, by always saying the most frequent value.
        low, high: 95 % interval of members less others, by Student's t over the releases.
    """

    members: float
    others: float
    without: float
    most_frequent: float
    low: float
    high: float

    @property
    def advantage(self) -> float:
        """What the release tells of its own rows."""
        return self.members - self.others

    def to_json(self) -> dict[str, float]:
        """Write it as JSON values."""
        return {name: round(value, 6) for name, value in {**asdict(self), "advantage": self.advantage}.items()}


def judged(scores: Floats, trials: Trials, claim: TestedClaim, *, unsure: float = FALSE_ALARM) -> AttackVerdict:
    """Score an attack, and hold it against the claim.

    Args:
        scores: of each row in each release, larger where it looks as if it were in, shape (releases, rows); or in
            several ways, shape (ways, releases, rows), of which the attacker chooses one.
        trials: which rows were in.
        claim: what the releases claim.
        unsure: chance at most with which a sound claim is refuted.
    """
    ways = scores if scores.ndim == 3 else scores[None]
    learned = _learned(ways, trials, claim)
    refs, scores = range(trials.references), ways[learned.way]
    weighed = {
        release: learned.weigh(scores[release], scores[: trials.references], trials.inside[: trials.references])
        for release in range(trials.references, len(scores))
    }
    right, spoken = _counted([(weighed[release], release) for release in weighed], trials, learned.rule)
    cut = _best_cut(scores, trials, learned, refs)
    advantages = [_rates_apart(weighed[release], trials.inside[release], cut) for release in weighed]
    mean, low, high = interval(advantages)
    coins = trials.heads.shape[1]
    proves, everything = {"coins": coins, "delta": claim.delta, "unsure": 1 - SURE}, [coins] * len(right)
    pooled = attack(
        np.concatenate(list(weighed.values())), np.concatenate([trials.inside[release] for release in weighed])
    )
    chance = chance_over(right, spoken, coins=coins, epsilon=claim.epsilon, delta=claim.delta)
    return AttackVerdict(
        advantage=mean,
        low=low,
        high=high,
        allowed_advantage=allowed_advantage(claim.epsilon, claim.delta),
        area=pooled.area,
        allowed_area=allowed_area(claim.epsilon, claim.delta),
        caught_at_1_percent=pooled.caught_at_low_rate,
        coins=sum(everything),
        guesses=sum(spoken),
        right=sum(right),
        least_epsilon=least_epsilon(right, spoken, **proves),
        largest_provable=least_epsilon(everything, everything, **proves),
        chance=chance,
        holds=chance >= unsure,
    )


def guessing(found: Floats, prior: Floats, truth: NDArray[np.int64], trials: Trials) -> tuple[Guessing, Floats]:
    """Guess a secret value of every row from the population and each release.

    Args:
        found: evidence, shape (releases, rows, values).
        prior: chances from the population, shape (rows, values).
        truth: the true values, shape (rows,).
        trials: which rows were in.
    Returns:
        tuple: how often it was right in the second half, and how surely it came out at the truth, shape (releases,
        rows), which tells members.
    """
    references = range(trials.references)
    apart = np.stack(
        [
            beyond(found[release], [found[each] for each in references if each != release])
            for release in range(len(found))
        ]
    )
    rows, values = prior.shape
    known = np.broadcast_to(prior, (len(references), rows, values))[trials.inside[: len(references)]]
    own = apart[: len(references)][trials.inside[: len(references)]]
    truths = np.broadcast_to(truth, (len(references), rows))[trials.inside[: len(references)]]
    weight = chosen_weight(known, own, truths)
    right = np.stack([guessed(prior, each, weight=weight) == truth for each in apart])
    targets = range(trials.references, len(found))
    inside = np.array([right[release][trials.inside[release]].mean() for release in targets])
    outside = np.array([right[release][~trials.inside[release]].mean() for release in targets])
    _, low, high = interval(list(inside - outside))
    without = float((guessed(prior, apart[0], weight=0.0) == truth).mean())
    most = float(np.bincount(truth).max() / truth.size)
    surely = apart * (weight or 1.0) + np.log(prior.clip(_LEAST_CHANCE, 1.0))
    surely -= np.logaddexp.reduce(surely, axis=2, keepdims=True)
    told = np.take_along_axis(surely, np.broadcast_to(truth[None, :, None], (*right.shape, 1)), axis=2)[..., 0]
    return Guessing(float(inside.mean()), float(outside.mean()), without, most, low, high), told


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of independent values, and the ends of its 95 % interval by Student's t, within -1 and 1."""
    mean, number = float(np.mean(values)), len(values)
    spread = float(np.std(values, ddof=1)) if number > 1 else 2.0
    half = float(student.ppf((1 + SURE) / 2, max(1, number - 1))) * spread / sqrt(number)
    return mean, max(-1.0, mean - half), min(1.0, mean + half)


Weigh = Callable[[Floats, Floats, Inside], Floats]


def _plain(observed: Floats, references: Floats, inside: Inside) -> Floats:
    return observed


def _difference(observed: Floats, references: Floats, inside: Inside) -> Floats:
    """Take off what releases of other tables say of the row."""
    return np.asarray(observed - references.mean(axis=0))


def _ratio(observed: Floats, references: Floats, inside: Inside) -> Floats:
    """Weigh by how the references with and without the row look; nothing is said of a row that all or none had."""
    known = inside.any(axis=0) & ~inside.all(axis=0)
    return np.where(known, likelihood_ratios(observed, references, inside), 0.0)


@dataclass(frozen=True)
class _Rule:
    """Of how many coins an attacker speaks, and whether of heads alone."""

    share: float
    heads_only: bool

    def guesses(self, scores: Floats) -> NDArray[np.int64]:
        """Return 1 for heads, -1 for tails, 0 for silence; the same for equal scores in another order."""
        found, order = np.zeros(scores.size, np.int64), np.argsort(scores, kind="stable")
        spoken = max(1, round(self.share * scores.size))
        high = spoken if self.heads_only else (spoken + 1) // 2
        found[order[: spoken - high]] = -1
        found[order[scores.size - high :]] = 1
        return found


@dataclass(frozen=True)
class _Learned:
    way: int
    weigh: Weigh
    rule: _Rule


_WEIGHINGS: Final[tuple[Weigh, ...]] = (_plain, _difference, _ratio)


def _learned(ways: Floats, trials: Trials, claim: TestedClaim) -> _Learned:
    """Choose the score, its weighing and the rule that refute or prove most on the references, each beside others."""
    best, most = _Learned(0, _plain, _Rule(1.0, heads_only=False)), (-1.0, 0.0, 0.0)
    for way, weigh in product(range(len(ways)), _WEIGHINGS):
        weighed = list(_left_out(ways[way], trials, weigh))
        for rule in (_Rule(share, heads) for share in SHARES for heads in (False, True) if share < 1 or not heads):
            right, spoken = (sum(each) for each in _counted(weighed, trials, rule))
            proven = least_epsilon([right], [spoken], coins=spoken, delta=0.0, unsure=_UNSURE_OF_CHOICE)
            chance = chance_of(right, spoken, coins=spoken, epsilon=claim.epsilon, delta=0.0)
            refuted = -log(max(chance, 1e-300)) if chance < _UNSURE_OF_CHOICE else 0.0
            found = refuted, proven, (right - spoken / 2) / sqrt(spoken)
            if found > most:
                best, most = _Learned(way, weigh, rule), found
    return best


def _left_out(scores: Floats, trials: Trials, weigh: Weigh) -> Iterator[tuple[Floats, int]]:
    """Yield what each reference looks like beside the others."""
    for release in range(trials.references):
        others = np.arange(trials.references) != release
        kept = np.flatnonzero(others)
        yield weigh(scores[release], scores[kept], trials.inside[kept]), release


def _counted(weighed: Sequence[tuple[Floats, int]], trials: Trials, rule: _Rule) -> tuple[list[int], list[int]]:
    """Count right guesses, and guesses, in each release."""
    right, spoken = [], []
    for scores, release in weighed:
        said = rule.guesses(trials.of_coins(scores))
        right.append(int((said == np.where(trials.heads[release], 1, -1)).sum()))
        spoken.append(int((said != 0).sum()))
    return right, spoken


def _best_cut(scores: Floats, trials: Trials, learned: _Learned, references: range) -> float:
    """Return the score from which on a row is taken for a member: the one that tells most on the references."""
    weighed = np.concatenate([each for each, _ in _left_out(scores, trials, learned.weigh)])
    inside = np.concatenate([trials.inside[release] for release in references])
    order = np.argsort(-weighed, kind="stable")
    members, others = np.cumsum(inside[order]), np.cumsum(~inside[order])
    apart = members / max(1, members[-1]) - others / max(1, others[-1])
    last = np.append(np.flatnonzero(np.diff(weighed[order])), weighed.size - 1)  # equal scores fall together
    return float(weighed[order][last[np.argmax(apart[last])]])


def _rates_apart(scores: Floats, inside: Inside, cut: float) -> float:
    """Return the true positive rate less the false one."""
    told = scores >= cut
    return float(told[inside].mean() - told[~inside].mean())
