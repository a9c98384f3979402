"""`sudare verify`: check a published version offline."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from console.keys import key_to_verify_with
from console.output import AsJson, At, VerificationFailed, VersionTakenBack, answer, shown
from contracts.errors import Finding, SpecRefused
from contracts.plug_ins import names
from privacy.ledger.journal.signing import key_id
from tasks.storage.workspace.environment import user_folder
from tasks.verification.keys import PIN, POLICY_PIN, RECOVERY_PIN, read_public_key
from tasks.verification.outcomes import (
    FILES_NOT_COMPARED,
    NOT_COMPARED,
    NOTE,
    PAGES_NOT_COMPARED,
    CheckerTerms,
    VerificationReport,
)

if TYPE_CHECKING:
    from privacy.ledger.journal.witness_policy import WitnessPolicy

VerifiedVersion = Annotated[
    Path, typer.Argument(metavar="VERSION_DIR", help="A version folder, such as releases/NAME/v1.")
]
Key = Annotated[
    Path | None,
    typer.Option(
        "--key", metavar="FILE", help="The publisher's public key; without it the pinned one, else this workspace's."
    ),
]
Deep = Annotated[
    bool,
    typer.Option("--deep", help="Also fit the model of synthetic rows or a classifier again, as long as that takes."),
]

Auditor = Annotated[
    Path | None,
    typer.Option("--auditor", metavar="FILE", help="The version's complete record, for auditors; held against it."),
]
Online = Annotated[
    str | None,
    typer.Option(
        "--online", metavar="URL", help="The publisher's journal: was the version withdrawn or superseded since?"
    ),
]

Fresh = Annotated[
    bool,
    typer.Option("--fresh", help="Also ask whether this is the newest version, by the note beside it (LATEST.note)."),
]
ClockTime = Annotated[
    datetime | None,
    typer.Option("--at", formats=["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"], help="The time for --fresh, in UTC; else now."),
]

Compare = Annotated[
    Path | None,
    typer.Option(
        "--compare",
        metavar="FOLDER",
        help="Only hold two folders against each other: two versions of one number, two journals of one key.",
    ),
]

PolicyFile = Annotated[
    Path | None,
    typer.Option("--witnesses", metavar="FILE", help="A policy (tlog-policy): whose cosignatures you want to see."),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Also fail where another version made the pages, so that they are not compared."),
]
OwnPage = Annotated[
    Path | None,
    typer.Option(
        "--page",
        metavar="FILE",
        help="Write your own page of the verified record; FILE.CODE.html in another language that is installed.",
    ),
]


def verify(
    version_dir: VerifiedVersion,
    key: Key = None,
    deep: Deep = False,
    auditor: Auditor = None,
    online: Online = None,
    fresh: Fresh = False,
    at: ClockTime = None,
    compare: Compare = None,
    witnesses: PolicyFile = None,
    strict: Strict = False,
    page: OwnPage = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Check a published version offline, against a key that you pin; exit 0 only if all of it holds.

    A key inside the folder is never trusted. It needs no workspace: pin the publisher's
    key once (sudare keys pin FILE), or name it with --key. Exit 5 if anything does not
    hold or could not be checked, 2 if there is no version or no key to begin with. With
    --online the publisher's journal is asked in one request; exit 6 if all of it holds
    but the version was withdrawn.

    Examples:

        sudare verify releases/adult-tables/v1 --key publisher.pub

        sudare verify releases/adult-tables/latest --json

        sudare verify releases/adult-synthetic/v1 --deep --key publisher.pub

        sudare verify adult-tables/v1 --online https://statistics.example/journal --key publisher.pub

        sudare verify releases/adult-tables/latest --fresh --key publisher.pub

        sudare verify adult-tables/v1 --strict --page checked.html --key publisher.pub

        sudare verify --compare mine/adult-tables theirs/adult-tables --key publisher.pub

        sudare verify releases/adult-tables/v1 --auditor .sudare/records/adult-tables/v1/record.auditor.json
    """
    from tasks import verify as verification  # arrays and files of tables, which help does without
    from tasks.verification.files.folder import open_version

    if compare is not None:
        _compare(compare, version_dir, key, workspace, as_json=as_json)
        return
    path = open_version(version_dir)  # a path with a typing error is told before a key is asked for
    wanted = None if page is None else _page_of(page, path)
    chosen = key_to_verify_with(key, workspace)
    public_key, second = read_public_key(chosen.file), chosen.file.with_name(RECOVERY_PIN)
    recovery = read_public_key(second) if chosen.file.name == PIN and second.is_file() else None
    now = (at.replace(tzinfo=UTC) if at else datetime.now(UTC)) if fresh or at else None
    pins, policy = user_folder() if now else None, _policy(witnesses, chosen.file)
    terms = CheckerTerms(recovery, now=now, pins=pins, witnesses=policy, strict=strict, page=wanted)
    with shown():
        report = verification.verify(
            version_dir, public_key=public_key, deep=deep, auditor=auditor, online=online, terms=terms
        )
    if page is not None and report.page is not None and report.only_pages_unread:
        _write_page(page, report.page)
    told = {"file": str(chosen.file), "whose": chosen.whose, "pinned_since": chosen.since}
    payload = report.to_json() | {"key": {**told, "passed_over": chosen.passed_over or None}}
    answer(payload, lambda console: _print(console, payload, withdrawn=report.only_withdrawn), as_json=as_json)
    kind = VersionTakenBack if report.only_withdrawn else VerificationFailed
    if not report.ok and as_json:
        raise typer.Exit(kind.exit_code)
    if not report.ok:
        raise kind(failures(report))


