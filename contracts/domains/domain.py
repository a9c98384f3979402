"""The base of every kind of domain: what a column declares, and what the pipeline asks of it.

A kind of domain is one subclass with a `kind`, registered in `contracts.domains.kinds` or by a package. What it has
to say stands in one place: its cells, how DuckDB and other engines code it, its checks, how values are published, how
two versions of it differ, and what is advised. Code above asks these methods and no class. Where a question has a
usual answer, that of named categories, this base gives it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from contracts.domains.bins import ExactNumber
from contracts.domains.notation import DayNotation, NumberNotation
from contracts.domains.statements import Change, CheckKind, DecodedKind, DomainAdvice, Parameter, ValueKind
from contracts.domains.value_sql import code_type
from contracts.message import message
from contracts.reading.scalars import Problem, Text, as_tuple, refuse

if TYPE_CHECKING:
    from contracts.domains.portable_cell import PortableCell


# --- What every domain declares.


NULL_LABEL = "(null)"
NOTATION_KEYS: Final = ("decimal", "grouping", "format", "time_zone")
"""Keys that say how the texts and instants of a column are read; a domain has those that fit its values."""
ValueT = TypeVar("ValueT", int, Decimal, date)


class Frozen(BaseModel):
    """A value that does not change and knows all its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Provenance(Frozen):
    """Where a domain comes from: declared by the data owner, or public with a reference that anybody can look up."""

    kind: Literal["declared", "public"]
    reference: Text | None = None

    @model_validator(mode="after")
    def _public_means_checkable(self) -> Provenance:
        if self.kind == "public" and not (self.reference or "").strip():
            refuse([Problem("public without a reference", "a reference", "say where the domain is published")])
        return self


class NullPolicy(Frozen):
    """What a missing value becomes: a cell of its own, labelled "(null)", or a declared value (`to`, as text)."""

    policy: Literal["category", "map"]
    to: Text | None = None

    @model_validator(mode="after")
    def _map_has_a_target(self) -> NullPolicy:
        if self.policy == "map" and self.to is None:
            refuse([Problem("policy: map without `to`", "the value that nulls become", "add `to:`")])
        if self.policy == "category" and self.to is not None:
            refuse([Problem("`to` beside policy: category", "`to` with policy: map only", "drop one of them")])
        return self


def exactness_problems(largest: int | None) -> list[Problem]:
    """Name a `numbers_up_to` that no id is below."""
    if largest is None or largest >= 1:  # a `Whole` is at most 10^15, and from 2^53 on doubles are not exact
        return []
    return [Problem(str(largest), "a whole number from 1", "write the largest id there can be", ("numbers_up_to",))]


def increasing(bounds: tuple[ValueT, ValueT], *, strictly: bool) -> tuple[ValueT, ValueT]:
    """Refuse bounds in the wrong order, and equal ones where a bin between them would be empty."""
    low, high = bounds
    if high < low or (strictly and low == high):
        refuse([Problem(f"[{low}, {high}]", "a lower bound below the upper bound", "swap or widen them")])
    return bounds


def target_value(text: str, parse: Callable[[object], ValueT], bounds: tuple[ValueT, ValueT]) -> ValueT:
    """Read the value that nulls are mapped to and refuse one outside the bounds."""
    at = ("nulls", "to")
    allowed = f"a value between {bounds[0]} and {bounds[1]}"
    try:
        value = parse(text)
    except PydanticCustomError:
        refuse([Problem(f"nulls mapped to {text!r}", allowed, at=at)])
    if not bounds[0] <= value <= bounds[1]:
        refuse([Problem(f"nulls mapped to {text}", allowed, "choose one inside the bounds", at)])
    return value


def clashes(tokens: tuple[str, ...], values: set[str]) -> list[Problem]:
    """Name the texts that are declared both as missing and as a value."""
    allowed = "a text that means either null or a value"
    remedy = "take it out of `missing` or out of the values; where `missing` is a default, write missing: [] here"
    return [
        Problem(f"{token!r} is also a value", allowed, remedy, ("missing",)) for token in tokens if token in values
    ]


def within(
    tokens: tuple[str, ...], read: Callable[[str], ValueT | None], bounds: tuple[ValueT, ValueT]
) -> list[Problem]:
    """Name the missing texts that can be read as a value inside the bounds: such a value would be null as well."""
    allowed = f"a text that is no value between {bounds[0]} and {bounds[1]}"
    values = [(token, read(token)) for token in tokens]
    inside = [token for token, value in values if value is not None and bounds[0] <= value <= bounds[1]]
    return [
        Problem(f"{token!r} lies inside the bounds", allowed, "narrow the bounds", ("missing",)) for token in inside
    ]


def otherwise_written(
    tokens: tuple[str, ...], read: Callable[[str], object], usual: Callable[[str], object], remedy: str
) -> list[Problem]:
    """Name the missing texts that are values in the usual notation and none in the column's own: never met."""
    allowed = "missing texts as the column writes its values"
    others = [token for token in tokens if read(token) is None and usual(token) is not None]
    return [Problem(f"{token!r}, a value in another notation", allowed, remedy, ("missing",)) for token in others]


