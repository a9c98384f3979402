"""The groups of the record of a release across sites: its execution, its product, and other fills."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Final

from contracts.contract.contract import Contract
from contracts.message import SENTENCES, joined, message, plural
from contracts.release.federation_spec import FederationTerms
from contracts.release.spec_checks import MOST_DELTA
from contracts.release.tables.tables import TablesProduct, tables_of
from privacy.accounting.amounts import pico_to_text
from privacy.accounting.events import DiscreteGaussian, PoissonSampledGaussian, event_from_json
from privacy.generators.rows import seed_text
from privacy.grant.draw_replay import LOST
from tasks.records.across import words
from tasks.records.across.seed import seed_of_sums
from tasks.records.draws.draws import SAMPLER
from tasks.records.files.tidy_tables import DATA
from tasks.records.files.write import ROUNDS
from tasks.records.fitted_groups.classifier_groups import KNOWN_BIAS as BIAS_OF_MODELS
from tasks.records.fitted_groups.classifier_groups import USES as USES_OF_MODELS
from tasks.records.fitted_groups.synthesis_groups import with_fills
from tasks.records.groups.field import NONE, FieldGroup, Run, public, with_sections
from tasks.records.groups.guarantee import CONVERSION, GUARANTEE, LEDGER, NOISE, SAMPLERS, inequality, noise_words
from tasks.records.groups.origin import (
    BYTEWISE,
    NOTICES,
    OUTPUT,
    REPRODUCIBILITY,
    SOURCE,
    hour,
    line,
    loss,
    noise_gone,
    public_notice,
)
from tasks.records.groups.post_processing import BIAS, UTILITY
from tasks.records.groups.terms import CONTRACT, PREPROCESSING, UNIT, UNPROTECTED, encoding_steps, sensitivities
from tasks.records.hazards.limits import LARGE_DELTA, LIMITATIONS
from tasks.records.model.across_statements import AcrossRecord, ExecutionStatement
from tasks.records.model.record_kinds import DataColumn, ProductWords, ShownFile, record_part
from tasks.records.outputs import AcrossPlan
from tasks.records.values import Values

# --- The group of a record that says how a release was made across sites.


PARTIES: Final = frozenset({"sites", "rows_about", "trust"})
"""What of a plan other fields say."""


def execution_of(run: Run) -> ExecutionStatement:
    """Return how the release was made.

    Raises:
        TypeError: it was made in one place.
    """
    if run.facts.execution is None:
        raise TypeError("the release was made in one place")
    return run.facts.execution


def terms_of(run: Run) -> FederationTerms:
    """Return what the parties agreed on."""
    return FederationTerms.model_validate(execution_of(run).spec)


def how(run: Run) -> str:
    """Say in a sentence how the release was made."""
    execution = execution_of(run)
    rounds = len(execution.rounds)
    sites = len(terms_of(run).sites)
    return plural(
        "across {sites} sites, which keep their rows: in one round a coordinator got the sum over the sites that "
        "answered, and released it with its noise; all else follows from this sum",
        "across {sites} sites, which keep their rows: in each of {rounds} rounds a coordinator got the sum over the "
        "sites that answered, and released it with its noise; all else follows from these sums",
        rounds,
        sites=sites,
        rounds=rounds,
    )


def sites(run: Run) -> list[dict[str, Any]]:
    """List each site with its declared number of rows, and the rounds that it is in."""
    members, execution = terms_of(run).sites, execution_of(run)
    present = [each.present for each in execution.rounds]
    return [
        {
            "site": member.name,
            "rows_about": member.rows_about,
            "rounds": message("{part} of {whole}", part=sum(here[place] for here in present), whole=len(present)),
            "without": ranges([number for number, here in enumerate(present, 1) if not here[place]]) or NONE,
        }
        for place, member in enumerate(members)
    ]


def ranges(numbers: Sequence[int]) -> str:
    """Write ascending whole numbers as ranges: 2, 5-9."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def keys(run: Run) -> list[dict[str, str]] | str:
    """Give the fingerprint of each site's key: the first 16 digits of the SHA-256 of its text in the spec."""
    found = terms_of(run).site_keys
    listed = [
        {"site": name, "sha256": hashlib.sha256(key.encode()).hexdigest()[:16]} for name, key in sorted(found.items())
    ]
    return listed or words.WITHOUT_KEYS


