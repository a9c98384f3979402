"""The table of modifiers of synthetic rows: where the parts of each stand, and what excludes what.

A modifier is what a product may ask for beside its generator. Only its `spec` part is loaded for every product; the
others where a product asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, Final, Literal

from contracts.errors import Finding
from contracts.plug_ins import load_place
from contracts.reading.scalars import FieldPath, Problem
from contracts.release.product_spec import SyntheticModifier

if TYPE_CHECKING:
    from contracts.contract.contract import Contract

ModifierPart = Literal["fit", "record", "checks", "evaluation", "view"]
Use = Literal["sample", "interval", "holdout"]


@dataclass(frozen=True)
class ModifierParts:
    """Where the parts of a modifier stand, each as `module:name`; None where it has none.

    Args:
        spec: what a product asks for, a `SyntheticModifier` (`contracts.release.product_spec`).
        fit: what it asks of the fit, a `FitModifier` (`privacy.generators.fit_modifier`).
        record: what the record, its page and its files have of it, a `RecordModifier`
            (`tasks.records.modifiers.record_modifier`).
        checks: what a verification asks of it, `ModifierChecks` (`tasks.verification.fitted.modifier_checks`).
        evaluation: how its rows are compared with real ones, where that is another way, a `ModifierEvaluation`
            (`flows.evaluation.product_evaluations`).
        view: what the console shows of it, a `ModifierView` (`console.products.modifier_views`).
        model: the kind of model that it makes of the generator's, and the function that reads such a model back.
        replay: the keys that lead to what the replay block of a record states of it; none where it states nothing.
    """

    spec: str
    fit: str | None = None
    record: str | None = None
    checks: str | None = None
    evaluation: str | None = None
    view: str | None = None
    model: tuple[str, str] | None = None
    replay: tuple[str, ...] = ()


MODIFIERS: Final = {
    "inside_bins": ModifierParts(
        spec="contracts.release.inside_bins:InsideModifier",
        fit="privacy.generators.inside_bins:InsideFit",
        record="tasks.records.modifiers.inside_record:InsideRecord",
        checks="tasks.products.synthetic.inside_checks:InsideChecks",
        view="console.products.modifier_views:InsideView",
        model=("filled", "privacy.generators.filled_model:read_filled"),
    ),
    "bins": ModifierParts(
        spec="contracts.release.inside_bins:JoinedBinsModifier",
    ),
    "linked_tables": ModifierParts(
        spec="contracts.release.linked_rows:LinkedTablesModifier",
        record="tasks.records.modifiers.linked_record:LinkedRecord",
        checks="tasks.products.synthetic.link_checks:LinkChecks",
        evaluation="flows.evaluation.linked_evaluation:LinkedEvaluation",
        view="console.products.modifier_views:LinkedTablesView",
        model=("linked", "privacy.generators.linked_model:read_linked"),
        replay=("rows", "parents"),
    ),
    "copies": ModifierParts(
        spec="contracts.release.copies:CopiesModifier",
        fit="privacy.generators.copies:CopiesFit",
        record="tasks.records.modifiers.copies_record:CopiesRecord",
        checks="tasks.products.synthetic.copies_checks:CopiesChecks",
        view="console.products.modifier_views:CopiesView",
        model=("copied", "privacy.generators.copied_model:read_copied"),
        replay=("copies",),
    ),
}
"""By the key of the product, or the generator, that asks for it. Findings and lines come in this order."""


@dataclass(frozen=True)
class Exclusion:
    """Two modifiers that no product may ask for together.

    Args:
        modifier: one of them, whose key the finding names.
        beside: the other.
        found: what is found; `{product.copies}` stands for what the product has there.
        allowed: what is allowed.
        remedy: what to do.
        at: the place of the finding in the product.
    """

    modifier: str
    beside: str
    found: str
    allowed: str
    remedy: str
    at: FieldPath

    def problem(self, product: Any) -> Problem:
        """Return what is wrong with a product that asks for both."""
        return Problem(self.found.format(product=product), self.allowed, self.remedy)


EXCLUSIONS: Final = (
    Exclusion(
        "linked_tables",
        beside="inside_bins",
        found="inside_bins beside linked_tables",
        allowed="one of the two",
        remedy="drop the key; values of a bin are equally likely then",
        at=("inside_bins",),
    ),
    Exclusion(
        "copies",
        beside="inside_bins",
        found="copies: {product.copies} beside counts inside bins, which would be the same in all copies",
        allowed="copies whose bins are filled uniformly",
        remedy="drop `copies:`, or `inside_bins:`",
        at=("copies",),
    ),
)
"""What excludes what. A generator may be one that a modifier cannot go with too: that its `fit` part says."""


@dataclass(frozen=True)
class Unusable:
    """What a version with a modifier cannot be used for.

    Args:
        modifier: the modifier.
        use: `sample`, further rows; `interval`, estimates with intervals; `holdout`, a comparison with public rows.
        found, allowed, remedy: of the finding.
    """

    modifier: str
    use: Use
    found: str
    allowed: str
    remedy: str


UNUSABLE: Final = (
    Unusable(
        "linked_tables",
        use="sample",
        found="a version of two linked tables, whose rows belong together by keys",
        allowed="a version of one table",
        remedy="select from the published rows: keep the children whose key is among the parents that you keep",
    ),
    Unusable(
        "linked_tables",
        use="interval",
        found="a version of two linked tables",
        allowed="a version of one table",
        remedy="name another version",
    ),
    Unusable(
        "linked_tables",
        use="holdout",
        found="a version of two linked tables",
        allowed="a version of one table: public rows are one file",
        remedy="sudare evaluate compares both tables with the confidential ones, privately",
    ),
)


@cache
def spec_modifiers() -> dict[str, SyntheticModifier]:
    """Return the spec part of each modifier by its name, in the order of the table."""
    return {name: load_place(parts.spec)() for name, parts in MODIFIERS.items()}


def asked_modifiers(product: Any) -> tuple[str, ...]:
    """Return the modifiers that a product of synthetic rows asks for, in the order of the table.

    Args:
        product: a `SyntheticProduct`; of any other kind none is asked for.
    """
    if getattr(product, "kind", None) != "synthetic":
        return ()
    return tuple(name for name, modifier in spec_modifiers().items() if modifier.asked(product))


def modifier_parts(product: Any, part: ModifierPart) -> Iterator[tuple[str, Any]]:
    """Yield the name and a part of each modifier that a product asks for; as `named_parts`."""
    return named_parts(asked_modifiers(product), part)


def named_parts(names: Collection[str], part: ModifierPart) -> Iterator[tuple[str, Any]]:
    """Yield the name and a part of each modifier of these names that has it; only its own modules are loaded."""
    for name, places in MODIFIERS.items():
        place = getattr(places, part) if name in names else None
        if place is not None:
            yield name, load_place(place)()


def stated_modifiers(replay: object) -> frozenset[str]:
    """Return the modifiers of which the replay block of a record states something."""
    found = {name: reduce(getattr, parts.replay, replay) for name, parts in MODIFIERS.items() if parts.replay}
    return frozenset(name for name, stated in found.items() if stated)


def modifiers_of_model(kind: str) -> frozenset[str]:
    """Return the modifier that makes models of that kind, if one does."""
    return frozenset(name for name, parts in MODIFIERS.items() if parts.model is not None and parts.model[0] == kind)


def contradiction_of(product: Any) -> Problem | None:
    """Say why a product cannot be read: a modifier that contradicts itself."""
    asked = asked_modifiers(product)
    found = (modifier.contradiction(product) for name, modifier in spec_modifiers().items() if name in asked)
    return next((problem for problem in found if problem is not None), None)


def modifier_problems(
    product: Any, names: tuple[str, ...], contract: Contract
) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what of the modifiers excludes each other or does not fit the contract, with its place in the product.

    Args:
        product: the product.
        names: its columns; none where some of them are unknown.
        contract: its contract.
    """
    asked = asked_modifiers(product)
    for name, modifier in spec_modifiers().items():
        for each in EXCLUSIONS:
            if each.modifier == name and {name, each.beside} <= set(asked):
                yield each.at, each.problem(product)
        yield from modifier.problems(product, names, contract)


def idle_options(product: Any) -> Iterator[tuple[FieldPath, Problem]]:
    """Yield what of the modifiers is written in a spec and does nothing, with its place in the product."""
    for modifier in spec_modifiers().values():
        yield from modifier.idle_options(product)


def unusable(product: Any, use: Use, *, where: str, field: str) -> list[Finding]:
    """Say why a version of a product cannot be used for something; nothing where it can.

    Args:
        product: the product.
        use: for what.
        where, field: of the findings.
    """
    asked = asked_modifiers(product)
    return [
        Finding(where, field, each.found, each.allowed, each.remedy)
        for each in UNUSABLE
        if each.use == use and each.modifier in asked
    ]
