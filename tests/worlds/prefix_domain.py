"""A kind of domain that no part of the tree knows: codes by how they begin, as of postal areas. A package has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, model_validator

from contracts.domains.categories import ListedDomain
from contracts.domains.domain import clashes
from contracts.domains.statements import ValueKind
from contracts.domains.value_sql import enumeration, text_sql
from contracts.reading.scalars import Label, Problem, as_tuple, parse_whole


class PrefixDomain(ListedDomain):
    """Texts by their first letters; what begins otherwise is `other`."""

    logical_types: ClassVar[tuple[str, ...]] = ("string",)
    list_key: ClassVar[str] = "prefixes"

    kind: Literal["prefixes"]
    prefixes: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)]
    letters: Annotated[int, BeforeValidator(parse_whole)]

    @property
    def categories(self) -> tuple[str, ...]:
        return self.prefixes

    @property
    def listed_texts(self) -> Mapping[str, tuple[str, ...]]:
        return {"prefixes": self.prefixes}

    @model_validator(mode="after")
    def _equally_long(self) -> PrefixDomain:
        problems = [*self._list_problems(), *clashes(self.missing, set(self._declared_labels()))]
        for place, prefix in enumerate(self.prefixes):
            if len(prefix) != self.letters:
                problems.append(Problem(repr(prefix), f"{self.letters} letters", at=("prefixes", place)))
        return self._finished(problems)

    def value_sql(self, raw: str) -> str:
        text, words = f"trim({text_sql(raw)})", enumeration(self.known_texts)
        return f"COALESCE(TRY_CAST({text} AS {words}), TRY_CAST(left({text}, {self.letters}) AS {words}))"

    @property
    def value_kinds(self) -> tuple[ValueKind, ...]:
        return ("text", "nothing")

    def portable_code(self, cell: Any) -> Any:
        return super().portable_code(replace(cell, cell=cell.cell.left(self.letters)))

    @property
    def extent(self) -> str:
        return f"{len(self.prefixes)} beginnings of {self.letters} letters"
