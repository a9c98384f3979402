"""Games on generators, fitted anew for each output: tables of at most 27 cells, and a row that is there or is not.

The attacker sees all that a version publishes: noisy marginals and sums, the trained parameters, and the model. What
is known of the noise is weighed by likelihood; with the model's number of rows, what it says of the canary's cell, or
how far training went where the canary pulls, it is weighed together by weights learned on trials of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._no_seed import no_seed
from benchmarks.games.attackers import Whole, log_odds
from benchmarks.games.game import Game
from benchmarks.games.grant import (
    CONTRACT,
    HASH,
    HalfNoise,
    NotClipping,
    PopulatedOnly,
    SameBytes,
    UnrecordedGrant,
    WishartAxes,
    private_rows,
)
from benchmarks.games.lower_bound import BoundMethod
from benchmarks.games.rows import DOMAIN, LAYOUT, NOBODY, ONE
from contracts.contract.contract import Adjacency
from contracts.contract.impossible_cells import Clique
from privacy.arrays import Floats, Unsigned
from privacy.generators.calibration import generator
from privacy.generators.generator import Fitted, SynthesisTask
from privacy.learning.layout import PrivateRows
from privacy.learning.plan import Execution
from privacy.learning.trained import unpacked
from privacy.learning.training import Session, TrainingState, initial_state, state_size
from privacy.marginals.counts import PrivateCounts
from privacy.noise.lattice_gaussian import normals_from
from privacy.noise.random_bytes import SecureBytes

DELTA: Final = Fraction(1, 20)
EPSILON: Final = Fraction(2)
FITS: Final = 600
"""Of each table, where one takes 20 ms and more."""
_CROWD: Final = np.repeat(np.array([[0, 0, 0], [1, 0, 1], [1, 1, 1], [0, 1, 0]], np.uint8), 3, axis=0)
_FAR: Final = 4.0
_ROUNDED: Final = 1e-3
"""What rounding may take off an eigenvalue [squared bound]."""


@dataclass(frozen=True)
class Source:
    """The rows of one table, handed out as a snapshot would."""

    asked: SynthesisTask
    codes: Unsigned

    def exact(self, clique: Clique) -> NDArray[np.int64]:
        """Count a marginal."""
        sizes = self.asked.domain.sizes(clique)
        places = tuple(self.codes[:, self.asked.domain.place(name)].astype(np.int64) for name in clique)
        cells = np.ravel_multi_index(places, sizes) if clique else np.zeros(len(self.codes), np.int64)
        return np.bincount(cells, minlength=int(np.prod(sizes))).reshape(sizes).astype(np.int64)

    def marginals(self, cliques: Sequence[Clique]) -> tuple[PrivateCounts, ...]:
        """Return handles on marginals."""
        return tuple(
            PrivateCounts(each, self.asked.domain.sizes(each), HASH, CONTRACT, partial(self.exact, each))
            for each in cliques
        )

    def rows(self, names: Sequence[str] | None = None) -> PrivateRows:
        """Return a handle on rows."""
        return private_rows(self.asked, self.codes, names)


@dataclass(frozen=True)
class Attack:
    """A generator, a question, and two tables.

    Args:
        name: of the generator.
        options: of the generator.
        adjacency: the relation of the two tables.
        crowd: rows that both hold.
        canary: the row that is there or not.
        instead: the row that stands in its place under replace_one.
    """

    name: str
    options: Mapping[str, Any]
    crowd: Unsigned
    canary: Unsigned
    adjacency: Adjacency = "add_remove"
    instead: Unsigned = field(default_factory=lambda: _row(0, 2, 1))

    @cached_property
    def tables(self) -> tuple[Unsigned, Unsigned]:
        """Without and with the canary."""
        other = self.crowd if self.adjacency == "add_remove" else np.concatenate([self.crowd, self.instead])
        return other, np.concatenate([self.crowd, self.canary])

    @cached_property
    def asked(self) -> SynthesisTask:
        """What the generator is asked for."""
        total = len(self.tables[1]) if self.adjacency == "replace_one" else None
        return SynthesisTask(DOMAIN, {}, self.adjacency, 1, EPSILON, DELTA, total, LAYOUT)

    def play(self, there: bool, trials: int, *, look: Look, grant: type[UnrecordedGrant] = UnrecordedGrant) -> Floats:
        """Fit so often; return what the attacker makes of each fit."""
        torch.set_num_threads(1)
        made_by = generator(self.name)
        options = made_by.options(**self.options)
        plan, source, seen = made_by.plan(self.asked, options), Source(self.asked, self.tables[there]), []
        for _ in range(trials):
            fitted = made_by.fit(self.asked, options, plan, source, grant(self.asked, plan), _quiet, no_seed)
            seen.append(look(self, fitted, len(self.tables[there])))
        return np.array(seen)

    def exact(self, clique: Clique) -> tuple[Whole, Whole]:
        """Return a marginal of both tables, flat."""
        one, other = (Source(self.asked, codes).exact(clique).ravel() for codes in self.tables)
        return one, other


Look = Callable[[Attack, Fitted, int], float | list[float]]
"""From what is published, and the exact number of rows, which a broken generator publishes, to scores."""


def known(attack: Attack, fitted: Fitted, _rows: int) -> float:
    """Weigh all that was measured by its likelihood."""
    found = 0.0
    for one in fitted.measurements:
        found += float(log_odds(one.values.reshape(1, -1), attack.exact(one.clique), one.event)[0])
    for each in fitted.sums:
        one, other = (each.statistic.total(codes, LAYOUT) for codes in attack.tables)
        found += float(log_odds(each.values.reshape(1, -1), (one, other), each.event)[0])
    return found


def all_of_it(attack: Attack, fitted: Fitted, rows: int) -> list[float]:
    """Return likelihoods, number of rows, and what the model says of the canary, or how far training went its way."""
    away = float(np.clip(fitted.model.rows - len(attack.tables[0]), -_FAR, _FAR))
    if fitted.trainings:
        return [known(attack, fitted, rows), away, pulled(attack, fitted, rows)]
    cell = float(fitted.model.marginal(DOMAIN.columns)[tuple(attack.canary[0])])
    return [known(attack, fitted, rows), away, float(np.clip(cell, 0, _FAR))]


def pulled(attack: Attack, fitted: Fitted, _rows: int) -> float:
    """Return the trained sum of gradients along the canary's: Adam's released first moment [clipping norms]."""
    trained = fitted.trainings[0]
    learner, start = trained.learner, initial_state(trained.learner)
    state = TrainingState.of(learner, unpacked(trained.checkpoint, state_size(learner)))
    session = Session(learner, trained.layout, start, step=0, steps=1, execution=Execution("cpu"))
    codes = LAYOUT.selected(attack.canary, trained.layout.names)
    direction = session.clipped_sum(codes, bound=1.0, normals=normals_from(SecureBytes())).astype(np.float64)
    length = np.linalg.norm(direction) * float(trained.plan.clipping_norm)
    return float(state.moments[0] @ direction / length)


def exact_rows(_attack: Attack, _fitted: Fitted, rows: int) -> float:
    """Return the exact number of rows, where that is what is published."""
    return float(rows)


def differences(attack: Attack, fitted: Fitted, _rows: int) -> float:
    """Hold the difference of the first two columns' counts against that of each table."""
    one, other = fitted.measurements[:2]
    between = one.values - other.values
    without, canary = (attack.exact(one.clique)[i] - attack.exact(other.clique)[i] for i in (0, 1))
    return float((between == canary).all()) - float((between == without).all())


