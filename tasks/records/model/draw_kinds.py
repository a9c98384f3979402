"""The table of kinds of draw that a fit publishes: ours, and those that packages register as `sudare.draws`.

A kind is named as its `Query` is. Its parts are loaded when a version has such a draw; this module imports none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic_core import CoreSchema, core_schema

from contracts.plug_ins import core, load_place, registered

GROUP: Final = "sudare.draws"


@dataclass(frozen=True)
class DrawParts:
    """Where the parts of a kind of draw stand, each as `module:name`.

    Args:
        form: how it is stated, written and told, a `DrawForm` (`tasks.records.draws.marginal`).
        checks: what a verification asks of it, `DrawChecks` (`tasks.verification.draws.draw_checks`).
    """

    form: str
    checks: str


BUILT_IN: Final = (
    "marginal",
    "sums",
    "residuals",
    "cell_sums",
    "key_counts",
    "place_counts",
    "keys",
    "quantile_choice",
    "training",
    "choice",
    "parameters",
    "votes",
)
"""In the order in which their files are written."""


@cache
def draw_kinds() -> Mapping[str, DrawParts]:
    """Return the parts of each kind by its name; a built-in kind cannot be taken by a package."""
    packages = {point.name: point.load() for point in registered(GROUP)}
    ours = {name: DrawParts(core("sudare.draw_forms")[name], core("sudare.draw_checks")[name]) for name in BUILT_IN}
    return {**ours, **{name: parts for name, parts in packages.items() if name not in ours}}


@cache
def draw_form(kind: str) -> Any:
    """Return how a kind is stated, written and told.

    Raises:
        LookupError: the kind has no published form.
    """
    return load_place(draw_kinds()[kind].form)()


@cache
def draw_checks(kind: str) -> Any:
    """Return what a verification asks of a kind; as `draw_form`."""
    return load_place(draw_kinds()[kind].checks)()


class OfItsKind:
    """The annotation of a draw that is read as the statement of its kind."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Choose by the field `kind`, once the first record with such draws is read."""
        statements = {kind: handler.generate_schema(draw_form(kind).statement) for kind in draw_kinds()}
        return core_schema.tagged_union_schema(statements, discriminator="kind")
