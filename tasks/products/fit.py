"""How a product with options is planned: their own model reads them, and what does not fit names its place."""

from __future__ import annotations

import json
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from contracts.canonical import canonical_json
from contracts.contract.contract import Contract
from contracts.errors import Finding, SpecRefused, StoreUnwritable
from contracts.reading.findings import dotted
from contracts.reading.scalars import FieldPath, Problem
from contracts.release.spec import ReleaseSpec
from privacy.accounting.amounts import PICO
from privacy.generators.calibration import GENERATORS, TRAINERS, FittedPlan, MultiplierRange
from privacy.generators.generator import TOO_SMALL, CandidateRefused, CannotGenerate, Fitter
from privacy.generators.rows import seed_text
from privacy.ledger.draw_files import sync_folder
from privacy.marginals.portable import PostProcessingSeed
from tasks.products.product_kind import Needs, Payers

if TYPE_CHECKING:
    from tasks.records.outputs import Plan


OPTIONS = ("product", "options")
_OF_THE_CHARGE = re.compile(r"\b(epsilon|noise_multiplier) is ")
_PLACES = ("product.generator", "product.trainer", "product.bins", "charge.epsilon", "charge.delta")


class FittedPlanning(ABC):
    """What synthetic rows and classifiers have in common: options of a generator or trainer, which plans."""

    @abstractmethod
    def fitter(self, spec: ReleaseSpec) -> Fitter[Any, Any, Any]:
        """Return the generator or trainer that the spec names.

        Raises:
            CannotGenerate: there is none.
        """

    @abstractmethod
    def fit_plan(self, spec: ReleaseSpec, contract: Contract, options: BaseModel, **terms: Any) -> FittedPlan[Any]:
        """Let it plan under a charge."""

    def plan(
        self, spec: ReleaseSpec, contract: Contract, payers: Payers | None
    ) -> tuple[ReleaseSpec, FittedPlan[Any]]:
        """Plan with the least noise that charge and accounts allow."""
        if spec.source.engine is not None:
            self._check_counts_alone(spec)
        if payers is None:
            return self._planned(spec, contract)
        plain = self._planned(spec, contract, noise_epsilon=Fraction(spec.charge.epsilon))
        accounts = payers(*plain)
        rooms = tuple(MultiplierRange(state.terms.calculus, state.remaining) for state in accounts)
        return self._planned(spec, contract, rooms=rooms)

    def _check_counts_alone(self, spec: ReleaseSpec) -> None:
        """Refuse what needs rows, where an engine gives counts alone.

        Raises:
            SpecRefused: the generator or trainer asks for rows, or there is none of that name.
        """
        try:
            fitter = self.fitter(spec)
        except CannotGenerate as error:
            raise SpecRefused([spec.finding(*read_message(str(error), spec.product_options))]) from error
        if getattr(fitter, "reads_rows", True):
            found = f"an engine beside {fitter.name}, which learns from rows: an engine gives counts alone"
            marginals = "auto, aim, mst, privbayes, latent_factors, independent, fixed"
            allowed = f"generators of marginals ({marginals}) with an engine"
            raise SpecRefused([spec.finding(("source", "engine"), Problem(found, allowed, "drop `engine:`"))])

    def planned_again(
        self, spec: ReleaseSpec, contract: Contract, plan: Plan, noise_epsilon: int | None
    ) -> tuple[ReleaseSpec, FittedPlan[Any]]:
        """Plan with the noise of a charge that the run has already."""
        noise = Fraction(spec.charge.epsilon) if noise_epsilon is None else Fraction(noise_epsilon, PICO)
        return self._planned(spec, contract, noise_epsilon=noise)

    def _planned(self, spec: ReleaseSpec, contract: Contract, **noise: Any) -> tuple[ReleaseSpec, FittedPlan[Any]]:
        """Read the options by their own model, and plan."""
        written, model = spec.product_options, None
        try:
            model = self.fitter(spec).options
            options = model.model_validate(written)
            understood = options.model_dump(mode="json", by_alias=True, exclude_unset=True)
            terms = {"epsilon": spec.charge.epsilon, "delta": spec.charge.delta, **noise}
            plan = self.fit_plan(spec, contract, options, **terms)
        except ValidationError as error:
            raise SpecRefused(_misread(spec, error, model)) from None
        except CandidateRefused as error:
            raise SpecRefused(_of_candidate(spec, error)) from error
        except CannotGenerate as error:
            raise SpecRefused([spec.finding(*read_message(str(error), written))]) from error
        return spec.with_options(understood), plan

    def needs(self, plan: FittedPlan[Any]) -> Needs:
        """Memory of the model."""
        return Needs(plan.plan.megabytes, 0.0, OPTIONS, plan.options)

    def adapted_options(self, spec: ReleaseSpec, rows: int) -> tuple[dict[str, Any], list[str]] | None:
        """Return options for so many rows: a batch keeps its sampling probability.

        Those that cannot be read are left for the plan.
        """
        known, written = self.fitter(spec).options, spec.product_options
        try:
            read: Any = known.model_validate(written)
        except ValidationError:
            return dict(written), []
        changed: dict[str, Any] = {}
        if getattr(read, "rows_about", None) is not None:
            about, batch = read.rows_about, getattr(read, "batch", None)
            if "batch" in written and batch is not None:
                changed["batch"] = max(1, round(batch * rows / about))
            changed["rows_about"] = rows
        if "publish_noise" in known.model_fields:
            changed["publish_noise"] = True
        return {**written, **changed}, [f"{name} {str(value).lower()}" for name, value in changed.items()]