def populated(attack: Attack, fitted: Fitted, _rows: int) -> float:
    """Count the canary's cells that are not 0."""
    found = 0
    for one in fitted.measurements:
        without, canary = attack.exact(one.clique)
        found += int((one.values.ravel()[(without == 0) & (canary > 0)] != 0).sum())
    return float(found)


def definite(attack: Attack, fitted: Fitted, _rows: int) -> float:
    """Return the least eigenvalue of the second moment less the exact one with the canary, where it is below 0."""
    drawn = next(each for each in fitted.sums if getattr(each.statistic, "parts", ()) == ("full",))
    left = drawn.values - drawn.statistic.total(attack.tables[True], LAYOUT)
    squares = drawn.statistic.blocks(left).squares  # type: ignore[union-attr]
    return float(min(np.linalg.eigvalsh(squares[0])[0] + _ROUNDED, 0.0))


def _row(*codes: int) -> Unsigned:
    return np.array([codes], np.uint8)


def _quiet(_done: float, _what: str) -> None:
    """Nobody looks."""


def game_on(
    attack: Attack,
    trials: int,
    broken: str,
    *,
    look: Look,
    grant: type[UnrecordedGrant] = UnrecordedGrant,
    seen: Look = all_of_it,
    method: BoundMethod = "clopper_pearson",
) -> Game:
    """Play a generator and its twin.

    Args:
        attack: the generator and the tables.
        trials: fits of each table.
        broken: what is broken in the twin.
        look: what the attacker makes of the twin's fits.
        grant: what the twin is fitted with.
        seen: what the attacker makes of the shipped generator's fits.
        method: of `benchmarks.games.lower_bound`.
    """
    what = {"add_remove": "a row that is there or not", "replace_one": "a row that is replaced by another one"}
    return Game(
        name=f"generator {attack.name}, {attack.adjacency}",
        threat=f"a table of 27 cells, {what[attack.adjacency]}; all that a version publishes is seen",
        epsilon=float(EPSILON),
        delta=float(DELTA),
        trials=trials,
        shipped=partial(attack.play, look=seen),
        twin=partial(attack.play, look=look, grant=grant),
        broken=broken,
        method=method,
        way="the grant's own code, without a ledger",
        twin_method=method,
    )


