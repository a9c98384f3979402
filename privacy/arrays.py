"""Names of arrays: what kind of number they hold.

Shapes and units stand where an array is used; here is only its type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Doubles."""
Singles = NDArray[np.float32]
"""Numbers as networks keep them."""
Integers = NDArray[np.integer[Any]]
"""Whole numbers of any width."""
Unsigned = NDArray[np.unsignedinteger[Any]]
"""Codes: whole numbers from zero on, of any width."""
Numbers = NDArray[np.int64] | NDArray[np.float64]
"""Counts that may have been refined to fractions."""
