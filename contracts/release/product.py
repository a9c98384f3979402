"""What every kind of product has in a spec: its part under `product:`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from contracts.contract.contract import Contract
from contracts.domains.domain import Frozen
from contracts.domains.lattice import ValueLattice
from contracts.domains.text import KeyColumn
from contracts.reading.scalars import (
    FINEST_DECIMALS,
    FieldPath,
    Label,
    Problem,
    as_tuple,
    nearest,
    parse_decimal,
    plain_decimal,
    refuse,
    show,
)

# --- λ as written.


REFERENCE: Final = "{reference: RELEASE/VERSION}, such as {reference: adult-income/3}"
AUTO: Final = "auto"
LAMBDAS: Final = f"a number from 0 to below 1, or auto, or {REFERENCE}"
_LET_IT_CHOOSE: Final = "auto chooses it from the noisy values, at no cost"
_NAMED: Final = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)/([1-9][0-9]{0,8})")
_FOLDER: Final = re.compile(r"(?:.*/)?([a-z0-9]+(?:-[a-z0-9]+)*)/v([1-9][0-9]{0,8})/?")


class LambdaReference(Frozen):
    """One version of a release in the same store, by name and number."""

    reference: Label

    @model_validator(mode="before")
    @classmethod
    def _a_mapping(cls, written: Any) -> Any:
        if not isinstance(written, dict) or list(written) != ["reference"]:
            refuse([Problem(show(written), REFERENCE)])
        return written

    @field_validator("reference")
    @classmethod
    def _one_version(cls, reference: str) -> str:
        if _NAMED.fullmatch(reference):
            return reference
        folder = _FOLDER.fullmatch(reference)
        remedy = f"write {folder[1]}/{folder[2]}" if folder else "name the release and the number of its version"
        if reference.rpartition("/")[2] == "latest":
            remedy = "write its number: `latest` is another version tomorrow, and the release could not be repeated"
        refuse([Problem(show(reference), "RELEASE/VERSION, such as adult-income/3", remedy, ("reference",))])

    @property
    def release(self) -> str:
        """The release."""
        return self.reference.rpartition("/")[0]

    @property
    def version(self) -> int:
        """The number of its version."""
        return int(self.reference.rpartition("/")[2])


def _parse_lambda(written: object) -> Decimal | str | LambdaReference:
    """Read λ: `auto`, a number from 0 to below 1, or an earlier version."""
    if written == AUTO:
        return AUTO
    if isinstance(written, dict | LambdaReference):
        return _parse_reference(written)
    try:
        lambda_ = parse_decimal(written)
    except PydanticCustomError:
        remedy = nearest(str(written), [AUTO]) or _LET_IT_CHOOSE
        refuse([Problem(show(written), LAMBDAS, remedy)])
    if not 0 <= lambda_ < 1:
        refuse([Problem(str(lambda_), LAMBDAS, _LET_IT_CHOOSE)])
    if lambda_ and lambda_.adjusted() < -FINEST_DECIMALS:
        refuse([Problem(str(lambda_), "zero, or a number from 1e-15")])
    return plain_decimal(lambda_)


def _parse_reference(written: dict[str, Any] | LambdaReference) -> LambdaReference:
    """Read an earlier version; its problems are reported like those of any λ."""
    try:
        return LambdaReference.model_validate(written)
    except ValidationError as error:
        refuse([problem for item in error.errors() for problem in item.get("ctx", {}).get("problems", ())])


_NUMBER_OR_VERSION: Final = {
    "anyOf": [
        {"type": ["number", "string"]},
        {"const": AUTO},
        {
            "type": "object",
            "properties": {"reference": {"type": "string"}},
            "required": ["reference"],
            "additionalProperties": False,
        },
    ]
}
Lambda = Annotated[
    Decimal | Literal["auto"] | LambdaReference, BeforeValidator(_parse_lambda), WithJsonSchema(_NUMBER_OR_VERSION)
]


MOST_ROWS: Final = 2**27
"""Synthetic rows of a version, at most."""


class LabelledTable(NamedTuple):
    """A published table whose rows begin with labels: its place in the product, its label columns, its others."""

    at: FieldPath
    by: tuple[str, ...]
    others: tuple[str, ...]


class ProductSpec(Frozen):
    """What a release publishes. Each kind narrows `kind` to its own name, and adds its keys.

    `reads_rows` says whether it may read rows, and not counts alone: then no engine can count for it. Where a
    generator or trainer decides that, it says so itself. `total_at` is the key that a finding about its total names.
    """

    kind: str
    reads_rows: ClassVar[bool] = True
    total_at: ClassVar[FieldPath] = ("source", "by")

    @property
    def keeps_total(self) -> bool:
        """Whether a total that the contract declares public is kept."""
        return True

    @property
    def rows_about(self) -> object:
        """About how many rows there are, as the product's options declare it; None where they do not."""
        return None

    @property
    def target(self) -> str | None:
        """The column that it tells from others, if there is one."""
        return None

    @property
    def reference(self) -> LambdaReference | None:
        """The earlier version that is read for it, if there is one."""
        return None

    def names(self, contract: Contract) -> tuple[str, ...]:
        """Return the columns that are read, in the contract's order."""
        return tuple(column.name for column in contract.columns)

    def lattices(self, contract: Contract) -> tuple[ValueLattice | KeyColumn, ...]:
        """Return the lattices on which columns are added up, and the columns whose keys are selected, each once."""
        return ()

    @property
    def counts_parents(self) -> bool:
        """Whether it counts the rows of the base's parent table, of linked tables, beside those of the base."""
        return False

    def reads_texts(self, contract: Contract) -> bool:
        """Whether texts that nobody declared are read, which no engine encodes."""
        told = [each.column for each in self.lattices(contract) if isinstance(each, KeyColumn)]
        return any(name != contract.unit.column for name in told)

    def labelled(self, contract: Contract) -> tuple[LabelledTable, ...]:
        """Return the tables whose rows begin with labels; none where rows are no cells."""
        return ()


