"""A part of the numbers' declared range, stretched to [0, 1]: what a decoder learns where values fill little of it.

x in [0, 1] of the declared range    ->    (x - low) factor, clipped to [0, 1]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privacy.arrays import Singles
from privacy.learning.network import CannotTrain


@dataclass(frozen=True, eq=False)
class Window:
    """Where each entry's window begins, and how far it is stretched; public or released.

    Args:
        low: shape (width,), in [0, 1].
        factors: at least 1, shape (width,); 1 with a low of 0 for what is not a number.
    Raises:
        CannotTrain: arrays of another form.
    """

    low: Singles
    factors: Singles

    def __post_init__(self) -> None:
        for name, least, most in (("low", 0.0, 1.0), ("factors", 1.0, 1e6)):
            object.__setattr__(self, name, _checked(name, getattr(self, name), least, most))
        if self.low.shape != self.factors.shape:
            raise CannotTrain("window", f"{self.low.size} and {self.factors.size} entries", "as many of both")


def _checked(name: str, values: Any, least: float, most: float) -> Singles:
    """Return a read-only float32 copy."""
    if type(values) is not np.ndarray or values.ndim != 1 or values.size == 0:
        raise CannotTrain(f"window.{name}", type(values).__name__, "an array of one dimension")
    kept: Singles = np.array(values, dtype=np.float32, order="C")
    # No comparison holds of NaN: put this way round, the test refuses it too.
    if not ((kept >= least) & (kept <= most)).all():
        raise CannotTrain(f"window.{name}", "entries out of range", f"numbers from {least:g} to {most:g}")
    kept.flags.writeable = False
    return kept
