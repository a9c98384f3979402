"""What was fitted, as the record states it, in the place of what a run's generator or trainer made.

Of draws whose values or whose form stand in files less is known here; fields that ask for it are among the record's
declarations.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from contracts.contract.contract import Contract
from contracts.release.spec import ClassifierProduct, SyntheticProduct
from privacy.classifiers.classifier import ParameterRange
from privacy.classifiers.trainer import classification_task, trainer
from privacy.generators.calibration import task_of
from privacy.generators.generator import Fitted, resolved_options
from privacy.marginals.portable import PostProcessingSeed
from tasks.records.draws.marginal import published_draws
from tasks.records.groups.field import Run
from tasks.records.model.version_statements import (
    ClassifierRecord,
    FittedRecord,
    FittedReplay,
    RecordTerms,
    SyntheticRecord,
)
from tasks.records.modifiers.record_modifier import record_modifiers
from tasks.records.unpublished import Published

OPTIONS_FIELD: Final = "product.options"
"""The field that records declare which state the options as they were written."""


def fit_of(record: RecordTerms, contract: Contract, product: Any) -> dict[str, Any]:
    """Return what a run knows of its own fit, as far as the record states it.

    Raises:
        TypeError: the record is of another kind than its product.
    """
    if isinstance(record, SyntheticRecord) and isinstance(product, SyntheticProduct):
        return _synthetic(record, contract, product)
    if isinstance(record, ClassifierRecord) and isinstance(product, ClassifierProduct):
        return _trained(record, contract, product)
    raise TypeError("a record of another kind than its product")


def resolved_product(run: Run) -> dict[str, Any]:
    """Return the product of a fit with all options, those that nobody wrote included.

    The spec keeps them as they were written: its digest does not change with a default.
    """
    product = run.facts.spec.product
    resolved = product.resolved if isinstance(product, SyntheticProduct) else product
    return {**resolved.model_dump(mode="json"), "options": dict(run.facts.fit[0].resolved_options)}


def _synthetic(record: SyntheticRecord, contract: Contract, product: SyntheticProduct) -> dict[str, Any]:
    replay = record.replay
    task = task_of(product, contract, **_amounts(record))
    known = {} if OPTIONS_FIELD in record.declarations.fields else {"resolved_options": product.options}
    plan = Published(generator=product.generator, options=_options(product), task=task, **known)
    made = Published(
        model=Published(kind=replay.model.kind, rows=replay.model.rows),
        seed=PostProcessingSeed(int(replay.rows.seed, 16)),
        rows=replay.rows.number,
        rows_from=replay.rows.from_,
        fitted=_fitted(replay),
        **{name: told for modifier in record_modifiers(product) for name, told in modifier.published(replay).items()},
    )
    return {"synthetic": (plan, made), "fit": (plan, made), "synthesis": made, "classifier": None, "tables": ()}


def _trained(record: ClassifierRecord, contract: Contract, product: ClassifierProduct) -> dict[str, Any]:
    replay, widths = record.replay, record.replay.model.widths
    task = classification_task(product, contract, **_amounts(record))
    made_by = trainer(product.trainer)
    options = made_by.options.model_validate(product.options)
    whole = resolved_options(made_by, options)
    plan = Published(generator=product.trainer, options=options, task=task, resolved_options=whole)
    model = Published(
        widths=widths,
        parameters=sum((before + 1) * after for before, after in pairwise(widths)),
        bounds=None if replay.model.range is None else ParameterRange.of(replay.model.range),
    )
    seed = None if replay.seed is None else PostProcessingSeed(int(replay.seed, 16))
    made = Published(model=model, seed=seed, fitted=_fitted(replay))
    return {"trained": (plan, made), "fit": (plan, made), "classifier": made, "synthesis": None, "tables": ()}


def _amounts(record: FittedRecord) -> dict[str, Any]:
    charge = record.replay.charge
    return {"epsilon": Decimal(charge.epsilon), "delta": Decimal(charge.delta)}


def _options(product: SyntheticProduct) -> Published:
    """Return of the options what a field asks for by itself."""
    return Published(time_limit=product.options.get("time_limit"))


def _fitted(replay: FittedReplay) -> Fitted[Any]:
    """Return what was drawn, as far as each kind of draw states it."""
    return Fitted(Published(), published_draws(replay.draws), replay.said)
