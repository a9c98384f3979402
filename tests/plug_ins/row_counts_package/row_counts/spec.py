"""What a spec of noisy counts of rows says."""

from __future__ import annotations

from typing import ClassVar, Literal

from contracts.contract.contract import Contract
from contracts.reading.scalars import Label
from contracts.release.product import ProductSpec


class RowCountsProduct(ProductSpec):
    """Noisy counts of rows by one column."""

    kind: Literal["row_counts"]
    by: Label
    reads_rows: ClassVar[bool] = False

    def names(self, contract: Contract) -> tuple[str, ...]:
        return (self.by,)