class SyntheticModifier(ABC):
    """A modifier of synthetic rows, as a spec asks for it; the table is in `contracts.release.synthetic`.

    `product` is a `SyntheticProduct`, whose module imports those of its modifiers.
    """

    counts_parents: ClassVar[bool] = False
    """Whether the rows of the base's parent table are counted, of linked tables."""

    @abstractmethod
    def asked(self, product: Any) -> bool:
        """Say whether a product asks for it."""

    def contradiction(self, product: Any) -> Problem | None:
        """Say what in a product contradicts the modifier by itself; refused while the spec is read."""
        return None

    def problems(
        self, product: Any, names: tuple[str, ...], contract: Contract
    ) -> Iterator[tuple[FieldPath, Problem]]:
        """Yield what does not fit the contract, with its place in the product.

        Args:
            product: the product, whether it asks for the modifier or not.
            names: its columns; none where some of them are unknown.
            contract: its contract.
        """
        return iter(())

    def idle_options(self, product: Any) -> Iterator[tuple[FieldPath, Problem]]:
        """Yield what is written and does nothing, for who writes a spec; the product of a record states all keys."""
        return iter(())

    def lattices(self, product: Any, contract: Contract) -> tuple[ValueLattice, ...]:
        """Return the lattices on which columns are added up."""
        return ()


# --- Names of files.


Format = Literal["csv", "parquet", "duckdb", "sqlite"]
Files = Literal["csv", "parquet"]
SUFFIXES: Final[dict[str, Format]] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".csv.zst": "csv",
    ".parquet": "parquet",
    ".duckdb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
}
DATABASES: Final = ("duckdb", "sqlite", "postgresql")
"""Formats of which a source names one table of several."""
_UNSAFE_IN_FILE_NAME = re.compile(r"""[/\\<>:"|?*`$;&!'(){}\[\]~#%^]|^[.-]|\.$""")
"""What a path, a shell or an option begins with or consists of."""
_DEVICE = re.compile(r"(?i)(?:con|prn|aux|nul|(?:com|lpt)[0-9])(?:\..*)?")
"""Names that mean devices in Windows, whatever follows after a dot."""
_LONGEST_NAME = 120


def format_of_name(name: str) -> Format | None:
    """Return the format that a name's suffix stands for, or None for an unknown suffix."""
    return next((form for suffix, form in SUFFIXES.items() if name.lower().endswith(suffix)), None)


def unfit_name(name: str) -> str | None:
    """Say what a table's name may be, if this one may not name a file."""
    if _DEVICE.fullmatch(name):
        return "a name that is no device of Windows (con, prn, aux, nul, com1, lpt1 …)"
    if not _UNSAFE_IN_FILE_NAME.search(name) and len(name.encode()) <= _LONGEST_NAME:
        return None
    return (
        f"at most {_LONGEST_NAME} bytes, none of / \\ < > : \" | ? * ` $ ; & ! ' ( ) {{ }} [ ] ~ # % ^, "
        "no dot at either end and no hyphen in front"
    )


def _names_a_file(name: str) -> str:
    """Refuse a table's name that no file may have."""
    allowed = unfit_name(name)
    if allowed is not None:
        refuse([Problem(f"the table name {show(name)}", allowed, "give the table a `name:`, it names a file")])
    return name


TableName = Annotated[Label, AfterValidator(_names_a_file)]
"""The name of a table, and of its files."""


def repeated_names(names: Iterable[tuple[int, str]]) -> list[Problem]:
    """List the names of tables that stand twice, in any case of letters: some file systems tell none apart.

    Args:
        names: each with its table's place.
    """
    found, known = [], set[str]()
    for place, name in names:
        if name.casefold() in known:
            found.append(Problem(f"the name {name!r} again", "each name once", "rename one", (place, "name")))
        known.add(name.casefold())
    return found


# --- Columns as a spec chooses them.


ALL: Final = "all"


def _parse(written: object) -> object:
    """Read `all`, or a list of columns."""
    return written if written == ALL else as_tuple(written)


ColumnChoice = Annotated[
    Literal["all"] | tuple[Label, ...],
    BeforeValidator(_parse),
    WithJsonSchema({"anyOf": [{"const": ALL}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


def distinct_columns(columns: str | tuple[str, ...], *, least: str) -> str | tuple[str, ...]:
    """Return the columns of a choice; refuse an empty list, and a column that stands there twice."""
    if columns == ALL:
        return columns
    twice = [place for place, name in enumerate(columns) if name in columns[:place]]
    problems = [Problem(f"{columns[place]!r} twice", "each column once", "drop one", (place,)) for place in twice]
    if not columns:
        problems = [Problem("an empty list", f"{least}, or {ALL}", "name the columns, or drop the key")]
    if problems:
        refuse(problems)
    return columns


def chosen(columns: str | tuple[str, ...], contract: Contract) -> tuple[str, ...]:
    """Return the columns of a choice in the contract's order."""
    return tuple(column.name for column in contract.columns if columns == ALL or column.name in columns)
