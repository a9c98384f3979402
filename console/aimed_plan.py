"""`sudare plan SPEC --for AIM`: a release at the least epsilon that reaches its aims. Reads no data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Final

from rich.console import Console

from console.aims import AccuracyAim, Reached, all_of, curve, least_epsilon, reached, read_aims, three_digits
from console.output import table
from console.products.product_view import ExpectedWidth, product_view
from contracts.reading.scalars import plain_text
from contracts.release.spec import ReleaseSpec
from flows.request import Request, planned_request
from tasks.storage.workspace.settings import Workspace

_BY_WEIGHT: Final = "by_weight"
_ROUNDS: Final = 6

WidthsByWeights = Callable[[Decimal, tuple[Decimal, ...]], Sequence[ExpectedWidth]]
"""The half widths of all statistics at an epsilon, and at weights of the tables; none for those of the spec."""


@dataclass(frozen=True)
class AimedRequest:
    """A request at the least epsilon that reaches its aims.

    Args:
        request: the release at that epsilon.
        reached: each aim with what it comes to.
        curve: what they come to at other epsilons.
        by_weights: weights of the tables under which less is enough, and that epsilon; None where none are.
    """

    request: Request
    reached: tuple[Reached, ...]
    curve: list[dict[str, Any]]
    by_weights: tuple[dict[str, str], Decimal] | None

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values; the first of the aims that binds is named."""
        binding = max(self.reached, key=lambda each: each.ratio)
        return {
            "epsilon": plain_text(self.request.spec.charge.epsilon),
            "binding": binding.aim.written,
            "aims": [
                {
                    "aim": each.aim.written,
                    "table": each.width.table,
                    "statistic": each.width.statistic,
                    "half_width_95": each.half_width,
                    "at_most": each.aim.reach,
                    "about": each.width.about,
                }
                for each in self.reached
            ],
            "curve": self.curve,
            **({"weights": {"epsilon": plain_text(found[1]), "of": found[0]}} if (found := self.by_weights) else {}),
        }


def aimed(request: Request, texts: Sequence[str], workspace: Workspace | None) -> AimedRequest:
    """Find the least epsilon at which a release reaches aims. Reads no data.

    Args:
        request: the release; its own epsilon does not matter.
        texts: the aims as they are typed, one at least.
        workspace: whose accounts decide about `mechanism: auto`; None where there is none.
    Raises:
        SpecRefused: an aim cannot be understood, or no epsilon reaches it.
    """
    spec, view = request.spec, product_view(request.spec.product.kind)

    @cache
    def at(epsilon: Decimal, weights: tuple[Decimal, ...] = ()) -> Request:
        charge = spec.charge.model_copy(update={"epsilon": epsilon})
        product = _weighed(spec.product, weights) if weights else spec.product
        asked = spec.model_copy(update={"charge": charge, "product": product})
        return planned_request(asked, request.contract, workspace)

    def widths(epsilon: Decimal, weights: tuple[Decimal, ...] = ()) -> Sequence[ExpectedWidth]:
        found = at(epsilon, weights)
        return view.expected_widths(view.plan_object(found.spec, found.plan))

    aims = read_aims(texts, spec.path)
    least = least_epsilon(aims, widths, spec.path)
    return AimedRequest(
        at(least),
        reached(aims, widths(least), spec.path),
        curve(aims, widths, least, spec.path),
        _by_weights(spec, aims, widths, least),
    )


def _weighed(product: Any, weights: Sequence[Decimal]) -> Any:
    """Return a product whose tables have other weights."""
    tables = [
        each.model_copy(update={"weight": weight}) for each, weight in zip(product.tables, weights, strict=True)
    ]
    return product.model_copy(update={"tables": tuple(tables)})


def _by_weights(
    spec: ReleaseSpec, aims: Sequence[AccuracyAim], widths: WidthsByWeights, least: Decimal
) -> tuple[dict[str, str], Decimal] | None:
    """Return weights under which all tables are as far from their aims, and the epsilon that is enough then.

    A table's half width falls with its share of the charge, of Gaussian noise with the root of it. So each weight is
    multiplied by the ratio of its table to the aim, until ratios are near each other. Only where each table has one.
    """
    tables = getattr(spec.product, "tables", ())
    names = [getattr(each, "name", None) for each in tables]
    if len(names) < 2 or getattr(spec.product, "split", _BY_WEIGHT) != _BY_WEIGHT:
        return None
    weights = [Decimal(each.weight) for each in tables]
    for _ in range(_ROUNDS):
        ratios = dict.fromkeys(names, 0.0)
        for aim in aims:
            for each in all_of(aim, widths(least, tuple(weights)), spec.path):
                ratios[each.width.table] = max(ratios.get(each.width.table, 0.0), each.ratio)
        if set(ratios) != set(names) or not all(ratios.values()):
            return None
        smallest = min(float(weight) * ratios[name] for weight, name in zip(weights, names, strict=True))
        weights = [
            three_digits(Decimal(float(weight) * ratios[name] / smallest))
            for weight, name in zip(weights, names, strict=True)
        ]
    enough = least_epsilon(aims, lambda epsilon: widths(epsilon, tuple(weights)), spec.path)
    written = {str(name): plain_text(weight) for name, weight in zip(names, weights, strict=True)}
    return (written, enough) if enough < least else None


def print_aims(console: Console, told: dict[str, Any]) -> None:
    """Print which aims are reached, and what other epsilons would give."""
    console.print()
    rows = [
        (
            each["aim"],
            f"{each['table']}, {each['statistic']}",
            f"±{each['half_width_95']:,.4g}",
            f"±{each['at_most']:,.4g}",
        )
        for each in told["aims"]
    ]
    console.print(table(("aim", "farthest", "95 % within", "asked"), rows, numbers=("95 % within", "asked")))
    if any(each["about"] for each in told["aims"]):
        console.print(
            "of variances, roots and ratios: about; values elsewhere in the clip may have a longer interval"
        )
    console.print(f"{told['binding']} decides: with less than ε = {told['epsilon']} it is not reached")
    console.print()
    headings = ("epsilon", *(each["aim"] for each in told["aims"]))
    lines = [
        (f"ε = {point['epsilon']}", *(f"±{each:,.4g}" for each in point["half_widths"])) for point in told["curve"]
    ]
    console.print(table(headings, lines, numbers=headings[1:]))
    console.print()
    if "picture" in told:
        console.print(f"the picture is in {told['picture']}")
    console.print(f"write epsilon: {told['epsilon']} into the spec to release it so")
    if "weights" in told:
        weights = ", ".join(f"{name} {weight}" for name, weight in told["weights"]["of"].items())
        console.print(f"epsilon: {told['weights']['epsilon']} is enough with `weight:` of the tables: {weights}")
