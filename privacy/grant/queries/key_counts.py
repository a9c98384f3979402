"""Keys that nobody declared with their noisy counts, in one draw: what is published passes a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from contracts.domains.text import BESIDE_KEYS
from privacy.accounting.events import DiscreteLaplace
from privacy.accounting.key_count_law import KeyCountLaw, key_count_law
from privacy.accounting.key_selection import KeySelection, key_selection
from privacy.grant.measurement import DurableDraw, KeyCountMeasurement
from privacy.grant.queries.keys import KeySelectionQuery, packed, unpacked
from privacy.grant.queries.query import DrawStage, NoiseSource, Relation
from privacy.marginals.key_units import KeyLabels, PrivateKeyRows


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
