"""A public prior: rows of other people that anybody may see, such as an older census, which a model may begin with.

prior: {path: census2010.parquet, public_because: "Published by the statistical office in 2012."}
prior: {path: census2010.csv, columns: [age, sex], public_because: "..."}     # it has these columns alone
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BeforeValidator, Field, field_validator

from contracts.domains.domain_terms import Frozen
from contracts.message import message
from contracts.reading.scalars import FieldPath, Label, Problem, as_tuple, nearest, refuse, show, word_list
from contracts.release.product_spec import SyntheticModifier

if TYPE_CHECKING:
    from contracts.contract.contract import Contract

PRIOR_FILE: Final = "model/prior.json"
"""The marginals of the public rows, as a version publishes them."""
LEAST_LETTERS: Final = 10
MOST_LETTERS: Final = 500
_SHA256: Final = re.compile("[0-9a-f]{64}")
FORMATS: Final = (".parquet", ".csv")


class PriorSpec(Frozen):
    """Public rows that a generator may begin with.

    Args:
        path: a Parquet or CSV file beside the spec; its columns have the contract's names.
        public_because: why these rows are public.
        columns: those of the product that the file has, where it lacks some; all of the product when not given.
        sha256: of the file; what is planned fills it in, and a spec may pin it.
        counts_sha256: of its marginals, as they are published with the version; what is planned fills it in.
    """

    path: Label
    public_because: Label
    columns: Annotated[tuple[Label, ...], BeforeValidator(as_tuple)] | None = Field(
        default=None, exclude_if=lambda columns: columns is None
    )
    sha256: Label | None = None
    counts_sha256: Label | None = Field(default=None, exclude_if=lambda digest: digest is None)

    @field_validator("path")
    @classmethod
    def _beside_the_spec(cls, path: str) -> str:
        allowed = f"a {' or '.join(FORMATS)} file in the spec's folder, as a relative path"
        place = PurePosixPath(path)
        if place.is_absolute() or "\\" in path or "://" in path or place.suffix not in FORMATS:
            refuse(
                [Problem(show(path), allowed, "copy the file beside the spec: the record names it as it is written")]
            )
        return path

    @field_validator("public_because")
    @classmethod
    def _a_reason(cls, because: str) -> str:
        problem = reason_problem(because)
        if problem is not None:
            refuse([problem])
        return " ".join(because.split())

    @field_validator("sha256", "counts_sha256")
    @classmethod
    def _a_digest(cls, digest: str | None) -> str | None:
        if digest is not None and not _SHA256.fullmatch(digest):
            refuse([Problem(show(digest), "64 digits of 0-9 and a-f", "drop the key: what is planned fills it in")])
        return digest

    @field_validator("columns")
    @classmethod
    def _some(cls, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if columns is not None and not columns:
            refuse([Problem("an empty list", "at least one column", "name columns, or drop `prior:`")])
        return columns


def reason_problem(because: str) -> Problem | None:
    """Say what is wrong with a reason why rows are public; None where nothing is."""
    told = " ".join(because.split())
    if LEAST_LETTERS <= len(told) <= MOST_LETTERS and told.isprintable():
        return None
    found = "no reason" if not told else f"a reason of {len(told)} characters"
    allowed = f"why these rows are public, in {LEAST_LETTERS} to {MOST_LETTERS} characters"
    return Problem(found, allowed, 'say who published them, and when: "Published by the office in 2012."')


class PriorModifier(SyntheticModifier):
    """Public rows that the model may begin with."""

    def asked(self, product: Any) -> bool:
        """Say whether there is a prior."""
        return product.prior is not None

    def problems(
        self, product: Any, names: tuple[str, ...], contract: Contract
    ) -> Iterator[tuple[FieldPath, Problem]]:
        """Yield the columns of a prior that are none of the product."""
        listed = () if product.prior is None or not names else product.prior.columns or ()
        for place, name in enumerate(listed):
            if name not in names:
                found, remedy = f"the column {name!r}", nearest(name, names)
                yield ("prior", "columns", place), Problem(found, word_list(names), remedy)

    def public_files(self, product: Any) -> tuple[tuple[FieldPath, str], ...]:
        """Return the file of the prior."""
        return ((("prior", "path"), product.prior.path),)

    def gate_words(self, product: Any) -> list[str]:
        """Return that its rows are not the confidential ones."""
        told = {"place": PRIOR_FILE, "file": product.prior.path}
        return [message("the rows do not have all the counts in {place}, which are those of {file}", **told)]
