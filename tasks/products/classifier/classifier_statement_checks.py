"""Is the record of a released model about its contract, product and journal? The checks, in this order.

1. the product fits the contract; weights, inputs and card are named as every version of a model names them, and the
   network has the inputs and outputs that columns and label give it
2. people are told the trainer, its options, label, columns, network, ranges, seed, measurements and choices that are
   replayed, and the joint guarantee that is claimed
3. draws on marginals, sums, choices and trainings are checked as those of synthetic rows (`synthetic`)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from contracts.contract.contract import Contract
from contracts.errors import Finding
from contracts.release.classifier import ModelProduct, model_problems
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.classifiers.inputs import model_layout
from tasks.records.model.classifier_statements import ModelRecord, ModelReplay
from tasks.records.strict_json import printable
from tasks.verification.fitted_meaning import CHOICES, STATISTIC_FILES, as_far_as, choices, statistics, warns_of_time
from tasks.verification.record_identity import FIXED_FILES, OTHER, check_forms, differences, read_again

WEIGHTS: Final = "model/model.safetensors"
INPUTS: Final = "model/inputs.json"
CARD: Final = "model/card.md"
_LIMITS: Final = ("lowest", "highest", "lowest_bias", "highest_bias")


@dataclass(frozen=True)
class ModelMeaning:
    """What the record's replay block is about, read again.

    Args:
        contract: the contract.
        product: the product.
        names: the columns that were learned from, the label among them, in the contract's order.
    """

    contract: Contract
    product: ModelProduct
    names: tuple[str, ...]


def read_model_meaning(replay: ModelReplay, *, where: str) -> tuple[ModelMeaning | None, list[Finding]]:
    """Read what a release of a model is about."""
    read, findings = read_again(replay, ModelProduct, where=where)
    if read is None:
        return None, findings
    contract, product = read
    findings += check_forms(contract, product, replay, where)
    for at, problem in model_problems(product, contract):
        field = printable("replay.product." + ".".join(map(str, at)))
        findings.append(Finding(where, field, printable(problem.found), printable(problem.allowed), OTHER))
    return (None if findings else ModelMeaning(contract, product, product.names(contract))), findings


def check_network(replay: ModelReplay, meaning: ModelMeaning, *, where: str) -> list[Finding]:
    """Check the files' names, and that the network reads the columns and tells the label's cells."""
    layout, stated = model_layout(meaning.contract, meaning.product), replay.model
    classes = layout.column(meaning.product.label).width
    ends = (stated.widths[0], stated.widths[-1]) if len(stated.widths) > 1 else None
    pairs: list[tuple[str, object, object]] = [
        ("replay.model.weights", stated.weights, WEIGHTS),
        ("replay.model.inputs", stated.inputs, INPUTS),
        ("replay.model.card", stated.card, CARD),
        ("replay.model.widths", ends, (layout.width - classes, classes)),
        ("replay.model.range", stated.range is None or len(stated.range) == 4, True),
    ]
    return list(differences(pairs, where=where, allowed="as product and contract say"))


def required_files(replay: ModelReplay) -> frozenset[str]:
    """Return the files that a version of a model must have."""
    files = {WEIGHTS, INPUTS, CARD, *FIXED_FILES}
    files |= {draw.measurements for draw in replay.draws if draw.measurements is not None}
    files |= {CHOICES} if any(draw.index is not None for draw in replay.draws) else set()
    return frozenset(files | (set(STATISTIC_FILES) if statistics(replay) else set()))


def check_told_model(record: ModelRecord, meaning: ModelMeaning, *, where: str) -> list[Finding]:
    """Compare what people are told of the model with what is replayed."""
    replay, group = record.replay, record.groups.get("product")
    fields: Mapping[str, Any] = {} if group is None else {name: f.value for name, f in group.fields.items()}
    listed, options = fields.get("measured"), meaning.product.options
    files = [each.get("file") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    network, joint = _part(fields.get("network")), _part(_part(fields.get("guarantees")).get("joint"))
    limits, told = replay.model.range, _part(fields.get("clamped"))
    clamped = [told.get(name) for name in _LIMITS]
    pairs: list[tuple[str, object, object]] = [
        ("groups.product.trainer", fields.get("trainer"), meaning.product.trainer),
        ("groups.product.options", as_far_as(options, fields.get("options")), options),
        ("groups.product.label", fields.get("label"), meaning.product.label),
        ("groups.product.columns", fields.get("columns"), list(meaning.names)),
        ("groups.product.network.widths", network.get("widths"), list(replay.model.widths)),
        ("groups.product.clamped", clamped, list(limits or (None,) * len(_LIMITS))),
        ("groups.product.guarantees.joint.epsilon", joint.get("epsilon"), pico_to_text(replay.claim.epsilon)),
        ("groups.product.guarantees.joint.delta", joint.get("delta"), atto_to_text(replay.claim.delta)),
        (
            "groups.product.measured",
            files,
            [draw.measurements for draw in replay.draws if draw.measurements is not None],
        ),
        ("groups.product.choices", fields.get("choices"), choices(replay) or "none"),
        ("groups.product.seed", fields.get("seed"), replay.seed or "none"),
        ("groups.product.notes", fields.get("notes"), list(replay.notes) or "none"),
        ("groups.unprotected.run_time_facts", warns_of_time(record), options.get("time_limit") is not None),
    ]
    return list(differences(pairs, where=where, allowed="as it is replayed"))


def _part(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
