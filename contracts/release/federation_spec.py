"""The federation spec, which all parties hold, and the site file, which one site holds for itself.

Every site reads the federation from its own copy; the two must say the same (`digest`), as must the contracts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator, model_validator

from contracts import canonical
from contracts.contract.contract import Contract
from contracts.contract.labels import Formulas, formula_problem
from contracts.domains.domain import Frozen
from contracts.errors import Finding, SpecRefused
from contracts.reading.findings import from_problem, from_validation
from contracts.reading.scalars import Amount, Flag, Label, Problem, Whole, as_tuple, nearest, refuse, show, word_list
from contracts.reading.yaml_lines import Document, located
from contracts.release.classifier import ClassifierProduct
from contracts.release.product import ALL, MOST_ROWS, ColumnChoice
from contracts.release.source import FilePath, Source, WrittenPath
from contracts.release.spec import ChargeTerms
from contracts.release.synthetic import SyntheticProduct, synthetic_problems
from contracts.release.table_rules import RESERVED_COLUMNS
from contracts.release.tables.tables import TablesProduct
from contracts.release.terms import About

# --- Who in a federation is trusted with what, as its spec declares it, and what of it contradicts itself.


LEAST_BLIND_SITES = 3
"""Secure aggregation hides a site's share among those of at least two others."""


def _positive(number: int) -> int:
    """Refuse none or less where something is counted."""
    if number < 1:
        refuse([Problem(str(number), "a whole number above 0")])
    return number


Positive = Annotated[Whole, AfterValidator(_positive)]


class TrustTerms(Frozen):
    """Who is trusted with what; no field has a default (`privacy.federation.plan.Trust`)."""

    noise: Literal["sites", "server"]
    secure_aggregation: Flag
    server: Label | None
    fewest: Positive
    colluding: Whole
    sites_per_person: Positive


def trust_problems(trust: TrustTerms, sites: int) -> Iterator[Problem]:
    """Yield what of the trust does not fit the number of sites, or contradicts itself.

    The same is refused again where the noise is planned (`privacy.federation.plan.check_trust`).
    """
    if trust.secure_aggregation and sites < LEAST_BLIND_SITES:
        allowed = f"secure aggregation among at least {LEAST_BLIND_SITES} sites"
        remedy = "add sites, or write secure_aggregation: false and name the server"
        yield _at("secure_aggregation", f"true with {_sites(sites)}", allowed, remedy)
    yield from _number_problems(trust, sites)
    yield from _server_problems(trust)


def _number_problems(trust: TrustTerms, sites: int) -> Iterator[Problem]:
    least = 2 if trust.secure_aggregation else 1
    if not least <= trust.fewest <= max(least, sites):
        why = " under secure aggregation" if trust.secure_aggregation else ""
        allowed = f"a whole number from {least} to {max(least, sites)}{why}: a sum of fewer sites is never made"
        remedy = "write how many of the sites must answer in a round"
        yield _at("fewest", f"{trust.fewest} of {_sites(sites)}", allowed, remedy)
    elif trust.noise == "server" and trust.colluding:
        allowed = "0 where the server adds the noise: no site knows any of it"
        yield _at("colluding", str(trust.colluding), allowed, "write colluding: 0")
    elif not 0 <= trust.colluding < trust.fewest:
        allowed = f"a whole number from 0 to {trust.fewest - 1}, less than `fewest`"
        remedy = "write how many sites may tell others their own noise, or raise fewest"
        yield _at("colluding", str(trust.colluding), allowed, remedy)
    if trust.sites_per_person > sites:
        remedy = "write at how many of the sites one person may have rows"
        yield _at(
            "sites_per_person",
            f"{trust.sites_per_person} of {_sites(sites)}",
            f"a whole number from 1 to {sites}",
            remedy,
        )


def _server_problems(trust: TrustTerms) -> Iterator[Problem]:
    """Yield a server that is trusted and has no name, or has a name and sees nothing that it is trusted with."""
    blind = trust.noise == "sites" and trust.secure_aggregation
    if not blind and trust.server is None:
        seen = "exact sums" if trust.noise == "server" else "the share of each site"
        remedy = "write its name, such as server: the statistics office"
        if trust.noise == "sites":
            remedy += "; or write secure_aggregation: true, so that it sees noisy sums only"
        yield _at("server", show(None), f"the name of the server, which is trusted: it sees {seen}", remedy)
    if blind and trust.server is not None:
        allowed = "null: under secure aggregation the server sees noisy sums only"
        yield _at("server", show(trust.server), allowed, "write server: null")


def _sites(number: int) -> str:
    return "1 site" if number == 1 else f"{number} sites"


def _at(field: str, found: str, allowed: str, remedy: str) -> Problem:
    return Problem(found, allowed, remedy, at=("trust", field))


ListedClique = Annotated[tuple[Label, ...], BeforeValidator(as_tuple)]
Hidden = Annotated[tuple[Whole, ...], BeforeValidator(as_tuple)]
MOST_SITES = 64
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


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


