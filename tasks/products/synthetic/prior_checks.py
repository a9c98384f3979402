"""The published marginals of a prior: whole, of the product's columns, and those that the product pins.

That they are the marginals of the named file, whose digest stands beside them, whoever has the file can count. That
its rows are public is the publisher's word, with the reason.
"""

from __future__ import annotations

from typing import Final

from contracts.canonical import digest
from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.release.public_prior import PRIOR_FILE, PriorSpec
from privacy.marginals.domain import CellDomain
from privacy.marginals.public_prior import PublicPrior
from tasks.records.model.synthetic_statements import SyntheticReplay
from tasks.records.strict_json import printable, read_json, shown
from tasks.verification.files.version_folder import OpenFiles
from tasks.verification.fitted.modifier_checks import ModifierChecks
from tasks.verification.fitted_meaning import SyntheticMeaning

_OTHER_PRIOR: Final = "the prior is not the one that the run began with: do not use this version"


class PriorChecks(ModifierChecks):
    """The checks of a prior."""

    def files(self, replay: SyntheticReplay) -> set[str]:
        """Return the file of its marginals."""
        return {PRIOR_FILE}

    def read(self, files: OpenFiles, meaning: SyntheticMeaning, findings: list[Finding]) -> PublicPrior | None:
        """Read the marginals of the prior; None where there are none to go on with."""
        data, asked = files.read(PRIOR_FILE, findings), meaning.product.prior
        if data is None or asked is None:
            return None
        prior, wrong = prior_of_file(data, asked, meaning.names, meaning.contract)
        findings += wrong
        return prior


def prior_of_file(
    data: bytes, asked: PriorSpec, names: tuple[str, ...], contract: Contract
) -> tuple[PublicPrior | None, list[Finding]]:
    """Return the marginals that a version publishes, or None with what is wrong.

    Args:
        data: bytes of their file.
        asked: the prior of the product; says their digest.
        names: the columns of the product.
        contract: gives their cells.
    """
    value, findings = read_json(data, where=PRIOR_FILE)
    found = digest(value)
    if found != asked.counts_sha256:
        allowed = f"{shown(asked.counts_sha256)}, as the product says"
        return None, [*findings, Finding(PRIOR_FILE, "SHA-256 of the marginals", found, allowed, _OTHER_PRIOR)]
    try:
        return PublicPrior.from_json(value, CellDomain.of(contract, names)), findings
    except ValueError as error:
        found = printable(str(error))
        wrong = Finding(PRIOR_FILE, "the marginals", found, "marginals of public rows", _OTHER_PRIOR)
        return None, [*findings, wrong]
