"""What a grant lets in: exact types, so that no code of a caller sees counts, and values whose sensitivity it knows.

A subclass could bring methods of its own to where exact counts are, and a value of the wrong form could make a
derived sensitivity false. So each argument, and each of its parts that meets exact counts, has exactly the expected
type; whatever is not an array of numbers is a frozen value of ours. (Code in this process can always go round the
public interface; docs/derivations.md, section 9.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import numpy as np

from contracts.canonical import digest
from contracts.contract.cell_codes import ImpossibleCells
from contracts.release.tables.minimum_frequency import MinimumFrequency
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.learning.moments import Moments
from privacy.learning.rows import PrivateRows
from privacy.ledger.terms import ChargeRequest
from privacy.marginals.coarsening import Coarsening
from privacy.marginals.counts import PrivateCounts, SparseCounts
from privacy.marginals.scores import Candidate, DistanceScore, MutualInformationScore
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.refine.sparse_depth import Depth

LARGEST_PREDICTION: Final = 2**53
"""No count comes near it, and differences of two such numbers stay far inside 64 bits [rows]."""
LARGEST_DISTANCE: Final = 2**62
"""The largest number of a prediction times its cells: the sum of all differences stays inside 64 bits too [rows]."""
HANDLES: Final = frozenset({PrivateCounts, SparseCounts, PrivateRows})
"""What only a grant opens; opaque."""
SCALARS: Final = frozenset({Fraction, int, str, bool, NoneType})
"""What has no parts that this module walks."""


def rebuilt(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Return a copy of a value, field by field, in which each part has exactly the type that its class declares.

    A frozen dataclass is made again from its parts, which checks them again: what was changed behind it, or cached in
    it, does not come along. A handle is opaque and stays what it is. A declaration that this walk does not know (a
    tuple, an array) is refused, so that no part goes by unseen.

    Args:
        name: of the value, for messages.
        value: what a caller gave.
        allowed: the types that it may have; no subclass of them.
    Raises:
        ValueError: a value, or a part of it, of another type.
    """
    if type(value) not in allowed:
        kinds = " or ".join(kind.__name__ for kind in allowed)
        raise ValueError(f"{name} must be {kinds} itself, not {type(value).__name__}")
    if type(value) in HANDLES:
        _check_coarsening(name, value)
        return value
    if type(value) in SCALARS:
        return value
    if type(value) is MinimumFrequency:
        return _rebuilt_rule(name, value)
    if not is_dataclass(value):
        raise ValueError(f"{name}: {type(value).__name__} is neither a frozen value nor a handle")
    kind: Any = type(value)
    declared = get_type_hints(kind)
    parts = {each.name: getattr(value, each.name) for each in fields(kind)}
    return kind(
        **{each: rebuilt(f"{name}.{each}", part, _alternatives(declared[each])) for each, part in parts.items()}
    )


def check_unshadowed(name: str, value: Any) -> None:
    """Refuse a frozen value that keeps more in its dictionary than its fields, in any of its parts.

    Python looks for a method in an object's own dictionary too. A function that a caller puts there, past the frozen
    class, would be called in the method's place, where exact counts are. What a cached property has left there is
    taken out, so that it is worked out again.

    Raises:
        ValueError: an entry that is no field, or a sequence of a class of the caller's.
    """
    if isinstance(value, tuple | list):
        if type(value) not in (tuple, list):
            raise ValueError(f"{name} must be a tuple itself, not {type(value).__name__}")
        for part in value:
            check_unshadowed(name, part)
        return
    if not is_dataclass(value):
        return
    declared = {each.name for each in fields(value)}
    own = getattr(value, "__dict__", {})
    for entry in [entry for entry in own if entry not in declared]:
        if not isinstance(getattr(type(value), entry, None), cached_property):
            raise ValueError(f"{name} must keep its fields alone, and not {entry!r} besides")
        del own[entry]
    for each in declared:
        check_unshadowed(f"{name}.{each}", getattr(value, each))


