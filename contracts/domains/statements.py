"""What a domain states besides its cells: checks of its values, what changed against another one, advice on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

CheckKind = Literal["columns", "rows", "not_null", "castable", "in_set", "between"]
Parameter = str | int | tuple[str, ...]
Effect = Literal["account", "breaking", "compatible"]
DecodedKind = Literal["label", "integer", "number", "date", "boolean", "picture"]
"""As what synthetic values are published."""
ValueKind = Literal["text", "whole", "real", "fixed", "flag", "day", "moment", "nothing"]
"""How a table stores a column; an engine maps its own types to these."""
NUMBER_KINDS: Final[tuple[ValueKind, ...]] = ("whole", "real", "fixed", "flag")
"""What a writer stores as one of these it may store as another for the sake of one row, so they go together."""
TIME_KINDS: Final[tuple[ValueKind, ...]] = ("day", "moment")
DAY, TIME, NESTED = "DATE", "TIMESTAMP", "NESTED"
"""Types of a column that surely hold days, moments, and lists or records."""
CELLS_CHANGED: Final = (
    "cells count something else than before: versions do not compare, and the account has paid for the others"
)
VALUES_MOVED: Final = "values fall into other cells than before: versions do not compare"
_SHOWN: Final = 8


@dataclass(frozen=True)
class Check:
    """One thing that the rows should satisfy.

    Args:
        name: unique in the contract; gates are named by it.
        kind: what is checked; `contracts.contract.contract` says what each kind means.
        column: the column, or None for the table as a whole.
        parameters: plain data; bounds are texts, so that they are exact.
        gate: whether a failure stops the release.
    """

    name: str
    kind: CheckKind
    column: str | None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    gate: bool = False


@dataclass(frozen=True)
class Change:
    """One thing that two contracts declare differently.

    Args:
        field: what is declared, by name: `unit.scope`, `columns.age.bins`; of a domain the key, such as `bins`.
        old: what the older one declares; "" for nothing.
        new: what the newer one declares; "" for nothing.
        effect: `account` if what an account's people are promised, or what its charges buy, is no longer the same;
            `breaking` if those who deliver or read the data have to change something; `compatible` otherwise.
        why: what the effect is, in a sentence; "" for compatible changes.
    """

    field: str
    old: str
    new: str
    effect: Effect
    why: str = ""

    @property
    def words(self) -> str:
        """The change as one line: from what to what."""
        if not self.old or not self.new:
            return f"{self.new} is new" if self.new else f"{self.old} is gone"
        return f"{self.old} → {self.new}"


@dataclass(frozen=True)
class DomainAdvice:
    """One thing about a domain that may not be meant.

    Args:
        rule: which rule; `contracts.drafting.advice.advice` lists them.
        key: the key of the domain that it is about.
        found: what stands there.
        why: why it may not be meant.
        remedy: what to do.
    """

    rule: str
    key: str
    found: str
    why: str
    remedy: str


def shortly(words: tuple[str, ...] | list[str]) -> str:
    """List some words, at most a few of them."""
    shown = ", ".join(words[:_SHOWN])
    return (shown + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")) or "none"
