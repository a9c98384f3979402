"""λ as written: a number, `auto`, or `{reference: RELEASE/VERSION}`, an earlier version that it is chosen on."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ValidationError, WithJsonSchema, field_validator, model_validator
from pydantic_core import PydanticCustomError

from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import (
    FINEST_DECIMALS,
    Label,
    Problem,
    nearest,
    parse_decimal,
    plain_decimal,
    refuse,
    show,
)

REFERENCE: Final = "{reference: RELEASE/VERSION}, such as {reference: adult-income/3}"
AUTO: Final = "auto"
LAMBDAS: Final = f"a number from 0 to below 1, or auto, or {REFERENCE}"
_LET_IT_CHOOSE: Final = "auto chooses it from the noisy values, at no cost"
_NAMED: Final = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)/([1-9][0-9]{0,8})")
_FOLDER: Final = re.compile(r"(?:.*/)?([a-z0-9]+(?:-[a-z0-9]+)*)/v([1-9][0-9]{0,8})/?")


class LambdaReference(Frozen):
    """One version of a release in the same store, by name and number."""

    reference: Label

    @model_validator(mode="before")
    @classmethod
    def _a_mapping(cls, written: Any) -> Any:
        if not isinstance(written, dict) or list(written) != ["reference"]:
            refuse([Problem(show(written), REFERENCE)])
        return written

    @field_validator("reference")
    @classmethod
    def _one_version(cls, reference: str) -> str:
        if _NAMED.fullmatch(reference):
            return reference
        folder = _FOLDER.fullmatch(reference)
        remedy = f"write {folder[1]}/{folder[2]}" if folder else "name the release and the number of its version"
        if reference.rpartition("/")[2] == "latest":
            remedy = "write its number: `latest` is another version tomorrow, and the release could not be repeated"
        refuse([Problem(show(reference), "RELEASE/VERSION, such as adult-income/3", remedy, ("reference",))])

    @property
    def release(self) -> str:
        """The release."""
        return self.reference.rpartition("/")[0]

    @property
    def version(self) -> int:
        """The number of its version."""
        return int(self.reference.rpartition("/")[2])


def _parse_lambda(written: object) -> Decimal | str | LambdaReference:
    """Read λ: `auto`, a number from 0 to below 1, or an earlier version."""
    if written == AUTO:
        return AUTO
    if isinstance(written, dict | LambdaReference):
        return _parse_reference(written)
    try:
        lambda_ = parse_decimal(written)
    except PydanticCustomError:
        remedy = nearest(str(written), [AUTO]) or _LET_IT_CHOOSE
        refuse([Problem(show(written), LAMBDAS, remedy)])
    if not 0 <= lambda_ < 1:
        refuse([Problem(str(lambda_), LAMBDAS, _LET_IT_CHOOSE)])
    if lambda_ and lambda_.adjusted() < -FINEST_DECIMALS:
        refuse([Problem(str(lambda_), "zero, or a number from 1e-15")])
    return plain_decimal(lambda_)


def _parse_reference(written: dict[str, Any] | LambdaReference) -> LambdaReference:
    """Read an earlier version; its problems are reported like those of any λ."""
    try:
        return LambdaReference.model_validate(written)
    except ValidationError as error:
        refuse([problem for item in error.errors() for problem in item.get("ctx", {}).get("problems", ())])


_NUMBER_OR_VERSION: Final = {
    "anyOf": [
        {"type": ["number", "string"]},
        {"const": AUTO},
        {
            "type": "object",
            "properties": {"reference": {"type": "string"}},
            "required": ["reference"],
            "additionalProperties": False,
        },
    ]
}
Lambda = Annotated[
    Decimal | Literal["auto"] | LambdaReference,
    BeforeValidator(_parse_lambda),
    WithJsonSchema(_NUMBER_OR_VERSION),
]
