"""`sudare evaluate --attack`: shadow releases of public rows, attacked, and held against the claim."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import Console
from rich.text import Text

from console.output import answer, print_facts, shown
from contracts.errors import Finding, SpecRefused
from flows.evaluation.shadow_attack import AttackRequest, attack_release
from tasks.evaluation.attack_files import KINDS, AttackReport, broken_claim, sentences
from tasks.storage.workspace.settings import Workspace

RELEASES: Final = 16
MINUTES: Final = 10.0
CLAIM_BROKEN: Final = 5
"""What does not hold, as of `sudare verify`."""


def attack_command(
    what: Path,
    holdout: Path | None,
    because: str | None,
    attack: str,
    extent: Mapping[str, Any],
    others: Mapping[str, Any],
    period: str | None,
    workspace: Workspace,
    *,
    as_json: bool,
) -> None:
    """Attack, show what was found, and end with exit 5 where the claim does not hold."""
    public = _public_rows(holdout, others)
    asked = AttackRequest(
        attack, extent["--attribute"], extent["--releases"] or RELEASES, extent["--minutes"] or MINUTES
    )
    with shown():
        report, files = attack_release(
            what, public, asked, because=because, workspace=workspace, at=datetime.now(UTC), period=period
        )
    payload = {**report.to_json(), "scores": str(files.numbers), "page": str(files.page)}
    broken = broken_claim(report)
    payload["findings"] = [vars(each) for each in broken]
    answer(payload, lambda console: _print(console, report, payload, broken), as_json=as_json)
    if broken:
        raise typer.Exit(CLAIM_BROKEN)


def _public_rows(holdout: Path | None, others: Mapping[str, Any]) -> Path:
    """Return the file of public rows; refuse confidential ones, and what an attack does not use."""
    if others["--against"] is not None:
        allowed = "--holdout FILE with --public-because REASON: rows that anybody may see"
        remedy = (
            "an attack on confidential rows would be an access that no grant and no record has; of a model, "
            "--against with --others and without --attack scores its losses privately"
        )
        raise SpecRefused([Finding("the command", "--against", "an attack on confidential rows", allowed, remedy)])
    for option, value in others.items():
        if value is not None:
            raise SpecRefused([Finding("the command", option, "it with --attack", "no such option", "leave it out")])
    if holdout is None:
        allowed = "--holdout FILE with --public-because REASON"
        raise SpecRefused([Finding("the command", "the rows to attack", "none", allowed)])
    return holdout


def _print(console: Console, report: AttackReport, payload: Mapping[str, Any], broken: list[Finding]) -> None:
    """Print each attack in words, and then the verdict."""
    made = f"{report.releases} shadow releases in {report.seconds:.0f} s, of {report.rows} rows, in or out by a coin"
    adapted = [("adapted", ", ".join(report.adapted))] if report.adapted else []
    print_facts(
        console,
        [
            ("public", payload["why"]),
            ("declared public", f"{report.declared.file}: {report.declared.because}"),
            ("made", made),
            *adapted,
            ("claim", f"epsilon {report.claim.epsilon:.6g} at delta {report.claim.delta:.3g}, {report.adjacency}"),
            ("scores", payload["scores"]),
            ("page", payload["page"]),
        ],
    )
    for name, result in report.results.items():
        kind = KINDS[name]
        console.print(Text(f"\n{kind.title}", style="bold"))
        console.print(Text(f"  knows: {kind.knows}\n  guesses: {kind.guesses}"))
        console.print(Text(f"  without the release: {kind.baseline}"))
        for sentence in sentences(result, report):
            console.print(Text(f"  · {sentence}"))
    if not broken:
        console.print("\nno attack refuted the claim; that proves nothing more: the proof is the mechanism's")
    for each in broken:
        console.print(Text(f"\n{each.where}: {each.field}", style="bold red"))
        for word, said in (("found:", each.found), ("allowed:", each.allowed), ("do:", each.remedy)):
            console.print(Text(f"    {word:<9}{said}"))
