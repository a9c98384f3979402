"""Ordered domains: values between bounds, in bins whose order is that of the values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, Self

from contracts.domains.domain import DeclaredDomain, DomainCheck
from contracts.domains.statements import NUMBER_KINDS, VALUES_MOVED, Change, CheckKind, ValueKind
from contracts.domains.value_sql import absent_sql, literal
from contracts.message import message

if TYPE_CHECKING:
    from contracts.domains.portable_cell import PortableCell


def outside(value: Any, low: Any, high: Any) -> Any:
    """Return whether a value of an expression lies outside its bounds; of a null, that it does not."""
    first, last = (day_literal(bound) if isinstance(bound, date) else float(bound) for bound in (low, high))
    return ((value < first) | (value > last)).fill_null(False)


def day_literal(day: date) -> Any:
    """Return a day as an expression."""
    import ibis

    return ibis.date(day.year, day.month, day.day)


class OrderedDomain(DeclaredDomain):
    """Values outside the bounds are clipped to them; what cannot be read is null."""

    ordered: ClassVar[bool] = True
    read_as: ClassVar[str]
    """The word for what texts are read as, in the parameters of checks."""
    sql_type: ClassVar[str]
    """DuckDB's type of a value as it is read."""

    if TYPE_CHECKING:
        bounds: tuple[Any, Any]

    @property
    def extremes(self) -> tuple[Any, Any]:
        """The declared bounds."""
        return self.bounds

    @abstractmethod
    def token_sql(self, token: str) -> str:
        """Return SQL for the value that a missing text is in the column's notation, NULL for one that is none."""

    @abstractmethod
    def _bin_code(self, value: str) -> str:
        """Return SQL for the code of a value that is not null."""

    def _misfits_sql(self, value: str) -> list[str]:
        """Return SQL that is true of values, as read, that are none of the domain and not null."""
        return []

    def _nans_sql(self, value: str) -> list[str]:
        """Return SQL that is true of values, as read, that are absent and not null."""
        return []

    def code_sql(self, value: str, raw: str) -> str:
        """Return SQL for the code: that of nulls, or that of the bin."""
        null = f"{self.null_code}::{self.code_type}"
        return f"CASE WHEN {self.null_sql(value)} THEN {null} ELSE {self._bin_code(value)} END"

    def null_sql(self, value: str) -> str:
        """True of NULL and NaN, of misfits, and of the values that are declared missing."""
        return (
            "("
            + " OR ".join(
                [f"{value} IS NULL", *self._nans_sql(value), *self._misfits_sql(value), *self._missing_sql(value)]
            )
            + ")"
        )

    def _missing_sql(self, value: str) -> list[str]:
        if not self.missing:
            return []
        return [f"COALESCE({value} IN ({', '.join(map(self.token_sql, self.missing))}), FALSE)"]

    def checks(self) -> tuple[DomainCheck, ...]:
        """Every value can be read, and lies within the bounds."""
        low, high = self.bounds
        return (
            ("type", "castable", {"to": self.read_as, "missing": self.missing}),
            ("domain", "between", {"low": str(low), "high": str(high), "to": self.read_as, "missing": self.missing}),
        )

    def violation_sql(self, check: CheckKind, raw: str) -> str:
        """True where a value is absent; is there and cannot be read; or lies outside the bounds."""
        value = self.value_sql(raw)
        if check == "between":
            return f"NOT {self.null_sql(value)} AND NOT {self._within_sql(value)}"
        absent = "(" + " OR ".join(self._absent_sql(raw, value)) + ")"
        misfits = " OR ".join([f"{value} IS NULL", *self._misfits_sql(value)])
        return absent if check == "not_null" else f"NOT {absent} AND ({misfits})"

    def _within_sql(self, value: str) -> str:
        low, high = (f"CAST({literal(str(bound))} AS {self.sql_type})" for bound in self.bounds)
        return f"{value} BETWEEN {low} AND {high}"

    def stray_sql(self, value: str, raw: str) -> str:
        """True where a value cannot be read or lies outside the bounds; of mapped nulls also where it is missing."""
        null, beyond = self.null_sql(value), [f"NOT {self._within_sql(value)}", *self._odd_tokens_sql(raw)]
        if self.nulls.to is not None:
            return " OR ".join([null, *beyond])
        absent = " OR ".join(self._absent_sql(raw, value))
        return f"CASE WHEN {null} THEN NOT ({absent}) ELSE {' OR '.join(beyond)} END"

    def _absent_sql(self, raw: str, value: str) -> list[str]:
        """True for NULL, NaN and the texts that are declared missing; never NULL itself."""
        nans = [f"COALESCE({reason}, FALSE)" for reason in self._nans_sql(value)]
        return [absent_sql(raw), *self._tokens_sql(raw), *nans, *self._missing_sql(value)]

    def _odd_tokens_sql(self, raw: str) -> list[str]:
        """True of missing texts that are read as another value than the missing one, if there can be any."""
        return self._tokens_sql(raw)

    def _tokens_sql(self, raw: str) -> list[str]:
        """True of the texts that are declared missing, as they are delivered."""
        if not self.missing:
            return []
        tokens = ", ".join(literal(token) for token in self.missing)
        return [f"COALESCE(trim(TRY(CAST({raw} AS VARCHAR))) IN ({tokens}), FALSE)"]

    @property
    def value_kinds(self) -> tuple[ValueKind, ...]:
        """Numbers; texts where a notation says how they write the values."""
        return (*(() if self.notation is None else ("text",)), *self._typed_kinds(), *NUMBER_KINDS, "nothing")

    def _typed_kinds(self) -> tuple[ValueKind, ...]:
        """Kinds of columns, besides numbers and texts, in which every engine reads the values alike."""
        return ()

    @abstractmethod
    def _portable_value(self, cell: PortableCell) -> Any:
        """Return a stored value as it is read, null where it cannot be."""

    @abstractmethod
    def _portable_null(self, cell: PortableCell, value: Any) -> Any:
        """Return whether a value, as read, is null or one of the missing ones."""

    @abstractmethod
    def _portable_bin(self, value: Any) -> Any:
        """Return the code of a value that is not null."""

    def _portable_nothing(self, cell: PortableCell, value: Any) -> Any:
        """Return whether a value, as read, has the code of nulls."""
        return self._portable_null(cell, value)

    def _portable_misfit(self, cell: PortableCell, value: Any) -> Any:
        """Return whether a value, as read, is none of the domain."""
        return value.isnull()

    def portable_code(self, cell: PortableCell) -> Any:
        """Return the code of a stored value: that of nulls, or that of the bin."""
        import ibis

        value = self._portable_value(cell)
        return ibis.cases((self._portable_nothing(cell, value), self.null_code), else_=self._portable_bin(value))

    def portable_violation(self, check: CheckKind, cell: PortableCell) -> Any:
        """True where a stored value is absent; is there and cannot be read; or lies outside the bounds."""
        value = self._portable_value(cell)
        absent, misfit = self._portable_absent(cell, value), self._portable_misfit(cell, value)
        if check == "not_null":
            return absent
        return ~absent & misfit if check == "castable" else ~absent & (~misfit & outside(value, *self.bounds))

    def _portable_absent(self, cell: PortableCell, value: Any) -> Any:
        """Return whether there is no value; what is there and is none is not absent where texts have a notation."""
        null = self._portable_null(cell, value)
        return null if self.notation is None else self._not_there(cell) | null & value.notnull()

    def _not_there(self, cell: PortableCell) -> Any:
        """Return whether a value is null or a missing text as it is spelled."""
        return cell.absent() | cell.spells(self.missing)

    @property
    def misfit_rule(self) -> str:
        """Values are clipped."""
        return message("clipped to the bounds; unreadable ones treated as null")

    def changes(self, older: Self) -> Iterator[Change]:
        """Compare the bounds, then the bins."""
        if older.bounds != self.bounds:
            before, after = (f"[{low}, {high}]" for low, high in (older.bounds, self.bounds))
            yield Change("bounds", before, after, "account", VALUES_MOVED)
        yield from self._bin_changes(older)

    @abstractmethod
    def _bin_changes(self, older: Self) -> Iterator[Change]:
        """Yield how the bins differ."""
