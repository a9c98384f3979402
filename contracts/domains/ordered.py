"""Ordered domains: values between bounds, in bins whose order is that of the values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import pairwise, product
from math import isinf, isnan
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, ValidationInfo, field_validator, model_validator

from contracts.domains.bins import DECIMALS, INTEGERS, MAX_CELLS, ExactNumber, bin_index
from contracts.domains.calendar_periods import Granularity, count_periods, period_index, period_label, periods
from contracts.domains.domain import DeclaredDomain, DomainCheck, increasing, otherwise_written, target_value, within
from contracts.domains.lattice import ValueLattice, offset_sql, portable_offset
from contracts.domains.notation import (
    FORMATS,
    GROUPING_MARKS,
    DayNotation,
    NumberNotation,
    check_format,
    check_zone,
    number_notation,
    number_of,
)
from contracts.domains.statements import (
    CELLS_CHANGED,
    DAY,
    NUMBER_KINDS,
    TIME,
    TIME_KINDS,
    VALUES_MOVED,
    Change,
    CheckKind,
    DecodedKind,
    DomainAdvice,
    ValueKind,
)
from contracts.domains.value_sql import (
    FEW_BRANCHES,
    LONGEST_LOOKUP,
    MOST_BRANCHES,
    STRICTLY,
    absent_sql,
    branches,
    code_type,
    corrected_bin,
    day_sql,
    double,
    literal,
    number_sql,
    written_number_sql,
)
from contracts.message import message
from contracts.reading.scalars import (
    BoundPair,
    Days,
    Problem,
    Text,
    Wholes,
    parse_bound,
    parse_day,
    parse_whole,
    read_day,
    read_number,
    refuse,
)

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


# --- Domains of numbers in bins.


EXACT: Final = 2**53
"""Up to here a double is every whole number."""
_LARGEST: Final = 1.7976931348623157e308
_FEW_BINS: Final = 6


class NumberDomain(OrderedDomain):
    """A domain of numbers; texts may write them in a declared notation (`contracts.domains.notation`)."""

    cells_key: ClassVar[str] = "bins"
    sql_type: ClassVar[str] = "DOUBLE"
    step: ClassVar[int]
    """What lies between the end of a bin and the beginning of the next one."""
    if TYPE_CHECKING:
        bins: tuple[tuple[Any, Any], ...]

    usual_notations: ClassVar[tuple[Mapping[str, str | None], ...]] = tuple(
        {"decimal": decimal, "grouping": grouping}
        for grouping, decimal in product((None, *GROUPING_MARKS), (None, ","))
        if grouping != (decimal or ".")
    )

    decimal: Text | None = None
    grouping: Text | None = None

    @model_validator(mode="after")
    def _one_notation(self) -> NumberDomain:
        number_notation(self.decimal, self.grouping)
        return self

    @property
    def notation(self) -> NumberNotation | None:
        """How texts write the numbers; None where the contract does not say, and any usual spelling is read."""
        return number_notation(self.decimal, self.grouping)

    @property
    def notation_key(self) -> str:
        """The key that says how texts write numbers."""
        return "decimal"

    @property
    def reads_spellings(self) -> bool:
        """A declared notation is of texts alone."""
        return self.notation is not None

    def _missing_problems(self, bounds: tuple[Decimal, Decimal]) -> list[Problem]:
        """Name missing texts that are numbers inside the bounds, or numbers in another notation than the column's."""
        notation = self.notation
        if notation is None:
            return within(self.missing, read_number, bounds)

        def read(text: str) -> Decimal | None:
            number = notation.read(text)
            return None if number is None else Decimal(number)

        remedy = f"write it with the decimal mark {notation.decimal!r}"
        return within(self.missing, read, bounds) + otherwise_written(self.missing, read, read_number, remedy)

    @property
    def axis(self) -> tuple[tuple[ExactNumber, ExactNumber], ...]:
        """The bins."""
        return self.bins

    @abstractmethod
    def block_label(self, first: int, last: int) -> str:
        """Name the bins from one to another as one block."""

    def _declared_labels(self) -> tuple[str, ...]:
        return tuple(self.block_label(place, place) for place in range(len(self.bins)))

    def value_sql(self, raw: str) -> str:
        """Return SQL for a number as a double."""
        return written_number_sql(raw, self.notation)

    @property
    def value_bounds(self) -> tuple[Decimal, Decimal]:
        """The declared bounds."""
        low, high = self.bounds
        return Decimal(low), Decimal(high)

    def offset_sql(self, lattice: ValueLattice, value: str) -> str:
        """Return SQL for an offset; what has the code of missing values is missing, or what they are mapped to."""
        return offset_sql(lattice, value, self.null_sql(value), self._mapped, code_type(lattice.width + 2))

    def portable_beside(self, lattice: ValueLattice, cell: PortableCell) -> Any:
        """Return the same offset of a stored value as an expression."""
        value = self._portable_value(cell)
        return portable_offset(lattice, value, self._portable_nothing(cell, value), self._mapped)

    @property
    def _mapped(self) -> Decimal | None:
        """The value to which missing ones are mapped, if they are."""
        return None if self.nulls.to is None else Decimal(self.nulls.to)

    def token_sql(self, token: str) -> str:
        """Return SQL for the number that a missing text is."""
        number = None if self.notation is None else self.notation.read(token)
        return f"TRY_CAST({literal(token if self.notation is None else repr(number))} AS DOUBLE)"

    def _odd_tokens_sql(self, raw: str) -> list[str]:
        """Of a text the reading decides: one that is declared missing reads as the missing number, or as none."""
        return [f"typeof({raw}) <> 'VARCHAR' AND {each}" for each in self._tokens_sql(raw)]

    def _nans_sql(self, value: str) -> list[str]:
        return [f"isnan({value})"]

    def _bin_code(self, value: str) -> str:
        """Few bins by nested CASEs; whole numbers by arithmetic where it is exact and less work, or by a list."""
        kind = self.code_type
        low, high = float(self.bounds[0]), float(self.bounds[1])
        starts = [float(first) for first, _ in self.bins]
        clipped = f"greatest({double(low)}, least({double(high)}, {value}))"
        even = self._even_bins() if len(starts) > (FEW_BRANCHES if self.step else MOST_BRANCHES) else None
        if even is not None:
            guess = f"floor(({clipped} - {double(float(even[0]))}) / {double(float(even[1]))})"
            if self.step:
                return f"CAST({guess} AS {kind})"
            return corrected_bin(starts, f"CAST(least({len(starts) - 1}, {guess}) AS INTEGER)", clipped, kind)
        if len(starts) > MOST_BRANCHES and self.step and high - low < LONGEST_LOOKUP:
            codes = ", ".join(str(code) for code, (a, b) in enumerate(self.bins) for _ in range(a, b + 1))
            return f"([{codes}]::{kind}[])[CAST({clipped} - {double(low)} AS INTEGER) + 1]"
        return branches(starts, 0, len(starts), value, kind)

    def _even_bins(self) -> tuple[Any, Any] | None:
        """Return where bins begin, and their width, if all but a shorter first and last one are equally wide.

        Bounds are within 1e15, so sums and quotients of doubles tell their whole numbers apart.
        """
        starts = [first for first, _ in self.bins]
        width, end = starts[2] - starts[1], self.bins[-1][1] + self.step
        even = all(b - a == width for a, b in pairwise(starts[1:]))
        even = even and starts[1] - starts[0] <= width and end - starts[-1] <= width
        return (starts[1] - width, width) if even else None

    @property
    def nested_bins(self) -> int:
        """All bins."""
        return len(self.bins)

    def _portable_value(self, cell: PortableCell) -> Any:
        return cell.number(self.notation)

    def _portable_null(self, cell: PortableCell, value: Any) -> Any:
        """Return whether a number is null, NaN or one of the missing ones."""
        reasons = value.isnull()
        if cell.kind in ("real", "text"):
            reasons |= value.isnan().fill_null(False)
        for token in cell.values_of(self.missing, "DOUBLE", self.notation):
            if isinf(token):
                reasons |= ((value > _LARGEST) if token > 0 else (value < -_LARGEST)).fill_null(False)
            elif not isnan(token):
                reasons |= (value == token).fill_null(False)
        return reasons

    def _portable_nothing(self, cell: PortableCell, value: Any) -> Any:
        null, parts = self._portable_null(cell, value), self._portable_part(cell, value)
        return null if parts is None else null | parts

    def _portable_misfit(self, cell: PortableCell, value: Any) -> Any:
        null, parts = value.isnull(), self._portable_part(cell, value)
        return null if parts is None else null | parts

    def _portable_part(self, cell: PortableCell, value: Any) -> Any:
        """Return whether a number has decimals where whole ones are declared; None where it cannot."""
        return None

    def _portable_bin(self, value: Any) -> Any:
        starts = [float(first) for first, _ in self.bins]
        return _halved(starts, 0, len(starts), value)

    @property
    def extent(self) -> str:
        """The bounds, and the number of bins."""
        low, high = self.bounds
        return message("{low} to {high} in {bins} bins", low=low, high=high, bins=len(self.bins))

    def _bin_changes(self, older: Self) -> Iterator[Change]:
        if older.bins != self.bins:
            before, after = (f"{len(bins)} bins" for bins in (older.bins, self.bins))
            shown = f"{after}, others" if before == after else after
            yield Change("bins", before, shown, "account", CELLS_CHANGED)

    def advice(self, written: Mapping[str, object]) -> Iterator[DomainAdvice]:
        """Name a last bin that is cut, and a bin that holds more than half the range among few."""
        if len(self.bins) < 2:
            return
        step, bounds, (low, high), last = self.step, self.bounds, self.bins[0], self.bins[-1]
        if "width" in str(written.get("bins")) and last[1] - last[0] != high - low:
            yield DomainAdvice(
                "cut-bin",
                "bins",
                f"a last bin of width {last[1] - last[0] + step} among bins of width {high - low + step}",
                "the width does not divide the bounds; readers will take the smaller count of the last bin for "
                "a finding",
                "choose a width that divides the bounds, or write the edges out",
            )
        wide = [(low, high) for low, high in self.bins if 2 * (high - low + step) > bounds[1] - bounds[0] + step]
        if wide and len(self.bins) <= _FEW_BINS:  # many bins beside a wide one are a tail that somebody meant
            [(low, high)] = wide
            yield DomainAdvice(
                "wide-bin",
                "bins",
                f"a bin from {low} to {high} among bounds from {bounds[0]} to {bounds[1]}",
                "it holds more than half the range: most people may fall into it, and readers cannot tell where",
                "divide it, or narrow the bounds to what a public document says",
            )


