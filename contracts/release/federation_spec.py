"""The federation spec, which all parties hold, and the site file, which one site holds for itself.

Every site reads the federation from its own copy; the two must say the same (`digest`), as must the contracts.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from contracts import canonical
from contracts.contract.contract import Contract
from contracts.contract.spreadsheet import Formulas, formula_problem
from contracts.domains.domain_terms import Frozen
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import Amount, Flag, Label, Problem, Whole, as_tuple, listed, nearest, refuse, show
from contracts.reading.validation_errors import from_problem, from_validation
from contracts.reading.yaml_lines import Document, located
from contracts.release.source import FilePath, Source, WrittenPath
from contracts.release.spec import ChargeTerms
from contracts.release.synthetic import ALL, MOST_ROWS, ColumnChoice, SyntheticProduct, synthetic_problems

ListedClique = Annotated[tuple[Label, ...], BeforeValidator(as_tuple)]
Hidden = Annotated[tuple[Whole, ...], BeforeValidator(as_tuple)]
MOST_SITES = 64
MOST_CELLS = 10**7
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def _positive(number: int) -> int:
    """Refuse none or less where something is counted."""
    if number < 1:
        refuse([Problem(str(number), "a whole number above 0")])
    return number


Positive = Annotated[Whole, AfterValidator(_positive)]


class Member(Frozen):
    """A site: about how many rows it has, declared, and by which public key it is known (OpenSSH); public."""

    name: Label
    rows_about: Positive
    key: Label | None = None

    @field_validator("key")
    @classmethod
    def _public_key(cls, key: str | None) -> str | None:
        if key is not None and not _is_key(key):
            allowed = "ecdsa-sha2-nistp384 and a key in base64"
            refuse([Problem("another text", allowed, "write what sudare federation key prints")])
        return key

    @model_serializer(mode="wrap")
    def _without_no_key(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out a key that is not there, so that a spec without keys has the digest that it had before keys."""
        written: dict[str, Any] = write(self)
        return {name: value for name, value in written.items() if name != "key" or value is not None}


def _is_key(text: str) -> bool:
    """Tell whether a text is a public key on the curve P-384, without a comment."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        key = load_ssh_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        return False
    return isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP384R1) and text.count(" ") == 1


class LearnerTerms(Frozen):
    """What is trained: a network that tells a column from the others, and how it is stepped."""

    label: Label
    columns: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)] | None = None
    hidden: Hidden = (16,)
    learning_rate: Amount = Decimal("0.02")
    seed: Whole = 1


class TrainingTerms(Frozen):
    """Rounds, and what is sampled and clipped in each."""

    rounds: Positive
    batch: Positive
    clipping_norm: Amount = Decimal(1)
    reserve: Whole


class GeneratorTerms(Frozen):
    """Which generator makes rows of what is summed, counted and trained, and how many.

    `options` are the generator's own; sampling and clipping are `training`'s. `rows` are as many as the sites declare
    together where none are given. `reserve` is for sums and tables: so many lost attempts of them may be made up for.
    """

    name: Literal["p3gm", "marginals"]
    columns: ColumnChoice = ALL
    options: dict[str, Any] = Field(default_factory=dict)
    rows: Whole | None = None
    reserve: Whole = 1

    @field_validator("rows")
    @classmethod
    def _some_rows(cls, rows: int | None) -> int | None:
        if rows is not None and not 1 <= rows <= MOST_ROWS:
            refuse([Problem(str(rows), f"a whole number from 1 to {MOST_ROWS}")])
        return rows

    @property
    def product(self) -> SyntheticProduct:
        """The same as a release of one place has it."""
        return SyntheticProduct(kind="synthetic", generator=self.name, columns=self.columns)

    @property
    def tables(self) -> TablesTerms | None:
        """The tables that `marginals` is estimated from; None for a generator that counts none.

        Raises:
            ValidationError: other options than cliques.
        """
        if self.name != "marginals":
            return None
        return TablesTerms.model_validate({"cliques": (), **self.options, "reserve": self.reserve})


class TablesTerms(Frozen):
    """Which tables are counted over all sites: columns of each."""

    cliques: Annotated[tuple[ListedClique, ...], BeforeValidator(as_tuple)]
    reserve: Whole


class TrustTerms(Frozen):
    """Who is trusted with what; no field has a default (`privacy.federation.plan.Trust`)."""

    noise: Literal["sites", "server"]
    secure_aggregation: Flag
    server: Label | None
    fewest: Positive
    colluding: Whole
    sites_per_person: Positive


class FederationFile(Frozen):
    """A federation spec as it stands in its file."""

    federation: Label
    contract: FilePath
    charge: ChargeTerms
    sites: Annotated[tuple[Member, ...], BeforeValidator(as_tuple)]
    learner: LearnerTerms | None = None
    training: TrainingTerms | None = None
    tables: TablesTerms | None = None
    generator: GeneratorTerms | None = None
    trust: TrustTerms
    formulas: Formulas | None = None
    publish: WrittenPath

    @model_serializer(mode="wrap")
    def _without_a_generator(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out a generator that there is not, so that specs without one keep their digests."""
        written: dict[str, Any] = handler(self)
        return {name: value for name, value in written.items() if name != "generator" or value is not None}

    @field_validator("federation")
    @classmethod
    def _short_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name) or len(name) > 64:
            allowed = "at most 64 lower-case letters and digits, with single hyphens between them"
            refuse([Problem(show(name), allowed, "it names a folder and stays for good")])
        return name

    @model_validator(mode="after")
    def _sites_differ(self) -> FederationFile:
        names = [site.name for site in self.sites]
        if len(set(names)) < len(names) or not 1 <= len(names) <= MOST_SITES:
            refuse([Problem(f"{len(names)} sites", f"1 to {MOST_SITES}, each name once", at=("sites",))])
        keys = [site.key for site in self.sites if site.key is not None]
        if len(set(keys)) < len(keys):
            refuse([Problem("a key that two sites have", "a key of its own for each", at=("sites",))])
        given = [name for name in ("learner", "generator", "tables", "training") if getattr(self, name) is not None]
        counts = self.generator is not None and self.generator.name == "marginals"
        generating = ["generator"] if counts else ["generator", "training"]
        if given not in (["learner", "training"], generating, ["tables"]):
            allowed = "`learner` or `generator` and `training`, `generator` alone for marginals, or `tables`"
            refuse([Problem("another choice of products", allowed, "keep one of them")])
        if not self.charge.delta:
            refuse([Problem("delta 0", "a delta above 0", "give it a small positive value", at=("charge", "delta"))])
        return self


