"""`sudare check`, and the question that `sudare run` asks: how the rows fit the contract, for the operator alone."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.output import AsJson, At, Spec, answer, seen_by_a_person, shown, table, terminal, workspace_at
from contracts.errors import Finding, Refused
from flows.prepare import check_name, checked
from flows.request import read_request
from tasks.storage.workspace.run_folder import hold, sheltered
from tasks.validation.misfits import Misfits, page_file, percent, to_json

GATE_BREAKS, WOULD_ASK = 3, 1
MOST_COLUMNS = 30
_ACCEPTED = "rows that fit up to the workspace's share ([run] asks_above), or the operator's word"
_REMEDY = (
    "declare what the code book says of them, such as `missing: [N]`, `other:`, or the `height:` and `width:` of "
    "pictures, never what you see in the rows; or accept it: sudare run SPEC --accept-misfits"
)
_UNIT_REMEDY = (
    "declare whose rows they are, such as `unit: {kind: id, column: NAME, max_rows_per_unit: K, scope: ...}`; or, if "
    "a row is what you protect, accept it: sudare run SPEC --accept-misfits"
)
_KEY_REMEDY = (
    "give these rows a key that the other table has, written alike in both, and look at the bounds of the link; or "
    "accept that they are left out: sudare run SPEC --accept-misfits"
)
_CLIP_REMEDY = (
    "widen the clip to what a public document says, never to what you see in the rows, or ask for quantiles; or "
    "accept numbers of clipped values: sudare run SPEC --accept-misfits"
)


class OperatorDecides(Refused):
    """A run waits for its operator's word; in the same words whether nobody was there to ask, or somebody said no.

    Args:
        spec: the release spec.
        page: the private page.
    """

    exit_code = 1

    def __init__(self, spec: Path, page: Path) -> None:
        found = "not released, nothing was charged: the operator has not accepted how the rows fit the contract"
        remedy = (
            f"look: sudare check {spec}, or the private page {page}; then correct the contract, or run again with "
            "--accept-misfits"
        )
        super().__init__([Finding(str(spec), "rows and contract", found, _ACCEPTED, remedy)])


class SiteStaysAway(Refused):
    """A site does not join, since its operator said no.

    Args:
        page: the private page.
    """

    exit_code = 1

    def __init__(self, page: Path) -> None:
        found = "not joined, nothing was charged: the operator has not accepted how the rows fit the contract"
        remedy = (
            f"look at the private page {page}; then correct the contract with the other parties, or join with "
            "--accept-misfits"
        )
        super().__init__([Finding("federation", "rows and contract", found, _ACCEPTED, remedy)])


def check(
    spec: Spec,
    period: Annotated[str | None, typer.Option(help="Which period, for a spec with `period:`.")] = None,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Show how the rows fit the contract, to you who hold them. Charges nothing, publishes nothing.

    By column: the share of rows whose value does not fit, is clipped to the
    bounds, or is missing, and what each is counted as. By clip of the spec, and
    by cell: the share that it cuts. Besides: how many rows
    the bound of a unit leaves out, and whether ids repeat although each row is
    a unit. All of this is exact and private: never pass it on. Exit code 0: a
    run would not ask; 1: it would; 3: a gate would stop it.

    Examples:

        sudare check examples/adult/tables.yaml
    """
    where = workspace_at(workspace)
    request = read_request(spec, where, period)
    with hold(where.runs, check_name(request), keep_snapshot=False) as folder, shown():
        found = sheltered(lambda: checked(folder, request, where), lambda: folder.error_log)
    page = page_file(folder.path)
    payload = {"release": request.spec.release, **to_json(found, where.asks_above), "page": str(page)}
    answer(payload, lambda console: print_misfits(console, found, where.asks_above, page), as_json=as_json)
    if found.broken_gates:
        raise typer.Exit(GATE_BREAKS)
    if found.asks(where.asks_above):
        raise typer.Exit(WOULD_ASK)


