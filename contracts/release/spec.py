"""The release spec: which contract and source, what it may cost, what is made and where it goes.

`load_spec` reads one from YAML and reports every problem with its line. What it must be beside its contract is
checked in `contracts.release.spec_checks`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, field_validator

from contracts import canonical
from contracts.contract.labels import Formulas, LabelForm
from contracts.domains.calendar_periods import Granularity
from contracts.domains.domain import Frozen
from contracts.errors import Finding, SpecRefused
from contracts.periods.period import filled, read_period
from contracts.periods.period_rules import ON_SCHEDULE, Redraw, due_problems, own_due, pattern_problems
from contracts.plug_ins import names
from contracts.reading.findings import dotted, from_problem, from_validation
from contracts.reading.scalars import (
    Amount,
    FieldPath,
    Label,
    Problem,
    as_tuple,
    nearest,
    plain_decimal,
    refuse,
    show,
    spelled,
    word_list,
)
from contracts.reading.yaml_lines import Document, located, shown
from contracts.release.classifier import ClassifierProduct
from contracts.release.exchange_forms import GROUP, ExchangeForm
from contracts.release.product import LambdaReference, ProductSpec
from contracts.release.product_kinds import product_kinds
from contracts.release.source import CredentialsName, FilePath, Source, WrittenPath, source_name
from contracts.release.synthetic import SyntheticProduct
from contracts.release.tables.tables import Refine, TableSpec, TablesProduct
from contracts.release.terms import About, Approvals
from contracts.sql.select import check_select

if TYPE_CHECKING:
    Product = ProductSpec
else:
    _SPECS = tuple(parts.load("spec") for parts in product_kinds().values())
    Product = Annotated[Union[_SPECS], Field(discriminator="kind")]  # noqa: UP007

__all__ = [
    "ChargeTerms",
    "ClassifierProduct",
    "Publish",
    "Refine",
    "ReleaseSpec",
    "Source",
    "SyntheticProduct",
    "TableSpec",
    "TablesProduct",
    "load_spec",
    "pattern_of",
    "redraw_of",
    "source_name",
    "spec_schema",
]

LARGEST_EPSILON = Decimal(1000)
SMALLEST_EPSILON = Decimal("1e-12")
SMALLEST_DELTA = Decimal("1e-18")
_RELEASE_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class ChargeTerms(Frozen):
    """What the release may cost, and whose account pays. Amounts are exact decimals, read from their text.

    Args:
        account: who pays.
        epsilon: of the release, at delta.
        delta: above 10^-3, or above one over the declared rows, only where that is accepted.
        large_delta: "accepted" where it is.
    """

    account: Label
    epsilon: Amount
    delta: Amount
    large_delta: Literal["accepted"] | None = None

    @field_validator("epsilon")
    @classmethod
    def _payable(cls, epsilon: Decimal) -> Decimal:
        if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
            allowed = f"a number above 0, from {spelled(SMALLEST_EPSILON)} to {LARGEST_EPSILON}"
            refuse([Problem(spelled(epsilon), allowed, "typical values lie between 0.1 and 10")])
        return plain_decimal(epsilon)

    @field_validator("delta")
    @classmethod
    def _a_probability(cls, delta: Decimal) -> Decimal:
        if delta and not SMALLEST_DELTA <= delta < 1:
            allowed = f"0, or a number from {spelled(SMALLEST_DELTA)} to below 1"
            refuse([Problem(spelled(delta), allowed, "typical values lie far below one over the number of people")])
        return plain_decimal(delta)


class Publish(Frozen):
    """Where versions go, and in which formats.

    Args:
        to: the release store as it is written; a relative path counts from the workspace's root, not from the spec.
            An address is where each version is copied once it is whole in the workspace's store.
        credentials: the name of the credentials of an address; None for those that the environment gives any program.
        formats: of tables and rows. One Parquet file each is always written, since it is what is verified; csv is a
            copy of it, and parts are its rows in files of 2^20 rows each.
        formulas: what becomes in CSV files of labels that a spreadsheet takes for formulas: "neutralised" puts a
            single quote in front, "accepted" leaves them as they are, and None refuses them.
        labels: "columns" for what labels stand for, in columns beside them: their order, the ends of bins, codes.
        exchange: further forms of tables and metadata, for other programs.
    """

    to: WrittenPath
    formats: Annotated[tuple[Literal["parquet", "csv", "parts"], ...], BeforeValidator(as_tuple)] = ("parquet",)
    credentials: CredentialsName | None = None
    formulas: Formulas | None = None
    labels: LabelForm | None = Field(default=None, exclude_if=lambda labels: labels is None)
    exchange: Annotated[tuple[ExchangeForm, ...], BeforeValidator(as_tuple)] = Field(
        default=(), exclude_if=lambda forms: not forms
    )

    @field_validator("formats")
    @classmethod
    def _some_and_each_once(cls, formats: tuple[str, ...]) -> tuple[str, ...]:
        if not formats or len(set(formats)) < len(formats):
            refuse([Problem("[" + ", ".join(formats) + "]", "some of parquet, csv and parts, each once")])
        return formats

    @field_validator("exchange")
    @classmethod
    def _each_form_once(cls, forms: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(forms)) < len(forms):
            refuse([Problem("[" + ", ".join(forms) + "]", f"some of {', '.join(names(GROUP))}, each once")])
        return forms


class SpecFile(Frozen):
    """A release spec as it stands in its file."""

    release: Label
    contract: FilePath
    source: Source
    charge: ChargeTerms
    product: Product
    publish: Publish
    about: About = About()
    period: Granularity | None = None
    redraw: Redraw | None = None
    approvals: Approvals | None = Field(default=None, exclude_if=lambda approvals: approvals is None)

    @field_validator("release")
    @classmethod
    def _short_name(cls, release: str) -> str:
        if not _RELEASE_NAME.fullmatch(release) or len(release) > 64:
            allowed = "at most 64 lower-case letters and digits, with single hyphens between them"
            refuse([Problem(show(release), allowed, "it names a folder and stays for good")])
        return release


_UNDIGESTED: Any = {
    **dict.fromkeys(("path", "written_paths", "about", "due"), True),
    "publish": {"to", "credentials", "formats"},
}


class ReleaseSpec(SpecFile):
    """A release spec with the file that it was read from.

    Args:
        path: the spec's file.
        written_paths: contract, source and publish paths as they are written in the file, for its period.
        block: the time block of its period (2024-Q3), where it has one.
        due: the date on which this run is due, of a spec with `redraw: on_schedule`; None while none is named.
    """

    path: Path
    written_paths: tuple[str, str, str]
    block: str | None = None
    due: str | None = None
    _document: Document | None = PrivateAttr(default=None)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON of the spec, with paths as they are written in the file.

        Independent of the file's layout, comments, order of keys and spelling of numbers, and of where the file lies;
        and of what says nothing about what is computed: `about`, `redraw: on_change`, the date of this run, and where
        and in which formats it is published: a `publish.to` that cannot be written is corrected at no charge.
        """
        content = self.model_dump(mode="json", by_alias=True, exclude=_UNDIGESTED)
        content["contract"], content["source"]["path"], _ = self.written_paths
        if self.redraw != ON_SCHEDULE:
            content["redraw"] = None
        return canonical.digest(content)

    @property
    def run_digest(self) -> str:
        """Digest of the spec and, on a schedule, of the due date: what is run apart is kept apart."""
        return self.digest if self.due is None else canonical.digest({"spec": self.digest, "due": self.due})

    @property
    def tables_product(self) -> TablesProduct:
        """The product of a release of tables.

        Raises:
            TypeError: the release publishes something else.
        """
        if not isinstance(self.product, TablesProduct):
            raise TypeError(f"release {self.release} publishes no tables but kind {self.product.kind}")
        return self.product

    @property
    def reference(self) -> LambdaReference | None:
        """The earlier version that is read for the product, if the spec names one."""
        return self.product.reference

    @property
    def synthetic_product(self) -> SyntheticProduct:
        """The product of a release of synthetic rows.

        Raises:
            TypeError: the release publishes something else.
        """
        if not isinstance(self.product, SyntheticProduct):
            raise TypeError(f"release {self.release} publishes no synthetic rows but kind {self.product.kind}")
        return self.product

    @property
    def classifier_product(self) -> ClassifierProduct:
        """The product of a release of a classifier.

        Raises:
            TypeError: the release publishes something else.
        """
        if not isinstance(self.product, ClassifierProduct):
            raise TypeError(f"release {self.release} publishes no model but kind {self.product.kind}")
        return self.product

    @property
    def product_options(self) -> dict[str, Any]:
        """The options of its generator or trainer, as they are written; none of a product that has no such key."""
        options: dict[str, Any] = getattr(self.product, "options", {})
        return options

    def with_options(self, options: dict[str, Any]) -> ReleaseSpec:
        """Return the spec with the options of its generator or trainer as they were understood."""
        product = self.product.model_copy(update={"options": options})
        return self.model_copy(update={"product": product})

    def misread(self, at: FieldPath, error: ValidationError, model: Any) -> list[Finding]:
        """Locate in the spec's file what a model refuses of the value at a place."""
        document = self._document or located(self.path, refusal=SpecRefused)
        return from_validation(document, at, error, model)

    def finding(self, at: FieldPath, problem: Problem) -> Finding:
        """Locate a problem in the spec's file."""
        if self._document is None:
            at = (*at, *problem.at)
            return Finding(shown(self.path), dotted(at), problem.found, problem.allowed, problem.remedy)
        return from_problem(self._document, at, problem)

    def select_findings(self, findings: list[Finding]) -> list[Finding]:
        """Locate findings of the select in the spec's file."""
        at = ("source", "select")
        return [self.finding(at, Problem(finding.found, finding.allowed, finding.remedy)) for finding in findings]