class FederationSpec(FederationFile):
    """A federation spec with the file that it was read from.

    Args:
        path: the file.
    """

    path: Path

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of what all parties must agree on: all but where the contract lies and results go."""
        content = self.model_dump(mode="json", exclude={"path", "contract", "publish"})
        if self.charge.large_delta is None:  # specs without it keep their digests
            del content["charge"]["large_delta"]
        return canonical.digest(content)

    @property
    def keys(self) -> dict[str, str]:
        """The public key of each site; empty where sites have none."""
        return {site.name: site.key for site in self.sites if site.key is not None}


class SiteFile(Frozen):
    """What a site holds for itself: which federation it joins, with which rows, and whose account pays."""

    site: Label
    federation: FilePath
    contract: FilePath
    source: Source
    account: Label


def load_federation(path: Path) -> FederationSpec:
    """Read, check and freeze a federation spec.

    Raises:
        SpecRefused: with every finding; each names file, line and field, what was found, what is allowed.
    """
    document, parsed = _parsed(path, FederationFile)
    del document
    return FederationSpec(**dict(parsed), path=path.absolute())


def load_site(path: Path) -> tuple[SiteFile, FederationSpec]:
    """Read a site file and the federation that it names.

    Raises:
        SpecRefused: either cannot be followed, or the federation has no site of that name.
    """
    document, parsed = _parsed(path, SiteFile)
    site = SiteFile.model_validate(parsed)
    federation = load_federation(site.federation)
    names = [member.name for member in federation.sites]
    if site.site not in names:
        problem = Problem(show(site.site), listed(names), nearest(site.site, names))
        raise SpecRefused([from_problem(document, ("site",), problem)])
    return site, federation


def check_federation(spec: FederationSpec, contract: Contract) -> list[Finding]:
    """List what in a federation spec does not fit its contract; empty means that it fits."""
    without = [site.name for site in spec.sites if site.key is None]
    if spec.keys and without:
        found = f"no key for {', '.join(without)}"
        return [Finding(str(spec.path), "sites", found, "a key for every site, or for none")]
    if contract.total is not None:
        found, allowed = (
            "a declared total (`invariants`)",
            "no total: nothing says whose it is, a site's or that of all",
        )
        remedy = "take the total out of the contract of the federation, at every party"
        return [Finding(str(spec.path), "contract", found, allowed, remedy)]
    formulas = None if spec.learner is not None else formula_problem(contract.columns, spec.formulas)
    if formulas is not None:
        return [Finding(str(spec.path), "formulas", formulas.found, formulas.allowed, formulas.remedy)]
    if spec.tables is not None:
        return _table_findings(spec.path, "tables.cliques", spec.tables, contract)
    if spec.generator is not None:
        return _generator_findings(spec.path, spec.generator, contract)
    if spec.learner is None:
        return []
    names, findings = [column.name for column in contract.columns], []
    given = spec.learner.columns or tuple(names)
    for column in (*given, spec.learner.label):
        if column not in given or column not in names:
            allowed = listed(list(given) if column in names else names)
            findings.append(Finding(str(spec.path), "learner", f"the column {column!r}", allowed))
    return [*findings, *_relation_findings(spec.path, contract)]


def _relation_findings(path: Path, contract: Contract) -> list[Finding]:
    """Rows are sampled by coins, which is accounted for under one relation only."""
    terms = (contract.adjacency, contract.unit.max_rows_per_unit)
    if terms == ("add_remove", 1):
        return []
    found = f"adjacency {terms[0]}, up to {terms[1]} rows a unit"
    return [Finding(str(path), "contract", found, "add_remove, one row a unit: rows are sampled")]


def _generator_findings(path: Path, terms: GeneratorTerms, contract: Contract) -> list[Finding]:
    """Columns are single values that can be published, and options are those that a federation may give."""
    problems = [
        Finding(str(path), ".".join(("generator", *map(str, at))), problem.found, problem.allowed, problem.remedy)
        for at, problem in synthetic_problems(terms.product, contract)
    ]
    if problems:
        return problems
    pictures = contract.pictures(terms.product.names(contract))
    if pictures:
        allowed = "columns of single values: rows are written as CSV"
        problems.append(Finding(str(path), "generator.columns", f"{pictures[0]!r} holds pictures", allowed))
    try:
        tables = terms.tables
    except ValidationError as error:
        wrong = ", ".join(".".join(map(str, each["loc"])) for each in error.errors(include_url=False))
        allowed = "cliques alone: lists of columns"
        return [*problems, Finding(str(path), "generator.options", f"something else in {wrong}", allowed)]
    if tables is None:
        return [*problems, *_relation_findings(path, contract)]
    problems += _table_findings(path, "generator.options.cliques", tables, contract)
    outside = {name for clique in tables.cliques for name in clique} - set(terms.product.names(contract))
    if outside and not problems:
        found, allowed = f"the column {min(outside)!r}", "columns of the rows that are made"
        problems.append(Finding(str(path), "generator.options.cliques", found, allowed))
    return problems


def _table_findings(path: Path, where: str, tables: TablesTerms, contract: Contract) -> list[Finding]:
    """Tables name columns that have cells, each once, and are not too large to be sent."""
    names = [column.name for column in contract.columns if column.name not in contract.pictures()]
    findings = []
    for place, clique in enumerate(tables.cliques):
        at = f"{where}[{place}]"
        unknown = [name for name in clique if name not in names]
        findings += [Finding(str(path), at, f"the column {name!r}", listed(names)) for name in unknown]
        if not clique or len(set(clique)) < len(clique):
            findings.append(Finding(str(path), at, "no columns, or one of them twice", "columns, each once"))
        elif not unknown and contract.cells(clique) > MOST_CELLS:
            found = f"{contract.cells(clique)} cells"
            findings.append(Finding(str(path), at, found, f"at most {MOST_CELLS}", "take fewer columns"))
    if not tables.cliques or len({*tables.cliques}) < len(tables.cliques):
        findings.append(Finding(str(path), where, "no tables, or one of them twice", "tables, each once"))
    return findings


def _parsed(path: Path, model: type[Any]) -> tuple[Document, Any]:
    document = located(path, refusal=SpecRefused)
    try:
        return document, model.model_validate(document.text(), context={"folder": path.absolute().parent})
    except ValidationError as error:
        raise SpecRefused(from_validation(document, (), error, model)) from None
