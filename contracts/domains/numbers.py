"""Domains of numbers in bins: whole numbers, and decimal ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise, product
from math import isinf, isnan
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from pydantic import ValidationInfo, field_validator, model_validator

from contracts.domains.bins import DECIMALS, INTEGERS, ExactNumber, bin_index
from contracts.domains.domain_terms import increasing, otherwise_written, target_value, within
from contracts.domains.notation import GROUPING_MARKS, NumberNotation, number_notation
from contracts.domains.ordered import OrderedDomain
from contracts.domains.statements import CELLS_CHANGED, Change, DecodedKind, DomainAdvice
from contracts.domains.value_lattices import ValueLattice, offset_sql, portable_offset
from contracts.domains.value_sql import (
    FEW_BRANCHES,
    LONGEST_LOOKUP,
    MOST_BRANCHES,
    branches,
    code_type,
    corrected_bin,
    double,
    literal,
    written_number_sql,
)
from contracts.message import message
from contracts.reading.scalars import BoundPair, Problem, Text, Wholes, parse_bound, parse_whole, read_number

if TYPE_CHECKING:
    from contracts.domains.portable_cell import PortableCell

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
