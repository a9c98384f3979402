"""`lambda: {reference: RELEASE/VERSION}`: an earlier published version on which λ is chosen."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import field_validator, model_validator

from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import Label, Problem, refuse, show

REFERENCE: Final = "{reference: RELEASE/VERSION}, such as {reference: adult-income/3}"
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
