"""The exponential mechanism, exactly: P(candidate) proportional to e^(epsilon * score / (2 * sensitivity)).

With the largest score s* each candidate has a gap g = epsilon (s* - score) / (2 sensitivity) >= 0, and its weight is
e^-g. A candidate is proposed uniformly and kept with probability e^-g, else proposed anew: what is kept has the
weights above. Scores are rationals and each coin is exact (`bernoulli`), so no floating-point number takes part.
At least one gap is 0, so that the expected number of proposals is at most the number of candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from privacy.noise.bernoulli import bernoulli
from privacy.noise.binary_expansion import BinaryExpansion, exp_minus
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import RandomBytes


def exponential_mechanism(
    scores: Sequence[Fraction], *, epsilon: Fraction, sensitivity: Fraction, source: RandomBytes
) -> int:
    """Choose a candidate.

    Args:
        scores: one a candidate, exact; at least one.
        epsilon: > 0 [dimensionless].
        sensitivity: the most that one privacy unit changes any score, > 0 [units of the scores].
        source: uniform bytes.
    Returns:
        int: place of the chosen candidate.
    Raises:
        NoiseRefused: no scores, or an argument that is not positive; nothing was drawn.
    Privacy: epsilon-DP, of epsilon-bounded range. The time that it takes depends on the scores, which are private:
        docs/derivations.md, section 13.
    Source: McSherry, Talwar 2007; bounded range: Dong, Durfee, Rogers 2020.
    """
    for name, value in (("epsilon", epsilon), ("sensitivity", sensitivity), ("candidates", len(scores))):
        if value <= 0:
            raise NoiseRefused(name, str(value), "above 0")
    best = max(scores)

    @cache
    def coin(place: int) -> BinaryExpansion:
        return exp_minus(epsilon * (best - scores[place]) / (2 * sensitivity))

    while True:
        place = _uniform(len(scores), source)
        # The best candidate's gap is 0: its coin always shows heads, and e^0 = 1 has no expansion to compare with.
        if scores[place] == best or bernoulli(1, probability=coin(place), source=source)[0]:
            return place


def _uniform(size: int, source: RandomBytes) -> int:
    """Draw a uniform place below `size`: whole bytes, those beyond the last full multiple thrown away."""
    width = max(1, ((size - 1).bit_length() + 7) // 8)
    # Only whole multiples of `size` count, or the places at the front would be likelier.
    most = 256**width - 256**width % size
    while True:
        drawn = int.from_bytes(source.take(width).tobytes(), "big")
        if drawn < most:
            return drawn % size
