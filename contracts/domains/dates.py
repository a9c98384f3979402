"""The domain of days in calendar periods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, field_validator, model_validator

from contracts.domains.bins import MAX_CELLS
from contracts.domains.calendar_periods import Granularity, count_periods, period_index, period_label, periods
from contracts.domains.domain_terms import increasing, otherwise_written, target_value, within
from contracts.domains.notation import FORMATS, DayNotation, check_format, check_zone
from contracts.domains.ordered import OrderedDomain, day_literal
from contracts.domains.spellings import number_of
from contracts.domains.statements import (
    CELLS_CHANGED,
    DAY,
    TIME,
    TIME_KINDS,
    Change,
    DecodedKind,
    DomainAdvice,
    ValueKind,
)
from contracts.domains.value_lattices import ValueLattice, offset_sql, portable_offset
from contracts.domains.value_sql import STRICTLY, code_type, day_sql, literal, number_sql
from contracts.message import message
from contracts.reading.scalars import Days, Problem, Text, parse_day, read_day, refuse

if TYPE_CHECKING:
    from contracts.domains.portable_cell import PortableCell

_EPOCH: Final = date(1970, 1, 1)
_COARSER: Final[dict[str | None, tuple[Granularity, ...]]] = {
    "day": ("week", "month", "quarter", "year"),
    "week": (),
    "month": ("quarter", "year"),
    "quarter": ("year",),
    "year": (),
}


def _day_number(day: date) -> Decimal:
    """Return a day as days since 1970-01-01."""
    return Decimal((day - _EPOCH).days)


class DateDomain(OrderedDomain):
    """Days in calendar periods; days outside the bounds are clipped to them."""

    logical_types: ClassVar[tuple[str, ...]] = ("date",)
    tells_days: ClassVar[bool] = True
    read_as: ClassVar[str] = "date"
    sql_type: ClassVar[str] = "DATE"
    stored_kinds: ClassVar[frozenset[str]] = frozenset({DAY, TIME})
    usual_notations: ClassVar[tuple[Mapping[str, str | None], ...]] = tuple(
        {"format": form} for form in (None, *FORMATS)
    )

    kind: Literal["date"]
    bounds: Days
    granularity: Granularity
    format: Annotated[Text, AfterValidator(check_format)] | None = None
    time_zone: Annotated[Text, AfterValidator(check_zone)] | None = None

    @field_validator("bounds")
    @classmethod
    def _ordered_bounds(cls, bounds: tuple[date, date]) -> tuple[date, date]:
        return increasing(bounds, strictly=False)

    @property
    def notation(self) -> DayNotation | None:
        """How texts write the days; None where the contract does not say, and texts begin with YYYY-MM-DD."""
        return None if self.format is None else DayNotation(self.format)

    @property
    def notation_key(self) -> str:
        """The key that says how texts write days."""
        return "format"

    @property
    def reads_spellings(self) -> bool:
        """The day of an instant follows a declared zone, and a declared notation is of texts alone."""
        return True

    @cached_property
    def bins(self) -> tuple[tuple[date, date], ...]:
        """The periods as (first day, last day), cut at the bounds."""
        return periods(*self.bounds, self.granularity)

    @property
    def axis(self) -> tuple[tuple[int, int], ...]:
        """The first and the last day of each period."""
        return tuple(((first - _EPOCH).days, (last - _EPOCH).days) for first, last in self.bins)

    def _declared_labels(self) -> tuple[str, ...]:
        return self.labels_at(self.granularity)

    def _target_code(self, text: str) -> int:
        day = target_value(text, parse_day, self.bounds)
        return period_index(day, self.granularity) - period_index(self.bounds[0], self.granularity)

    @model_validator(mode="after")
    def _complete(self) -> DateDomain:
        count = count_periods(*self.bounds, self.granularity)
        if count > MAX_CELLS - 1:
            refuse(
                [Problem(f"{count} periods", f"at most {MAX_CELLS - 1}", "choose a coarser one", ("granularity",))]
            )
        if self.notation is None:
            return self._finished(within(self.missing, read_day, self.bounds))
        others = otherwise_written(self.missing, self.notation.read, read_day, f"write it as {self.format}")
        return self._finished(within(self.missing, self.notation.read, self.bounds) + others)

    @property
    def resolution(self) -> str:
        """The length of a period."""
        return self.granularity

    def coarser(self, resolution: str | None) -> tuple[str, ...]:
        """Name the longer periods that are made of whole periods of a length."""
        return _COARSER.get(resolution, ())

    def labels_at(self, resolution: str) -> tuple[str, ...]:
        """Name the period of a length that each period is in."""
        return tuple(period_label(first, resolution) for first, _ in self.bins)  # type: ignore[arg-type]

    @property
    def lattice_bounds(self) -> tuple[Decimal, Decimal]:
        """The declared bounds, as days since 1970-01-01."""
        first, last = self.bounds
        return _day_number(first), _day_number(last)

    def offset_sql(self, lattice: ValueLattice, value: str) -> str:
        """Return SQL for an offset; a day is moved to the nearer bound before it becomes a number."""
        first, last = self.bounds
        days = f"(greatest(DATE '{first}', least(DATE '{last}', {value})) - DATE '{_EPOCH}')"
        return offset_sql(lattice, days, self.null_sql(value), self._mapped, code_type(lattice.width + 2))

    def portable_beside(self, lattice: ValueLattice, cell: PortableCell) -> Any:
        """Return the same offset of a stored day as an expression."""
        value = self._portable_value(cell)
        days = self._portable_clipped(value).epoch_days().cast("float64")
        return portable_offset(lattice, days, self._portable_nothing(cell, value), self._mapped)

    @property
    def _mapped(self) -> Decimal | None:
        """The day to which missing ones are mapped, if they are."""
        return None if self.nulls.to is None else _day_number(target_value(self.nulls.to, parse_day, self.bounds))

    def value_sql(self, raw: str) -> str:
        """Return SQL for a day."""
        return day_sql(raw, self.notation, self.time_zone)

    def token_sql(self, token: str) -> str:
        """Return SQL for the day that a missing text is."""
        day = None if self.notation is None else self.notation.read(token)
        return f"TRY_CAST({literal(token if self.notation is None else str(day))} AS DATE)"

    def _bin_code(self, value: str) -> str:
        """Calendar arithmetic from the first period."""
        (first, last), kind = self.bounds, self.code_type
        clipped = f"greatest(DATE '{first}', least(DATE '{last}', {value}))"
        if self.granularity == "day":
            return f"CAST({clipped} - DATE '{first}' AS {kind})"
        if self.granularity == "week":
            return f"CAST(({clipped} - DATE '{first}' + {first.weekday()}) // 7 AS {kind})"
        return f"CAST(date_diff('{self.granularity}', DATE '{first}', {clipped}) AS {kind})"

    @property
    def _compact(self) -> bool:
        return self.notation is not None and self.notation.compact

    def _absent_sql(self, raw: str, value: str) -> list[str]:
        reasons = super()._absent_sql(raw, value)
        if self._compact and self.missing:  # stored as a number, 0 may be spelled 0.0
            numbers = ", ".join(f"TRY_CAST({literal(token)} AS DOUBLE)" for token in self.missing)
            reasons.append(f"COALESCE({number_sql(raw, STRICTLY)} IN ({numbers}), FALSE)")
        return reasons

    def _typed_kinds(self) -> tuple[ValueKind, ...]:
        """The day of an instant in a declared zone is not the engine's affair."""
        return TIME_KINDS if self.time_zone is None else ("day",)

    def _portable_value(self, cell: PortableCell) -> Any:
        return cell.day(self.notation)

    def _portable_null(self, cell: PortableCell, value: Any) -> Any:
        reasons = value.isnull()
        for token in cell.values_of(self.missing, "DATE", self.notation):
            reasons |= (value == day_literal(token)).fill_null(False)
        return reasons

    def _portable_absent(self, cell: PortableCell, value: Any) -> Any:
        numbers = [number for number in map(number_of, self.missing) if number is not None] if self._compact else []
        there = cell.absent() | cell.spells(self.missing, numbers)
        return there | self._portable_null(cell, value) & value.notnull()

    def _portable_bin(self, value: Any) -> Any:
        """The period of a day, counted from the first one; days outside are clipped."""
        first, clipped = self.bounds[0], self._portable_clipped(value)
        if self.granularity in ("day", "week"):
            days = clipped.epoch_days() - (first - _EPOCH).days
            return days if self.granularity == "day" else (days + first.weekday()) // 7
        if self.granularity == "year":
            return clipped.year() - first.year
        months = clipped.year() * 12 + clipped.month() - 1
        if self.granularity == "month":
            return months - (first.year * 12 + first.month - 1)
        return months // 3 - (first.year * 12 + first.month - 1) // 3

    def _portable_clipped(self, value: Any) -> Any:
        """Return a day, or the nearer bound of one that lies outside."""
        import ibis

        low, high = map(day_literal, self.bounds)
        return ibis.cases((value < low, low), (value > high, high), else_=value)

    def decoded_kind(self, logical_type: str, scale: int) -> DecodedKind:
        """Days."""
        return "date"

    @property
    def extent(self) -> str:
        """The bounds, and the length of a period."""
        first, last = self.bounds
        return message("{first} to {last} by {period}", first=first, last=last, period=message(self.granularity))

    def _bin_changes(self, older: Self) -> Iterator[Change]:
        if older.granularity != self.granularity:
            yield Change("granularity", older.granularity, self.granularity, "account", CELLS_CHANGED)

    def advice(self, written: Mapping[str, object]) -> Iterator[DomainAdvice]:
        """Say that the first or the last period is not whole."""
        first, last = self.bounds
        before = None if first == date.min else first - timedelta(days=1)
        after = None if last == date.max else last + timedelta(days=1)
        cut = [
            named
            for named, inside, outside in (("first", first, before), ("last", last, after))
            if outside is not None
            and period_index(inside, self.granularity) == period_index(outside, self.granularity)
        ]
        if cut:
            yield DomainAdvice(
                "cut-bin",
                "bounds",
                f"a {' and a '.join(cut)} {self.granularity} that the bounds cut",
                "days outside the bounds are counted at the nearest one, so that these periods hold more than their "
                "days",
                f"let the bounds begin and end with a {self.granularity}",
            )