def _halved(starts: list[float], first: int, end: int, number: Any) -> Any:
    """Return the bin of a number by halving; below the first and above the last it is clipped to them."""
    import ibis

    if end - first == 1:
        return ibis.literal(first, "int32")
    middle = (first + end) // 2
    below, above = _halved(starts, first, middle, number), _halved(starts, middle, end, number)
    return ibis.cases((number < starts[middle], below), else_=above)


class IntegerDomain(NumberDomain):
    """Whole numbers in bins, both ends of a bin included; numbers outside the bounds are clipped to them."""

    logical_types: ClassVar[tuple[str, ...]] = ("integer",)
    read_as: ClassVar[str] = "integer"
    step: ClassVar[int] = 1

    kind: Literal["integer"]
    bounds: Wholes
    bins: tuple[tuple[int, int], ...]

    @field_validator("bounds")
    @classmethod
    def _ordered_bounds(cls, bounds: tuple[int, int]) -> tuple[int, int]:
        return increasing(bounds, strictly=False)

    @field_validator("bins", mode="before")
    @classmethod
    def _read_bins(cls, written: Any, info: ValidationInfo) -> Any:
        return INTEGERS.read(written, info.data.get("bounds"))

    def block_label(self, first: int, last: int) -> str:
        """Name both ends of a block, or its one number."""
        low, high = self.bins[first][0], self.bins[last][1]
        return str(low) if low == high else f"{low} to {high}"

    def _target_code(self, text: str) -> int:
        return bin_index(self.bins, target_value(text, parse_whole, self.bounds))

    @model_validator(mode="after")
    def _complete(self) -> IntegerDomain:
        return self._finished(self._missing_problems((Decimal(self.bounds[0]), Decimal(self.bounds[1]))))

    def _misfits_sql(self, value: str) -> list[str]:
        return [f"{value} <> floor({value})"]

    def _portable_part(self, cell: PortableCell, value: Any) -> Any:
        import ibis

        if cell.kind in ("whole", "flag"):
            return None
        small = ((value < float(EXACT)) & (value > -float(EXACT))).fill_null(False)
        whole = ibis.cases((small, value), else_=0.0).floor().cast("float64")
        return small & (value != whole).fill_null(False)

    def decoded_kind(self, logical_type: str, scale: int) -> DecodedKind:
        """Whole numbers."""
        return "integer"


