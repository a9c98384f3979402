"""Three columns of few cells, and the rows that games add to them or take away."""

from __future__ import annotations

from typing import Final

import numpy as np

from privacy.arrays import Unsigned
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.marginals.graph import CellDomain

_LEVELS: Final = np.linspace(0, 1, 3)[:, None]
LAYOUT: Final = RowLayout(
    (
        ColumnLayout("x", "number", _LEVELS),
        ColumnLayout("y", "number", _LEVELS),
        ColumnLayout("kind", "category", np.eye(3)),
    )
)
DOMAIN: Final = CellDomain(LAYOUT.names, (3, 3, 3))
"""27 cells."""
NOBODY: Final[Unsigned] = np.empty((0, 3), np.uint8)
ONE: Final[Unsigned] = np.array([[2, 2, 2]], np.uint8)
"""The canary: a row at the end of every column."""
OTHER: Final[Unsigned] = np.array([[0, 0, 0]], np.uint8)
"""Another one, as far from it as can be."""
