"""The minimum-frequency rule of a spec: which counts are too small to be published.

`{k: 10, t: auto, at_most: 0.01}` or `{k: 10, t: 5}`: a cell whose noisy count lies below k + t is suppressed.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, WithJsonSchema, field_validator, model_validator

from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import Amount, Problem, Whole, parse_whole, plain_decimal, refuse, spelled

SUPPRESSED: Final = "suppressed"
"""The column that marks suppressed cells."""
LARGEST_THRESHOLD: Final = 10**12
SMALLEST_CHANCE: Final = Decimal("1e-12")
_AUTO: Final = "auto"


def _parse_margin(written: object) -> int | str:
    """Read t: `auto`, or a whole number from 0."""
    return _AUTO if written == _AUTO else parse_whole(written)


Margin = Annotated[
    int | Literal["auto"],
    BeforeValidator(_parse_margin),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": _AUTO}]}),
]


class MinimumFrequency(Frozen):
    """A cell is published only if its noisy count is at least k + t.

    Args:
        k: the least exact count that the rule lets out.
        t: how much more the noisy count has to be; `auto` for the least that keeps to `at_most`.
        at_most: with `t: auto`, the largest probability with which a cell whose exact count is below k is published.
    """

    k: Whole
    t: Margin
    at_most: Amount | None = None

    @field_validator("k")
    @classmethod
    def _above_zero(cls, k: int) -> int:
        if not 1 <= k <= LARGEST_THRESHOLD:
            refuse([Problem(str(k), f"a whole number from 1 to {LARGEST_THRESHOLD}", "offices use 3 to 30")])
        return k

    @field_validator("t")
    @classmethod
    def _not_negative(cls, t: int | str) -> int | str:
        if isinstance(t, int) and not 0 <= t <= LARGEST_THRESHOLD:
            allowed = f"a whole number from 0 to {LARGEST_THRESHOLD}, or auto"
            refuse([Problem(str(t), allowed, "auto finds the least that keeps to `at_most`")])
        return t

    @field_validator("at_most")
    @classmethod
    def _a_probability(cls, at_most: Decimal | None) -> Decimal | None:
        if at_most is None:
            return None
        if not SMALLEST_CHANCE <= at_most < 1:
            allowed = f"a probability from {spelled(SMALLEST_CHANCE)} to below 1"
            refuse([Problem(spelled(at_most), allowed, "write 0.01 for one cell in a hundred")])
        return plain_decimal(at_most)

    def shared_by(self, draws: int) -> MinimumFrequency:
        """Return the rule on each of several draws of one cell: their chances together keep to `at_most`.

        Args:
            draws: how many there are, >= 1.
        """
        return self if self.at_most is None else self.model_copy(update={"at_most": self.at_most / draws})

    @model_validator(mode="after")
    def _one_way_to_the_margin(self) -> MinimumFrequency:
        if self.t == _AUTO and self.at_most is None:
            remedy = "add `at_most: 0.01`, or write t as a number"
            refuse([Problem("t: auto without `at_most`", "`at_most:` a probability", remedy)])
        if self.t != _AUTO and self.at_most is not None:
            remedy = "drop `at_most`: the record states the probability that follows from t"
            refuse([Problem("`at_most` beside a written t", "`at_most` with t: auto only", remedy, ("at_most",))])
        return self
