"""The federation spec, which all parties hold, and the site file, which one site holds for itself.

Every site reads the federation from its own copy; the two must say the same (`digest`), as must the contracts.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from contracts import canonical
from contracts.contract.spreadsheet import Formulas
from contracts.domains.domain_terms import Frozen
from contracts.errors import SpecRefused
from contracts.reading.scalars import Amount, Label, Problem, Whole, as_tuple, nearest, refuse, show, word_list
from contracts.reading.validation_errors import from_problem, from_validation
from contracts.reading.yaml_lines import Document, located
from contracts.release.about import About
from contracts.release.classifier import ClassifierProduct
from contracts.release.column_choice import ALL, ColumnChoice
from contracts.release.federation_trust import Positive, TrustTerms, trust_problems
from contracts.release.product_spec import MOST_ROWS
from contracts.release.source import FilePath, Source, WrittenPath
from contracts.release.spec import ChargeTerms
from contracts.release.synthetic import SyntheticProduct
from contracts.release.tables.product import TablesProduct

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