def lost(run: Run) -> int:
    """Count the attempts of rounds that were lost, and paid."""
    drawn = [entry.body["key"] for entry in run.facts.entries if entry.kind == "noise_drawn"]
    return sum(f"/{LOST}-" in key for key in drawn)


def noise(plan: Mapping[str, Any]) -> str:
    """Say how much noise the accounting counts on; `plan` as JSON values."""
    if plan["kind"] == "phases":
        sums = " ".join(f"{float(2 * Fraction(each['rho'])) ** -0.5:.3g}" for each in plan["sums"]["sums"])
        trained = noise(plan["training"])
        return message("{sums} times a person's bound, sum after sum; then {training}", sums=sums, training=trained)
    if plan["kind"] == "counts":
        deviation = f"{float(Fraction(plan['sigma_squared'])) ** 0.5:.4g}"
        return message("standard deviation {deviation} rows a cell, every table", deviation=deviation)
    factor = f"{float(Fraction(plan['training']['noise_multiplier'])):.4g}"
    return message("{factor} times the clipping norm, every round", factor=factor)


def _plan(value: Any) -> Any:
    """Return a plan without what other fields say."""
    if isinstance(value, dict):
        return {name: _plan(part) for name, part in value.items() if name not in PARTIES}
    return [_plan(part) for part in value] if isinstance(value, list) else value


EXECUTION: Final = FieldGroup(
    "execution",
    "Execution",
    (
        public("how", "How the release was made.", how),
        public("sites", "Who took part in which rounds; numbers of rows are as declared.", sites),
        public(
            "fewest",
            "Sites that a round needs; one with fewer is never summed.",
            lambda run: terms_of(run).trust.fewest,
        ),
        public("trust", "Who is trusted with what.", lambda run: words.trusted(terms_of(run), run.facts.contract)),
        public("not_checked", "What no check can tell.", lambda run: words.NOT_CHECKED),
        public("noise", "Noise that the accounting counts on.", lambda run: noise(execution_of(run).plan)),
        public(
            "person",
            "For which rows of a person the loss is.",
            lambda run: words.person(terms_of(run), run.facts.contract),
        ),
        public(
            "person_epsilon",
            "Loss of a person at all sites together, at most; the coordinator's account paid it.",
            lambda run: pico_to_text(run.facts.charge.request.epsilon),
        ),
        public("record", "For which rows a site's own account pays.", lambda run: words.record(run.facts.contract)),
        public(
            "record_epsilon",
            "Loss of a record at its site, at most; that site's own account paid it.",
            lambda run: pico_to_text(execution_of(run).record_epsilon),
        ),
        public("lost", "Attempts of rounds that were lost, and paid.", lost),
        public("keys", "Keys by which sites are known.", keys),
        public("plan", "What each round samples, clips and adds.", lambda run: _plan(execution_of(run).plan)),
    ),
)


OF_SITES: Final = message("each site reads its own source, which its own ledger names")
LEAKAGE: Final = message(
    "Each site checks its own rows. That it took part shows that its source was as the contract says, and that the "
    "gates held; other outcomes stay at the site."
)
IN_FILES: Final = message("none: each table, or all rows, in one file; the sums of all rounds in one file")
MADE_WHATEVER: Final = message(
    "One spec under one contract is one run, whatever the rows are: that this version was made tells that enough "
    "sites took part, and nothing else that is outside of epsilon but what section unprotected lists."
)
FIXED: Final = message(
    "Rényi losses of all rounds and of the reserve, fixed beforehand, add up; the best order is converted by "
    "{source}.",
    source=CONVERSION,
)
OF_ROWS: Final = message(
    "rows are a sample of a model of noisy sums: what is rare among people is rarer or absent in them"
)
MISSING_SITES: Final = message("a table counts the rows of the sites that took part in its round, and no others")


def draws(run: Run) -> list[dict[str, Any]]:
    """List the draws as the journal has them: a sum a round, and attempts that were lost and paid again."""
    account = run.facts.account.terms.name
    present = {each.key: sum(each.present) for each in execution_of(run).rounds}
    length = {each.key: each.length for each in execution_of(run).rounds}
    entered = sorted(
        (entry.body for entry in run.facts.entries if entry.kind == "noise_drawn"), key=lambda body: body["number"]
    )
    return [
        {
            "key": body["key"],
            "what": message("sum over sites")
            if body["key"] in present
            else message("attempt of a round, lost and paid"),
            "columns": [],
            "event": body["event"],
            "cells": length.get(body["key"], 0),
            "sites": present.get(body["key"], 0),
            "noise": _noise(run, body["event"]["kind"]),
            "cost": pico_to_text(body["costs"][account]),
        }
        for body in entered
    ]


