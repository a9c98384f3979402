"""The whole options of a fitter: those that nobody wrote stand in them with their values.

A record states them, so that a later version with other defaults reads what this one planned with. A fitter that
hands options over to others says by a method `whole(options)` what is whole of them. Options of which some have no
effect beside the others name these in `without_effect`; they are left out, as they would be refused when read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from privacy.generators.generator import Fitter


def whole_options(fitter: Fitter[Any, Any, Any], options: BaseModel) -> dict[str, Any]:
    """Return the options of a fitter as JSON values, with all that nobody wrote.

    Options that the fitter would not read back as the same, as those of another package may be, stay as they were
    written.

    Args:
        fitter: whose options they are.
        options: as the fitter's own model read them.
    """
    values = getattr(fitter, "whole", model_values)
    whole: dict[str, Any] = values(options)
    try:
        same = values(fitter.options.model_validate(whole)) == whole
    except ValidationError:
        same = False
    return whole if same else options.model_dump(mode="json", by_alias=True, exclude_unset=True)


def model_values(options: BaseModel) -> dict[str, Any]:
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


def beside_defaults(form: type[BaseModel], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options that differ from the defaults of this version."""
    usual = default_values(form)
    return {name: value for name, value in written.items() if name not in usual or usual[name] != value}
