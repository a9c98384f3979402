"""Small layouts, rows and statistics for the tests of learning."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Unsigned
from privacy.learning.embedding import Embedding, embedding
from privacy.learning.layout import ColumnLayout, PrivateRows, RowLayout
from privacy.learning.moments import (
    Everyone,
    Groups,
    LabelCodes,
    Moments,
    NearestCentre,
    NormShells,
    Responsibilities,
)
from tests.privacy.ledger.ledgers import KEYED_HASH

LEVELS = np.linspace(0, 1, 11)[:, None]
LAYOUT = RowLayout(
    (
        ColumnLayout("height", "number", LEVELS),
        ColumnLayout("weight", "number", LEVELS),
        ColumnLayout("age", "number", np.concatenate([np.hstack([LEVELS, 0 * LEVELS]), [[0, 1]]])),
        ColumnLayout("label", "category", np.eye(3)),
    )
)
NUMBERS = ("height", "weight", "age")
TURNED = np.array([[0.8, -0.6], [0.6, 0.8], [0.3, 0.2], [-0.1, 0.4]])


def random_rows(count: int, seed: int = 1) -> Unsigned:
    random = np.random.default_rng(seed)
    return np.stack([random.integers(0, size, count) for size in (11, 11, 12, 3)], axis=1).astype(np.uint8)


def private(codes: Unsigned, layout: RowLayout = LAYOUT) -> PrivateRows:
    return PrivateRows(layout, KEYED_HASH, "b" * 64, lambda: codes)


def embedded(bits: int = 6, bound: Fraction = Fraction(1, 2), *, turned: bool = True) -> Embedding:
    """Three numbers and a flag about the middle, in two turned directions, most of them clipped."""
    axes = TURNED if turned else None
    return embedding(LAYOUT, bound=bound, bits=bits, columns=NUMBERS, centre=np.array([0.5, 0.5, 0.5, 0]), axes=axes)


def whole(values: object) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def responsibilities(embedding: Embedding, *, full: bool = True, labels: bool = False, bits: int = 4) -> Groups:
    size, dimension = 1 << (embedding.bits + 8), embedding.dimension
    centres = np.round(np.array([[0.5] * dimension, [-0.5] * dimension, [0.0] * dimension]) * size).astype(np.int64)
    precise = int(3 * 2**32 / size)
    factors = whole([np.eye(dimension) * precise] * 3) if full else whole(np.full((3, dimension), precise))
    owned = {"labels": LabelCodes("label", 3), "owners": whole([2, 0, 1])} if labels else {}
    return Responsibilities(whole([0, 1 << 19, -(1 << 20)]), centres, factors, bits, **owned)


def all_statistics(bits: int = 6, *, turned: bool = True) -> dict[str, Moments]:
    ball = embedded(bits, turned=turned)
    centres = whole([[1 << bits] * ball.dimension, [-(1 << bits)] * ball.dimension])
    label = LabelCodes("label", 3)
    return {
        "second moment": Moments(ball, Everyone(), ("full",)),
        "variances": Moments(ball, Everyone(), ("diagonal",)),
        "class moments": Moments(ball, label, ("counts", "sums", "full")),
        "nearest centre": Moments(ball, NearestCentre(centres), ("counts", "sums")),
        "norm shells": Moments(ball, NormShells(whole([4**bits >> 2, 4**bits])), ("counts",)),
        "mixture": Moments(ball, responsibilities(ball), ("counts", "sums", "full")),
        "diagonal mixture": Moments(ball, responsibilities(ball, full=False), ("counts", "sums", "diagonal")),
        "labelled mixture": Moments(ball, responsibilities(ball, labels=True), ("counts", "sums", "diagonal")),
        "sums alone": Moments(ball, label, ("sums",)),
        "sums and squares": Moments(ball, label, ("sums", "full")),
        "counts alone": Moments(ball, label, ("counts",)),
    }