def _noise(run: Run, kind: str) -> str:
    """Name the noise of a draw; at its least, since more sites than are counted on add more."""
    event = next(event for event in run.facts.charge.request.events if event.kind == kind)
    if isinstance(event, DiscreteGaussian):
        if terms_of(run).counted is None:
            return message("discrete Gaussian")
        return message("at least {noise}", noise=noise_words(event))
    if isinstance(event, PoissonSampledGaussian):
        factor = f"{float(event.noise_multiplier):.6g}"
        return message("Gaussian, at least {factor} times what a person moves", factor=factor)
    raise TypeError(f"{event.kind} is no sum over sites")


def sensitivity(run: Run) -> list[dict[str, Any]]:
    """List the distinct sensitivities of counts and sums, of a person at all sites together, and of gradients."""
    training = terms_of(run).training
    of_gradients = (
        [] if training is None else [{"of": message("sums of gradients"), "l2": float(training.clipping_norm)}]
    )
    return [*sensitivities(run), *of_gradients]


def definition(run: Run) -> str:
    """Write the guarantee as an inequality, with its numbers."""
    return joined([inequality(run), MADE_WHATEVER], SENTENCES)


def quantities(run: Run) -> list[str]:
    """List every quantity that depends on the data and is published without noise."""
    return [*words.unprotected(run.facts.contract), *_times(run)]


def _times(run: Run) -> list[str]:
    entries = run.facts.entries
    return [
        message("that the measurements were complete in the hour {hour}", hour=hour(run.facts.finished)),
        message(
            "the times of {number} journal entries in PROOF.json, to the hour, from {hour} on",
            number=len(entries),
            hour=hour(entries[0].at),
        ),
    ]


def steps(run: Run) -> list[dict[str, str]]:
    """List what happened to the rows at each site before they were added up, and how that is accounted for."""
    return encoding_steps(run, words.OPERATORS)


def mechanism(run: Run) -> str:
    """Say what is noisy, and who adds the noise."""
    terms = execution_of(run).plan["kind"]
    noisy = {
        "counts": message("discrete Gaussian noise on counts over sites"),
        "dp_sgd": message("DP-SGD over sites: Gaussian noise on clipped gradients of Poisson samples"),
        "phases": message(
            "discrete Gaussian noise on sums over sites, and DP-SGD: Gaussian noise on clipped gradients of Poisson "
            "samples"
        ),
    }[terms]
    if terms_of(run).trust.noise == "sites":
        return message("{noise}; in shares of the sites", noise=noisy)
    return message("{noise}; by the server that is trusted", noise=noisy)


def samplers(run: Run) -> list[str]:
    """Name how each kind of draw is sampled."""
    kinds = {event.kind for event in run.facts.charge.request.events}
    trained = {SAMPLER} if "poisson_sampled_gaussian" in kinds else set()
    return sorted({SAMPLERS[kind] for kind in kinds if kind in SAMPLERS} | trained)


def what(run: Run) -> str:
    """Say in a few words what was made."""
    terms = terms_of(run)
    if terms.tables is not None:
        number = len(terms.tables.cliques)
        return plural("a table of counts", "{number} tables of counts", number, number=number)
    if terms.generator is not None:
        return message("synthetic rows by {generator}", generator=terms.generator.name)
    return message("a classifier of {label}", label="" if terms.learner is None else terms.learner.label)


def columns(run: Run) -> list[str]:
    """List the columns that were read, in the contract's order."""
    product, contract = terms_of(run).product, run.facts.contract
    if product.kind != "tables":
        return list(product.names(contract))
    named = {name for each in tables_of(product, contract) for name in each.columns}
    return [column.name for column in contract.columns if column.name in named]


def options(run: Run) -> dict[str, Any]:
    """Return what the spec says of the product, without what it leaves open."""
    terms = terms_of(run)
    made = terms.tables or terms.generator or terms.learner
    return {} if made is None else made.model_dump(mode="json", exclude_none=True)


