"""Attacks on shadow releases: a spec's product, made of rows that are declared public, again and again.

No confidential row is read, no account pays, and no orchestrator hears of it. An attack on the rows that a release is
made of is refused: it would look at confidential rows, and nothing would record that.
"""

from __future__ import annotations

import secrets
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.errors import Finding, SpecRefused
from contracts.reading.scalars import nearest, word_list
from contracts.release.product import ProductSpec
from flows.evaluation.attack_target import Attacked, adapted, attacked_release, columns_of, refuse_rows_of
from flows.evaluation.evaluate import Real, file_source, private_snapshot
from flows.request import planned_request
from privacy.accounting.amounts import ATTO, PICO
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.seen_releases import Seen, SeenModel
from privacy.evaluation.shadow_attacks import FALSE_ALARM, TestedClaim, Trials, guessing, judged
from privacy.private_table import PrivateTable
from tasks.evaluation.attack_files import KINDS, AttackReport, AttackResult, write_attacks
from tasks.evaluation.public_rows import DeclaredPublic, refuse_confidential
from tasks.evaluation.score_files import ScoreFiles
from tasks.evaluation.scores import check_installed, population_chances
from tasks.evaluation.shadow_releases import RowNumbers, play, public_codes, shadows_of
from tasks.storage.progress import step
from tasks.storage.workspace.settings import Workspace

ALL: Final = "all"
LEAST_ROWS: Final = 100
MOST_COINS: Final = 1_000
MOST_POPULATION: Final = 20_000
MOST_VALUES: Final = 200
"""Cells of a column that is guessed."""


@dataclass(frozen=True)
class AttackRequest:
    """What is asked of an attack.

    Args:
        attack: one of `KINDS`, or all that fit the product.
        attribute: the column that attribute inference guesses.
        releases: shadow releases, at most.
        minutes: for all of them together.
    """

    attack: str
    attribute: str | None
    releases: int
    minutes: float


def attack_release(
    what: Path,
    holdout: Path,
    request: AttackRequest,
    *,
    because: str | None,
    workspace: Workspace,
    at: datetime,
    period: str | None = None,
) -> tuple[AttackReport, ScoreFiles]:
    """Attack what a spec, or a version's record, makes of rows that the publisher declares public.

    Args:
        what: a release spec, or the folder of a version that this workspace published.
        holdout: a file with the public rows, as the contract has them.
        request: which attack, and how much of it.
        because: why they are public.
        workspace: has the ledger, keeps the snapshot while it is needed, and takes what is found.
        at: when, in UTC.
        period: for a spec with `period:`, which one.
    Raises:
        SudareError: there is no reason; the rows are a source of the ledger or those of the release; the attack does
            not fit the product; there are too few rows, or too little time; an extra is missing.
    Privacy: no confidential row is read. Beyond what is refused, that the rows are public is the publisher's word.
    """
    source = file_source(holdout, option="--holdout", remedy="name a file: what a release spec names is confidential")
    attacked = attacked_release(what, source, workspace, period)
    names = columns_of(attacked)
    kinds = _kinds(request, attacked, names)
    if "attribute_inference" in kinds and request.attribute is not None:
        check_installed("sklearn")
    declared = DeclaredPublic.of(holdout, because=because)
    with closing(workspace.open_ledger()) as ledger:
        bound = [*ledger.sources(), *([] if attacked.folder else [attacked.spec.source.name])]
    refuse_confidential(source.name, bound)
    lattices = attacked.spec.product.lattices(attacked.contract)
    with private_snapshot(Real(source), attacked.contract, workspace, lattices) as table:
        refuse_rows_of(attacked, table, workspace)
        codes, places = public_codes(table, attacked.contract, names, memory_limit=workspace.memory_limit)
        rows = EncodedRows(names, attacked.contract.shape(names), codes)
        report = _report(attacked, request, kinds, declared, rows, places, table, workspace)
    declared.check_unchanged(holdout)
    return report, write_attacks(report, workspace, at=at)


