"""The published marginals of a prior: whole, of the product's columns, and those that the product pins.

That they are the marginals of the named file, whose digest stands beside them, whoever has the file can count. That
its rows are public is the publisher's word, with the reason.
"""

from __future__ import annotations

from typing import Final

from contracts.canonical import digest
from contracts.errors import Finding
from contracts.release.public_prior import PriorSpec
from privacy.marginals.domain import CellDomain
from privacy.marginals.public_prior import PublicPrior
from tasks.records.strict_json import printable, read_json, shown
from tasks.verification.files.version_folder import OpenFiles
from tasks.verification.fitted_meaning import PRIOR_FILE, SyntheticMeaning

_OTHER_PRIOR: Final = "the prior is not the one that the run began with: do not use this version"


def read_published_prior(
    files: OpenFiles, meaning: SyntheticMeaning, asked: PriorSpec, findings: list[Finding]
) -> PublicPrior | None:
    """Read the marginals of the prior, and add to the findings; None where there are none to go on with."""
    data = files.read(PRIOR_FILE, findings)
    if data is None:
        return None
    value, wrong = read_json(data, where=PRIOR_FILE)
    findings += wrong
    found = digest(value)
    if found != asked.counts_sha256:
        allowed = f"{shown(asked.counts_sha256)}, as the product says"
        findings.append(Finding(PRIOR_FILE, "SHA-256 of the marginals", found, allowed, _OTHER_PRIOR))
        return None
    try:
        prior = PublicPrior.from_json(value, CellDomain.of(meaning.contract, meaning.names))
    except ValueError as error:
        found = printable(str(error))
        findings.append(Finding(PRIOR_FILE, "the marginals", found, "marginals of public rows", _OTHER_PRIOR))
        return None
    return prior
