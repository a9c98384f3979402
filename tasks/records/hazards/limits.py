"""Limits: the hazards by number, known limits, what is out of scope, and permitted uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contracts.message import message
from contracts.release.spec_checks import large_delta
from privacy.grant.measurement import CellSumMeasurement
from tasks.records.groups.declarations import declares
from tasks.records.groups.field import NONE, FieldGroup, Run, public

# --- The numbered hazards of docs/hazards.md.


VERSION: Final = 1
"""Of the page. Another hazard, or another answer to one, is another version."""

COUNT: Final = 53
Concern = Callable[[Run], bool]


def kinds(run: Run) -> frozenset[str]:
    """Return the kinds of events that were drawn, as the journal has them."""
    return frozenset(entry.body["event"]["kind"] for entry in run.facts.entries if entry.kind == "noise_drawn")


def _noise_on_counts(run: Run) -> bool:
    return bool(kinds(run) & {"discrete_laplace", "discrete_laplace_vector", "discrete_gaussian"})


def trained(run: Run) -> bool:
    """Whether steps of a training were drawn."""
    return "poisson_sampled_gaussian" in kinds(run)


def _chosen(run: Run) -> bool:
    return "exponential_mechanism" in kinds(run)


def _sums(run: Run) -> bool:
    if run.facts.of_tables:
        return False
    fitted = run.facts.fit[1].fitted
    return bool(fitted.sums or fitted.of_kind(CellSumMeasurement.kind))


def _tables(run: Run) -> bool:
    return run.facts.of_tables


def _rows(run: Run) -> bool:
    return run.facts.synthesis is not None


def _generated_by(*names: str) -> Concern:
    return lambda run: _rows(run) and run.facts.spec.synthetic_product.generator in names


CONCERNS: Final[Mapping[int, Concern]] = {
    12: _chosen,
    13: _generated_by("aim", "mst"),
    14: trained,
    15: trained,
    17: _noise_on_counts,
    18: trained,
    19: trained,
    21: _sums,
    25: _noise_on_counts,
    26: _tables,
    27: _rows,
    28: _generated_by("ae", "p3gm"),
    29: _generated_by("ae", "dp_gm", "p3gm", "vae"),
    30: trained,
    31: _chosen,
    39: _tables,
}
"""Which releases a hazard concerns; one without an entry concerns every release."""

LIMITED: Final = frozenset({10, 16, 19, 32, 33, 35, 39, 40, 41, 42, 43, 48, 50, 51, 52, 53})
"""Hazards that are met in part, or not at all."""


def hazards(run: Run) -> dict[str, Any]:
    """Return how a release stands to each hazard, by number."""
    concerned = {number for number in range(1, COUNT + 1) if number not in CONCERNS or CONCERNS[number](run)}
    return {
        "version": VERSION,
        "met": sorted(concerned - LIMITED),
        "limit": sorted(concerned & LIMITED),
        "not_applicable": sorted(set(range(1, COUNT + 1)) - concerned),
    }


def _always(run: Run) -> bool:
    return True


@dataclass(frozen=True)
class Limit:
    """One known limit, as docs/guarantees.md numbers and names it.

    Args:
        number: there.
        title: there.
        text: in a sentence.
        concerns: which runs it concerns.
    """

    number: int
    title: str
    text: str
    concerns: Callable[[Run], bool] = _always


def _total_declared(run: Run) -> bool:
    return run.facts.contract.total is not None


def _synthetic(run: Run) -> bool:
    return run.facts.synthesis is not None


def _several_rows(run: Run) -> bool:
    return run.facts.charge.request.rows_per_unit > 1


LIMITS: Final = (
    Limit(1, "Timing and size", "How long a run takes, how large its files are and when it fails is not protected."),
    Limit(2, "Gates", "That gates held, or stopped a run, is an exact bit about the data, outside of every epsilon."),
    Limit(
        3,
        "What the contract says is public is public",
        "Domains, structural zeros and totals are taken on the owner's word; one that was read off the data leaks.",
    ),
    Limit(
        4,
        "Declared totals",
        "With a declared total, whether somebody is in the table at all is not protected.",
        _total_declared,
    ),
    Limit(
        5, "One unit is protected, not a group", "Several units together lose a multiple; so do rows under other ids."
    ),
    Limit(
        6, "Populations are declared", "Populations that share people have accounts that know nothing of each other."
    ),
    Limit(
        7,
        "The operator is trusted",
        "Who can read the workspace reads the rows; who changes the code can do anything.",
    ),
    Limit(8, "Restored backups", "A ledger restored from a copy forgets charges; only published versions show it."),
    Limit(9, "The generator", "Noise is as good as the operating system's entropy and AES-256 in counter mode."),
    Limit(
        10,
        "Floating point",
        "Rényi losses are computed in doubles, with margins that are argued and tested, not proven.",
    ),
    Limit(
        11,
        "Adaptive odometers",
        "An account's bound is for its cap, not for a moment chosen to make the loss look small.",
    ),
    Limit(
        12,
        "Whether the table changed",
        "That a spec got a new version, or was charged anew for a run that was never published, tells that its "
        "encoded table changed.",
        lambda run: run.facts.spec.due is None,
    ),
    Limit(13, "What stays in the workspace", "Results of validation and private logs stay with the publisher."),
    Limit(14, "Evaluation", "Scores against real rows pay nothing, are private, and must not choose among releases."),
    Limit(15, "Code in the same process", "A foreign generator in the process is trusted like the rest of the code."),
    Limit(16, "Large moves", "For several rows a unit there is no second accountant.", _several_rows),
    Limit(
        17,
        "Synthetic rows",
        "Rows are a sample of a model; a number of rows counted from the table leaks.",
        _synthetic,
    ),
    Limit(
        18,
        "Gradients of trainings",
        "Gradients of trainings are float32; clipping leaves room for their rounding, which is argued, not proven.",
        trained,
    ),
    Limit(
        19,
        "What is learned of one attribute",
        "The bound about one column holds for what the encoded table says; a filter on the column, or a gate, "
        "tells more.",
        lambda run: run.facts.of_tables,
    ),
    Limit(
        20,
        "Federations",
        "Who may see a site's contribution is declared, and no code can check who looked, or who reached the link.",
        lambda run: run.facts.execution is not None,
    ),
)
LARGE_DELTA: Final = message(
    "delta is large: such a guarantee allows whole rows of a few people to be published, and the publisher accepts "
    "that (large_delta: accepted)"
)
OUT_OF_SCOPE: Final = (
    message("what holds for many people: to learn that is the purpose, and it may be used about one of them"),
    message("whoever can watch the machine, its files or its clock while a release is made"),
    message("whoever has the publisher's signing key, or can change the code that runs"),
    message("publications of the same people that do not go through this ledger"),
    message("errors, gaps and bias of the source, and of how its rows were collected"),
)


def limits_of(run: Run) -> list[dict[str, Any]]:
    """List the known limits that concern this run."""
    return [
        {"number": limit.number, "title": message(limit.title), "says": message(limit.text)}
        for limit in LIMITS
        if limit.concerns(run)
    ]


def out_of_scope(run: Run) -> list[str]:
    """List what the guarantee does not speak of."""
    people = message(
        "whoever knows more than one unit's worth: groups of {unit}s lose more",
        unit=run.facts.contract.unit.column or message("row"),
    )
    return [*OUT_OF_SCOPE, people]


def quality_warnings(run: Run) -> list[str] | str:
    """List what users must mind: the contract's limitations, notes of refinement or generator, suppression."""
    stated = run.facts.contract.description.get("limitations")
    listed: list[str] = [] if stated is None else [message("the contract: {text}", text=stated)]
    if large_delta(run.facts.spec, run.facts.contract) is not None:
        listed.append(LARGE_DELTA)
    for table in run.facts.tables:
        listed += [message("{table}: {note}", table=table.name, note=note) for note in table.refined.notes]
    if run.facts.synthesis is not None:
        return [
            *listed,
            *run.facts.synthesis.fitted.notes,
            message("rows are made up: see product.known_bias and product.uses"),
        ]
    if run.facts.classifier is not None:
        return [
            *listed,
            *run.facts.classifier.fitted.notes,
            message("what a model says of one person may be wrong: see product.uses"),
        ]
    if getattr(run.facts.spec.product, "minimum_frequency", None) is not None:
        listed.append(
            message("published counts lie above the exact ones on average: small noisy ones are suppressed")
        )
    return listed or NONE


LIMITATIONS: Final = FieldGroup(
    "limits",
    "Limits",
    (
        public(
            "hazards",
            "Hazards by their numbers in docs/hazards.md: met, limit (in part, or not at all), or not applicable.",
            hazards,
        ),
        public("known_limits", "Known limits of the guarantee that concern this release.", limits_of),
        public("out_of_scope", "Attackers and questions that the guarantee does not speak of.", out_of_scope),
        public("quality_warnings", "What users of the data must mind.", quality_warnings),
        declares("permitted_uses", "What the release may be used for."),
    ),
)
