"""Rule 8 of what is fitted, synthetic rows or a model: each published noisy value is the one that was entered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from contracts.errors import Finding
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, ExponentialMechanism, PoissonSampledGaussian
from tasks.records.strict_json import printable, read_json, shown
from tasks.verification.draw_files.checkpoint_checks import check_checkpoint
from tasks.verification.draw_files.measurement_files import check_measured
from tasks.verification.draw_files.parameter_file_checks import check_parameter_file
from tasks.verification.draw_files.sum_file_checks import check_sum_file, read_statistics
from tasks.verification.draws.charged_noise import MOST_MOVES
from tasks.verification.draws.sum_draws import MOST_NORMS
from tasks.verification.files.table_files import MEASURED, read_parquet
from tasks.verification.files.version_folder import OpenFiles
from tasks.verification.fitted_meaning import CHOICES, FittedEvent, FittedMeaning, choices

if TYPE_CHECKING:
    from privacy.learning.moments import Moments
    from tasks.records.model.synthetic_statements import FittedReplay, SyntheticDraw

_OTHER_CHOICES: Final = "the choices are not those that were made and paid for: do not use this version"


@dataclass(frozen=True)
class FittedValues:
    """What was read of the noisy values, and what is wrong with them.

    Args:
        noisy: by key of the draw, in their shapes.
        statistics: what was added up in sums over rows, by key of the draw.
        findings: what is wrong.
    """

    noisy: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    statistics: Mapping[str, Moments] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def priced(replay: FittedReplay, events: Sequence[FittedEvent]) -> bool | None:
    """Say whether the losses of the draws can be recomputed; None where the draws cannot be read."""
    if not events:
        return None
    return all(
        len(event.moves) <= (MOST_MOVES if draw.statistic is None else MOST_NORMS)
        for draw, event in zip(replay.draws, events, strict=True)
        if isinstance(event, DiscreteLaplace | DiscreteGaussian)
    )


def check_fitted_values(
    replay: FittedReplay, events: Sequence[FittedEvent], meaning: FittedMeaning, files: OpenFiles
) -> FittedValues:
    """Check each file of measurements, and that of the choices.

    Args:
        replay: the record's replay block.
        events: the event of each draw.
        meaning: contract and product.
        files: those that may be opened; what was skipped is noted there.
    """
    made = FittedValues()
    made = FittedValues(made.noisy, read_statistics(replay, meaning, files.read, made.findings), made.findings)
    for draw, event in zip(replay.draws, events, strict=True):
        if isinstance(event, ExponentialMechanism) or draw.measurements is None:
            continue
        data = files.read(draw.measurements, made.findings)
        if data is not None:
            _check_file(data, draw, event, meaning, made, files)
    _check_choices(replay, files, made.findings)
    return made


def _check_file(
    data: bytes,
    draw: SyntheticDraw,
    event: FittedEvent,
    meaning: FittedMeaning,
    fitted: FittedValues,
    files: OpenFiles,
) -> None:
    """Check one file, by what it holds, and keep its values."""
    if draw.parameters is not None:
        noisy, wrong = check_parameter_file(data, draw)
    elif isinstance(event, PoissonSampledGaussian):
        noisy, wrong = check_checkpoint(data, draw)
    elif draw.statistic is not None:
        statistic = fitted.statistics.get(draw.key)
        if statistic is None or not isinstance(event, DiscreteGaussian):
            files.skipped.append(f"{printable(draw.measurements or '')}: what was added up cannot be rebuilt")
            return
        noisy, wrong = check_sum_file(data, draw, event, statistic)
    else:
        noisy, wrong = _check_marginal(data, draw, event, meaning)
    fitted.findings.extend(wrong)
    if noisy is not None:
        fitted.noisy[draw.key] = noisy


def _check_marginal(
    data: bytes, draw: SyntheticDraw, event: FittedEvent, meaning: FittedMeaning
) -> tuple[NDArray[np.int64] | None, list[Finding]]:
    name, contract = draw.measurements or "", meaning.contract
    columns, wrong = read_parquet(data, where=printable(name), cells=contract, clique=draw.clique, values=MEASURED)
    if columns is None or not isinstance(event, DiscreteLaplace | DiscreteGaussian):
        return None, wrong
    return columns["noisy"].reshape(draw.shape), [*wrong, *check_measured(columns, name, draw, event, contract)]


def _check_choices(replay: FittedReplay, files: OpenFiles, findings: list[Finding]) -> None:
    expected = choices(replay)
    data = files.read(CHOICES, findings) if expected else None
    if data is not None:
        found, wrong = read_json(data, where=CHOICES)
        findings += wrong
        if found != expected:
            allowed = f"the {len(expected)} choices of the record"
            findings.append(Finding(CHOICES, "the choices", shown(found), allowed, _OTHER_CHOICES))
