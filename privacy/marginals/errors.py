"""What the marginal engine refuses."""

from __future__ import annotations

from contracts.errors import SudareError


class ModelTooLarge(SudareError):
    """The tables of a model's largest cliques would need more memory than the cap allows; nothing was built.

    Args:
        size_mb: what the model would need [MB of 2²⁰ bytes].
        cap_mb: what is allowed [MB].
    """

    exit_code = 2

    def __init__(self, size_mb: float, cap_mb: float) -> None:
        self.size_mb = size_mb
        self.cap_mb = cap_mb
        super().__init__(
            f"the model needs {size_mb:.1f} MB, the cap is {cap_mb:.1f} MB: measure fewer or smaller cliques "
            "together, use coarser bins, or raise the cap"
        )


class NothingPossible(SudareError):
    """The structural zeros (and the evidence, if there is any) leave no combination of values possible.

    Args:
        what: what excludes every row, or so many that none was found.
    """

    exit_code = 2

    def __init__(
        self,
        what: str = "the declared impossible combinations (and the evidence) exclude every row: drop one of them",
    ) -> None:
        super().__init__(what)


class TooManyRanges(SudareError, ValueError):
    """Ranges over too many cells; nothing was planned."""

    exit_code = 2

    def __init__(self, found: str, allowed: str, remedy: str) -> None:
        super().__init__(f"product.tables: found {found}\n  allowed: {allowed}\n  do: {remedy}")
