"""The kinds of product that a release may publish."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from contracts.model import ModelProduct
from contracts.product import TablesProduct
from contracts.synthetic import SyntheticProduct

Product = Annotated[TablesProduct | SyntheticProduct | ModelProduct, Field(discriminator="kind")]
