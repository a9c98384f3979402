"""`sudare publish`: copies a published version to another store."""

from __future__ import annotations

from typing import Annotated

import typer

from console.output import AsJson, At, answer, ledger_at, workspace_at
from contracts.release.source import written_address
from tasks.storage.sinks.copies import copy_published
from tasks.storage.workspace.settings import blocks_of

ReleaseName = Annotated[str, typer.Argument(metavar="RELEASE", help="Name of the release.")]
Credentials = Annotated[
    str | None, typer.Option(help="Name of the credentials, as in a spec; without it those of the environment.")
]


def publish(
    release: ReleaseName,
    to: Annotated[str, typer.Option(help="Where to: s3://BUCKET/PREFIX or postgresql://HOST/DATABASE.")],
    version: Annotated[int | None, typer.Option(help="Which version; the newest without it.")] = None,
    credentials: Credentials = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Copy a published version to another store; again after a failure, it goes on.

    Nothing is drawn or charged: the copy is made from the published files.

    Examples:

        sudare publish adult-tables --to s3://statistics/releases

        sudare publish adult-tables --version 2 --to postgresql://db.example/open
    """
    address, place = written_address(to, "--to", credentials), workspace_at(workspace)
    with ledger_at(workspace) as ledger, blocks_of(place):
        entry, where = copy_published(ledger, place.releases, release, version, address, credentials)
    payload = {"release": release, "version": entry.number, "status": entry.status, "where": where}
    told = f"{release} v{entry.number} is whole at {where}"
    answer(payload, lambda console: console.print(told, soft_wrap=True), as_json=as_json)
