"""`sudare run`: one release, from the table to the published version."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from console.output import AsJson, At, Exact, Spec, answer, print_facts, workspace_at
from console.running import RunOptions, make_release, running


def run(
    spec: Spec,
    period: Annotated[
        str | None, typer.Option(help="Which period, for a spec with `period:`: 2024Q3, 2024-07, 2024.")
    ] = None,
    backfill: Annotated[
        str | None, typer.Option(metavar="A..B", help="Run the periods from A to B that are not published.")
    ] = None,
    supersede: Annotated[
        bool,
        typer.Option("--supersede", help="Make another version of what is published, if rows or spec have changed."),
    ] = False,
    due: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="The date that it is due on, for a spec with `redraw: on_schedule`."),
    ] = None,
    early: Annotated[bool, typer.Option("--early", help="Release a period that is not over, as it stands.")] = False,
    accept_misfits: Annotated[
        bool, typer.Option("--accept-misfits", help="Charge and publish however many rows do not fit the contract.")
    ] = False,
    accept_clock: Annotated[
        bool,
        typer.Option("--accept-clock", help="Charge although the clock is far ahead of the journal: it is right."),
    ] = False,
    keep_snapshot: Annotated[
        bool, typer.Option("--keep-snapshot", help="Keep the private snapshot of the table when the run has ended.")
    ] = False,
    exact: Exact = False,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Make one release; ends with where it is, what it cost and what is left.

    The same spec on the same rows is the same run. After an interruption it
    resumes and pays nothing twice; when it is published already, it says so.
    Other rows, or another spec, under the name of a release are another
    version and another charge: it asks first, and needs --supersede where
    nobody can answer. `redraw:` in the spec says when that is wanted unasked.
    Before it charges it shows you alone how the rows fit the contract; above
    the share that the workspace sets (1 %) it asks, or needs --accept-misfits.

    Examples:

        sudare run examples/adult/tables.yaml

        sudare run examples/adult/tables.yaml --workspace /srv/releases --json

        sudare run visits.yaml --period 2024Q3

        sudare run visits.yaml --backfill 2024Q1..2025Q4
    """
    where = workspace_at(workspace)
    options = RunOptions(
        spec,
        period,
        supersede,
        keep_snapshot,
        early,
        due,
        accept_clock=accept_clock,
        accept_misfits=accept_misfits,
        may_ask=not as_json,
    )
    if backfill is not None:
        # the states of periods, with DuckDB: a run without them starts its Prefect server earlier
        from console.backfill import backfill as run_missing

        run_missing(replace(options, period=None), where, backfill, as_json=as_json)
        return
    with running(where) as (prefect, stop):
        outcome = make_release(options, where, prefect, stop)
    payload = outcome.to_json()
    answer(payload, lambda console: _print(console, payload, exact=exact), as_json=as_json)


def _print(console: Console, outcome: dict[str, Any], *, exact: bool = False) -> None:
    from flows.outcome import standing  # loaded by the run that has ended
    from tasks.records.relations import kept_relations

    replay = _replay(Path(outcome["folder"]))
    made = made_rows(replay)
    relations = kept_relations(replay) if replay else None
    done = standing(outcome["status"], repeated=outcome["repeated"])
    charged = (outcome, *outcome["also_charged"])
    unpaid = "; nothing was drawn or charged" if outcome["repeated"] else ""
    paid = ", charged once, when it was published" if outcome["repeated"] else ""
    console.print(f"{outcome['release']} v{outcome['version']} {done}{unpaid}")
    print_facts(
        console,
        [
            ("release", outcome["folder"]),
            *([("files", "as they were published, whatever `formats:` says by now")] if outcome["repeated"] else []),
            *([("copy", outcome["copy"])] if outcome["copy"] else []),
            ("record", f"{outcome['folder']}/record.html"),
            *([("made-up rows", ", ".join(f"{number:,}{of}" for of, number in made.items()))] if made else []),
            *([("relations", str(relations))] if relations else []),
            ("cost", f"ε = {outcome['epsilon']} at δ = {outcome['delta']}{paid}"),
            ("account", "\n".join(f"{each['account']}: {each['used']}" for each in charged)),
            *(_exact(outcome) if exact else ()),
            ("check it", f"sudare verify {outcome['folder']} --key {outcome['public_key_file']}"),
        ],
    )
    if 0 in made.values():
        console.print(
            "! No made-up row is published: the noise is above the table. What was published and charged stays."
        )
        console.print(
            "  do: ask for a larger ε or for fewer columns, or keep to larger tables; "
            "sudare plan SPEC shows the noise before a charge",
            markup=False,
        )


def _replay(folder: Path) -> dict[str, Any]:
    """Read the replay block of a published version's record; {} where there is none."""
    record = folder / "record.json"
    found: dict[str, Any] = json.loads(record.read_bytes())["replay"] if record.is_file() else {}
    return found


def made_rows(replay: dict[str, Any]) -> dict[str, int]:
    """Return how many made-up rows a version holds, by what is said after each number; {} for other kinds.

    Args:
        replay: the replay block of the version's record.
    Privacy: post-processing; the numbers stand in the published record.
    """
    rows = replay.get("rows")
    if not isinstance(rows, dict) or "number" not in rows:
        return {}
    parents, found = rows.get("parents"), {"": int(rows["number"])}
    return found | ({f" of {parents['table']}": int(parents["number"])} if parents else {})


def _exact(outcome: dict[str, Any]) -> list[tuple[str, str]]:
    """Return cap and loss of the account that the spec names, in its own units, and what can still be given."""
    from flows.outcome import still

    return [
        ("cap", f"ε = {outcome['epsilon_cap']} at δ = {outcome['account_delta']}"),
        ("charged", f"{outcome['charged']}; {outcome['remaining']} of {outcome['cap']} left, {outcome['loss']}"),
        ("can still give", still(outcome["can_give"], outcome["delta"])),
    ]