def marginals_of(name: str, adjacency: Adjacency = "add_remove", **options: Any) -> Attack:
    """Attack a generator of marginals: a canary in cells that nobody else is in."""
    return Attack(name, options, _CROWD, _row(2, 1, 0), adjacency)


def _trained(name: str, **options: Any) -> Attack:
    """Attack a generator that learns from rows: the canary is alone, and at the end of every column."""
    return Attack(name, {"label": "kind", **_TRAINING, **options}, NOBODY, ONE)


def _gaussian(attack: Attack, trials: int) -> Game:
    """Play a generator all of whose draws are Gaussian noise."""
    return game_on(attack, trials, "half the noise", look=known, grant=HalfNoise, seen=known, method="gaussian")


_TRAINING: Final[Mapping[str, Any]] = {
    "rows_about": 24,
    "batch": 12,
    "epochs": 1,
    "hidden": (),
    "checkpoints": 1,
    "reserve": 0,
    "gradient_norm": 0.05,
}
PAIRS: Final = [{"columns": list(pair)} for pair in combinations(DOMAIN.columns, 2)]
_EXACT: Final = "the exact number of rows is published"
_CLIP: Final = "gradients are not clipped"
_BYTES: Final = "the same random bytes for every marginal"
_ZEROS: Final = "noise on populated cells only"
GAMES: Final[Mapping[str, Callable[[], Game]]] = {
    "aim": lambda: game_on(marginals_of("aim", rounds=4), FITS, _BYTES, look=differences, grant=SameBytes),
    "mst": lambda: game_on(marginals_of("mst"), FITS, _EXACT, look=exact_rows),
    "privbayes": lambda: game_on(
        marginals_of("privbayes", "replace_one"), FITS, _ZEROS, look=populated, grant=PopulatedOnly
    ),
    "p3gm": lambda: game_on(
        _trained("p3gm", dimensions=1), FITS, "Wishart noise on the axes", look=definite, grant=WishartAxes
    ),
    "ae": lambda: game_on(_trained("ae"), FITS, _CLIP, look=pulled, grant=NotClipping),
    "vae": lambda: game_on(_trained("vae", latent=1, encoder_hidden=()), FITS, _CLIP, look=pulled, grant=NotClipping),
    "dp_gm": lambda: game_on(
        _trained("dp_gm", clusters=2, rounds=1, latent=1, encoder_hidden=()), FITS, _EXACT, look=exact_rows
    ),
    "fixed": lambda: _gaussian(marginals_of("fixed", cliques=PAIRS), 2_000),
    "independent": lambda: _gaussian(marginals_of("independent"), 1_000),
}
