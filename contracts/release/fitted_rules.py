"""What a spec of synthetic rows, or of a classifier, must be beside its contract."""

from __future__ import annotations

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.reading.scalars import Problem
from contracts.release.classifier import classifier_problems
from contracts.release.spec import ReleaseSpec
from contracts.release.synthetic import idle_options, synthetic_problems


def synthetic_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """List what in a release of synthetic rows does not fit its contract."""
    product = spec.synthetic_product
    problems = (*synthetic_problems(product, contract), *idle_options(product))
    findings = [spec.finding(("product", *at), problem) for at, problem in problems]
    pictures = contract.pictures(product.names(contract))
    if not pictures or "csv" not in spec.publish.formats:
        return findings
    # pictures are published as Parquet lists; CSV has none
    found = f"csv with {pictures[0]!r}, a column of pictures"
    remedy = "write formats: [parquet], or leave the column out of `columns:`"
    return [*findings, spec.finding(("publish", "formats"), Problem(found, "parquet alone", remedy))]


def classifier_findings(spec: ReleaseSpec, contract: Contract) -> list[Finding]:
    """List what in a release of a classifier does not fit its contract."""
    problems = classifier_problems(spec.classifier_product, contract)
    findings = [spec.finding(("product", *at), problem) for at, problem in problems]
    if spec.publish.formats == ("parquet",):
        return findings
    # weights are published as safetensors, and what was measured for them as Parquet
    found = f"{' and '.join(each for each in spec.publish.formats if each != 'parquet')} with a model"
    problem = Problem(found, "parquet alone", "write formats: [parquet], or drop the key")
    return [*findings, spec.finding(("publish", "formats"), problem)]