def rows(run: Run) -> str:
    """Say how many rows are published, and why so many."""
    product, terms = terms_of(run).product, terms_of(run)
    if product.kind != "synthetic" or terms.generator is None:
        return NONE
    if terms.generator.rows is None:
        return message("{rows}, as the sites declare together", rows=product.rows)
    return message("{rows}, declared by the spec", rows=product.rows)


def seed(run: Run) -> str:
    """Give the seed of the rows, which follows from the run and the released sums."""
    if terms_of(run).generator is None:
        return NONE
    drawn = {entry.body["key"]: entry.body["sha256"] for entry in run.facts.entries if entry.kind == "noise_drawn"}
    digests = [drawn[each.key] for each in execution_of(run).rounds]
    return seed_text(seed_of_sums(run.facts.run_key, digests))


def files(run: Run) -> list[str]:
    """Name the files of what was made."""
    return [each.path for each in run.files if each.role != "rounds"]


def stated_bias(run: Run) -> list[str]:
    """Say what is known to be wrong with what was made."""
    terms = terms_of(run)
    if terms.tables is not None:
        return [BIAS["none"][0], MISSING_SITES]
    return [OF_ROWS if terms.generator is not None else BIAS_OF_MODELS]


def reproducible(run: Run) -> list[dict[str, str]]:
    """List what a stranger makes again, from what, and how exactly."""
    kind, source, bytewise = terms_of(run).product.kind, message("the published sums over sites"), BYTEWISE
    close = message("up to two units or 10^-4 of an array's largest number")
    made = {
        "tables": [(message("the tables"), source, bytewise)],
        "classifier": [(message("the weights"), source, message("up to 10^-4"))],
        "synthetic": [
            (message("the model"), source, close),
            (message("the rows"), message("the published model and seed"), bytewise),
        ],
    }[kind]
    return [line(*each) for each in (*made, loss(run))]


def not_reproducible(run: Run) -> list[str]:
    """List what nobody can make again, on purpose."""
    return [noise_gone(run), message("what each site sent: it is kept nowhere, and leaves once")]


def notice(run: Run) -> dict[str, Any]:
    """Give what a public notice on creation and provision names: categories of information, and the way."""
    named, kind = frozenset(columns(run)), terms_of(run).product.kind
    return public_notice(
        run, named, record_part(kind).notice, ("parquet",) if kind == "classifier" else ("parquet", "csv")
    )


def row_count_origin(run: Run) -> str:
    """Say where numbers of rows come from."""
    kind = terms_of(run).product.kind
    if kind == "tables":
        return message("fixed: one row a cell of the declared domains")
    return rows(run) if kind == "synthetic" else message("none: no rows are published")


def quality_warnings(run: Run) -> list[str] | str:
    """List what users must mind."""
    stated, delta = run.facts.contract.description.get("limitations"), terms_of(run).charge.delta
    listed: list[str] = [] if stated is None else [message("the contract: {text}", text=stated)]
    listed += [LARGE_DELTA] if delta > MOST_DELTA else []
    return [*listed, *execution_of(run).notes] or NONE


PRODUCT: Final = FieldGroup(
    "product",
    "Product",
    (
        public("made", "What was made of the sums over sites.", what),
        public("columns", "The columns that were read.", columns),
        public("options", "What the spec says of it.", options),
        public("rows", "How many rows are published, and why.", rows),
        public("seed", "Seed of the rows; it follows from the run and the released sums.", seed),
        public("files", "Files of what was made.", files),
        public("notes", "What a reader should know of it.", lambda run: list(execution_of(run).notes) or NONE),
        public("known_bias", "What is known to be wrong with it.", stated_bias),
        public(
            "uses",
            "What a model is good for, and what not.",
            lambda run: list(USES_OF_MODELS) if terms_of(run).learner is not None else NONE,
        ),
    ),
)

