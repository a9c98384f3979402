"""A release of a private classifier: how it is trained, which column it tells, and from which others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, field_validator

from contracts.contract.contract import Contract
from contracts.reading.scalars import FieldPath, Label, Problem, nearest, word_list
from contracts.release.product import ALL, ColumnChoice, ProductSpec, chosen, distinct_columns

MOST_CLASSES: Final = 1000


class ClassifierProduct(ProductSpec):
    """A classifier: a fully connected network that tells a column's cell from other columns, with its weights.

    `trainer` says where the noise comes in: `dp_sgd`, `anonymizing_first`, `learning_first` or `anonymized_learning`.
    `columns` are all of the contract, or those that are listed, the label among them; they stand in the contract's
    order. `numbers` are read by their cell, one entry each, as categories are, or `scaled` to [0, 1] by the declared
    bounds. `options` are the trainer's own.
    """

    reads_rows: ClassVar[bool] = False

    kind: Literal["classifier"]
    trainer: Label
    label: Label
    columns: ColumnChoice = ALL
    numbers: Literal["cells", "scaled"] = "cells"
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("columns")
    @classmethod
    def _each_once(cls, columns: str | tuple[str, ...]) -> str | tuple[str, ...]:
        return distinct_columns(columns, least="at least two columns")

    @property
    def target(self) -> str:
        """The label."""
        return self.label

    @property
    def rows_about(self) -> object:
        """About how many rows there are, where an option declares it."""
        return self.options.get("rows_about")

    def names(self, contract: Contract) -> tuple[str, ...]:
        """Return the columns that are learned from, the label among them, in the contract's order."""
        return chosen(self.columns, contract)


def classifier_problems(product: ClassifierProduct, contract: Contract) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what in a product of a model does not fit its contract, with its place in the product."""
    known = [column.name for column in contract.columns]
    unknown = [] if product.columns == ALL else [c for c in enumerate(product.columns) if c[1] not in known]
    for place, name in unknown:
        yield ("columns", place), Problem(f"the column {name!r}", word_list(known), _remedy(name, known, contract))
    if product.label not in known:
        remedy = _remedy(product.label, known, contract)
        yield ("label",), Problem(f"the column {product.label!r}", word_list(known), remedy)
        return
    names, column = product.names(contract), contract.column(product.label)
    if product.label not in names:
        yield ("columns",), Problem(f"columns without the label {product.label!r}", "the label among them", "add it")
    elif len(names) < 2 and not unknown:
        yield (
            ("columns",),
            Problem("the label alone", "at least one other column", "name the columns to tell it from"),
        )
    if not column.named:
        remedy = "group the numbers into labels by a mapping in the contract"
        yield ("label",), Problem(f"{product.label!r}, a column of numbers", "a column of listed values", remedy)
    elif not 2 <= column.size <= MOST_CLASSES:
        allowed = f"a column of 2 to {MOST_CLASSES} cells"
        yield ("label",), Problem(f"{product.label!r} with {column.size} cells", allowed, "choose another label")


def _remedy(name: str, columns: list[str], contract: Contract) -> str:
    if name == contract.unit.column:
        return "drop it: it is the privacy unit's id, which is never published"
    return nearest(name, columns)