def load_spec(path: Path, period: str | None = None, due: str | None = None) -> ReleaseSpec:
    """Read, check and freeze a release spec.

    Args:
        path: a YAML file; the paths of contract and source in it are relative to its folder, that of `publish.to`
            to the workspace's root.
        period: for a spec with `period:`, which one (2024-Q3).
        due: for a spec with `redraw: on_schedule`, the date that the run is due on; a period has its own.
    Returns:
        The spec; of that period and date.
    Raises:
        SpecRefused: with every finding; each names file, line and field, what was found, what is allowed.
        PeriodRefused: the period is none of the spec's length.
    """
    document = located(path, refusal=SpecRefused)
    text = document.text()
    if "release" not in text and {"columns", "schema"} & set(text):
        found, allowed = "a contract", "a release spec: release, contract, source, charge, product, publish"
        remedy = f"name the spec that says `contract: {path.name}`, or begin one on a page: sudare studio"
        raise SpecRefused([Finding(shown(path), "file", found, allowed, remedy)])
    problems = pattern_problems(text, period) + due_problems(text, due)
    if problems:
        raise SpecRefused([from_problem(document, (), problem) for problem in problems])
    chosen = read_period(period, text["period"]) if period is not None else None
    text = text if chosen is None else filled(text, chosen)
    try:
        folder = path.absolute().parent
        parsed = SpecFile.model_validate(text, context={"folder": folder})
    except ValidationError as error:
        raise SpecRefused(from_validation(document, (), error, SpecFile)) from None
    written = (text["contract"], text["source"]["path"], text["publish"]["to"])
    block = None if chosen is None else str(chosen)
    due = due or own_due(parsed.redraw, chosen)
    spec = ReleaseSpec(**dict(parsed), path=path.absolute(), written_paths=written, block=block, due=due)
    spec._document = document
    findings = _select_findings(spec)
    if findings:
        raise SpecRefused(findings)
    return spec


