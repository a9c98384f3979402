"""Is the record of a synthetic version about its contract, product and journal? The checks, in this order.

1. the product fits the contract; rows, model and files are named as the product and the release say
2. what the publisher says of measurements and options is what is replayed
3. each noisy marginal is over the whole declared domain of columns of the product, and each sum over rows of columns
   of it, with the worst neighbour's moves
4. each private choice is the one that was entered, and what was chosen is measured afterwards
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from contracts.contract.contract import Contract
from contracts.errors import Finding, SudareError
from contracts.release.synthetic import ESTIMATED, MOST_ROWS, SyntheticProduct, synthetic_problems
from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteLaplaceVector,
    ExponentialMechanism,
    PoissonSampledGaussian,
    event_from_json,
)
from tasks.records.model.synthetic_statements import (
    FittedRecord,
    FittedReplay,
    StatisticStatement,
    SyntheticDraw,
    SyntheticRecord,
    SyntheticReplay,
)
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.charged_noise import worst_moves
from tasks.verification.draws.parameter_draws import check_parameters
from tasks.verification.draws.sum_draws import check_sum
from tasks.verification.draws.training_draws import check_trainings
from tasks.verification.record_identity import FIXED_FILES, OTHER, check_forms, differences, read_again
from tasks.verification.refinement_replay import values_sha256

FittedEvent = (
    DiscreteLaplace | DiscreteLaplaceVector | DiscreteGaussian | ExponentialMechanism | PoissonSampledGaussian
)
CHOICES: Final = "measurements/choices.json"
STATISTIC_FILES: Final = ("measurements/statistics.json", "measurements/statistics.parquet")
MODEL_FILES: Final = ("model/model.json", "model/arrays.parquet")
_UNDERSTATED: Final = "the stated loss does not follow from the contract: do not rely on the claimed guarantee"


class FittedMeaning(Protocol):
    """What the replay block of such a release is about."""

    @property
    def contract(self) -> Contract:
        """The contract."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        ...


@dataclass(frozen=True)
class SyntheticMeaning:
    """What the record's replay block is about, read again.

    Args:
        contract: the contract.
        product: the synthetic product.
        names: the columns of a row, in the contract's order.
    """

    contract: Contract
    product: SyntheticProduct
    names: tuple[str, ...]


def read_synthetic(replay: SyntheticReplay, *, where: str) -> tuple[SyntheticMeaning | None, list[Finding]]:
    """Read what a release of synthetic rows is about."""
    read, findings = read_again(replay, SyntheticProduct, where=where)
    if read is None:
        return None, findings
    contract, product = read
    findings += check_forms(contract, product, replay, where)
    for at, problem in synthetic_problems(product, contract):
        field = printable("replay.product." + ".".join(map(str, at)))
        findings.append(Finding(where, field, printable(problem.found), printable(problem.allowed), OTHER))
    return (None if findings else SyntheticMeaning(contract, product, product.names(contract))), findings


def check_rows_and_model(record: SyntheticRecord, meaning: SyntheticMeaning, *, where: str) -> list[Finding]:
    """Check that rows and model are those of the product, under the names that every version has."""
    rows, model, product = record.replay.rows, record.replay.model, meaning.product
    total = meaning.contract.total
    if product.rows != ESTIMATED:
        number, origin = product.rows, "declared"
    else:
        number, origin = min(model.rows, MOST_ROWS), "estimated" if total is None else "public"
    pairs: list[tuple[str, object, object]] = [
        ("replay.rows.number", rows.number, number),
        ("replay.rows.from", rows.from_, origin),
        ("replay.rows.data", rows.data, f"data/{record.release}.parquet"),
        ("replay.model.values", model.values, MODEL_FILES[0]),
        ("replay.model.arrays", model.arrays, MODEL_FILES[1]),
    ]
    if origin == "public" and total is not None:
        pairs.append(("replay.model.rows", model.rows, total.value))
    return list(differences(pairs, where=where, allowed="as product, contract and model say"))


