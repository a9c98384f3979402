"""Is the record of a classifier about its contract, product and journal? The checks, in this order.

1. the product fits the contract; weights, inputs and card are named as every such version names them, and the network
   has the inputs and outputs that columns and label give it
2. people are told the trainer, its options, label, columns, network, ranges, seed, measurements and choices that are
   replayed, and the joint guarantee that is claimed
3. draws on marginals, sums, choices and trainings are checked as those of synthetic rows (`synthetic`)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.release.classifier import ClassifierProduct, classifier_problems
from privacy.classifiers.classifier import classifier_layout
from tasks.records.model.version_statements import ClassifierReplay
from tasks.records.strict_json import printable
from tasks.verification.fitted_meaning import drawn_files
from tasks.verification.record_identity import FIXED_FILES, OTHER, check_forms, differences, read_again

WEIGHTS: Final = "model/model.safetensors"
INPUTS: Final = "model/inputs.json"
CARD: Final = "model/card.md"


@dataclass(frozen=True)
class ClassifierMeaning:
    """What the record's replay block is about, read again.

    Args:
        contract: the contract.
        product: the product.
        names: the columns that were learned from, the label among them, in the contract's order.
    """

    contract: Contract
    product: ClassifierProduct
    names: tuple[str, ...]

    def minimum_frequency_of(self, key: str) -> None:
        """No cell is suppressed."""
        return None

    def ordered(self, clique: tuple[str, ...]) -> tuple[str, ...]:
        """Return columns in the contract's order."""
        return tuple(name for name in self.names if name in clique)


def read_classifier_meaning(
    replay: ClassifierReplay, *, where: str
) -> tuple[ClassifierMeaning | None, list[Finding]]:
    """Read what a release of a classifier is about."""
    read, findings = read_again(replay, ClassifierProduct, where=where)
    if read is None:
        return None, findings
    contract, product = read
    findings += check_forms(contract, product, replay, where)
    for at, problem in classifier_problems(product, contract):
        field = printable("replay.product." + ".".join(map(str, at)))
        findings.append(Finding(where, field, printable(problem.found), printable(problem.allowed), OTHER))
    return (None if findings else ClassifierMeaning(contract, product, product.names(contract))), findings


def check_network(replay: ClassifierReplay, meaning: ClassifierMeaning, *, where: str) -> list[Finding]:
    """Check the files' names, and that the network reads the columns and tells the label's cells."""
    layout, stated = classifier_layout(meaning.contract, meaning.product), replay.model
    classes = layout.column(meaning.product.label).width
    ends = (stated.widths[0], stated.widths[-1]) if len(stated.widths) > 1 else None
    pairs: list[tuple[str, object, object]] = [
        ("replay.model.weights", stated.weights, WEIGHTS),
        ("replay.model.inputs", stated.inputs, INPUTS),
        ("replay.model.card", stated.card, CARD),
        ("replay.model.widths", ends, (layout.width - classes, classes)),
        ("replay.model.range", stated.range is None or len(stated.range) == 4, True),
    ]
    learned = any(draw.kind in ("training", "parameters") for draw in replay.draws)
    pairs.append(("replay.seed", "none" if replay.seed is None else "a seed", "none" if learned else "a seed"))
    return list(differences(pairs, where=where, allowed="as product and contract say"))


def required_files(replay: ClassifierReplay) -> frozenset[str]:
    """Return the files that a version of a classifier must have."""
    return frozenset({WEIGHTS, INPUTS, CARD, *FIXED_FILES} | drawn_files(replay))