def _rebuilt_rule(name: str, rule: MinimumFrequency) -> MinimumFrequency:
    """Make a minimum-frequency rule again from plain numbers: a model can be constructed past its own checks."""
    stated = {each: getattr(rule, each) for each in MinimumFrequency.model_fields}
    for each, value in stated.items():
        if type(value) not in (int, str, Decimal, NoneType):
            raise ValueError(f"{name}.{each} must be a plain number, not {type(value).__name__}")
    return MinimumFrequency.model_validate(
        {each: str(value) if isinstance(value, Decimal) else value for each, value in stated.items()}
    )


def _check_coarsening(name: str, counts: Any) -> None:
    coarsening = getattr(counts, "coarsening", None)
    if coarsening is not None:
        _exactly(f"{name}.coarsening", coarsening, Coarsening)
        check_unshadowed(f"{name}.coarsening", coarsening)


def _alternatives(declared: Any) -> tuple[Any, ...]:
    """Return the types that a declaration allows."""
    return get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,)


def check_counts(counts: object, kind: type) -> None:
    """Refuse what is not a handle of exactly that kind, at its own resolution or at a genuine coarser one."""
    _exactly("counts", counts, kind)
    _check_coarsening("counts", counts)


def check_noise(noise: object) -> None:
    """Refuse noise whose amount is not an exact number."""
    match noise:
        case LaplaceNoise(epsilon=amount) | GaussianNoise(rho=amount) if type(noise) in (LaplaceNoise, GaussianNoise):
            _exactly("noise: its amount", amount, Fraction)
        case _:
            raise ValueError(f"noise must be LaplaceNoise or GaussianNoise, not {type(noise).__name__}")


def check_depth(until: object, inverse_scale: Fraction) -> None:
    """Refuse a depth that is not a value, was made for other noise, or cannot be drawn to."""
    _exactly("until", until, Depth)
    if not isinstance(until, Depth):
        raise ValueError("until must be a Depth")
    check_unshadowed("until", until)
    _exactly("until.impossible", until.impossible, ImpossibleCells)
    for _, mask in until.impossible.masks:
        _exactly("until.impossible: its masks", mask, np.ndarray)
    _exactly("until.inverse_scale", until.inverse_scale, Fraction)
    for name in ("first", "least"):
        _exactly(f"until.{name}", getattr(until, name), int)
    if until.target is not None:
        _exactly("until.target", until.target, Fraction)
    if not 1 <= until.least <= until.first or (until.target is not None and until.target < 0):
        raise ValueError("until must have 1 <= least <= first, and a target of at least 0")
    if until.inverse_scale != inverse_scale:
        raise ValueError(f"until must be made for the noise that is drawn, {inverse_scale}")


def check_sums(rows: object, statistic: object, noise: object) -> tuple[Moments, RowLayout]:
    """Refuse rows, statistics and noise of another making; return copies that nobody else holds.

    A copy is built anew from its parts, which checks each of them again: what was changed behind a frozen value, or
    cached in it, does not come along.

    Raises:
        ValueError: another type, a part of another form, noise that is not Gaussian, or a statistic of other rows.
    """
    check_noise(noise)
    _exactly("noise", noise, GaussianNoise)
    layout = checked_layout(rows)
    return checked_statistic(statistic, layout), layout


def checked_statistic(statistic: object, layout: RowLayout) -> Moments:
    """Refuse a statistic of another making or of other rows; return a copy that nobody else holds."""
    if not isinstance(statistic, Moments) or type(statistic) is not Moments:
        raise ValueError(f"statistic must be Moments itself, not {type(statistic).__name__}")
    check_unshadowed("statistic", statistic)
    statistic.__post_init__()
    copied = statistic.rebuilt()
    copied.embedding.check(layout)
    copied.groups.check(copied.embedding, layout)
    return copied


