"""A private selection of the keys that are published, of those that nobody declared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from contracts.canonical import canonical_json
from contracts.contract.impossible_cells import Clique
from contracts.domains.text import BESIDE_KEYS
from privacy.accounting.events import MOST_GROUPS, DiscreteLaplace, KeySelection, key_selection
from privacy.accounting.key_law import KeyCountLaw, key_count_law
from privacy.grant.measurement import DurableDraw, KeyCountMeasurement, KeyMeasurement
from privacy.grant.queries.query import DrawStage, NoiseSource, Query, Relation
from privacy.marginals.key_units import KeyLabels, PrivateKeyRows, PrivateKeys

_WORD = 8
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class KeySelectionQuery(Query[ResultT]):
    """A selection of keys that nobody declared, whatever is published of them.

    Args:
        keys: handle on the keys, and on their units or rows.
        epsilon: what it costs, of all that a unit has of them together, > 0 [dimensionless].
        failure: what it may fail with beside that, > 0 [10⁻¹⁸].
    """

    keys: PrivateKeys | PrivateKeyRows
    epsilon: Fraction
    failure: int

    @property
    def handles(self) -> tuple[PrivateKeys | PrivateKeyRows]:
        """The keys, and their units or rows."""
        return (self.keys,)

    @property
    def clique(self) -> Clique:
        """The columns whose labels make a key."""
        return self.keys.clique

    def check(self, relation: Relation) -> None:
        """Refuse replace_one, under which two units move, and keys of no column.

        Raises:
            ValueError: with what is allowed.
        """
        if relation.adjacency != "add_remove":
            raise ValueError(f"keys are selected under add_remove, not {relation.adjacency}")
        if not self.keys.clique:
            raise ValueError("keys have at least one column")


@dataclass(frozen=True)
class KeyQuery(KeySelectionQuery[KeyMeasurement]):
    """A selection of keys by the optimal rule, each counted in units."""

    keys: PrivateKeys
    kind: ClassVar[str] = "keys"

    def check(self, relation: Relation) -> None:
        """Refuse also bounds that no event has.

        Raises:
            ValueError: with what is allowed.
        """
        super().check(relation)
        if not 1 <= self.keys.groups <= MOST_GROUPS:
            raise ValueError(f"keys have at least one column, and a unit 1 to {MOST_GROUPS} of them")

    def event(self, relation: Relation) -> KeySelection:
        """Return the event of the coins, each with its part of epsilon and failure."""
        return key_selection(self.epsilon, self.failure, self.keys.groups)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return how many keys a unit has at most."""
        return {"at_most_groups": self.keys.groups}

    def sample(
        self, exact: tuple[Any, ...], *, event: KeySelection, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Toss each key's coin; the selected keys in their own order, packed into words."""
        [(keys, units)] = exact
        return packed(selected_keys(keys, units, event=event, noise=noise))

    def result(self, event: KeySelection, drawn: tuple[DurableDraw, ...]) -> KeyMeasurement:
        """Return the selected keys with what they cost."""
        (draw,) = drawn
        return KeyMeasurement(draw.key, draw.clique, unpacked(draw.values), event, draw.number, draw.sha256)


def selected_keys(
    keys: Sequence[KeyLabels], units: NDArray[np.int64], *, event: KeySelection, noise: NoiseSource
) -> tuple[KeyLabels, ...]:
    """Toss the coin of every key; the selected ones sorted, so that their order tells nothing of the rows.

    Privacy: that of the event, where one unit has at most `event.groups` of the keys and counts once in each.
    """
    kept = noise.key_coins(units, event=event)
    return tuple(sorted(key for key, shown in zip(keys, kept, strict=True) if shown))


def packed(keys: Sequence[KeyLabels]) -> NDArray[np.int64]:
    """Write keys as words: canonical JSON, filled up with spaces; shape (words,)."""
    text = canonical_json([list(key) for key in keys])
    return np.frombuffer(text + b" " * (-len(text) % _WORD), dtype="<i8").astype(np.int64)


def unpacked(words: NDArray[np.int64]) -> tuple[KeyLabels, ...]:
    """Read keys out of words.

    Raises:
        ValueError: not what `packed` writes.
    """
    keys = tuple(tuple(map(str, key)) for key in json.loads(words.astype("<i8").tobytes()))
    if not np.array_equal(packed(keys), words):
        raise ValueError("words of another form than keys are packed in")
    return keys


# --- Keys that nobody declared with their noisy counts, in one draw.


@dataclass(frozen=True)
class KeyCountQuery(KeySelectionQuery[KeyCountMeasurement]):
    """Keys and their noisy counts, of rows."""

    keys: PrivateKeyRows
    kind: ClassVar[str] = "key_counts"

    def event(self, relation: Relation) -> KeySelection:
        """Return the loss of all rows of one unit, as one coin: its epsilon, and what it may fail with."""
        return key_selection(self.epsilon, self.failure, 1)

    def identity(self, relation: Relation, place: int) -> Mapping[str, Any]:
        """Return how many rows a unit has at most."""
        return {"rows_per_unit": relation.rows_per_unit}

    def sample(
        self, exact: tuple[Any, ...], *, event: KeySelection, noise: NoiseSource, stage: DrawStage
    ) -> NDArray[np.int64]:
        """Draw every key's count, and those of the rest; keys in their own order, so that it tells nothing."""
        [(keys, rows, unfit, missing)] = exact
        law = law_of(event, rows_per_unit=stage.relation.rows_per_unit)
        return packed_counts(*published_counts(keys, rows, unfit, missing, law=law, noise=noise))

    def result(self, event: KeySelection, drawn: tuple[DurableDraw, ...]) -> KeyCountMeasurement:
        """Return keys and counts with what they cost."""
        (draw,) = drawn
        keys, counts = unpacked_counts(draw.values)
        return KeyCountMeasurement(draw.key, draw.clique, keys, event, draw.number, draw.sha256, counts)


def law_of(event: KeySelection, *, rows_per_unit: int) -> KeyCountLaw:
    """Return the law of the counts whose loss an event is."""
    return key_count_law(event.epsilon, event.delta, rows_per_unit=rows_per_unit)


def published_counts(
    keys: Sequence[KeyLabels],
    rows: NDArray[np.int64],
    unfit: int,
    missing: int,
    *,
    law: KeyCountLaw,
    noise: NoiseSource,
) -> tuple[tuple[KeyLabels, ...], NDArray[np.int64]]:
    """Draw the counts of all keys; rows of those that are not published are counted with the others.

    Returns:
        The published keys, sorted; their counts, then that of other texts, and that of no text, int64 [rows].
    Privacy: a row of a published key moves that count alone. One of another key moves the count of the others, too:
    its law loses a share less where it falls, and the count of the others loses that share.
    """
    kept, noisy = noise.noisy_key_counts(rows, law=law)
    shown = sorted(zip((keys[place] for place in np.flatnonzero(kept).tolist()), noisy[kept].tolist(), strict=True))
    others = unfit + int(rows[~kept].sum())
    beside = [
        exact + int(noise.integers(1, event=DiscreteLaplace(inverse_scale, (1,)))[0])
        for exact, inverse_scale in ((others, law.rest_inverse_scale), (missing, law.row_epsilon))
    ]
    counts = np.array([*(count for _, count in shown), *beside], dtype=np.int64)
    return tuple(key for key, _ in shown), counts


def packed_counts(keys: Sequence[KeyLabels], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Write the number of keys, the counts and the keys as words; shape (words,)."""
    return np.concatenate([np.array([len(keys)], dtype=np.int64), counts, packed(keys)])


def unpacked_counts(words: NDArray[np.int64]) -> tuple[tuple[KeyLabels, ...], NDArray[np.int64]]:
    """Read keys and counts out of words.

    Raises:
        ValueError: not what `packed_counts` writes.
    """
    end = 1 + int(words[0]) + BESIDE_KEYS
    keys = unpacked(words[end:])
    if len(keys) != words[0]:
        raise ValueError("words of another form than keys and counts are packed in")
    return keys, words[1:end]
