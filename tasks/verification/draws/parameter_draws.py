"""Are draws of noisy parameters, or of noisy changes of them, as noisy as they are said to be? Derived here anew.

A clamped number lies at one of S + 1 = 65,537 points of its own range, whatever that is, so it moves by at most S. P
numbers move at once:
    parameters   once                                            times = P
    deltas       once an epoch for each of a unit's k rows       times = P k b, b epochs a draw
Laplace noise has `move` S and these `times`; Gaussian noise one move, the least whole number >= S sqrt(times).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isqrt
from typing import Any, Final

from contracts.contract.contract import Contract
from contracts.errors import Finding
from tasks.records.model.synthetic_statements import SyntheticDraw
from tasks.records.strict_json import printable, shown
from tasks.verification.record_identity import OTHER, differences

STEPS: Final = 2**16
_UNDERSTATED: Final = "the stated loss does not follow from the contract: do not rely on the claimed guarantee"
_TRAINED: Final = frozenset({"label", "widths", "epochs", "batch", "learning_rate", "regulariser", "seed"})
_KINDS: Final = {
    "parameters": _TRAINED | {"kind", "lowest", "highest", "lowest_bias", "highest_bias"},
    "deltas": _TRAINED | {"kind", "rows_about", "limit", "bias_limit", "checkpoints"},
}


def check_parameters(draws: Sequence[SyntheticDraw], contract: Contract, *, where: str) -> list[Finding]:
    """Check the draws of noisy parameters: their form, their course, and what their events say.

    Args:
        draws: all draws of the version, in order.
        contract: gives the rows of a unit.
        where: the record's file name.
    """
    placed = [(place, draw) for place, draw in enumerate(draws) if draw.parameters is not None]
    findings: list[Finding] = []
    for number, (place, draw) in enumerate(placed):
        stated = draw.parameters
        if stated is None:
            continue
        at, made = f"replay.draws[{place}]", stated.perturbation
        try:
            count, draws_in_all, epochs = _read(made)
        except (KeyError, TypeError, ValueError) as error:
            found, allowed = printable(f"{type(error).__name__}: {error}"), "parameters, or changes of them"
            findings.append(Finding(where, f"{at}.parameters.perturbation", found, allowed, OTHER))
            continue
        last, name = number == draws_in_all - 1, draw.measurements or ""
        own = name.startswith("measurements/") and name.endswith(".parquet") and name.count("/") == 1
        pairs: list[tuple[str, object, object]] = [
            (f"{at}.clique", list(draw.clique), []),
            (f"{at}.shape", list(draw.shape), [count]),
            (f"{at}.index", draw.index, None),
            (f"{at}.statistic", draw.statistic, None),
            (f"{at}.parameters.interval", stated.interval, number),
            (f"{at}.parameters.perturbation", shown(str(made)), shown(str(_first(placed)))),
            (f"{at}.parameters, draws", len(placed), draws_in_all),
            (f"{at}.measurements", own, last),
        ]
        findings += differences(pairs, where=where, allowed="as of every draw of parameters; the last is published")
        findings += _check_event(draw.event, count, epochs, contract, f"{at}.event", where)
    return findings


def _first(placed: Sequence[tuple[int, SyntheticDraw]]) -> Mapping[str, Any]:
    first = placed[0][1].parameters
    return {} if first is None else first.perturbation


def _read(document: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return how many parameters there are, how many draws, and the epochs of a draw of changes; else 0."""
    kind = document["kind"]
    if kind not in _KINDS or set(document) != _KINDS[kind]:
        raise ValueError("another kind, or other fields")
    widths = [_is_whole(each, 10**5) for each in document["widths"]]
    count = sum((inputs + 1) * outputs for inputs, outputs in pairwise(widths))
    if kind == "parameters":
        return count, 1, 0
    epochs, checkpoints = _is_whole(document["epochs"], 10**5), _is_whole(document["checkpoints"], 10**5)
    if epochs % checkpoints:
        raise ValueError("epochs that are no multiple of the checkpoints")
    return count, checkpoints, epochs // checkpoints


def _check_event(
    event: Mapping[str, Any], count: int, epochs: int, contract: Contract, at: str, where: str
) -> list[Finding]:
    """Check how far the worst neighbour moves the numbers."""
    times = count * epochs * contract.unit.max_rows_per_unit if epochs else count
    expected: dict[str, Any] = {"move": STEPS, "times": times}
    if event.get("kind") == "discrete_gaussian":
        square = STEPS * STEPS * times
        root = isqrt(square)
        expected = {"moves": [root + (root * root < square)]}
    elif event.get("kind") != "discrete_laplace_vector":
        allowed = "discrete_laplace_vector or discrete_gaussian"
        return [Finding(where, f"{at}.kind", shown(event.get("kind")), allowed, _UNDERSTATED)]
    return [
        Finding(where, f"{at}.{name}", shown(event.get(name)), f"{value}, derived anew", _UNDERSTATED)
        for name, value in expected.items()
        if event.get(name) != value
    ]


def _is_whole(value: Any, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError("no whole number in range")
    return value