class DecimalDomain(NumberDomain):
    """Decimal numbers in half-open bins, the last one closed; numbers outside the bounds are clipped to them."""

    logical_types: ClassVar[tuple[str, ...]] = ("integer", "number")
    half_open: ClassVar[bool] = True
    read_as: ClassVar[str] = "number"
    step: ClassVar[int] = 0

    kind: Literal["decimal"]
    bounds: BoundPair
    bins: tuple[tuple[Decimal, Decimal], ...]

    @field_validator("bounds")
    @classmethod
    def _ordered_bounds(cls, bounds: tuple[Decimal, Decimal]) -> tuple[Decimal, Decimal]:
        return increasing(bounds, strictly=True)

    @field_validator("bins", mode="before")
    @classmethod
    def _read_bins(cls, written: Any, info: ValidationInfo) -> Any:
        return DECIMALS.read(written, info.data.get("bounds"))

    def block_label(self, first: int, last: int) -> str:
        """Name the interval of a block; the last one has its end."""
        end = "]" if last == len(self.bins) - 1 else ")"
        return f"[{self.bins[first][0]}, {self.bins[last][1]}{end}"

    def _target_code(self, text: str) -> int:
        return bin_index(self.bins, target_value(text, parse_bound, self.bounds))

    @model_validator(mode="after")
    def _complete(self) -> DecimalDomain:
        return self._finished(self._missing_problems(self.bounds))

    @property
    def decimals(self) -> int:
        """The largest number of decimals of an edge."""
        return max(0, *(-int(end.as_tuple().exponent) for pair in self.bins for end in pair))

    def decoded_kind(self, logical_type: str, scale: int) -> DecodedKind:
        """Numbers; whole ones where the column and all its edges are whole."""
        return "integer" if logical_type == "integer" and scale == 0 else "number"


# --- The domain of days in calendar periods.


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