def accepted(found: Misfits, *, share: Fraction, spec: Path, page: Path, accept: bool, may_ask: bool) -> None:
    """Tell a person at the terminal what was found, and ask where more than a share of the rows does not fit.

    Args:
        found: how the rows fit.
        share: above which a person has to accept it.
        spec: the release spec.
        page: the private page.
        accept: whether it is accepted beforehand.
        may_ask: whether the command may ask a question at all.
    Raises:
        OperatorDecides: nobody accepted it.
    Privacy: only a terminal is shown shares; a file or a pipe is told where the page lies, whatever was found.
    """
    asks = _shown(found, share, page) and may_ask
    if accept or found.broken_gates or not found.asks(share):  # a broken gate stops the run by itself
        return
    if not (asks and typer.confirm("Charge and publish all the same?", default=False, err=True)):
        raise OperatorDecides(spec, page)


def site_accepted(found: Misfits, page: Path, *, share: Fraction, accept: bool, may_ask: bool) -> None:
    """Tell a site's operator what was found before the site joins, and ask where a person is at the terminal.

    A site that nobody watches joins whatever was found: the coordinator waits for it, and that it stayed away would
    be an exact answer about its rows.

    Args:
        found, page, share, accept, may_ask: as for `accepted`.
    Raises:
        SiteStaysAway: a person said no.
    """
    asks = _shown(found, share, page) and may_ask and not accept
    if asks and found.asks(share) and not typer.confirm("Charge and join all the same?", default=False, err=True):
        raise SiteStaysAway(page)


def _shown(found: Misfits, share: Fraction, page: Path) -> bool:
    """Show a terminal what was found, and a file or a pipe where the page lies; say whether somebody can answer."""
    console = terminal(errors=True)
    seen = seen_by_a_person(console)
    if not seen:
        console.print(f"private: how the rows fit the contract stands in {page}")
    elif not found.clean:
        print_misfits(console, found, share, page)
    return seen and sys.stdin.isatty()


def print_misfits(console: Console, found: Misfits, share: Fraction, page: Path) -> None:
    """Print how the rows fit, the columns first that are furthest off."""
    unfit = [each for each in found.columns if not each.clean]
    off = sorted((*unfit, *(each for each in found.clips if not each.clean)), key=lambda each: -each.share)
    console.print("Private: exact shares, for you who hold the rows. Do not pass them on.")
    marked = ", but see ! below" if found.notes or found.broken_gates or found.above(share) else ""
    fitting = f"{len(found.columns) - len(unfit)} of {len(found.columns)} columns fit in full"
    console.print(f"{found.rows:,} rows; {fitting}{marked}")
    if off:
        drawn = [
            (
                "!" if each.share > share else "",
                each.column,
                percent(each.part(each.unfit)) + (f" → {each.unfit_to}" if each.unfit else ""),
                percent(each.part(each.clipped)),
                percent(each.part(each.null)) + (f" → {each.null_to}" if each.null else ""),
            )
            for each in off[:MOST_COLUMNS]
        ]
        console.print(table(("", "column", "does not fit", "clipped", "no value"), drawn))
    for each in off[:MOST_COLUMNS]:
        if each.notations:
            looks = f"what does not fit in {each.column} looks like {' or '.join(each.notations)}"
            console.print(f"? {looks}: declare that in its domain if the file is written so", markup=False)
    if len(off) > MOST_COLUMNS:
        console.print(f"{len(off) - MOST_COLUMNS} more columns are on the page.")
    if found.broken_gates:
        console.print(f"✗ gates that stop a release: {', '.join(found.broken_gates)}")
    for note in found.notes:
        console.print(f"! {note}", markup=False)
    if found.repeated:
        console.print(f"  do: {_UNIT_REMEDY}", markup=False)
    above, marked = found.above(share), f"! more than {percent(share)} of the rows are"
    cut = [each.column for each in above if each in found.clips]
    unsaid = [each.column for each in above if not each.is_key and each not in found.clips]
    for columns, what, remedy in (
        (unsaid, "counted as what they do not say", _REMEDY),
        ([each.column for each in above if each.is_key], "left out", _KEY_REMEDY),
        (cut, "cut by a clip of the spec", _CLIP_REMEDY),
    ):
        if columns:
            console.print(f"{marked} {what}: {', '.join(columns[:MOST_COLUMNS])}", markup=False)
            console.print(f"  do: {remedy}", markup=False)
    console.print(f"page: {page}")
