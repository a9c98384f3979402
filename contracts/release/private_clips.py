"""Clips that a run finds itself, by a charged draw: `clip: private` of a sum, a mean or a ratio."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, TypeAdapter, field_validator, model_validator

from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import Amount, BoundPair, Flag, Problem, plain_decimal, refuse, show

PRIVATE: Final = "private"
PRIVATE_FORM: Final = "{private: true, share: 0.1}"
USUAL_SHARE: Final = Decimal("0.1")
_LEAST_SHARE, _LARGEST_SHARE = Decimal("0.001"), Decimal("0.9")


class PrivateClip(Frozen):
    """A clip that the run finds in a noisy histogram of the column; `share` is what it takes of the column's part.

    Written `private`, or `{private: true, share: 0.1}`. Each draw of the column gives so much of its part of the
    charge to the histogram, which is drawn first.
    """

    private: Flag = True
    share: Amount = USUAL_SHARE

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        """Read `private`; refuse a mapping that does not say it."""
        if written == PRIVATE:
            return {PRIVATE: True}
        if isinstance(written, dict) and PRIVATE not in written:
            remedy = "write the word private, or drop the clip: the contract's bounds are one"
            refuse([Problem(show(written), PRIVATE_FORM, remedy)])
        return written

    @field_validator("private")
    @classmethod
    def _private(cls, private: bool) -> bool:
        if not private:
            refuse([Problem("false", "true", "drop the clip: the contract's bounds are one")])
        return private

    @field_validator("share")
    @classmethod
    def _within(cls, share: Decimal) -> Decimal:
        if not _LEAST_SHARE <= share <= _LARGEST_SHARE:
            remedy = f"leave it out: it is {USUAL_SHARE} then"
            refuse([Problem(f"a share of {share}", f"a number from {_LEAST_SHARE} to {_LARGEST_SHARE}", remedy)])
        return plain_decimal(share)


_PAIR: Final[TypeAdapter[tuple[Decimal, Decimal]]] = TypeAdapter(BoundPair)


def _read_clip(written: Any) -> Any:
    """Read `private` or a mapping as a private clip, and anything else as a pair of ends."""
    if isinstance(written, PrivateClip):
        return written
    if isinstance(written, dict) or written == PRIVATE:
        return PrivateClip.model_validate(written)
    if isinstance(written, str):
        refuse([Problem(show(written), f"a pair [low, high], {PRIVATE} or {PRIVATE_FORM}")])
    return _PAIR.validate_python(written)


def clip_schema() -> dict[str, Any]:
    """Describe the written forms of a clip: two ends, `private`, or `private` with a share."""
    number = {"type": ["number", "string"]}
    pair = {"type": "array", "items": number, "minItems": 2, "maxItems": 2}
    keys = {PRIVATE: {"const": True}, "share": number}
    long = {"type": "object", "properties": keys, "required": [PRIVATE], "additionalProperties": False}
    return {"anyOf": [pair, {"const": PRIVATE}, long]}


Clip = Annotated[PrivateClip | tuple[Decimal, Decimal], BeforeValidator(_read_clip)]
"""Two ends, or a clip that the run finds; read by itself, so that what is wrong is said once."""