def _misread(spec: ReleaseSpec, error: ValidationError, model: Any) -> list[Finding]:
    """Locate what the options' model refuses; of an option that others have, name these and no similar word."""
    unknown = {
        dotted((*OPTIONS, *item["loc"])): str(item["loc"][0])
        for item in error.errors()
        if item["type"] == "extra_forbidden" and len(item["loc"]) == 1
    }
    owners = {field: ", ".join(_owners(spec, option)) for field, option in unknown.items()}
    return [
        replace(each, remedy=f"drop it: it is an option of {owners[each.field]}") if owners.get(each.field) else each
        for each in spec.misread(OPTIONS, error, model)
    ]


def _owners(spec: ReleaseSpec, option: str) -> tuple[str, ...]:
    """Name the generators or trainers that have an option; those that cannot be loaded are left out."""
    registry = GENERATORS if spec.product.kind == "synthetic" else TRAINERS
    return registry.names_where(lambda fitter: option in fitter.options.model_fields)


def _of_candidate(spec: ReleaseSpec, refused: CandidateRefused) -> list[Finding]:
    """Locate what is wrong with the part of one of several tables."""
    at: FieldPath = (*OPTIONS, *refused.at)
    if isinstance(refused.cause, ValidationError):
        return spec.misread(at, refused.cause, refused.model)
    place, problem = read_message(str(refused.cause), refused.options)
    if place[0] == "charge":
        return [spec.finding(place, problem)]
    return [spec.finding((*at, *place[1:]), problem)]


def read_message(message: str, options: Mapping[str, object]) -> tuple[tuple[str, ...], Problem]:
    """Take the message of a generator or trainer apart: `found; allowed: what; do: what`, as far as it has these.

    Its place is the part of the spec with which it begins, or the option that it names, where that is written.
    """
    rest, _, remedy = message.partition("; do: ")
    found, _, allowed = rest.partition("; allowed: ")
    place = next((each for each in _PLACES if found.startswith(f"{each}: ")), None)
    if place is not None:
        problem = Problem(found.removeprefix(f"{place}: "), allowed or "what the generator can do", remedy)
        return tuple(place.split(".")), problem
    named = [word.strip(":").removeprefix("options.") for text in (found, allowed) for word in text.split()]
    option = next((word for word in named if word in options), None)
    if option is not None:
        # The field says which option it is: once is enough.
        problem = Problem(found.removeprefix(f"options.{option}: "), allowed or "what the generator can do", remedy)
        return (*OPTIONS, option), problem
    problem = Problem(found, allowed or "what the generator can do", remedy)
    of_the_charge = found.startswith(TOO_SMALL) or _OF_THE_CHARGE.search(found) is not None
    return ("charge", "epsilon") if of_the_charge else ("product",), problem


# --- The seed of a run's post-processing.


_BITS: Final = 128


def seed_of_run(folder: Path, run_key: str) -> PostProcessingSeed:
    """Return the run's seed; the first time, draw it from the operating system and write it down durably.

    Args:
        folder: the run's private folder, held by this process.
        run_key: the run; the folder may hold those of other snapshots.
    Raises:
        StoreUnwritable: the folder cannot be written.
    Privacy: independent of the data and of the noise; of no use for noise (another type).
    """
    path = folder / f"seed-{run_key}.json"
    try:
        known = _read(path)
        if known is not None:
            return known
        seed = PostProcessingSeed(secrets.randbits(_BITS))
        with NamedTemporaryFile(dir=folder, suffix=".partial") as file:  # mode 0600
            file.write(canonical_json({"run": run_key, "seed": seed_text(seed)}))
            file.flush()
            os.fsync(file.fileno())
            os.link(file.name, path)
        sync_folder(folder)
    except OSError as error:
        raise StoreUnwritable.because(error, folder) from error
    return seed


def _read(path: Path) -> PostProcessingSeed | None:
    if not path.exists():
        return None
    return PostProcessingSeed(int(json.loads(path.read_bytes())["seed"], 16))
