"""A hazard of differentially private releases, and how a run says whether it concerns it and how it is met."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from contracts.message import OR, joined, message
from tasks.records.groups.field import Run

HazardStatus = Literal["met", "limit", "not applicable"]
Concern = tuple[Callable[[Run], bool], str]


@dataclass(frozen=True)
class Hazard:
    """One hazard of a checklist.

    Args:
        hazard: what goes wrong elsewhere.
        how: how this release meets it, from the run; a text that holds for every run is one of the code.
        concerns: whether it concerns a run, and what to say where it does not.
        limit: whether it is not met, or met in part only: then `how` says what is left.
    """

    hazard: str
    how: str | Callable[[Run], str]
    concerns: Concern | None = None
    limit: bool = False

    def entry(self, run: Run) -> dict[str, str]:
        """Return the line of the checklist."""
        if self.concerns is not None and not self.concerns[0](run):
            return _line(self.hazard, "not applicable", self.concerns[1])
        how = message(self.how) if isinstance(self.how, str) else self.how(run)
        return _line(self.hazard, "limit" if self.limit else "met", how)


def checklist(hazards: Iterable[Hazard], run: Run) -> list[dict[str, str]]:
    """Return the checklist of one layer."""
    return [hazard.entry(run) for hazard in hazards]


def _line(hazard: str, status: HazardStatus, how: str) -> dict[str, str]:
    return {"hazard": message(hazard), "status": status, "how": how}


def kinds(run: Run) -> frozenset[str]:
    """Return the kinds of events that were drawn, as the journal has them."""
    return frozenset(entry.body["event"]["kind"] for entry in run.facts.entries if entry.kind == "noise_drawn")


def draws(run: Run) -> int:
    """Count the draws in the journal."""
    return sum(entry.kind == "noise_drawn" for entry in run.facts.entries)


def generator(run: Run) -> str | None:
    """Name the generator of a synthetic release."""
    return None if run.facts.synthesis is None else run.facts.spec.synthetic_product.generator


def made_by(*names: str) -> Concern:
    """Concern the releases of some generators."""
    return lambda run: generator(run) in names, message(
        "this release is not made by {names}", names=joined(names, OR)
    )


NOISE_ON_COUNTS: Final[Concern] = (
    lambda run: bool(kinds(run) & {"discrete_laplace", "discrete_laplace_vector", "discrete_gaussian"}),
    message("no count or sum was measured"),
)
TRAININGS: Final[Concern] = (
    lambda run: "poisson_sampled_gaussian" in kinds(run),
    message("nothing was trained on the rows"),
)
CHOICES: Final[Concern] = (lambda run: "exponential_mechanism" in kinds(run), message("nothing was chosen privately"))
SUMS: Final[Concern] = (
    lambda run: not run.facts.of_tables and bool(run.facts.fit[1].fitted.sums),
    message("no sums of vectors over rows were measured"),
)
TABLES: Final[Concern] = (lambda run: run.facts.of_tables, message("no table of counts is published"))
ROWS: Final[Concern] = (lambda run: run.facts.synthesis is not None, message("no synthetic rows are published"))