class FederationTerms(Frozen):
    """What all parties of a federation agree on; `digest` is of all of it."""

    federation: Label
    charge: ChargeTerms
    sites: Annotated[tuple[Member, ...], BeforeValidator(as_tuple)]
    learner: LearnerTerms | None = None
    training: TrainingTerms | None = None
    tables: TablesTerms | None = None
    generator: GeneratorTerms | None = None
    trust: TrustTerms
    formulas: Formulas | None = None

    @field_validator("federation")
    @classmethod
    def _short_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name) or len(name) > 64:
            allowed = "at most 64 lower-case letters and digits, with single hyphens between them"
            refuse([Problem(show(name), allowed, "it names a folder and stays for good")])
        return name

    @model_validator(mode="after")
    def _fits_together(self) -> FederationTerms:
        names = [site.name for site in self.sites]
        if len(set(names)) < len(names) or not 1 <= len(names) <= MOST_SITES:
            twice = sorted({name for name in names if names.count(name) > 1})
            found = f"the name {twice[0]!r} twice" if twice else f"{len(names)} sites"
            refuse([Problem(found, f"1 to {MOST_SITES}, each name once", at=("sites",))])
        keys = [site.key for site in self.sites if site.key is not None]
        if len(set(keys)) < len(keys):
            refuse([Problem("a key that two sites have", "a key of its own for each", at=("sites",))])
        problems = tuple(trust_problems(self.trust, len(names)))
        if problems:
            refuse(problems)
        given = [name for name in ("learner", "generator", "tables", "training") if getattr(self, name) is not None]
        counts = self.generator is not None and self.generator.name == "marginals"
        generating = ["generator"] if counts else ["generator", "training"]
        if given not in (["learner", "training"], generating, ["tables"]):
            allowed = "`learner` or `generator` and `training`, `generator` alone for marginals, or `tables`"
            refuse([Problem("another choice of products", allowed, "keep one of them")])
        if not self.charge.delta:
            refuse([Problem("delta 0", "a delta above 0", "give it a small positive value", at=("charge", "delta"))])
        return self

    @property
    def statement(self) -> dict[str, Any]:
        """The terms as JSON values, from which `FederationTerms.model_validate` reads them again."""
        return self.model_dump(mode="json", include=set(FederationTerms.model_fields))

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the terms."""
        return canonical.digest(self.statement)

    @property
    def site_keys(self) -> dict[str, str]:
        """The public key of each site; empty where sites have none."""
        return {site.name: site.key for site in self.sites if site.key is not None}

    @property
    def counted(self) -> TablesTerms | None:
        """The tables that are counted, published or for rows that are made of them; None where none are.

        Raises:
            ValidationError: a generator that counts has other options than cliques.
        """
        return self.tables if self.generator is None else self.generator.tables

    @property
    def product(self) -> TablesProduct | SyntheticProduct | ClassifierProduct:
        """The same product as a release of one place names it.

        Raises:
            ValidationError: tables that no release publishes.
        """
        if self.tables is not None:
            tables = [{"columns": clique} for clique in self.tables.cliques]
            refine = {"method": "none", "integers": False}
            told = {"kind": "tables", "mechanism": "gaussian", "tables": tables, "refine": refine}
            return TablesProduct.model_validate(told)
        if self.generator is not None:
            declared = min(MOST_ROWS, sum(site.rows_about for site in self.sites))
            terms, rows = self.generator, self.generator.rows or declared
            return terms.product.model_copy(update={"options": terms.options, "rows": rows})
        if self.learner is None:
            raise TypeError(f"federation {self.federation} makes nothing")
        options = self.learner.model_dump(mode="json", exclude={"label", "columns"})
        columns: ColumnChoice = ALL if self.learner.columns is None else self.learner.columns
        return ClassifierProduct(
            kind="classifier",
            trainer="dp_sgd",
            label=self.learner.label,
            columns=columns,
            numbers="scaled",
            options=options,
        )


class FederationFile(FederationTerms):
    """A federation spec as it stands in its file: the terms, and what is each party's own."""

    contract: FilePath
    publish: WrittenPath
    about: About = About()


class FederationSpec(FederationFile):
    """A federation spec with the file that it was read from.

    Args:
        path: the file.
    """

    path: Path


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
        problem = Problem(show(site.site), word_list(names), nearest(site.site, names))
        raise SpecRefused([from_problem(document, ("site",), problem)])
    return site, federation


def _parsed(path: Path, model: type[Any]) -> tuple[Document, Any]:
    document = located(path, refusal=SpecRefused)
    try:
        return document, model.model_validate(document.text(), context={"folder": path.absolute().parent})
    except ValidationError as error:
        raise SpecRefused(from_validation(document, (), error, model)) from None


# --- What in a federation spec does not fit its contract.


MOST_CELLS: Final = 10**7


