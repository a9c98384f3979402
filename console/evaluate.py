"""`sudare evaluate`: how close synthetic rows come to the real ones, for the auditor alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from console.options import AsJson, At, workspace_at
from console.render import answer, print_facts, table

if TYPE_CHECKING:
    from flows.evaluation import Evaluation
    from privacy.evaluation.scores import Scores

Version = Annotated[Path, typer.Argument(metavar="VERSION_DIR", help="The folder of a synthetic version.")]
Against = Annotated[
    Path,
    typer.Option("--against", metavar="SOURCE", help="The real rows: a file, or a release spec that names them."),
]
Target = Annotated[
    str | None, typer.Option("--target", metavar="COLUMN", help="Train classifiers to predict this column.")
]
Show = Annotated[bool, typer.Option("--show", help="Print the private numbers too, not only where they lie.")]

PRIVATE = (
    "computed from confidential rows, without noise and without a charge: for the auditor alone, never publish it"
)


def evaluate(
    version_dir: Version,
    against: Against,
    target: Target = None,
    show: Show = False,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Compare synthetic rows with the real ones. The result is PRIVATE and stays in the workspace.

    Errors of all marginals of 1 to 3 columns, errors of mutual information, and
    with --target what classifiers reach that learn from synthetic rows and are
    tested on real ones. It draws no noise and charges nothing, so no number of
    it may leave: they are written below .sudare, never into a version.

    Examples:

        sudare evaluate releases/adult-synthetic/v1 --against examples/adult/adult.parquet --target income

        sudare evaluate releases/adult-synthetic/v1 --against examples/adult/synthetic.yaml --show
    """
    from console.progress import shown
    from flows.evaluation import evaluate_version

    where = workspace_at(workspace)
    with shown():
        found = evaluate_version(version_dir, against, target=target, workspace=where, at=datetime.now(UTC))
    numbers = found.scores.scores if show else None
    payload = _payload(found, numbers)
    answer(payload, lambda console: _print(console, payload, numbers), as_json=as_json)


def _payload(found: Evaluation, numbers: Scores | None) -> dict[str, Any]:
    """Return the answer as a JSON object; numbers only where they were asked for."""
    return {
        "class": "private",
        "why": PRIVATE,
        "release": found.release,
        "version": found.version,
        "columns": list(found.columns),
        "scores": str(found.files.numbers),
        "page": str(found.files.page),
        **({} if numbers is None else {"found": numbers.to_json()}),
    }


def _print(console: Console, payload: dict[str, Any], numbers: Scores | None) -> None:
    facts = [
        ("PRIVATE", payload["why"]),
        ("compared", f"{payload['release']} v{payload['version']}, {len(payload['columns'])} columns, not verified"),
        ("scores", payload["scores"]),
        ("page", payload["page"]),
    ]
    if numbers is None:
        print_facts(console, [*facts, ("numbers", "not shown here: open the page, or add --show")])
        return
    print_facts(console, facts)
    rows = [(f"{alpha}-way error", f"{error.mean:.4f}") for alpha, error in numbers.errors.items()]
    if numbers.mutual_information_error is not None:
        rows.append(("mutual information error [nats]", f"{numbers.mutual_information_error:.4f}"))
    rows += [(f"accuracy, {learner}", f"{share:.4f}") for learner, share in numbers.accuracies.items()]
    console.print(table(("private score", "value"), rows, numbers=("value",)))
