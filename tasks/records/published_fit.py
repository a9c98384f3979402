"""What was fitted, as the record states it, in the place of what a run's generator or trainer made.

What was added up in sums over rows and what was trained stand in files: of these less is known here, and fields that
ask for it are among the record's declarations.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from contracts.contract.contract import Contract
from contracts.release.spec import ModelProduct, SyntheticProduct
from privacy.accounting.events import ExponentialMechanism, event_from_json
from privacy.classifiers.classifier_model import ParameterRange
from privacy.classifiers.trainer import classification_task, trainer
from privacy.generators.release_plan import task_of
from privacy.grant.measurement import Measurement, Selection
from privacy.marginals.seeds import PostProcessingSeed
from privacy.marginals.uncertainty import variance
from tasks.records.model.classifier_statements import ModelRecord
from tasks.records.model.synthetic_statements import FittedRecord, FittedReplay, SyntheticDraw, SyntheticRecord
from tasks.records.model.version_statements import RecordTerms
from tasks.records.unpublished import Published


def fit_of(record: RecordTerms, contract: Contract, product: Any) -> dict[str, Any]:
    """Return what a run knows of its own fit, as far as the record states it.

    Raises:
        TypeError: the record is of another kind than its product.
    """
    if isinstance(record, SyntheticRecord) and isinstance(product, SyntheticProduct):
        return _synthetic(record, contract, product)
    if isinstance(record, ModelRecord) and isinstance(product, ModelProduct):
        return _trained(record, contract, product)
    raise TypeError("a record of another kind than its product")


def _synthetic(record: SyntheticRecord, contract: Contract, product: SyntheticProduct) -> dict[str, Any]:
    replay = record.replay
    task = task_of(product, contract, **_amounts(record))
    plan = Published(generator=product.generator, options=_options(product), task=task)
    made = Published(
        model=Published(kind=replay.model.kind, rows=replay.model.rows),
        seed=PostProcessingSeed(int(replay.rows.seed, 16)),
        rows=replay.rows.number,
        rows_from=replay.rows.from_,
        **_drawn(replay),
    )
    return {"synthetic": (plan, made), "fit": (plan, made), "synthesis": made, "classifier": None, "tables": ()}


def _trained(record: ModelRecord, contract: Contract, product: ModelProduct) -> dict[str, Any]:
    replay, widths = record.replay, record.replay.model.widths
    task = classification_task(product, contract, **_amounts(record))
    options = trainer(product.trainer).options.model_validate(product.options)
    plan = Published(generator=product.trainer, options=options, task=task)
    model = Published(
        widths=widths,
        parameters=sum((before + 1) * after for before, after in pairwise(widths)),
        bounds=None if replay.model.range is None else ParameterRange.of(replay.model.range),
    )
    seed = None if replay.seed is None else PostProcessingSeed(int(replay.seed, 16))
    perturbed = any(draw.parameters is not None for draw in replay.draws)
    made = Published(model=model, seed=seed, **({} if perturbed else {"parameters": ()}), **_drawn(replay))
    return {"trained": (plan, made), "fit": (plan, made), "classifier": made, "synthesis": None, "tables": ()}


def _amounts(record: FittedRecord) -> dict[str, Decimal]:
    charge = record.replay.charge
    return {"epsilon": Decimal(charge.epsilon), "delta": Decimal(charge.delta)}


def _options(product: SyntheticProduct) -> Published:
    """Return of the options what a field asks for by itself; those that were not written are in the generator."""
    return Published(time_limit=product.options.get("time_limit"))


def _drawn(replay: FittedReplay) -> dict[str, Any]:
    """Return what was drawn, in order: marginals and choices whole, sums and trainings by key and event alone."""
    counted = [each for each in replay.draws if each.training is None and each.parameters is None]
    sums: tuple[Any, ...] = tuple(_sum(draw) for draw in counted if draw.statistic is not None)
    selections = tuple(_selection(draw) for draw in counted if draw.index is not None)
    marginals = tuple(_marginal(draw) for draw in counted if draw.index is None and draw.statistic is None)
    trainings = {draw.key.rpartition("/")[0]: draw for draw in replay.draws if draw.training is not None}
    fitted = Published(
        measurements=marginals,
        selections=selections,
        sums=sums,
        trainings=tuple(_training(key, draw) for key, draw in trainings.items()),
        notes=replay.said,
    )
    measured = tuple(sorted((*marginals, *sums), key=lambda each: each.number))
    drawn = tuple(sorted((*measured, *selections), key=lambda each: each.number))
    return {"fitted": fitted, "measured": measured, "drawn": drawn}


def _marginal(draw: SyntheticDraw) -> Measurement:
    event: Any = event_from_json(draw.event)
    values = np.broadcast_to(np.int64(0), draw.shape)  # only its shape is read
    return Measurement(draw.key, draw.clique, values, event, variance(event), draw.number, draw.sha256)


def _selection(draw: SyntheticDraw) -> Selection:
    event = event_from_json(draw.event)
    if not isinstance(event, ExponentialMechanism) or draw.index is None:
        raise TypeError(f"{draw.key} is no choice")
    return Selection(draw.key, draw.index, draw.clique, event, draw.number, draw.sha256)


def _sum(draw: SyntheticDraw) -> Published:
    return Published(key=draw.key, number=draw.number, event=event_from_json(draw.event))


def _training(key: str, draw: SyntheticDraw) -> Published:
    norm = {} if draw.training is None else draw.training.plan
    return Published(key=key, plan=Published(clipping_norm=Fraction(str(norm.get("clipping_norm")))))
