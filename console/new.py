"""`sudare new`: the questions of a first release in plain text, down to the command that runs it."""

from __future__ import annotations

import shlex
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.contract_draft import WouldOverwrite
from console.errors import Interrupted
from console.examination import nearest_workspace
from console.first_charge import ChargeQuestions, FirstAnswers
from console.first_questions import TableQuestions
from console.first_release import contract_text, spec_text
from console.init import make_workspace
from console.interview import STOPPED, Interview, read_yes
from console.options import AsJson
from console.render import answer, print_facts
from contracts.errors import Finding
from tasks.checkpoints import check_no_copy
from tasks.storage.workspace.settings import FILE, Workspace


def new(
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="The CSV, Parquet or DuckDB file; asked for without it."),
    ] = None,
    codebook: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What describes its columns; as of `sudare contract draft`.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Which table, where FILE has several.")] = None,
    workspace: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The workspace; made there if there is none yet.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask for all that a first release needs, and write contract, spec and account. Reads no row.

    Contract and spec are written into this folder, beside no file of that name. Nothing is
    written before the last question, and Ctrl-C leaves nothing behind. `?` shows
    more about a question. Answers may come from a pipe, a line each; an empty
    line takes what stands in square brackets. A wrong answer exits 2 then.

    Examples:

        sudare new

        sudare new --from visits.csv --codebook codebook.csv --workspace work
    """
    here, interview = Path.cwd(), Interview(sys.stdin, sys.stderr)
    made_anew = workspace is not None and not (workspace / FILE).exists()
    place = None if made_anew else nearest_workspace(workspace)
    try:
        interview.say("A first release, question by question. ? shows more, Ctrl-C ends it; no row is read.")
        first = TableQuestions(interview, here).first(source, codebook, table)
        answers = ChargeQuestions(interview, place, here).answers(first, workspace or Path("work"))
        if not interview.ask(_summary(answers), read_yes, default="yes"):
            raise Interrupted(STOPPED)
    except (KeyboardInterrupt, typer.Abort):
        raise Interrupted(STOPPED) from None
    place = _written(answers, here)
    payload = _payload(answers, place, here)
    answer(payload, lambda console: _print(console, payload), as_json=as_json)


def _summary(answers: FirstAnswers) -> str:
    first = answers.first
    made = "" if answers.place is not None else f", the workspace {answers.folder}"
    account = "" if answers.terms is None else f", the account {first.account}"
    return f"Write {first.contract_file}, {first.spec_file}{made}{account}? yes or no"


def _written(answers: FirstAnswers, here: Path) -> Workspace:
    """Write the workspace, the files, and last the account; the files go again where anything is refused."""
    place = answers.place or make_workspace(answers.folder)[0]
    first, written = answers.first, list[Path]()
    try:
        for name, text in ((first.contract_file, contract_text(first)), (first.spec_file, spec_text(first))):
            _write(here / name, text, written)
        with closing(place.open_ledger()) as ledger:
            check_no_copy(ledger, first.population, answers.source)
            if answers.terms is not None:
                ledger.open_account(answers.terms, sources=[answers.source])
            else:
                days = ledger.account(first.account).terms.days
                ledger.bind_source(answers.source, first.population, days)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return place


def _write(path: Path, text: str, written: list[Path]) -> None:
    """Write a new file and note it as ours; one that is there is somebody's work."""
    try:
        with path.open("x", encoding="utf-8") as file:
            written.append(path)
            file.write(text)
    except OSError as error:
        found = "a file already" if isinstance(error, FileExistsError) else error.strerror or type(error).__name__
        remedy = "begin again with another name, or in a folder that can be written"
        raise WouldOverwrite([Finding(str(path), "sudare new", found, "a new file", remedy)]) from None


def _payload(answers: FirstAnswers, place: Workspace, here: Path) -> dict[str, object]:
    first = answers.first
    near = any((folder / FILE).exists() for folder in (here, *here.parents))
    folder = answers.folder if answers.place is None else place.root
    at = "" if near else f" --workspace {shlex.quote(str(folder))}"
    steps = [f"sudare {step} {first.spec_file}{at}" for step in ("check", "run")]
    return {
        "contract": first.contract_file,
        "spec": first.spec_file,
        "workspace": str(place.root),
        "account": first.account,
        "next": steps,
    }


def _print(console: Console, payload: dict[str, object]) -> None:
    """Print what was written, and last the command that releases."""
    steps = payload["next"]
    assert isinstance(steps, list)
    facts = [(name, str(payload[name])) for name in ("contract", "spec", "workspace", "account")]
    print_facts(console, [*facts, ("look first", steps[0]), ("next", steps[1])])
