"""What people are told of errors: computed again from the events, and from released counts and noisy ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from contracts.errors import Finding
from privacy.evaluation.against_noisy import Distance
from tasks.records.model.version_statements import DrawStatement, RecordTerms
from tasks.records.strict_json import shown

_TOLERANCE: Final = 1e-5
_SUMMED: Final = 4096
_MISLEADING: Final = "people are told of another error than follows: rely on the recomputed value"


def check_expected_errors(record: RecordTerms, *, where: str) -> list[Finding]:
    """Check the errors that people are told follow from the declared noise.

    Formulas: discrete Laplace of inverse scale t: E|x| = 1 / sinh t, sqrt(E x^2) = 1 / (sqrt 2 sinh(t / 2)); discrete
    Gaussian: the sums over the support, or those of the continuous one where sigma^2 is above 4096.
    """
    if getattr(record.replay, "execution", None) is not None:
        return []  # sums over sites have the noise of the sites that answered
    told, findings = entries(record, "expected_error"), []
    marginal = {draw.key: draw for draw in record.replay.draws if _size(draw) is not None}
    if set(told) != set(marginal):
        allowed = f"the {len(marginal)} noisy marginals of the draws"
        findings.append(Finding(where, "groups.utility.expected_error", f"{len(told)} entries", allowed, _MISLEADING))
    for key, draw in marginal.items():
        expected, entry = _size(draw), told.get(key, {})
        if expected is None:
            continue
        for name, value in zip(("mean_absolute", "rmse"), expected, strict=True):
            findings += compare(entry.get(name), value, f"groups.utility.expected_error, {key}: {name}", where)
    return findings


def check_distances(record: RecordTerms, found: Mapping[str, Distance], *, where: str) -> list[Finding]:
    """Check how far people are told published counts lie from noisy ones.

    Args:
        record: the record.
        found: recomputed from the published files, by the key of the draw.
        where: the record's file name.
    """
    told, findings = entries(record, "error_against_noisy"), []
    for key, apart in found.items():
        for name, value in (("mean_absolute", apart.mean_absolute), ("rmse", apart.rmse)):
            at = f"groups.utility.error_against_noisy, {key}: {name}"
            findings += compare(told.get(key, {}).get(name), value, at, where)
    return findings


def entries(record: RecordTerms, name: str) -> dict[str, Mapping[str, Any]]:
    """Return a list of the section utility by the draw that each entry is of."""
    group = record.groups.get("utility")
    field = group.fields.get(name) if group is not None else None
    listed: Sequence[Any] = field.value if field is not None and isinstance(field.value, list) else ()
    return {str(each.get("of")): each for each in listed if isinstance(each, dict)}


def compare(told: Any, expected: float, at: str, where: str) -> list[Finding]:
    """Compare a stated error with a recomputed one, up to the digits that are stated."""
    try:
        stated = float(told) if isinstance(told, str) and len(told) < 40 else math.nan
    except ValueError:
        stated = math.nan
    if math.isclose(stated, expected, rel_tol=_TOLERANCE, abs_tol=1e-9):
        return []
    return [Finding(where, at, shown(told), f"{expected:.6g}, recomputed", _MISLEADING)]


def _size(draw: DrawStatement) -> tuple[float, float] | None:
    """Return mean size and root mean square of a marginal's noise; None of what is no marginal, or cannot be read."""
    kind, statistic = draw.event.get("kind"), getattr(draw, "statistic", None)
    if statistic is not None or getattr(draw, "parameters", None) is not None:
        return None
    try:
        if kind == "discrete_laplace":
            t = float(Fraction(str(draw.event["inverse_scale"])[:130]))
            return 1 / math.sinh(t), 1 / (math.sqrt(2) * math.sinh(t / 2))
        if kind == "discrete_gaussian":
            return _gaussian(float(Fraction(str(draw.event["sigma_squared"])[:130])))
    except (KeyError, ValueError, ArithmeticError):
        return None
    return None


def _gaussian(square: float) -> tuple[float, float]:
    """Return E|x| and sqrt(E x^2) of the discrete Gaussian."""
    if square > _SUMMED:
        return math.sqrt(2 * square / math.pi), math.sqrt(square)
    far = math.ceil(12 * math.sqrt(square)) + 2
    weights = [(x, math.exp(-x * x / (2 * square))) for x in range(1, far)]
    whole = 1 + 2 * math.fsum(weight for _, weight in weights)
    mean = 2 * math.fsum(x * weight for x, weight in weights) / whole
    return mean, math.sqrt(2 * math.fsum(x * x * weight for x, weight in weights) / whole)
