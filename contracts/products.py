"""The kinds of product that a release may publish."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from contracts.product import TablesProduct
from contracts.synthetic import SyntheticProduct
from contracts.written import Problem, refuse

_NOT_MADE: Final = ("model",)


def _refuse_unmade(written: Any) -> Any:
    """Refuse kinds that the design has and this version does not make."""
    kind = written.get("kind") if isinstance(written, dict) else None
    if kind in _NOT_MADE:
        remedy = "publish `kind: tables` or `kind: synthetic`, or use a version of Sudare that makes this product"
        refuse([Problem(f"kind {kind!r}, which this version does not make", "tables, synthetic", remedy, ("kind",))])
    return written


Product = Annotated[
    Annotated[TablesProduct | SyntheticProduct, Field(discriminator="kind")], BeforeValidator(_refuse_unmade)
]