def _page_of(file: Path, version: Path) -> str:
    """Return which page of a version is asked for; refuse a file that would change the version."""
    if version in (at := file.absolute().resolve()).parents or file.exists() or not at.parent.is_dir():
        allowed = "a new file in a folder that is there, outside the version"
        raise SpecRefused([Finding("sudare verify", "--page", str(file), allowed, "name another file")])
    from tasks.records.page.language import ENGLISH, GROUP, absence, page_name

    code = next((each for each in names(GROUP) if file.name.endswith(f".{each}.html")), ENGLISH)
    if (lacking := absence(code)) is not None:
        raise SpecRefused([Finding("sudare verify", "--page", lacking, "a language that is installed", "install it")])
    return page_name(code)


def _write_page(file: Path, page: bytes) -> None:
    try:
        file.write_bytes(page)
        typer.echo(f"your own page is in {file}", err=True)
    except OSError as error:
        found = error.strerror or type(error).__name__
        finding = Finding(str(file), "--page", found, "a file that can be written", "name another")
        raise SpecRefused([finding]) from error


def _policy(named: Path | None, key: Path) -> WitnessPolicy | None:
    """Read the policy that was named, else the one that is pinned beside the key."""
    pinned = key.with_name(POLICY_PIN)
    file = named or (pinned if key.name == PIN and pinned.is_file() else None)
    if file is None:
        return None
    from tasks.verification.witness_checks import pinned_policy

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "bytes that are no text"
        raise SpecRefused([Finding(str(file), "policy", found, "a policy of witnesses", "name its file")]) from None
    return pinned_policy(text, str(file))


def _compare(first: Path, second: Path, key: Path | None, workspace: Path | None, *, as_json: bool) -> None:
    """Hold two folders against each other under the checker's key."""
    from tasks.verification.comparison import compare_folders

    chosen = key_to_verify_with(key, workspace)
    public_key = read_public_key(chosen.file)
    findings, notes = compare_folders(first, second, public_key=public_key)
    payload = {
        "ok": not findings,
        "key_id": key_id(public_key),
        "findings": [vars(finding) for finding in findings],
        "notes": notes,
    }

    def people(console: Console) -> None:
        for note in notes:
            console.print("!", note, soft_wrap=True)
        if not findings:
            console.print(f"No contradiction under key {key_id(public_key)}: {first} and {second}", soft_wrap=True)

    answer(payload, people, as_json=as_json)
    if findings and as_json:
        raise typer.Exit(VerificationFailed.exit_code)
    if findings:
        raise VerificationFailed(findings)


def failures(report: VerificationReport) -> list[Finding]:
    """Return what is wrong; what could not be checked counts as wrong."""
    skipped = [
        Finding(f"rule {check.rule}", check.name, f"not checked: {reason}", "a check that passes")
        for check in report.checks
        for reason in check.skipped
    ]
    return [*report.findings, *skipped]


def _print(console: Console, report: dict[str, Any], *, withdrawn: bool = False) -> None:
    missing = any(note.startswith(FILES_NOT_COMPARED) for note in report["notes"])
    parts = [PAGES_NOT_COMPARED] * (NOT_COMPARED in report["cannot_tell"]) + ["files not compared"] * missing
    unread = "; ".join(parts)
    for check in report["checks"]:
        half = unread if check["rule"] == 10 else ""
        sign = ("!" if half else "✓") if check["passed"] else "✗"
        console.print(sign, f"{check['rule']:>2}", check["name"] + (f": {half}" if half else ""))
    named = f"{report['release']} v{report['version']}" if report["release"] else "this folder"
    stands = "holds, and was WITHDRAWN since," if withdrawn else "does NOT hold"
    verdict = "holds" if report["ok"] else stands
    key = report["key"]
    since = "" if key["pinned_since"] is None else f", pinned since {key['pinned_since']}"
    aside = f"; {unread}" if unread else ""
    console.print(f"{named} {verdict} under key {report['key_id']}: {key['whose']}{since} ({key['file']}){aside}.")
    if key["passed_over"] is not None:
        console.print("! TWO KEYS:", key["passed_over"])
    if NOT_COMPARED in report["cannot_tell"]:
        console.print("!", NOTE)
    for note in report["notes"]:
        console.print("!", note)
    if report["ok"]:
        console.print("No check can tell:")
        for line in report["cannot_tell"]:
            console.print(f"  {line}")
        console.print(f"The publisher's word: {', '.join(report['publishers_word'])}")
