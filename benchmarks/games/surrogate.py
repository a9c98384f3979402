"""Attacks on synthetic rows of a surrogate, UCI Adult: people who are in the table, and as many who are not.

The twin is a generator that hands out the rows that it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks._no_seed import no_seed
from benchmarks.games.generators import Source
from benchmarks.games.grant import UnrecordedGrant
from benchmarks.games.leaks import Leak, guesses, leak, shadow, shadow_leak
from privacy.games.inference import allowed_area, nearness
from privacy.generators.calibration import generator
from privacy.generators.generator import SynthesisTask
from privacy.marginals.graph import CellDomain

Rows = NDArray[np.int32]
Make = Callable[[Rows, int], Rows]
"""From rows and a seed to as many synthetic rows."""
COLUMNS: Final = (
    "age",
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "hours-per-week",
    "native-country",
    "income",
)
SECRET: Final = COLUMNS.index("occupation")
PEOPLE: Final = 1_000
SHADOWS: Final = 60
SHADOW_ROWS: Final = 200
EPSILON: Final = Fraction(1)
DELTA: Final = Fraction(1, 10**6)
COPIES: Final = "a generator that hands out its rows"
_ADULT: Final = Path(__file__).parents[2] / "examples" / "adult" / "adult.parquet"


@dataclass(frozen=True)
class Surrogate:
    """Rows of Adult as codes, in random order; domains are those of the whole table, which is public.

    Args:
        rows: shape (rows, columns).
        domain: of the columns.
    """

    rows: Rows
    domain: CellDomain

    @property
    def members(self) -> Rows:
        """The people of the table."""
        return self.rows[:PEOPLE]

    @property
    def others(self) -> Rows:
        """As many who are not in it."""
        return self.rows[PEOPLE : 2 * PEOPLE]


def surrogate(seed: int = 1) -> Surrogate:
    """Read Adult."""
    table = pq.read_table(_ADULT, columns=list(COLUMNS))
    codes, sizes = [], []
    for name in COLUMNS:
        column = pc.fill_null(pc.cast(table[name], "string"), "(null)").combine_chunks().dictionary_encode()
        codes.append(column.indices.to_numpy())
        sizes.append(len(column.dictionary))
    rows = np.stack(codes, axis=1).astype(np.int32)
    return Surrogate(np.random.default_rng(seed).permutation(rows), CellDomain(COLUMNS, tuple(sizes)))


def synthesizer(name: str, domain: CellDomain, **options: Any) -> Make:
    """Return a shipped generator as a function from rows to rows."""
    asked = SynthesisTask(domain, {}, "add_remove", 1, EPSILON, DELTA, None)
    made_by = generator(name)
    chosen = made_by.options(**options)
    plan = made_by.plan(asked, chosen)

    def make(rows: Rows, seed: int) -> Rows:
        source, grant = Source(asked, rows), UnrecordedGrant(asked, plan)
        fitted = made_by.fit(asked, chosen, plan, source, grant, lambda _done, _what: None, no_seed)
        return fitted.model.sample(len(rows), seed=seed)

    return make


def copied(rows: Rows, _seed: int) -> Rows:
    """Hand out the rows: not private at all."""
    return rows


def distance(table: Surrogate, make: Make) -> Leak:
    """Tell members by the nearest synthetic row."""
    made = make(table.members, 1)
    return leak(nearness(made, table.members), nearness(made, table.others))


def attribute(table: Surrogate, make: Make) -> Leak:
    """Guess a person's occupation from all that else is known of him or her."""
    made = make(table.members, 1)
    return leak(*(guesses(made, people, secret=SECRET) for people in (table.members, table.others)))


def shadows(table: Surrogate, make: Make) -> Leak:
    """Tell whether one target was in the table, by models fitted to other tables with and without it.

    The target is the row that agrees least with all others: the easiest to tell.
    """
    crowd, pool = table.rows[: 20 * SHADOW_ROWS], np.random.default_rng(2)
    frequency = [
        np.bincount(column, minlength=size) for column, size in zip(crowd.T, table.domain.shape, strict=True)
    ]
    rarity = sum(-np.log(counts[column]) for counts, column in zip(frequency, crowd.T, strict=True))
    target = crowd[np.argmax(rarity)]
    seen: dict[bool, list[Any]] = {True: [], False: []}
    for number in range(SHADOWS):
        for there, found in seen.items():
            rows = pool.choice(table.rows[20 * SHADOW_ROWS :], SHADOW_ROWS - there, replace=False)
            rows = np.concatenate([rows, target[None]]) if there else rows
            found.append(shadow(make(rows, number), target))
    return shadow_leak(np.array(seen[True]), np.array(seen[False]))


ATTACKS: Final[Mapping[str, tuple[str, Callable[[Surrogate, Make], Leak]]]] = {
    "membership_distance": ("membership inference, nearest synthetic row", distance),
    "membership_shadow": ("membership inference, shadow models of one rare target", shadows),
    "attribute": ("attribute inference of the occupation", attribute),
}


def attacked(key: str, name: str = "mst") -> dict[str, Any]:
    """Attack a shipped generator and the one that copies.

    Args:
        key: of `ATTACKS`.
        name: the generator.
    """
    began, table, (what, attack) = perf_counter(), surrogate(), ATTACKS[key]
    shipped, twin = attack(table, synthesizer(name, table.domain)), attack(table, copied)
    allowed = allowed_area(float(EPSILON), float(DELTA))
    return {
        "attack": key,
        "what": what,
        "mechanism": f"generator {name}, {PEOPLE if key != 'membership_shadow' else SHADOW_ROWS} rows of UCI Adult",
        "claimed_epsilon": float(EPSILON),
        "delta": float(DELTA),
        "seconds": round(perf_counter() - began, 2),
        **shipped.to_json(),
        "allowed_area": round(allowed, 4),
        "holds": shipped.area <= allowed,
        "negative_control": {"what": COPIES, **twin.to_json(), "caught": twin.area > allowed},
    }
