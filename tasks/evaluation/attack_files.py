"""Attacks on rows that are declared public: what was found, for anybody, with what it is read by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from contracts.errors import Finding, Refused
from privacy.evaluation.shadow_attacks import AttackVerdict, Guessing, TestedClaim
from tasks.evaluation.public_rows import FOLDER, DeclaredPublic
from tasks.evaluation.score_files import Evaluated, ScoreFiles
from tasks.evaluation.score_pages import attacks_page
from tasks.storage.workspace.settings import Workspace

PUBLIC: Final = (
    "computed from rows that the publisher declared public and from shadow releases of them; it cost no budget"
)


@dataclass(frozen=True)
class AttackKind:
    """An attack, in words.

    Args:
        title: for people.
        knows: what the attacker has.
        guesses: what it guesses, and by what.
        baseline: what somebody gets who has never seen the release.
    """

    title: str
    knows: str
    guesses: str
    baseline: str


_COINS: Final = (
    "every column of every row that may be in the release, the spec, and earlier releases of this kind together with "
    "the rows that were in them"
)
KINDS: Final[Mapping[str, AttackKind]] = {
    "shadow": AttackKind(
        "membership, by shadow releases",
        _COINS,
        "who is in the release: a row looks like a member where it looks as it did in releases that had it",
        "a coin: an advantage of 0",
    ),
    "attribute_inference": AttackKind(
        "attribute inference",
        "all columns of a row but one, the release, other releases of this kind, and rows of the population",
        "the column that is left, from the population and what the release adds to it",
        "the same guess from the population alone, and of rows that are not in the release",
    ),
    "inversion": AttackKind(
        "model inversion",
        "the weights of the model, " + _COINS,
        "who is in the release: a row that is like what the model takes for typical of its class",
        "a coin: an advantage of 0",
    ),
}


@dataclass(frozen=True)
class AttackResult:
    """What came of one attack.

    Args:
        verdict: how well it tells members, against the claim.
        guessing: how often the secret was guessed right, of attribute inference.
    """

    verdict: AttackVerdict
    guessing: Guessing | None = None


@dataclass(frozen=True)
class AttackReport:
    """What came of the attacks on shadow releases of a spec.

    Args:
        release: the spec's.
        version: of a version whose record says how it was made; None for a spec.
        declared: the publisher's word on the rows.
        claim: what each shadow release claims.
        adjacency: the relation that coins follow.
        rows: that coins were tossed for.
        population: rows in no release, from which the attacker knows the population.
        releases: that were made.
        seconds: that they took.
        adapted: options of the spec that were adapted to the number of rows.
        attribute: the column that was guessed, if there is one.
        results: by attack.
    """

    release: str
    version: int | None
    declared: DeclaredPublic
    claim: TestedClaim
    adjacency: str
    rows: int
    population: int
    releases: int
    seconds: float
    adapted: tuple[str, ...]
    attribute: str | None
    results: Mapping[str, AttackResult]

    @property
    def holds(self) -> bool:
        """Whether no attack refuted the claim."""
        return all(each.verdict.holds for each in self.results.values())

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values, with the words of each attack."""
        return {
            "class": "public",
            "why": PUBLIC,
            "release": self.release,
            "version": self.version,
            "declared": asdict(self.declared),
            "claim": asdict(self.claim) | {"adjacency": self.adjacency},
            "rows": self.rows,
            "population": self.population,
            "releases": self.releases,
            "seconds": round(self.seconds, 1),
            "adapted": list(self.adapted),
            "attribute": self.attribute,
            "claim_holds": self.holds,
            "attacks": {
                name: vars(KINDS[name])
                | each.verdict.to_json()
                | ({} if each.guessing is None else {"guessed": each.guessing.to_json()})
                for name, each in self.results.items()
            },
        }


def sentences(result: AttackResult, report: AttackReport) -> tuple[str, ...]:
    """Say in words what came of an attack, for the screen and the page."""
    found, claim = result.verdict, report.claim
    allowed = f"the claim, ε = {claim.epsilon:.6g} at δ = {claim.delta:.3g}, allows"
    said = []
    if result.guessing is not None:
        told = result.guessing
        said.append(
            f"{report.attribute} was guessed right for {told.members:.1%} of the rows in the release and "
            f"{told.others:.1%} of those that are not; by somebody who saw no release {told.without:.1%}, by "
            f"always saying the most frequent value {told.most_frequent:.1%}. The release adds {told.advantage:+.3f} "
            f"(95 %: {told.low:+.3f} to {told.high:+.3f}) for its own rows; {allowed} {found.allowed_advantage:.3f}"
        )
    said.append(
        f"advantage at telling members {found.advantage:+.3f} (95 %: {found.low:+.3f} to {found.high:+.3f}); "
        f"{allowed} {found.allowed_advantage:.3f}. Area under the ROC curve {found.area:.3f}, at most "
        f"{found.allowed_area:.3f}; {found.caught_at_1_percent:.1%} of the members told at 1 % false positives"
    )
    said.append(
        f"{found.right} of {found.guesses} coins were told right where the attacker was surest, of {found.coins}: "
        f"that proves ε ≥ {found.least_epsilon:.3g} with 95 % confidence (never wrong would prove "
        f"{found.largest_provable:.3g})"
    )
    if found.largest_provable <= claim.epsilon:
        said.append("so few coins cannot refute this claim, whatever the release does: give more rows or --releases")
    return tuple(said)


def broken_claim(report: AttackReport) -> list[Finding]:
    """Return a finding for each attack that refuted the claim."""
    remedy = (
        "publish nothing made so: what is drawn is not what is charged. Run it again, and tell us if it comes again"
    )
    return [
        Finding(
            f"attack {name}",
            "the claim does not hold",
            f"{each.verdict.right} of {each.verdict.guesses} guesses right, advantage {each.verdict.advantage:.3f}: "
            f"epsilon is at least {each.verdict.least_epsilon:.3g}; of a sound release so many are right with a "
            f"chance of at most {each.verdict.chance:.1g}",
            f"what epsilon {report.claim.epsilon:.6g} at delta {report.claim.delta:.3g} allows: an advantage of "
            f"{each.verdict.allowed_advantage:.3f}",
            remedy,
        )
        for name, each in report.results.items()
        if not each.verdict.holds
    ]


def write_attacks(report: AttackReport, workspace: Workspace, *, at: datetime) -> ScoreFiles:
    """Write what came of attacks into a new folder below the workspace's `public-scores`.

    Raises:
        Refused: the folder cannot be written.
    """
    named = Evaluated.of(report.release, report.version or 0, at)
    folder = workspace.root / FOLDER / f"{named.release}-attacks-{named.at}"
    files = ScoreFiles.below(folder)
    try:
        folder.mkdir(parents=True)
        files.numbers.write_text(json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        attacks = [(KINDS[name], sentences(each, report)) for name, each in report.results.items()]
        files.page.write_text(attacks_page(report, attacks), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Refused([Finding(str(folder), "folder", reason, "a new folder that can be written")]) from None
    return files
