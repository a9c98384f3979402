"""Rule 8 of what is fitted, synthetic rows or a model: each published noisy value is the one that was entered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.accounting.events import PrivacyEvent
from tasks.records.model.draw_kinds import draw_checks
from tasks.records.strict_json import printable
from tasks.verification.draws.draw_checks import FittedMeaning
from tasks.verification.files.folder import OpenFiles
from tasks.verification.fitted_meaning import by_kind

if TYPE_CHECKING:
    from tasks.records.model.version_statements import DrawsReplay


@dataclass(frozen=True)
class FittedValues:
    """What was read of the noisy values, and what is wrong with them.

    Args:
        noisy: by key of the draw, in their shapes.
        rebuilt: what the files beside tell of a draw, by its key.
        findings: what is wrong.
    """

    noisy: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    rebuilt: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def priced(replay: DrawsReplay, events: Sequence[PrivacyEvent]) -> bool | None:
    """Say whether the losses of the draws can be recomputed; None where the draws cannot be read."""
    if not events:
        return None
    return all(
        len(getattr(event, "moves", ())) <= draw_checks(draw.kind).most_moves
        for draw, event in zip(replay.draws, events, strict=True)
    )


def check_fitted_values(
    replay: DrawsReplay, events: Sequence[PrivacyEvent], meaning: FittedMeaning, files: OpenFiles
) -> FittedValues:
    """Check the files of each kind of draw: those for all draws of it, and that of each draw.

    Args:
        replay: the record's replay block.
        events: the event of each draw.
        meaning: contract and product.
        files: those that may be opened; what was skipped is noted there.
    """
    values = FittedValues()
    for checks, draws in by_kind(replay):
        values.rebuilt.update(checks.read_beside(draws, meaning, files, values.findings))
    for draw, event in zip(replay.draws, events, strict=True):
        data = None if draw.measurements is None else files.read(draw.measurements, values.findings)
        if data is None:
            continue
        try:
            noisy, wrong = draw_checks(draw.kind).read(data, draw, event, meaning, values.rebuilt.get(draw.key))
        except LookupError as missing:
            files.skipped.append(f"{printable(draw.measurements or '')}: {missing}")
            continue
        values.findings.extend(wrong)
        if noisy is not None:
            values.noisy[draw.key] = noisy
    return values