def _report(
    attacked: Attacked,
    request: AttackRequest,
    kinds: tuple[str, ...],
    declared: DeclaredPublic,
    rows: EncodedRows,
    places: RowNumbers,
    table: PrivateTable,
    workspace: Workspace,
) -> AttackReport:
    """Draw rows, make the releases, attack them."""
    random, began = np.random.default_rng(secrets.randbits(128)), monotonic()
    paired = attacked.contract.adjacency == "replace_one"
    candidates, population = _drawn(len(places), paired, random)
    chosen = EncodedRows(rows.columns, rows.shape, rows.codes[candidates])
    prior = None
    if "attribute_inference" in kinds and request.attribute is not None:
        known = EncodedRows(rows.columns, rows.shape, rows.codes[population])
        prior = population_chances(known, chosen, target=request.attribute)
    spec, contract, changed = adapted(attacked, len(candidates) // 2)
    with step("plan"):
        plan = planned_request(spec, contract, workspace).plan
    claim = TestedClaim(plan.epsilon / PICO, plan.delta / ATTO)
    with shadows_of(spec, contract, plan, table, memory_limit=workspace.memory_limit) as shadows:
        seen, trials = play(
            shadows.make,
            places[candidates],
            paired=paired,
            releases=request.releases,
            seconds=60 * request.minutes,
            random=random,
        )
    results = {}
    with step("attack") as bar:
        for done, kind in enumerate(kinds, 1):
            unsure = FALSE_ALARM / len(kinds)
            results[kind] = attack_seen(kind, seen, chosen, trials, claim, request.attribute, prior, unsure=unsure)
            bar.advance(done / len(kinds), kind)
    return AttackReport(
        release=spec.release,
        version=attacked.version,
        declared=declared,
        claim=claim,
        adjacency=contract.adjacency,
        rows=len(candidates),
        population=len(population),
        releases=len(seen),
        seconds=monotonic() - began,
        adapted=changed,
        attribute=request.attribute if "attribute_inference" in kinds else None,
        results=results,
    )


def attack_seen(
    kind: str,
    seen: tuple[Seen, ...],
    rows: EncodedRows,
    trials: Trials,
    claim: TestedClaim,
    attribute: str | None,
    prior: NDArray[np.float64] | None,
    *,
    unsure: float,
) -> AttackResult:
    """Attack releases in one way.

    Args:
        kind: of `KINDS`.
        seen: the releases, those whose coins the attacker knows first.
        rows: that coins were tossed for.
        trials: which were in which release.
        claim: what each release claims.
        attribute: the column to guess, for attribute inference.
        prior: what the population says of it, shape (rows, values).
        unsure: chance at most with which a sound claim is refuted.
    """
    if kind == "attribute_inference" and attribute is not None and prior is not None:
        secret = rows.columns.index(attribute)
        found = np.stack([each.evidence(rows.codes, secret, rows.shape[secret]) for each in seen])
        guessed, told = guessing(found, prior, rows.codes[:, secret].astype(np.int64), trials)
        return AttackResult(judged(told, trials, claim, unsure=unsure), guessed)
    if kind == "inversion":
        like = np.stack([each.likeness(rows.codes) for each in seen if isinstance(each, SeenModel)])
        return AttackResult(judged(like, trials, claim, unsure=unsure))
    return AttackResult(
        judged(np.stack([each.presence(rows.codes) for each in seen], axis=1), trials, claim, unsure=unsure)
    )


def _kinds(request: AttackRequest, attacked: Attacked, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the attacks that are made; refuse one that does not fit, or a column that cannot be guessed."""
    product = attacked.spec.product
    fitting = [kind for kind in KINDS if kind != "inversion" or product.target is not None]
    if request.attack not in (ALL, *KINDS):
        allowed, remedy = word_list((*KINDS, ALL)), nearest(request.attack, [*KINDS, ALL])
        raise SpecRefused([Finding("the command", "--attack", repr(request.attack), allowed, remedy)])
    if request.attack not in (ALL, *fitting):
        found = f"{request.attack} of a release of kind {product.kind}"
        allowed = f"for this product {word_list((*fitting, ALL))}: only a model has an input to search"
        raise SpecRefused([Finding("the command", "--attack", found, allowed)])
    kinds = tuple(fitting) if request.attack == ALL else (request.attack,)
    _check_attribute(request, kinds, product, names, attacked.contract)
    return kinds


def _check_attribute(
    request: AttackRequest, kinds: tuple[str, ...], product: ProductSpec, names: tuple[str, ...], contract: Contract
) -> None:
    """Refuse an attribute that is none of the columns, the label, too large, or not asked for."""
    label = product.target
    guessable = tuple(name for name in names if name != label and 2 <= contract.column(name).size <= MOST_VALUES)
    if "attribute_inference" not in kinds:
        if request.attribute is not None:
            found, allowed = f"{request.attribute!r}", "a column for --attack attribute_inference or all"
            raise SpecRefused([Finding("the command", "--attribute", found, allowed, "leave it out")])
        return
    if request.attribute in guessable and len(names) > 1:
        return
    found = "no column" if request.attribute is None else repr(request.attribute)
    if request.attribute == label and label is not None:
        found += ", the label, which the model is there to tell"
    allowed = f"a column of 2 to {MOST_VALUES} cells that the attacker guesses: {word_list(guessable)}"
    remedy = "name one" if request.attribute is None else nearest(request.attribute, list(guessable))
    raise SpecRefused([Finding("the command", "--attribute", found, allowed, remedy)])


def _drawn(rows: int, paired: bool, random: np.random.Generator) -> tuple[RowNumbers, RowNumbers]:
    """Draw the rows that coins are tossed for, at most half of them, and the population."""
    if rows < LEAST_ROWS:
        allowed = f"at least {LEAST_ROWS} public rows, of different units: half of them are attacked"
        raise SpecRefused([Finding("the holdout", "rows", f"{rows} rows", allowed, "name a larger file")])
    number = min(MOST_COINS, rows // 2)
    order = random.permutation(rows)
    if paired:
        number -= number % 2
    return order[:number], order[number : number + MOST_POPULATION]
