"""The resolved options of a fitter: those that nobody wrote stand in them with their values.

A record states them, so that a later version with other defaults reads what this one planned with. A fitter that
hands options over to others has `resolved(options)`, which returns them with the defaults of the others. Options that
have no effect beside others are named by `without_effect` of their model. They are left out, as they would be refused
when read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from privacy.generators.generator import Fitter


def resolved_options(fitter: Fitter[Any, Any, Any], options: BaseModel) -> dict[str, Any]:
    """Return the options of a fitter as JSON values, with all that nobody wrote.

    Options that the fitter would not read back as the same, as those of another package may be, stay as they were
    written.

    Args:
        fitter: whose options they are.
        options: as the fitter's own model read them.
    """
    values = getattr(fitter, "resolved", effective_values)
    resolved: dict[str, Any] = values(options)
    try:
        same = values(fitter.options.model_validate(resolved)) == resolved
    except ValidationError:
        same = False
    return resolved if same else options.model_dump(mode="json", by_alias=True, exclude_unset=True)


def effective_values(options: BaseModel) -> dict[str, Any]:
    """Return all values of a model, but for those that have no effect beside the others."""
    idle = set(getattr(options, "without_effect", ()))
    return options.model_dump(mode="json", by_alias=True, exclude=idle)


def default_values(form: type[BaseModel]) -> dict[str, Any]:
    """Return as JSON values what this version gives each option that nobody writes."""
    return {
        field.alias or name: to_jsonable_python(field.get_default(call_default_factory=True))
        for name, field in form.model_fields.items()
        if not field.is_required()
    }


def non_default_options(form: type[BaseModel], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options that differ from the defaults of this version."""
    usual = default_values(form)
    return {name: value for name, value in written.items() if name not in usual or usual[name] != value}