DomainCheck = tuple[str, CheckKind, Mapping[str, Parameter]]
"""A check of a column: the beginning of its name, its kind, its parameters."""


class DeclaredDomain(Frozen):
    """What every domain declares and answers."""

    if TYPE_CHECKING:
        kind: str

    logical_types: ClassVar[tuple[str, ...]] = ()
    """The logical types of columns that may have such a domain."""
    ordered: ClassVar[bool] = False
    """Whether neighbouring cells are neighbouring values: bins of numbers, periods of days."""
    half_open: ClassVar[bool] = False
    """Whether a bin ends just before the next one; the last bin has its end."""
    tells_days: ClassVar[bool] = False
    """Whether a value is of a day, so that the column can say which period a row is of."""
    cells_key: ClassVar[str] = "kind"
    """The key that says how many cells there are."""
    stored_kinds: ClassVar[frozenset[str]] = frozenset()
    """Types of days, moments and lists in which values can be stored, whatever the values are."""
    usual_notations: ClassVar[tuple[Mapping[str, str | None], ...]] = ()
    """The keys and values of notations in which texts are often written."""

    nulls: NullPolicy = Field(
        description="`nulls: {policy: category}` to count missing values in a cell of their own, "
        "`nulls: {policy: map, to: VALUE}` to count them as a value"
    )
    missing: Annotated[tuple[Text, ...], BeforeValidator(as_tuple)] = ()
    provenance: Provenance = Field(
        description="`provenance: {kind: declared}` if somebody decided this domain without looking at the rows, "
        '`provenance: {kind: public, reference: "..."}` if it is published'
    )

    @field_validator("missing")
    @classmethod
    def _without_spaces(cls, tokens: tuple[str, ...]) -> tuple[str, ...]:
        """Drop the spaces around the texts, sort them, keep each once: their order means nothing."""
        return tuple(sorted({token.strip(" ") for token in tokens}))

    def _finished(self, problems: list[Problem]) -> Self:
        """Refuse the problems, or else a null target outside the domain."""
        if problems:
            refuse(problems)
        _ = self.null_code
        return self

    # Cells: codes run from 0; `labels[code]` names the cell.

    @abstractmethod
    def _declared_labels(self) -> tuple[str, ...]:
        """Labels without "(null)"."""

    @abstractmethod
    def _target_code(self, text: str) -> int:
        """Code of the value that nulls are mapped to; refuses a value outside the domain."""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Cell labels in the order of the codes: values or bins, then other, then "(null)"."""
        return self._declared_labels() + ((NULL_LABEL,) if self.nulls.policy == "category" else ())

    @cached_property
    def null_code(self) -> int:
        """The code that a missing value gets."""
        if self.nulls.to is None:
            return len(self.labels) - 1
        return self._target_code(self.nulls.to)

    @property
    def misfit_code(self) -> int:
        """The code of a value that is neither null nor in the domain and cannot be clipped."""
        return self.null_code

    @property
    def code_type(self) -> str:
        """DuckDB's type of the codes."""
        return code_type(len(self.labels))

    @property
    def shape(self) -> tuple[int, ...]:
        """How many places a value has in each direction: () for a single value, (height, width) for a picture."""
        return ()

    @property
    def rest_label(self) -> str | None:
        """The label of whatever else comes (`other`); None where it is treated as null."""
        return None

    @property
    def listed_texts(self) -> Mapping[str, tuple[str, ...]]:
        """Texts that the contract expects in the data, by the key that lists them; none of bins and periods."""
        return {}

    @property
    def category_labels(self) -> tuple[str, ...]:
        """The labels of declared categories, without `other` and "(null)"; none of bins and periods."""
        return ()

    @property
    def coded_texts(self) -> tuple[tuple[str, ...], ...]:
        """Of each cell the codes in the data to which the contract gives its label; () where it gives no labels."""
        return ()

    @property
    def category_texts(self) -> tuple[str, ...]:
        """Texts that are read as a declared category; none of bins and periods."""
        return ()

    # Axis: of ordered cells alone.

    @property
    def axis(self) -> tuple[tuple[ExactNumber, ExactNumber], ...]:
        """The ends of the bins as numbers, both included unless `half_open`; of days the days since 1970-01-01."""
        raise ValueError(f"a domain of kind {self.kind} has no order")

    @property
    def extremes(self) -> tuple[Any, Any]:
        """The least and the largest value as declared, comparable with those of the same kind."""
        raise ValueError(f"a domain of kind {self.kind} has no order")

    @property
    def decimals(self) -> int:
        """The number of decimals of bounds and edges; 0 where values are whole."""
        return 0

    def block_label(self, first: int, last: int) -> str | None:
        """Name the bins from one to another as one block; None where they are not joined so."""
        return None

    @property
    def resolution(self) -> str | None:
        """The resolution of the cells, where there are coarser ones of known names."""
        return None

    def coarser(self, resolution: str | None) -> tuple[str, ...]:
        """Name the resolutions that are coarser than another one."""
        return ()

    def labels_at(self, resolution: str) -> tuple[str, ...]:
        """Name the coarser cell of each cell but that of nulls."""
        raise ValueError(f"a domain of kind {self.kind} has no resolutions")

    # Reading: how values are written, and what DuckDB makes of them.

    @property
    def notation(self) -> NumberNotation | DayNotation | None:
        """How texts write the values; None where the contract does not say."""
        return None

    @property
    def notation_key(self) -> str | None:
        """The key that would say how texts write the values; None where no notation is needed."""
        return None

    @property
    def reads_spellings(self) -> bool:
        """Whether values have to be read file by file, since a common type would lose how they are written."""
        return False

    @abstractmethod
    def value_sql(self, raw: str) -> str:
        """Return SQL for a value as it is read, NULL where it cannot be; `raw` is SQL for it as delivered."""

    @property
    def value_bounds(self) -> tuple[Decimal, Decimal] | None:
        """The bounds within which values can be added up; None where they are no numbers."""
        return None

    @property
    def lattice_bounds(self) -> tuple[Decimal, Decimal] | None:
        """The bounds of the lattice that values are counted on; None where they lie on none.

        Of numbers they are the bounds. Values that are counted so need not be numbers that can be added up.
        """
        return self.value_bounds

    def offset_sql(self, lattice: Any, value: str) -> str:
        """Return SQL for an offset, or a key, as a snapshot has it; `value` is SQL for what `value_sql` read."""
        raise ValueError(f"values of a domain of kind {self.kind} are not added up")

    @abstractmethod
    def code_sql(self, value: str, raw: str) -> str:
        """Return SQL for the code, of the type `code_type`; `value` is SQL for what `value_sql` read."""

    def null_sql(self, value: str) -> str:
        """Return SQL that is true where a value, as read, counts as null."""
        return f"({value} IS NULL)"

    @abstractmethod
    def checks(self) -> tuple[DomainCheck, ...]:
        """List what the values should satisfy, besides being there."""

    @abstractmethod
    def violation_sql(self, check: CheckKind, raw: str) -> str:
        """Return SQL that is true where a value breaks a check, and never NULL."""

    def stray_sql(self, value: str, raw: str) -> str:
        """Return SQL that is false only where the code of a value tells which checks it breaks; TRUE will always do.

        That is so where it breaks none, and where nothing but `not_null` is broken and the code is that of nulls
        alone. All other values are kept as they were delivered. Whoever replaces `violation_sql` replaces this too.
        """
        return "TRUE"

    # Other engines; `contracts.domains.portable_cell` has the vocabulary. A kind may leave them out.

    @property
    def value_kinds(self) -> tuple[ValueKind, ...]:
        """The kinds of columns from which every engine makes the same codes; none where only DuckDB counts."""
        return ()

    @property
    def nested_bins(self) -> int:
        """How many bins are found by nested comparisons; expressions hold so many and no more."""
        return 0

    def portable_code(self, cell: PortableCell) -> Any:
        """Return the code of a stored value as an expression, never null."""
        raise ValueError(f"a domain of kind {self.kind} is coded by DuckDB alone")

    def portable_violation(self, check: CheckKind, cell: PortableCell) -> Any:
        """Return an expression that is true where a stored value breaks a check, never null."""
        raise ValueError(f"a domain of kind {self.kind} is checked by DuckDB alone")

    def portable_beside(self, lattice: Any, cell: PortableCell) -> Any:
        """Return what a stage has of a stored value beside its code, as `offset_sql` has it, as an expression."""
        raise ValueError(f"values of a domain of kind {self.kind} are encoded by DuckDB alone")

    # Publishing: named cells are published as their labels.

    def decoded_kind(self, logical_type: str, scale: int) -> DecodedKind:
        """Say as what values are published; labels keep their logical type where all are values of it."""
        kinds: dict[str, DecodedKind] = {"integer": "integer", "date": "date", "boolean": "boolean"}
        kind = kinds.get(logical_type)
        texts = [label for label in self.labels if label != NULL_LABEL]
        return kind if kind is not None and all(_is_usual(text, kind) for text in texts) else "label"

    # Words.

    @property
    @abstractmethod
    def extent(self) -> str:
        """Say in a phrase which values there are."""

    @property
    def misfit_rule(self) -> str:
        """Say in a phrase what becomes of a value outside the domain."""
        if self.rest_label is None:
            return message("treated as null")
        return message("counted as {value}", value=self.rest_label)

    @abstractmethod
    def changes(self, older: Self) -> Iterator[Change]:
        """Yield how the cells, and the values behind them, differ from an older domain of the same kind."""

    def advice(self, written: Mapping[str, object]) -> Iterator[DomainAdvice]:
        """Yield what may not be meant; `written` is the domain as it stands in its file."""
        return iter(())


def _is_usual(value: str, kind: DecodedKind) -> bool:
    """Say whether a label is a value of a type, in its one written form."""
    if kind == "boolean":
        return value.lower() in ("true", "false")
    try:
        return str(int(value) if kind == "integer" else date.fromisoformat(value)) == value and len(value) <= 16
    except ValueError:
        return False