def required_files(replay: SyntheticReplay) -> frozenset[str]:
    """Return the files that a synthetic version must have."""
    files = {replay.rows.data, replay.model.values, replay.model.arrays, *FIXED_FILES}
    files |= {draw.measurements for draw in replay.draws if draw.measurements is not None}
    files |= {CHOICES} if any(draw.index is not None for draw in replay.draws) else set()
    return frozenset(files | (set(STATISTIC_FILES) if statistics(replay) else set()))


def csv_of_rows(replay: SyntheticReplay) -> str:
    """Return the name of the rows' CSV file, which need not be there."""
    return f"{replay.rows.data.removesuffix('.parquet')}.csv"


def choices(replay: FittedReplay) -> list[dict[str, Any]]:
    """Return the private choices as they must stand in their own file, and in the record."""
    return [
        {
            "key": draw.key,
            "number": draw.number,
            "columns": list(draw.clique),
            "index": draw.index,
            "epsilon": draw.event.get("epsilon"),
        }
        for draw in replay.draws
        if draw.index is not None
    ]


def statistics(replay: FittedReplay) -> list[dict[str, Any]]:
    """Return what the sums over rows add up, as it must stand in their own file."""
    return [
        {"key": draw.key, "number": draw.number, **as_written(draw.statistic)}
        for draw in replay.draws
        if draw.statistic is not None
    ]


def as_written(statistic: StatisticStatement) -> dict[str, Any]:
    """Return a statement of a statistic as JSON values."""
    shapes = {name: list(shape) for name, shape in statistic.shapes.items()}
    return {"digest": statistic.digest, "parameters": statistic.parameters, "shapes": shapes}


