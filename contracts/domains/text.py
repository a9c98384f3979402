"""Free text whose values nobody declared: one cell for all texts, until a release has selected keys of it.

A text is no category: that somebody wrote it would be told by its cell. So a column of texts has a cell for all of
them, and one for missing values. A table with `keys: private` selects keys privately; then each selected key has a
cell too (`selected`), and all other texts stay together.

A key is a text of 1 to `max_bytes` bytes (UTF-8, without the spaces around it), without control characters and marks
that turn the direction of reading, without a `;` before what a spreadsheet would take for a formula (`spreadsheet`),
and not the label of one of those two cells. Other texts are never selected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from contracts.domains.domain import NULL_LABEL, DeclaredDomain, DomainCheck, exactness_problems
from contracts.domains.statements import VALUES_MOVED, Change, CheckKind
from contracts.domains.value_sql import absent_sql, exact_sql, literal
from contracts.message import message
from contracts.reading.scalars import Problem, Whole, refuse

OTHERS: Final = "(others)"
"""The cell of all texts that are no selected key."""
BESIDE_KEYS: Final = 2
"""Cells beside those of selected keys: that of all other texts, and that of none."""
LONGEST_KEY: Final = 1000
NO_KEY: Final = ""
"""What stands in a snapshot for a text that can be no key; no key is empty."""
# Control characters, marks of direction and what cannot be displayed; line and paragraph separators.
_UNPRINTABLE: Final = r"[\p{C}\p{Zl}\p{Zp}]"
_SPACES: Final = (
    r"\t\n\x0b\f\r \x1c-\x1f\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
)
"""All that counts as a space anywhere, written out: what `\\s` is differs from program to program."""
_SPLIT: Final = rf";[{_SPACES}]*[=+\-@＝＋－＠﹦﹢﹣﹫]"
"""Where a spreadsheet that separates cells by `;` would run the rest."""
SPLIT: Final = re.compile(re.sub(r"\\x\{([0-9a-f]+)\}", lambda found: chr(int(found[1], 16)), _SPLIT))
"""The same for Python."""


@dataclass(frozen=True)
class KeyColumn:
    """A column whose texts are encoded beside the codes: for a selection of keys, or to count different ones.

    Args:
        column: the column; or that of the unit's id, to count units.
    """

    column: str

    @property
    def name(self) -> str:
        """Its name in the snapshot, which no column of a contract can have: it has a control character."""
        return f"{self.column}\x1fkeys"


class UnitOrder(KeyColumn):
    """The place of each row among the rows of its unit, from 1, in an order that no value decides.

    `column` is that of the unit's id. The order is keyed (`tasks.storage.snapshot.snapshot`), and a unit's own.
    """

    @property
    def name(self) -> str:
        """Its name in the snapshot, and in the relation that is encoded."""
        return f"{self.column}\x1forder"


class TextDomain(DeclaredDomain):
    """Texts that nobody declared. `max_bytes` is the length of the longest key; see `Unit` for `numbers_up_to`."""

    logical_types: ClassVar[tuple[str, ...]] = ("string",)
    cells_key: ClassVar[str] = "max_bytes"

    kind: Literal["text"]
    max_bytes: Whole
    numbers_up_to: Whole | None = Field(default=None, exclude_if=lambda largest: largest is None)
    _selected: tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _sound(self) -> TextDomain:
        problems = exactness_problems(self.numbers_up_to)
        if not 1 <= self.max_bytes <= LONGEST_KEY:
            allowed = f"a whole number from 1 to {LONGEST_KEY}"
            problems.append(Problem(str(self.max_bytes), allowed, "longer texts are never keys", ("max_bytes",)))
        if self.nulls.policy != "category":
            remedy = "write nulls: {policy: category}: no text is declared that they could be"
            problems.append(Problem("policy: map for texts", "policy: category", remedy, ("nulls", "policy")))
        if problems:
            refuse(problems)
        return self

    def selected(self, keys: Sequence[str]) -> Self:
        """Return the domain with a cell for each of some keys, before that of all others; it is written the same.

        Args:
            keys: what a release has selected; no longer private.
        """
        copy = self.model_copy()
        copy._selected = tuple(keys)
        return copy

    @property
    def reads_spellings(self) -> bool:
        """Files that store the column otherwise change no digit of a value."""
        return True

    @property
    def labels(self) -> tuple[str, ...]:
        """The selected keys, all other texts, "(null)"."""
        return (*self._selected, OTHERS, NULL_LABEL)

    @property
    def null_code(self) -> int:
        """The last cell."""
        return len(self._selected) + 1

    @property
    def rest_label(self) -> str | None:
        """All texts that are no selected key."""
        return OTHERS

    def _declared_labels(self) -> tuple[str, ...]:
        return self.labels[:-1]

    def _target_code(self, text: str) -> int:
        refuse([Problem(text, "policy: category for missing texts")])

    def value_sql(self, raw: str) -> str:
        """Return SQL for the text without the spaces around it, of numbers the digits; null where there is none."""
        text = exact_sql(raw, self.numbers_up_to)
        tokens = ", ".join(literal(token) for token in ("", NULL_LABEL, *self.missing))
        return f"CASE WHEN {absent_sql(raw)} OR {text} IN ({tokens}) THEN NULL ELSE {text} END"

    def code_sql(self, value: str, raw: str) -> str:
        """Return SQL for the code where nothing is selected: any text, or none."""
        kind = self.code_type
        return f"CASE WHEN {value} IS NULL THEN 1::{kind} ELSE 0::{kind} END"

    def offset_sql(self, lattice: Any, value: str) -> str:
        """Return SQL for the key that a text may be selected as; `NO_KEY` where it can be none."""
        unfit = (
            f"{value} IS NULL OR strlen({value}) > {self.max_bytes} OR {value} = {literal(OTHERS)} "
            f"OR regexp_matches({value}, {literal(f'{_UNPRINTABLE}|{_SPLIT}')})"
        )
        return f"CASE WHEN {unfit} THEN {literal(NO_KEY)} ELSE {value} END"

    def checks(self) -> tuple[DomainCheck, ...]:
        """Nothing but being there: no text breaks what nobody declared."""
        return ()

    def violation_sql(self, check: CheckKind, raw: str) -> str:
        """True where a text is absent."""
        return f"(({self.value_sql(raw)}) IS NULL)"

    def stray_sql(self, value: str, raw: str) -> str:
        """Never true where nulls have a cell: a text is there, or it is missing."""
        return "FALSE" if self.nulls.to is None else f"{value} IS NULL"

    @property
    def extent(self) -> str:
        """How long a key may be."""
        return message("texts; those of at most {bytes} bytes may be selected as keys", bytes=self.max_bytes)

    def changes(self, older: Self) -> Iterator[Change]:
        """Compare the longest keys."""
        if older.max_bytes != self.max_bytes:
            before, after = str(older.max_bytes), str(self.max_bytes)
            yield Change("max_bytes", before, after, "account", VALUES_MOVED)
        if older.numbers_up_to != self.numbers_up_to:
            before, after = (str(each or "") for each in (older.numbers_up_to, self.numbers_up_to))
            yield Change("numbers_up_to", before, after, "account", VALUES_MOVED)

    def portable_code(self, cell: Any) -> Any:
        """Texts are coded by DuckDB alone."""
        raise ValueError("texts are coded by DuckDB alone")