def check_federation(spec: FederationTerms, contract: Contract, *, where: str) -> list[Finding]:
    """List what in a federation spec does not fit its contract; empty means that it fits. `where` names the file."""
    without = [site.name for site in spec.sites if site.key is None]
    if spec.site_keys and without:
        found = f"no key for {', '.join(without)}"
        return [Finding(where, "sites", found, "a key for every site, or for none")]
    if contract.linked is not None:
        remedy = "give the federation a contract of one table, at every party"
        return [Finding(where, "contract", "linked tables", "one table at every site", remedy)]
    if contract.total is not None:
        found, allowed = (
            "a declared total (`invariants`)",
            "no total: nothing says whose it is, a site's or that of all",
        )
        remedy = "take the total out of the contract of the federation, at every party"
        return [Finding(where, "contract", found, allowed, remedy)]
    formulas = None if spec.learner is not None else formula_problem(contract.columns, spec.formulas)
    if formulas is not None:
        return [Finding(where, "formulas", formulas.found, formulas.allowed, formulas.remedy)]
    if spec.tables is not None:
        return _table_findings(where, "tables.cliques", spec.tables, contract) or _product_findings(where, spec)
    if spec.generator is not None:
        return _generator_findings(where, spec.generator, contract)
    if spec.learner is None:
        return []
    names, findings = [column.name for column in contract.columns], []
    given = spec.learner.columns or tuple(names)
    for column in (*given, spec.learner.label):
        if column not in given or column not in names:
            allowed = word_list(list(given) if column in names else names)
            findings.append(Finding(where, "learner", f"the column {column!r}", allowed))
    return [*findings, *_relation_findings(where, contract)]


def _product_findings(where: str, spec: FederationTerms) -> list[Finding]:
    """Tables can be published under the names of their columns."""
    try:
        product = spec.product
    except ValidationError as error:
        wrong = "; ".join(str(each["msg"]) for each in error.errors(include_url=False))
        return [Finding(where, "tables.cliques", wrong, "tables that a release can publish")]
    clash = {name for each in product.tables for name in each.columns} & RESERVED_COLUMNS  # type: ignore[union-attr]
    found = f"the column {min(clash, default='')!r}"
    remedy = "rename it in the contract, and in the source by a select"
    allowed = f"columns not named {', '.join(sorted(RESERVED_COLUMNS))}"
    return [Finding(where, "tables.cliques", found, allowed, remedy)] if clash else []


def _relation_findings(where: str, contract: Contract) -> list[Finding]:
    """Rows are sampled by coins, which is accounted for under one relation only."""
    terms = (contract.adjacency, contract.unit.max_rows_per_unit)
    if terms == ("add_remove", 1):
        return []
    found = f"adjacency {terms[0]}, up to {terms[1]} rows a unit"
    return [Finding(where, "contract", found, "add_remove, one row a unit: rows are sampled")]


def _generator_findings(where: str, terms: GeneratorTerms, contract: Contract) -> list[Finding]:
    """Columns are single values that can be published, and options are those that a federation may give."""
    problems = [
        Finding(where, ".".join(("generator", *map(str, at))), problem.found, problem.allowed, problem.remedy)
        for at, problem in synthetic_problems(terms.product, contract)
    ]
    if problems:
        return problems
    pictures = contract.pictures(terms.product.names(contract))
    if pictures:
        allowed = "columns of single values: rows are written as CSV"
        problems.append(Finding(where, "generator.columns", f"{pictures[0]!r} holds pictures", allowed))
    try:
        tables = terms.tables
    except ValidationError as error:
        wrong = ", ".join(".".join(map(str, each["loc"])) for each in error.errors(include_url=False))
        allowed = "cliques alone: lists of columns"
        return [*problems, Finding(where, "generator.options", f"something else in {wrong}", allowed)]
    if tables is None:
        return [*problems, *_relation_findings(where, contract)]
    problems += _table_findings(where, "generator.options.cliques", tables, contract)
    outside = {name for clique in tables.cliques for name in clique} - set(terms.product.names(contract))
    if outside and not problems:
        found, allowed = f"the column {min(outside)!r}", "columns of the rows that are made"
        problems.append(Finding(where, "generator.options.cliques", found, allowed))
    return problems


def _table_findings(where: str, field: str, tables: TablesTerms, contract: Contract) -> list[Finding]:
    """Tables name columns that have cells, each once, and are not too large to be sent."""
    names = [column.name for column in contract.columns if column.name not in contract.pictures()]
    findings = []
    for place, clique in enumerate(tables.cliques):
        at = f"{field}[{place}]"
        unknown = [name for name in clique if name not in names]
        findings += [Finding(where, at, f"the column {name!r}", word_list(names)) for name in unknown]
        if not clique or len(set(clique)) < len(clique):
            findings.append(Finding(where, at, "no columns, or one of them twice", "columns, each once"))
        elif not unknown and contract.cells(clique) > MOST_CELLS:
            found = f"{contract.cells(clique)} cells"
            findings.append(Finding(where, at, found, f"at most {MOST_CELLS}", "take fewer columns"))
    if not tables.cliques or len({*tables.cliques}) < len(tables.cliques):
        findings.append(Finding(where, field, "no tables, or one of them twice", "tables, each once"))
    return findings
