"""Is the generator or trainer that a record names the one whose plan was charged? It plans again, without data.

All that a plan depends on stands in the record: contract, product, all options, charge. Its events must be those that
were charged. Two fitters can have one plan; then only a fit made again tells which of them drew. Another one is asked
twice: with all options that it shares with the named one, and with those of them that differ from the defaults, since
its own defaults may be others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from contracts.errors import Finding, SudareError
from privacy.accounting.events import event_from_json
from privacy.generators.calibration import FitterRegistry, whole_fitter
from privacy.generators.generator import CannotGenerate, Fitter, SynthesisTask, non_default_options
from tasks.records.strict_json import printable, shown
from tasks.verification.fitted.stand_in_grant import without_limit
from tasks.verification.outcomes import RuleFindings
from tasks.verification.record_identity import OTHER

SHARE: Final = Fraction(1, 10**6)
"""By how much a number of a planned event may differ: processors round floats otherwise."""
_REMEDY: Final = "install the package that registers it; if there is none, do not believe the record"


@dataclass(frozen=True)
class NamedFitter:
    """The fitter that a record names.

    Args:
        registry: of generators, or of trainers.
        name: its name.
        where: the record's file name.
    """

    registry: FitterRegistry
    name: str
    where: str

    @property
    def field(self) -> str:
        """Its place in the record."""
        return f"replay.product.{self.registry.noun}"

    def check_registered(self) -> list[Finding]:
        """Refuse a name under which nothing is registered here, or nothing that can be loaded."""
        try:
            self.registry.load(self.name)
        except CannotGenerate as error:
            known = self.name in self.registry.names
            found = printable(str(error)) if known else f"{shown(self.name)}, which no package here registers"
            allowed = f"a {self.registry.noun} that is registered here: {', '.join(self.registry.names)}"
            return [Finding(self.where, self.field, found, printable(allowed), _REMEDY)]
        return []

    def check_plan(
        self, task: SynthesisTask, stated: Mapping[str, Any], charged: Sequence[Mapping[str, Any]]
    ) -> RuleFindings:
        """Plan again, and compare the events.

        Args:
            task: what was asked for, at the epsilon that the noise was planned for.
            stated: the product's options.
            charged: the events that were charged.
        """
        try:
            entered = [event_from_json(event).to_json() for event in charged]
            planned = _events(self.registry.load(self.name), task, stated)
        except ModuleNotFoundError as missing:
            return [], [f"the plan of the {self.registry.noun}: {missing.name} is not installed"]
        except (
            SudareError,
            ArithmeticError,
            LookupError,
            ValueError,
            TypeError,
        ) as error:  # options were read before
            found, allowed = printable(str(error)), f"a {self.registry.noun} that can plan this product"
            return [Finding(self.where, self.field, f"{shown(self.name)}: {found}", allowed, OTHER)], []
        if _alike(planned, entered):
            return [], []
        found = f"{shown(self.name)}, which plans otherwise: {_in_words(planned)}"
        allowed = f"a {self.registry.noun} that plans what was charged, with these options: {_in_words(entered)}"
        return [Finding(self.where, self.field, found, allowed, OTHER)], []

    def stands_alone(
        self, task: SynthesisTask, stated: Mapping[str, Any], charged: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Say whether no other built-in fitter has this plan; of what a package registers nobody can say it."""
        return self.name in self.registry.built_in and not any(self._twins(task, stated, charged))

    def _twins(
        self, task: SynthesisTask, stated: Mapping[str, Any], charged: Sequence[Mapping[str, Any]]
    ) -> Iterator[str]:
        """Yield the other built-in fitters that plan the same events with those of the options that they have."""
        chosen = non_default_options(self.registry.load(self.name).options, stated)
        for other in sorted(set(self.registry.built_in) - {self.name}):
            if any(self._plans(other, task, options, charged) for options in (stated, chosen)):
                yield other

    def _plans(
        self, other: str, task: SynthesisTask, options: Mapping[str, Any], charged: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Say whether another fitter plans these events; options that it does not have are left out."""
        try:
            fitter = self.registry.load(other)
            own = {name: value for name, value in options.items() if name in fitter.options.model_fields}
            return _alike(_events(fitter, task, own), list(charged))
        except (SudareError, ValidationError, ImportError, ArithmeticError, LookupError, ValueError, TypeError):
            return False  # options or columns that are not for it


def _events(fitter: Fitter[Any, Any, Any], task: SynthesisTask, stated: Mapping[str, Any]) -> list[dict[str, Any]]:
    options: BaseModel = without_limit(fitter.options.model_validate(stated))
    return [event.to_json() for event in whole_fitter(fitter, task, draws_only=True).plan(task, options).events]


def _alike(one: Any, other: Any) -> bool:
    """Compare JSON values, numbers and texts of numbers up to a share."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_alike(*pair) for pair in zip(one, other, strict=True))
    if one == other:
        return type(one) is type(other)
    try:
        mine, theirs = Fraction(one), Fraction(other)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        return False
    return abs(mine - theirs) <= SHARE * abs(theirs)


def _in_words(events: Sequence[Mapping[str, Any]]) -> str:
    """Say how many events there are of each kind."""
    counted = Counter(str(event.get("kind")) for event in events)
    return printable(", ".join(f"{number} {kind}" for kind, number in sorted(counted.items())) or "nothing")
