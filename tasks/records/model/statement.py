"""What a statement of a version's files is made of: strict frozen models, their scalars, and how they are read.

Nothing is converted: a text where a number belongs is a finding. The models say what a statement looks like; whether
it is true is for `tasks.verification`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from contracts.errors import Finding
from contracts.reading.findings import dotted
from contracts.reading.scalars import as_tuple, plain_text, six_digits
from tasks.records.strict_json import printable, shown

_MOST_FINDINGS: Final = 20
_MOST_LISTED: Final = 10_000
_T = TypeVar("_T")
_Model = TypeVar("_Model", bound="Statement")
Tuple = Annotated[tuple[_T, ...], BeforeValidator(as_tuple)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
KeyId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Signature = Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]
StatedText = Annotated[str, Field(max_length=4096)]
Units = Annotated[int, Field(ge=0, le=10**30)]
Count = Annotated[int, Field(ge=0, le=2**53)]
_DIGITS: Final = Field(pattern=r"^[0-9]{1,20}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?$")


def only_form(text: str, written: str) -> str:
    """Refuse another form of a number than the written one: digits that mean nothing may say something.

    Raises:
        ValueError: it is another one.
    """
    if text != written:
        raise ValueError(f"a number is written in one form: {written}")
    return text


PlainNumber = Annotated[str, _DIGITS, AfterValidator(lambda text: only_form(text, plain_text(Decimal(text))))]
"""A number from a spec, or chosen as one."""
SixDigits = Annotated[str, _DIGITS, AfterValidator(lambda text: only_form(text, six_digits(float(text))))]
"""A computed number."""
Value = Annotated[int, Field(ge=-(2**62), le=2**62)]


class Statement(BaseModel):
    """A part of a file: frozen, no conversions, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class FileStatement(Statement):
    """What the manifest says of one file."""

    sha256: Hash
    bytes: Count


def read_statement(
    model: type[_Model], value: Any, *, where: str, at: str = ""
) -> tuple[_Model | None, list[Finding]]:
    """Read a JSON value as a statement.

    Args:
        model: which statement.
        value: the value.
        where: the file's name.
        at: where in the file the value stands.
    Returns:
        tuple: the statement, or None with a finding for each field that is not of its form.
    """
    unknown = _unknown_schema(model, value, where)
    if unknown is not None:
        return None, [unknown]
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        return None, validation_findings(error, where=where, at=at)


def _unknown_schema(model: type[Statement], value: Any, where: str) -> Finding | None:
    """Say that a file is of a schema that is not known here; its fields would make no sense under another one."""
    field = model.model_fields.get("schema_")
    stated = value.get("schema") if isinstance(value, dict) else None
    known = () if field is None else get_args(field.annotation)
    if field is None or not isinstance(stated, str) or stated in known:
        return None
    remedy = "if a newer Sudare wrote it, verify it with that one; else the file is not what it should be"
    return Finding(where, "schema", shown(stated), f"a schema known here: {', '.join(known)}", remedy)


def validation_findings(error: ValidationError, *, where: str, at: str = "") -> list[Finding]:
    """Turn pydantic's errors into findings, at most a screenful."""
    findings: list[Finding] = []
    if error.error_count() > _MOST_LISTED:  # a list of them would take gigabytes
        found, allowed = f"{error.error_count():,} fields of another form", "the form of its schema"
        return [Finding(where, printable(at or "the file"), found, allowed, "the file does not follow its schema")]
    for item in error.errors(include_url=False)[:_MOST_FINDINGS]:
        field = ".".join(filter(None, (at, dotted(item["loc"]) if item["loc"] else ""))) or "the file"
        found = "nothing" if item["type"] == "missing" else shown(item.get("input"))
        allowed = printable(str(item["msg"]).removeprefix("Value error, "))
        findings.append(Finding(where, printable(field), found, allowed, "the file does not follow its schema"))
    return findings
