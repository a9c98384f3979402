"""The seed of a fit that may draw none."""

from __future__ import annotations

from privacy.generators.generator import CannotGenerate
from privacy.marginals.portable import PostProcessingSeed


def no_seed() -> PostProcessingSeed:
    """Stand for the seed of a fit that may draw none.

    Raises:
        CannotGenerate: always.
    """
    raise CannotGenerate("the fit asks for a seed of post-processing, and has none here")
