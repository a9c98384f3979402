"""Listed domains: values that are their own categories, and raw texts that are mapped to categories."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, field_validator, model_validator

from contracts.domains.bins import MAX_CELLS
from contracts.domains.domain import NULL_LABEL, DeclaredDomain, DomainCheck, clashes
from contracts.domains.notation import MOMENT, by_value, moment_of, one_value_problems
from contracts.domains.statements import (
    CELLS_CHANGED,
    NUMBER_KINDS,
    TIME_KINDS,
    VALUES_MOVED,
    Change,
    CheckKind,
    ValueKind,
    shortly,
)
from contracts.domains.value_sql import STRICTLY, absent_sql, enumeration, literal, number_sql, text_sql
from contracts.message import message
from contracts.reading.scalars import Label, Problem, as_items, as_tuple, nearest, refuse, show

if TYPE_CHECKING:
    from contracts.domains.portable_cell import PortableCell


class ListedDomain(DeclaredDomain):
    """A domain of named categories, with or without an `other` for everything else."""

    logical_types: ClassVar[tuple[str, ...]] = ("integer", "number", "string", "date", "boolean")
    list_key: ClassVar[str]
    """The key that lists the categories."""

    other: Label | None = None

    @property
    @abstractmethod
    def categories(self) -> tuple[str, ...]:
        """The declared categories, in the order of their codes."""

    @property
    def rest_label(self) -> str | None:
        """The label of `other`."""
        return self.other

    @property
    def misfit_code(self) -> int:
        """The code of `other`, or of a null where no other is declared."""
        return len(self.categories) if self.other is not None else self.null_code

    def _declared_labels(self) -> tuple[str, ...]:
        return self.categories + ((self.other,) if self.other is not None else ())

    def _target_code(self, text: str) -> int:
        declared = self._declared_labels()
        if text not in declared:
            remedy = nearest(text, declared) or "name one of the declared categories"
            refuse([Problem(f"nulls mapped to {show(text)}", "a category of this column", remedy, ("nulls", "to"))])
        return declared.index(text)

    def _list_problems(self) -> list[Problem]:
        """Name what makes labels ambiguous."""
        problems, at = [], self.list_key
        if not self.categories:
            problems.append(Problem("no category", "at least one category", at=(at,)))
        if len(self.categories) > MAX_CELLS - 2:
            problems.append(Problem(f"{len(self.categories)} categories", f"at most {MAX_CELLS - 2}", at=(at,)))
        if NULL_LABEL in self._declared_labels():
            remedy = "it is the label of nulls: choose another text"
            problems.append(Problem(f"the category {NULL_LABEL!r}", "any other text", remedy, (at,)))
        if self.other in self.categories:
            remedy = "`other` has a cell of its own: choose another name, or drop it"
            problems.append(Problem(f"{self.other!r} listed as a category", "a new name", remedy, ("other",)))
        return problems

    def _value_problems(self, mapped: Mapping[str, str]) -> list[Problem]:
        """Name texts that are one value and mean different cells; what is missing means none."""
        meanings: dict[str, str | None] = {label: label for label in self._declared_labels()}
        meanings |= {**mapped, **dict.fromkeys(self.missing)}
        return one_value_problems(meanings, (self.list_key,))

    @cached_property
    def known_texts(self) -> dict[str, int]:
        """Every text that is understood, with its code: categories, other, raw values, missing texts."""
        codes = {label: code for code, label in enumerate(self._declared_labels())}
        return codes | self._raw_codes(codes) | dict.fromkeys(self.missing, self.null_code)

    @property
    def category_labels(self) -> tuple[str, ...]:
        """The categories."""
        return self.categories

    @property
    def category_texts(self) -> tuple[str, ...]:
        """The known texts that are no `other` and not missing."""
        return tuple(text for text, code in self.known_texts.items() if code < len(self.categories))

    def _raw_codes(self, codes: Mapping[str, int]) -> dict[str, int]:
        """Map raw texts to the codes of their categories."""
        return {}

    def value_sql(self, raw: str) -> str:
        """Return SQL for the known text that a value is, of an ENUM of them."""
        words, text = enumeration(self.known_texts), text_sql(raw)
        spellings = [text, f"trim({text})", *self._of_the_value(raw)]
        return "COALESCE(" + ", ".join(f"TRY_CAST({spelling} AS {words})" for spelling in spellings) + ")"

    def _of_the_value(self, raw: str) -> list[str]:
        """Write SQL for the known text that is the same number, flag or moment; none where no known text is one."""
        texts = by_value(self.known_texts)
        if not texts:
            return []
        keys = [f"CAST({number_sql(raw, STRICTLY)} + 0e0 AS VARCHAR)"]
        if any(moment_of(text) is not None for text in texts.values()):
            typed = f"typeof({raw}) = 'DATE' OR starts_with(typeof({raw}), 'TIMESTAMP')"
            text = f"trim({text_sql(raw)})"
            spelled = f"CASE WHEN regexp_full_match({text}, {literal(MOMENT)}) THEN TRY_CAST({text} AS TIMESTAMP) END"
            moment = f"CASE WHEN {typed} THEN TRY_CAST({raw} AS TIMESTAMP) ELSE {spelled} END"
            keys.append(f"TRY(CAST({moment} AS VARCHAR))")
        place = f"enum_code(TRY_CAST(COALESCE({', '.join(keys)}) AS {enumeration(texts)}))"
        known = ", ".join(literal(text) for text in texts.values())
        return [f"([{known}])[CAST({place} AS INTEGER) + 1]"]

    def code_sql(self, value: str, raw: str) -> str:
        """Return SQL for the code: the ENUM's own, or a look-up where several texts share a code."""
        codes, kind = list(self.known_texts.values()), self.code_type
        if codes == list(range(len(codes))):
            code = f"CAST(enum_code({value}) AS {kind})"
        else:
            code = f"([{', '.join(map(str, codes))}]::{kind}[])[CAST(enum_code({value}) AS INTEGER) + 1]"
        if self.misfit_code == self.null_code:
            return f"COALESCE({code}, {self.null_code}::{kind})"
        return (
            f"CASE WHEN {value} IS NOT NULL THEN {code} WHEN {absent_sql(raw)} THEN {self.null_code}::{kind} "
            f"ELSE {self.misfit_code}::{kind} END"
        )

    def checks(self) -> tuple[DomainCheck, ...]:
        """Every value is one of the texts that are understood: raw values, categories, other."""
        rest = () if self.other is None else (self.other,)
        texts = tuple(dict.fromkeys((*self.listed_texts[self.list_key], *self.categories, *rest)))
        return (("domain", "in_set", {"values": texts, "missing": self.missing}),)

    def violation_sql(self, check: CheckKind, raw: str) -> str:
        """True where a value is absent, or is there and no known text."""
        value = self.value_sql(raw)
        absent = self._nothing_sql(value, raw)
        return absent if check == "not_null" else f"NOT {absent} AND {value} IS NULL"

    def _nothing_sql(self, value: str, raw: str) -> str:
        """True where a value is absent or one of the missing texts, and never NULL."""
        reasons = [absent_sql(raw)]
        if self.missing:
            tokens = ", ".join(literal(token) for token in self.missing)
            reasons.append(f"COALESCE(CAST({value} AS VARCHAR) IN ({tokens}), FALSE)")
        return "(" + " OR ".join(reasons) + ")"

    def stray_sql(self, value: str, raw: str) -> str:
        """True where a value is no known text, and where nulls are mapped also where it is missing."""
        if self.nulls.to is not None:
            return f"{value} IS NULL OR {self._nothing_sql(value, raw)}"
        return f"{raw} IS NOT NULL AND ({value} IS NULL OR {absent_sql(raw)})"

    @property
    def value_kinds(self) -> tuple[ValueKind, ...]:
        """Texts and numbers; days and moments where a known text is one."""
        days = TIME_KINDS if any(moment_of(text) for text in self.known_texts) else ()
        return ("text", *NUMBER_KINDS, *days, "nothing")

    def portable_code(self, cell: PortableCell) -> Any:
        """Return the code of a category; what is none is `other`, and nothing is a null."""
        import ibis

        found, null = cell.code_of(self.known_texts), ibis.literal(self.null_code, "int32")
        if self.misfit_code == self.null_code:
            return ibis.coalesce(found, null)
        rest = ibis.literal(self.misfit_code, "int32")
        return ibis.cases((found.notnull(), found), (cell.absent(), null), else_=rest)

    def portable_violation(self, check: CheckKind, cell: PortableCell) -> Any:
        """True where a value is absent, or is there and no known text."""
        if check == "not_null":
            return cell.absent() | cell.code_of(dict.fromkeys(self.missing, 0)).notnull()
        return ~cell.absent() & cell.code_of(self.known_texts).isnull()

    @property
    def extent(self) -> str:
        """The number of categories."""
        return message("{number} categories", number=len(self.categories))

    def changes(self, older: Self) -> Iterator[Change]:
        """Compare categories: which there are, and in which order; and `other`."""
        before, after, key = older.categories, self.categories, self.list_key
        gone, fresh = [x for x in before if x not in after], [x for x in after if x not in before]
        if gone:
            yield Change(key, shortly(gone), "", "account", CELLS_CHANGED)
        if fresh:
            yield Change(key, "", shortly(fresh), "account", CELLS_CHANGED)
        if [x for x in before if x in after] != [x for x in after if x in before]:
            yield Change(key, "one order of the cells", "another order", "account", CELLS_CHANGED)
        if older.other != self.other:
            yield Change("other", older.other or "none", self.other or "none", "account", VALUES_MOVED)


