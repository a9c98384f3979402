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

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplaceVector
from privacy.grant.queries.parameters import ParameterQuery
from tasks.records.draws.parameters import PARAMETER_SCHEMA, ParameterDraw
from tasks.records.model.version_statements import FittedDraw
from tasks.records.strict_json import printable, shown
from tasks.verification.draws.draw_checks import (
    UNDERSTATED,
    DrawChecks,
    FileForm,
    FittedMeaning,
    OtherDraw,
    PublishedValues,
    is_own_file,
)
from tasks.verification.files.parquet_pages import open_numbers
from tasks.verification.files.table_files import MISFIT, UNREADABLE, check_digest
from tasks.verification.record_identity import OTHER, differences
from tasks.verification.refinement_replay import values_sha256

STEPS: Final = 2**16
_TRAINED: Final = frozenset({"label", "widths", "epochs", "batch", "learning_rate", "regulariser", "seed"})
_KINDS: Final = {
    "parameters": _TRAINED | {"kind", "lowest", "highest", "lowest_bias", "highest_bias"},
    "deltas": _TRAINED | {"kind", "rows_about", "limit", "bias_limit", "checkpoints"},
}


class ParameterChecks(DrawChecks[ParameterDraw, ParameterQuery]):
    """The checks of noisy parameters."""

    events = (DiscreteLaplaceVector, DiscreteGaussian)

    def check(
        self,
        placed: Sequence[tuple[int, ParameterDraw]],
        draws: Sequence[FittedDraw],
        meaning: FittedMeaning,
        *,
        where: str,
    ) -> list[Finding]:
        """Check their form, their course, and what their events say."""
        return _check_course(placed, meaning.contract, where)

    def form(self, draw: ParameterDraw, meaning: FittedMeaning) -> FileForm:
        """Numbers are written with dictionaries."""
        return FileForm(all_dictionaries=True)

    def read(
        self, data: bytes, draw: ParameterDraw, event: Any, meaning: FittedMeaning, rebuilt: Any
    ) -> tuple[NDArray[np.int64] | None, list[Finding]]:
        """Check a file of noisy parameters."""
        return check_parameter_file(data, draw)

    def matching(self, query: ParameterQuery, draw: ParameterDraw, values: PublishedValues) -> ParameterQuery:
        """Compare what was trained; of the draws before the last one nothing is published."""
        if draw.parameters.perturbation != query.perturbation.to_json():
            raise OtherDraw(f"draw {draw.key!r}: another training was asked for, not what is there")
        return query


def _check_course(placed: Sequence[tuple[int, ParameterDraw]], contract: Contract, where: str) -> list[Finding]:
    findings: list[Finding] = []
    for number, (place, draw) in enumerate(placed):
        at, stated = f"replay.draws[{place}]", draw.parameters
        made = stated.perturbation
        try:
            count, draws_in_all, epochs = _read(made)
        except (KeyError, TypeError, ValueError) as error:
            found, allowed = printable(f"{type(error).__name__}: {error}"), "parameters, or changes of them"
            findings.append(Finding(where, f"{at}.parameters.perturbation", found, allowed, OTHER))
            continue
        last, own = number == draws_in_all - 1, is_own_file(draw.measurements)
        pairs: list[tuple[str, object, object]] = [
            (f"{at}.clique", list(draw.clique), []),
            (f"{at}.shape", list(draw.shape), [count]),
            (f"{at}.parameters.interval", stated.interval, number),
            (f"{at}.parameters.perturbation", made, placed[0][1].parameters.perturbation),
            (f"{at}.parameters, draws", len(placed), draws_in_all),
            (f"{at}.measurements", own, last),
        ]
        findings += differences(pairs, where=where, allowed="as of every draw of parameters; the last is published")
        findings += _check_event(draw.event, count, epochs, contract, f"{at}.event", where)
    return findings


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
        return [Finding(where, f"{at}.kind", shown(event.get("kind")), allowed, UNDERSTATED)]
    return [
        Finding(where, f"{at}.{name}", shown(event.get(name)), f"{value}, derived anew", UNDERSTATED)
        for name, value in expected.items()
        if event.get(name) != value
    ]


def _is_whole(value: Any, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError("no whole number in range")
    return value


def check_parameter_file(data: bytes, draw: ParameterDraw) -> tuple[NDArray[np.int64] | None, list[Finding]]:
    """Check a file of noisy parameters.

    Args:
        data: bytes of the file.
        draw: what the record says of the draw.
    Returns:
        tuple: the numbers as they were drawn, None where they cannot be read; and what is wrong.
    """
    where = printable(draw.measurements or "")
    try:
        file = open_numbers(data)
        found = [(field.name, str(field.type)) for field in file.schema_arrow]
        wanted = [(field.name, str(field.type)) for field in PARAMETER_SCHEMA]
        for field, is_, must in (("columns", found, wanted), ("rows", [file.metadata.num_rows], list(draw.shape))):
            if is_ != must:
                return None, [Finding(where, field, shown(str(is_)), shown(str(must)), MISFIT)]
        column = file.read().column("value")
        if column.null_count:
            return None, [Finding(where, "column value", "missing values", "a value in every row", MISFIT)]
        numbers = column.to_numpy().astype(np.int64)
    except UNREADABLE as error:
        return None, [Finding(where, "the file", printable(str(error)), "a whole Parquet file", MISFIT)]
    return numbers, check_digest(values_sha256(numbers), draw.sha256, "the numbers", where=where)