def pattern_of(path: Path) -> Granularity | None:
    """Return the length of the periods that a spec is a pattern for; None for a spec of one release.

    Raises:
        SpecRefused: the file is no spec, or its `period` none.
    """
    document = located(path, refusal=SpecRefused)
    written = document.text().get("period")
    if written is not None and written not in get_args(Granularity):
        problem = Problem(
            show(written), word_list(get_args(Granularity)), nearest(str(written), get_args(Granularity))
        )
        raise SpecRefused([from_problem(document, ("period",), problem)])
    found: Granularity | None = written
    return found


def redraw_of(path: Path) -> str | None:
    """Return what a spec's file says of `redraw:`; whether that is a valid word is for `load_spec` to say.

    Raises:
        SpecRefused: the file is no spec.
    """
    written = located(path, refusal=SpecRefused).text().get("redraw")
    return None if written is None else str(written)


def _select_findings(spec: ReleaseSpec) -> list[Finding]:
    """Check the select, if there is one, on its parsed tree."""
    if spec.source.select is None:
        return []
    return spec.select_findings(check_select(spec.source.select))


def spec_schema() -> dict[str, Any]:
    """Return the JSON Schema of a release spec's file, for editors and for docs/schema."""
    schema = SpecFile.model_json_schema(mode="validation", by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Sudare release spec"}
