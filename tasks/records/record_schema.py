"""The JSON Schema of record.json, from the fields themselves; docs/schema/record.schema.json is a copy."""

from __future__ import annotations

from typing import Any, get_args

from contracts.contract.spreadsheet import Formulas
from tasks.records.across.across_groups import across_groups
from tasks.records.across.execution_group import EXECUTION
from tasks.records.fitted_groups.classifier_groups import model_groups
from tasks.records.fitted_groups.synthetic_groups import synthetic_groups
from tasks.records.groups.field import Field, FieldGroup
from tasks.records.model.auditor_statements import COMMITMENT
from tasks.records.record import GROUPS, RECORD_SCHEMA

_HEX = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_NAMES = {"type": "array", "items": _TEXT}
_SEED = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_RATIONAL = {"type": "string", "pattern": "^[0-9]+(/[1-9][0-9]*)?$"}


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of record.json."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sudare audit record",
        "description": "See docs/record.md. A field reads 'not available' where a run has no source for it.",
        **_object(
            {
                "schema": {"const": RECORD_SCHEMA},
                "release": _TEXT,
                "version": {"type": "integer", "minimum": 1},
                "groups": _object(
                    {**{group.name: _either(group) for group in GROUPS}, EXECUTION.name: _group(EXECUTION)},
                    optional=(EXECUTION.name,),
                ),
                "not_available": {**_NAMES, "uniqueItems": True},
                "declared": {**_NAMES, "uniqueItems": True},
                COMMITMENT: _HEX,
                "replay": {"anyOf": [_replay(each()) for each in (_of_tables, _of_rows, _of_model, _across_sites)]},
            },
            optional=(COMMITMENT,),
        ),
    }