class CategoryDomain(ListedDomain):
    """Values that are their own categories."""

    list_key: ClassVar[str] = "values"

    kind: Literal["categories"]
    values: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)]

    @property
    def categories(self) -> tuple[str, ...]:
        """The declared values, in the order of the contract."""
        return self.values

    @property
    def listed_texts(self) -> Mapping[str, tuple[str, ...]]:
        """The values."""
        return {"values": self.values}

    @model_validator(mode="after")
    def _unambiguous(self) -> CategoryDomain:
        problems = self._list_problems()
        seen: set[str] = set()
        for place, value in enumerate(self.values):
            if value in seen:
                problems.append(Problem(f"{value!r} twice", "each value once", "drop one", ("values", place)))
            seen.add(value)
        problems += clashes(self.missing, set(self._declared_labels()))
        problems += self._value_problems({})
        return self._finished(problems)


class MappingDomain(ListedDomain):
    """Raw texts mapped to categories; a category's own name is understood too, so that released data encode again."""

    list_key: ClassVar[str] = "mapping"

    kind: Literal["mapping"]
    mapping: tuple[tuple[Label, Label], ...]

    @field_validator("mapping", mode="before")
    @classmethod
    def _as_pairs(cls, written: Any) -> Any:
        return as_items(written, "a mapping of raw value: category")

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """The categories in the order of their first mention."""
        return tuple(dict.fromkeys(category for _, category in self.mapping))

    @property
    def listed_texts(self) -> Mapping[str, tuple[str, ...]]:
        """The raw values."""
        return {"mapping": tuple(raw for raw, _ in self.mapping)}

    @property
    def coded_texts(self) -> tuple[tuple[str, ...], ...]:
        """The raw values of each category; none of `other` and "(null)"."""
        raw: dict[str, tuple[str, ...]] = dict.fromkeys(self.labels, ())
        for text, category in self.mapping:
            raw[category] += (text,)
        return tuple(raw.values())

    def _raw_codes(self, codes: Mapping[str, int]) -> dict[str, int]:
        return {raw: codes[category] for raw, category in self.mapping}

    @model_validator(mode="after")
    def _unambiguous(self) -> MappingDomain:
        problems = self._list_problems()
        named = set(self._declared_labels())
        for raw, category in self.mapping:
            if raw in named and raw != category:
                found = f"{raw!r}, itself a category, mapped to {category!r}"
                problems.append(Problem(found, f"{raw}: {raw}", "rename the category", ("mapping", raw)))
        problems += clashes(self.missing, {raw for raw, _ in self.mapping} | named)
        problems += self._value_problems(dict(self.mapping))
        return self._finished(problems)

    def changes(self, older: Self) -> Iterator[Change]:
        """Compare which raw values mean a category that both have, too."""
        yield from super().changes(older)
        moved, before, after = set(older.mapping) ^ set(self.mapping), older.categories, self.categories
        raw = sorted({text for text, category in moved if category in before and category in after})
        if raw:
            yield Change("mapping", "raw values mapped one way", f"{shortly(raw)} mapped", "account", VALUES_MOVED)
