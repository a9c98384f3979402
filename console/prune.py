"""`sudare prune`: removes private snapshots and drawn noise that nothing needs any more, by policy."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.errors import UsageRefused
from console.options import AsJson, At, workspace_at
from console.render import answer, table
from flows.retention import Holding, Retention, RetentionPolicy, policy_of
from tasks.storage.workspace.settings import Workspace


def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go, what stays, and why.")] = False,
    snapshots: Annotated[
        int | None, typer.Option(min=1, max=9999, metavar="DAYS", help="Snapshots of rows go after so many days.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, max=9999, metavar="DAYS", help="Noise goes so many days after publication.")
    ] = None,
    store: Annotated[
        list[Path] | None, typer.Option(help="Another folder that versions were published to; may be repeated.")
    ] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Remove private snapshots and drawn noise that nothing needs any more, by `retention` of sudare.toml.

    Snapshots go that no charge needs. Noise goes whose version is published and
    whole in the release store. Nothing goes of a charge that is reserved or open,
    of a run that goes on, of the records for auditors, or of the ledger. What is
    removed becomes a line of .sudare/retention.log first.

    Examples:

        sudare prune --dry-run

        sudare prune --snapshots 7 --draws 400
    """
    where = workspace_at(workspace)
    policy = _policy(where, snapshots, draws)
    with closing(where.open_ledger()) as ledger:
        retention = Retention(where, ledger, policy, now=datetime.now(UTC), stores=tuple(store or ()))
        if not dry_run:
            retention.finish()
        found = tuple(retention.holdings())
        gone = {each.folder for each in found if each.goes and (dry_run or retention.remove(each))}
    done = "would go" if dry_run else "removed"
    listed = [(done if each.folder in gone else "stays", each) for each in found]
    payload = {"dry_run": dry_run, "holdings": [_stated(done, each) for done, each in listed]}

    def people(console: Console) -> None:
        if not found:
            console.print("nothing private is kept that could go")
            return
        rows = [[done, each.kind, each.folder.name, f"{each.since:%Y-%m-%d}", each.because] for done, each in listed]
        console.print(table(["", "what", "of", "since", "because"], rows))

    answer(payload, people, as_json=as_json)


def _policy(where: Workspace, snapshots: int | None, draws: int | None) -> RetentionPolicy:
    """Return the policy: of the command line, else of sudare.toml.

    Raises:
        UsageRefused: neither says anything.
    """
    policy = policy_of(where)
    policy = replace(policy, snapshots=snapshots or policy.snapshots, draws=draws or policy.draws)
    if policy == RetentionPolicy(None, None):
        allowed = (
            'snapshots = "7 days" or draws = "400 days" under [retention] in sudare.toml, or --snapshots, --draws'
        )
        raise UsageRefused("sudare prune", "no policy: nothing says how long anything is kept", allowed, "set one")
    return policy


def _stated(done: str, holding: Holding) -> dict[str, str]:
    return {
        "outcome": done,
        "kind": holding.kind,
        "folder": str(holding.folder),
        "since": f"{holding.since:%Y-%m-%dT%H:%M:%SZ}",
        "because": holding.because,
    }