def _object(properties: dict[str, Any], *, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _either(group: FieldGroup) -> dict[str, Any]:
    """Describe a group, and beside it those that rows or a model have in its place, where fields differ."""
    others = (
        each
        for each in (*synthetic_groups(GROUPS), *model_groups(GROUPS), *across_groups(GROUPS))
        if each.name == group.name
    )
    forms: list[dict[str, Any]] = []
    for each in (group, *others):
        forms += [] if _group(each) in forms else [_group(each)]
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _group(group: FieldGroup) -> dict[str, Any]:
    fields = _object({field.name: _field(field) for field in group.fields})
    return _object({"title": {"const": group.title}, "fields": fields})


def _field(field: Field) -> dict[str, Any]:
    value = {"type": ["string", "integer", "number", "boolean", "array", "object"]}
    properties = {"class": {"const": field.visibility}, "value": value, "reason": _TEXT}
    return {"description": field.means, **_object(properties, optional=("reason",))}


def _replay(of_the_product: dict[str, Any]) -> dict[str, Any]:
    """Describe the exact part: amounts are integers, in 10^-12 (losses) and 10^-18 (deltas).

    Args:
        of_the_product: the properties that only this kind of product has.
    """
    planned_for = {"type": ["integer", "null"], "minimum": 0}
    return _object(
        {
            "contract": {"type": "object", "description": "The parsed contract."},
            "contract_digest": _HEX,
            "spec_digest": _HEX,
            "charge": _object({"account": _TEXT, "epsilon": _TEXT, "delta": _TEXT, "noise_epsilon": planned_for}),
            "product": {"type": "object", "description": "The product of the release spec."},
            "adjacency": {"enum": ["add_remove", "replace_one"]},
            "rows_per_unit": {"type": "integer", "minimum": 1},
            "calculus": _object({"kind": {"enum": ["pure", "renyi"]}, "order": _RATIONAL}, optional=("order",)),
            "claim": _object({"epsilon": _COUNT, "delta": _COUNT}),
            "amount": _COUNT,
            "before": _COUNT,
            "after": _COUNT,
            "cap": _COUNT,
            "formulas": {"enum": [*get_args(Formulas), None]},
            "due": {"type": ["string", "null"], "format": "date"},
            **of_the_product,
        }
    )


def _of_tables() -> dict[str, Any]:
    """Describe what only a release of tables states."""
    total = {
        "kind": {"enum": ["estimated", "noisy", "invariant", "none"]},
        "value": {"type": ["integer", "null"]},
        "kept": {"enum": ["by_all", "where_it_gains"]},
    }
    return {
        "draws": {"type": "array", "items": _draw()},
        "total": _object(total),
        "reference": {
            "anyOf": [
                _object({"release": _TEXT, "version": {"type": "integer", "minimum": 1}, "manifest": _HEX}),
                {"type": "null"},
            ]
        },
        "tables": {"type": "array", "items": _table()},
    }


def _of_rows() -> dict[str, Any]:
    """Describe what only a synthetic release states: measurements and choices, the model, the rows and their seed."""
    digests = {"type": "object", "additionalProperties": _HEX}
    origin = {"enum": ["estimated", "public", "declared"]}
    return {
        "draws": _fitted_draws(),
        "model": _object({"kind": _TEXT, "values": _TEXT, "arrays": _TEXT, "rows": _COUNT, "sha256": digests}),
        "rows": _object({"number": _COUNT, "from": origin, "seed": _SEED, "data": _TEXT}),
        "notes": _NAMES,
    }


def _of_model() -> dict[str, Any]:
    """Describe what only a release of a model states: draws, weights, inputs, card, and the seed if any."""
    limits = {"anyOf": [{"type": "array", "items": _TEXT, "minItems": 4, "maxItems": 4}, {"type": "null"}]}
    files = {"weights": _TEXT, "inputs": _TEXT, "card": _TEXT}
    widths = {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2}
    return {
        "draws": _fitted_draws(),
        "model": _object({**files, "widths": widths, "range": limits, "sha256": _HEX}),
        "seed": {"anyOf": [_SEED, {"type": "null"}]},
        "notes": _NAMES,
    }


def _across_sites() -> dict[str, Any]:
    """Describe what only a release across sites states: its draws, and how it was made."""
    present = {"type": "array", "items": {"type": "boolean"}, "minItems": 1}
    summed = _object({"key": _TEXT, "present": present, "length": {"type": "integer", "minimum": 1}})
    sampled = {"noise_multiplier": _RATIONAL, "sampling_probability": _RATIONAL, "steps": _COUNT}
    draw = _draw()
    round_of = _object({"kind": {"const": "poisson_sampled_gaussian"}, **sampled})
    event = {"anyOf": [*draw["properties"]["event"]["anyOf"], round_of]}
    draws = {**draw, "properties": {**draw["properties"], "coarsening": {"type": "null"}, "event": event}}
    execution = {
        "kind": {"const": "across_sites"},
        "spec": {"type": "object", "description": "What all parties agreed on; its digest is spec_digest."},
        "plan": {"type": "object", "description": "What follows from it and from the contract."},
        "record_epsilon": _COUNT,
        "rounds": {"type": "array", "items": summed},
        "notes": _NAMES,
    }
    return {"draws": {"type": "array", "items": draws}, "execution": _object(execution)}


def _fitted_draws() -> dict[str, Any]:
    """Describe the draws of what is fitted: measurements, choices, and intervals of trainings."""
    draw = _draw()
    choice = _object({"kind": {"const": "exponential_mechanism"}, "epsilon": _RATIONAL})
    sampled = {"noise_multiplier": _RATIONAL, "sampling_probability": _RATIONAL, "steps": _COUNT}
    interval_of = _object({"kind": {"const": "poisson_sampled_gaussian"}, **sampled})
    vector = _object(
        {"kind": {"const": "discrete_laplace_vector"}, "inverse_scale": _RATIONAL, "move": _COUNT, "times": _COUNT}
    )
    event = {"anyOf": [*draw["properties"]["event"]["anyOf"], vector, choice, interval_of]}
    either = {"measurements": {"type": ["string", "null"]}, "index": {"type": ["integer", "null"], "minimum": 0}}
    properties = {**draw["properties"], "coarsening": {"type": "null"}, "event": event, **either}
    del properties["listed"]
    shapes = {"type": "object", "additionalProperties": {"type": "array", "items": _COUNT}}
    parameters = {"type": "object", "description": "What is added up; arrays by their SHA-256."}
    plan = {"type": "object", "description": "Sampling, clipping, noise and steps; rationals as text."}
    interval = {"type": ["integer", "null"], "minimum": 0}
    properties["training"] = _object({"plan": plan, "learner": _HEX, "interval": interval})
    perturbation = {"type": "object", "description": "What is trained, and where the noise comes in."}
    properties["parameters"] = _object({"perturbation": perturbation, "interval": _COUNT})
    properties["statistic"] = _object({"digest": _HEX, "parameters": parameters, "shapes": shapes})
    return {"type": "array", "items": _object(properties, optional=("statistic", "training", "parameters"))}


def _draw() -> dict[str, Any]:
    moves = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
    event = {
        "anyOf": [
            _object({"kind": {"const": "discrete_laplace"}, "inverse_scale": _RATIONAL, "moves": moves}),
            _object({"kind": {"const": "discrete_gaussian"}, "sigma_squared": _RATIONAL, "moves": moves}),
        ]
    }
    shape = {"type": "array", "items": {"type": "integer", "minimum": 1}}
    return _object(
        {
            "key": _TEXT,
            "number": _COUNT,
            "clique": _NAMES,
            "shape": shape,
            "coarsening": {"anyOf": [_object({"level": _TEXT, "sha256": _HEX}), {"type": "null"}]},
            "event": event,
            "cost": _COUNT,
            "sha256": _HEX,
            "listed": _object({"cells": _COUNT, "threshold": {"type": "integer", "minimum": 1}, "rows": _COUNT}),
        },
        optional=("listed",),
    )


def _table() -> dict[str, Any]:
    level = _object({"name": _TEXT, "data": _TEXT, "measurements": _TEXT, "sha256": _HEX})
    chosen = _object({"of": {"enum": ["lambda", "method"]}, "by": {"enum": ["auto", "sparsity", "reference"]}})
    return _object(
        {
            "name": _TEXT,
            "columns": {**_NAMES, "minItems": 1},
            "method": {"enum": ["none", "simplex", "negative_l2", "empirical_bayes", "neighbourhood", "hierarchy"]},
            "lambda": {"type": ["string", "null"]},
            "chosen": {"anyOf": [chosen, {"type": "null"}]},
            "estimated_rmse": {"type": "object", "additionalProperties": _TEXT},
            "disagreement": {"type": ["string", "null"]},
            "integers": {"type": "boolean"},
            "data": _TEXT,
            "measurements": _TEXT,
            "sha256": _HEX,
            "levels": {"type": "array", "items": level},
            "listed": _object({"rows": _COUNT, "absent_upper": _COUNT}),
        },
        optional=("listed",),
    )