def checked_layout(rows: object) -> RowLayout:
    """Refuse rows of another making; return a copy of their layout that nobody else holds."""
    _exactly("rows", rows, PrivateRows)
    if not isinstance(rows, PrivateRows):
        raise ValueError("rows must be PrivateRows")
    return rebuilt_layout(rows.layout)


def rebuilt_layout(layout: object) -> RowLayout:
    """Refuse a layout of another making; return a copy that nobody else holds."""
    _exactly("rows.layout", layout, RowLayout)
    if not isinstance(layout, RowLayout):
        raise ValueError("rows.layout must be RowLayout")
    columns = layout.columns
    for column in columns:
        _exactly("rows.layout: its columns", column, ColumnLayout)
        _exactly("rows.layout: its tables", column.table, np.ndarray)
    return RowLayout(tuple(ColumnLayout(each.name, each.kind, each.table, each.length) for each in columns))


def check_candidates(candidates: Sequence[Candidate], epsilon: object, request: ChargeRequest) -> None:
    """Refuse candidates of whose scores the sensitivity would not be the derived one.

    Raises:
        ValueError: no candidates, a handle, score or part of it of another type, a prediction of another shape,
            beyond 2^53 or so large in so many cells that sums overflow, a weight that is not positive, mutual
            information where the number of rows is not public or not the one declared.
    """
    _exactly("epsilon", epsilon, Fraction)
    if not candidates:
        raise ValueError("candidates must hold at least one marginal")
    for candidate in candidates:
        _exactly("candidate", candidate, Candidate)
        check_counts(candidate.counts, PrivateCounts)
        check_unshadowed("candidate.score", candidate.score)
        if type(candidate.score) is DistanceScore:
            _check_distance(candidate.score, candidate.counts)
        elif type(candidate.score) is MutualInformationScore:
            _check_information(candidate.score, request)
        else:
            raise ValueError("candidates must have scores whose sensitivity is derived in privacy.marginals.scores")


def candidates_digest(candidates: Sequence[Candidate]) -> str:
    """Return the digest of what a choice is among: columns, and resolution where that is coarser."""
    handles = [candidate.counts for candidate in candidates]
    return digest(
        [[*each.clique] if each.coarsening is None else [*each.clique, each.coarsening.to_json()] for each in handles]
    )


def _check_distance(score: DistanceScore, counts: PrivateCounts) -> None:
    prediction = score.prediction
    _exactly("score.prediction", prediction, np.ndarray)
    if prediction.dtype != np.int64 or prediction.shape != counts.shape:
        raise ValueError(f"score.prediction must be int64 of shape {counts.shape}, like the counts")
    if prediction.size and not -LARGEST_PREDICTION <= prediction.min() <= prediction.max() <= LARGEST_PREDICTION:
        raise ValueError(f"score.prediction must lie within {LARGEST_PREDICTION} of 0")
    if prediction.size and max(-int(prediction.min()), int(prediction.max())) * prediction.size > LARGEST_DISTANCE:
        raise ValueError(f"score.prediction: its largest number times its cells must be at most {LARGEST_DISTANCE}")
    for name in ("weight", "bias"):
        _exactly(f"score.{name}", getattr(score, name), Fraction)
    if score.weight <= 0:
        raise ValueError(f"score.weight must be above 0, not {score.weight}")


def _check_information(score: MutualInformationScore, request: ChargeRequest) -> None:
    _exactly("score.rows", score.rows, int)
    if request.adjacency != "replace_one" or request.rows_per_unit != 1 or score.rows != request.public_total:
        raise ValueError(
            "mutual information needs adjacency replace_one, one row a unit, and as its number of rows the total "
            "that the contract declares public"
        )


def _exactly(name: str, value: Any, kind: type) -> None:
    if type(value) is not kind:
        raise ValueError(f"{name} must be {kind.__name__} itself, not {type(value).__name__}")