_CHANGED: Final = (
    with_fills(
        SOURCE,
        source_path=lambda run: OF_SITES,
        source_format=lambda run: OF_SITES,
        select=lambda run: OF_SITES,
        snapshot_keyed_hash=lambda run: NONE,
    ),
    with_fills(CONTRACT, validation_outcomes=lambda run: [], validation_leakage=lambda run: LEAKAGE),
    with_fills(UNIT, sensitivity=sensitivity),
    with_fills(GUARANTEE, definition=definition, conversion=lambda run: FIXED),
    with_fills(LEDGER, draws=draws),
    with_fills(
        UNPROTECTED,
        quantities=quantities,
        exact_total=lambda run: NONE,
        fixed_gates=lambda run: words.gates(run.facts.contract),
        run_time_facts=lambda run: [*words.COURSE, *_times(run)],
    ),
    with_fills(PREPROCESSING, steps=steps, chosen_by_the_run=lambda run: NONE),
    with_fills(
        NOISE,
        mechanism=mechanism,
        mechanism_choice=lambda run: {"by": message("the federation spec, within the charge")},
        samplers=samplers,
    ),
    with_fills(
        UTILITY, expected_error=lambda run: NONE, error_against_noisy=lambda run: NONE, computed_on=lambda run: NONE
    ),
    with_fills(
        replace(LIMITATIONS, fields=tuple(each for each in LIMITATIONS.fields if each.name != "hazards")),
        quality_warnings=quality_warnings,
    ),
    with_fills(OUTPUT, row_count_origin=row_count_origin, partitioning=lambda run: IN_FILES),
    with_fills(REPRODUCIBILITY, reproducible=reproducible, not_reproducible=not_reproducible),
    with_fills(NOTICES, notice=notice),
    PRODUCT,
)


def across_groups(groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
    """Return the groups of the record of a release across sites, in the order of those of tables."""
    return (*with_sections(groups, _CHANGED), EXECUTION)


# --- What a record says of a version that was made across sites.


class AcrossRecordPart:
    """The record of a version that was made across sites, whatever its product is."""

    model: ClassVar = AcrossRecord
    notice: ClassVar[str] = ""
    words: ClassVar = ProductWords("", "", "", "")
    """Those of its product say what is published."""

    def groups(self, groups: tuple[FieldGroup, ...]) -> tuple[FieldGroup, ...]:
        """Return the sections, some of them filled in another way."""
        return across_groups(groups)

    def columns(self, run: Run) -> set[str]:
        """Name the columns of its product."""
        return set(columns(run))

    def stated(self, run: Run) -> dict[str, Any]:
        """Return draws and execution.

        Raises:
            TypeError: the run was made in one place.
        """
        if run.facts.execution is None:
            raise TypeError("the release was not made across sites")
        return across_part(run, run.facts.execution)

    def published(
        self, record: AcrossRecord, contract: Contract, product: Any, accounts: Any, reserved: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return how the version was made; what was made of the sums follows from that."""
        claim = record.replay.claim
        events = tuple(event_from_json(event) for event in reserved["events"])
        return {
            "execution": record.replay.execution,
            "plan": AcrossPlan(events, claim.epsilon, claim.delta),
            **dict.fromkeys(("synthesis", "classifier", "total", "estimated_total", "earlier_version")),
            "tables": (),
        }

    def files(self, record: AcrossRecord) -> Iterator[tuple[str, ShownFile]]:
        """Yield the rounds, and a table a round, or all rows."""
        execution = record.replay.execution
        terms = FederationTerms.model_validate(execution.spec)
        product = terms.product
        yield ROUNDS, ("", "rounds", "dense")
        if isinstance(product, TablesProduct):
            tables = tables_of(product, Contract.model_validate(record.replay.contract))
            for each, table in zip(execution.rounds, tables, strict=True):
                yield f"{DATA}/{table.name}.parquet", (each.key, "data", "dense")
        elif terms.generator is not None:
            yield f"{DATA}/{terms.federation}.parquet", ("", "data", "dense")

    def data_columns(self, values: Values, path: str) -> Mapping[str, DataColumn]:
        """Return nothing: the product says it."""
        return {}


def across_part(run: Run, execution: ExecutionStatement) -> dict[str, Any]:
    """Return the draws, a sum a round and lost attempts, and how the version was made."""
    account, lengths = run.facts.account.terms.name, {each.key: each.length for each in execution.rounds}
    entered = [entry.body for entry in run.facts.entries if entry.kind == "noise_drawn"]
    draws = [
        {
            "key": body["key"],
            "number": body["number"],
            "clique": [],
            "shape": [lengths[body["key"]]] if body["key"] in lengths else [],
            "coarsening": None,
            "event": body["event"],
            "cost": body["costs"][account],
            "sha256": body["sha256"],
        }
        for body in sorted(entered, key=lambda body: body["number"])
    ]
    return {"draws": draws, "execution": execution.model_dump(mode="json")}
