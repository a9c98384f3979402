"""The kinds of product that a release may publish."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from contracts.release.classifier import ModelProduct
from contracts.release.synthetic import SyntheticProduct
from contracts.release.tables.product import TablesProduct

Product = Annotated[TablesProduct | SyntheticProduct | ModelProduct, Field(discriminator="kind")]
