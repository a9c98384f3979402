"""The kinds of product that a release may publish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from contracts.release.product_kinds import product_kinds
from contracts.release.product_spec import ProductSpec

if TYPE_CHECKING:
    Product = ProductSpec
else:
    _SPECS = tuple(parts.load("spec") for parts in product_kinds().values())
    Product = Annotated[Union[_SPECS], Field(discriminator="kind")]  # noqa: UP007