def check_own_fields(record: FittedRecord, options: Mapping[str, Any], *, where: str) -> list[Finding]:
    """Compare the fields of the product that the publisher states by name with what is replayed."""
    fields, measured = record.declarations.fields, "product.measured"
    listed = fields.get(measured)
    files = [each.get("file") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    expected: dict[str, tuple[Any, Any]] = {
        measured: (files, [draw.measurements for draw in record.replay.draws if draw.measurements is not None]),
        "product.options": (as_far_as(options, fields.get("product.options")), dict(options)),
    }
    pairs = [(f"declarations.fields.{name}", *pair) for name, pair in expected.items() if name in fields]
    return list(differences(pairs, where=where, allowed="as it is replayed"))


def as_far_as(stated: Any, told: Any) -> Any:
    """Return of what is told those parts that are stated; what is told beside them are defaults."""
    if isinstance(stated, dict) and isinstance(told, dict):
        return {name: as_far_as(value, told.get(name)) for name, value in stated.items()}
    if isinstance(stated, list) and isinstance(told, list) and len(stated) == len(told):
        return [as_far_as(one, other) for one, other in zip(stated, told, strict=True)]
    return told


def read_draws(replay: FittedReplay, *, where: str) -> tuple[tuple[FittedEvent, ...], list[Finding]]:
    """Read the event of each draw; all are read, or the findings say which could not be."""
    events: list[FittedEvent] = []
    findings = []
    for place, draw in enumerate(replay.draws):
        at, allowed = (
            f"replay.draws[{place}].event",
            "noise on a marginal or on sums over rows, a private choice, or an interval of a training",
        )
        try:
            event = event_from_json(draw.event)
        except SudareError as error:
            findings.append(Finding(where, at, printable(str(error)), allowed, _UNDERSTATED))
            continue
        if isinstance(event, FittedEvent):
            events.append(event)
        else:
            findings.append(Finding(where, at, event.kind, allowed, _UNDERSTATED))
    return (() if findings else tuple(events)), findings


def check_marginals_and_choices(
    replay: FittedReplay, events: Sequence[FittedEvent], meaning: FittedMeaning, *, where: str
) -> list[Finding]:
    """Check each draw against the contract: marginals over declared domains, sums, measured choices."""
    findings = check_trainings(replay.draws, meaning.contract, where=where)
    findings += check_parameters(replay.draws, meaning.contract, where=where)
    files: set[str] = set()
    for place, (draw, event) in enumerate(zip(replay.draws, events, strict=True)):
        at = f"replay.draws[{place}]"
        if draw.training is not None or draw.parameters is not None:
            continue
        unknown = [name for name in draw.clique if name not in meaning.names]
        if unknown or len(set(draw.clique)) < len(draw.clique):
            found = f"columns {shown(list(draw.clique))}" if not unknown else f"the column {shown(unknown[0])}"
            findings.append(Finding(where, f"{at}.clique", found, "columns of the product, each once", OTHER))
            continue
        if isinstance(event, PoissonSampledGaussian | DiscreteLaplaceVector):
            allowed = "such an event for an interval of a training alone"
            findings.append(Finding(where, f"{at}.event.kind", event.kind, allowed, _UNDERSTATED))
            continue
        if isinstance(event, ExponentialMechanism):
            findings += _check_choice(replay.draws, place, where)
            continue
        if draw.statistic is not None:
            findings += check_sum(draw, draw.statistic, meaning.contract, meaning.names, at=at, where=where)
        else:
            findings += _check_marginal(draw, meaning, at, where)
        if draw.measurements in {*files, *STATISTIC_FILES}:
            found, allowed = shown(draw.measurements), "a file of its own for every measurement"
            findings.append(Finding(where, f"{at}.measurements", found, allowed, OTHER))
        files.add(draw.measurements or "")
    return findings


def _check_marginal(draw: SyntheticDraw, meaning: FittedMeaning, at: str, where: str) -> list[Finding]:
    """Check a marginal's shape, file and sensitivity."""
    name, worst = draw.measurements or "", worst_moves(meaning.contract)
    own = name.startswith("measurements/") and name.endswith(".parquet") and name.count("/") == 1
    pairs: list[tuple[str, object, object]] = [
        (f"{at}.clique", list(draw.clique), [name for name in meaning.names if name in draw.clique]),
        (f"{at}.shape", list(draw.shape), list(meaning.contract.shape(draw.clique))),
        (f"{at}.index", draw.index, None),
        (f"{at}.coarsening", draw.coarsening, None),
        (f"{at}.listed", draw.listed, None),
        (f"{at}.measurements", name if own else shown(name), name if own else "a Parquet file in measurements/"),
    ]
    findings = list(differences(pairs, where=where, allowed="the whole declared domain, in a file of its own"))
    if draw.event.get("moves") != worst:
        terms = f"{meaning.contract.adjacency} with {meaning.contract.unit.max_rows_per_unit} rows a unit"
        found = str(draw.event.get("moves"))[:60]
        findings.append(Finding(where, f"{at}.event.moves", found, f"{worst}, under {terms}", _UNDERSTATED))
    return findings


def _check_choice(draws: Sequence[SyntheticDraw], place: int, where: str) -> list[Finding]:
    """Check that a choice is the one that was entered, and that what was chosen is measured afterwards."""
    draw, at = draws[place], f"replay.draws[{place}]"
    if draw.index is None or draw.measurements is not None or draw.shape or draw.statistic is not None:
        found = "a choice without its index, or with a marginal"
        return [Finding(where, at, found, "the place of what was chosen, and no marginal", OTHER)]
    found = values_sha256(np.array([draw.index], dtype=np.int64))
    findings = []
    if found != draw.sha256:
        allowed = f"{draw.sha256}, as it was entered when the choice was made"
        findings.append(Finding(where, f"{at}.index", f"{draw.index}, SHA-256 {found}", allowed, OTHER))
    later = [set(each.clique) for each in draws[place + 1 :] if each.index is None]
    if set(draw.clique) not in later:
        allowed = "a choice whose columns are measured afterwards"
        findings.append(Finding(where, f"{at}.clique", shown(list(draw.clique)), allowed, OTHER))
    return findings
