"""`sudare evaluate`: how close synthetic rows or tables come to the real rows, for the auditor alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from console.output import AsJson, At, answer, print_facts, shown, table, workspace_at
from contracts.errors import Finding, SpecRefused
from flows.evaluation.evaluate import Evaluation, evaluate_on_holdout, evaluate_version
from privacy.evaluation.membership import PrivateModelScores
from privacy.evaluation.rows import PrivateScores, Scores
from privacy.evaluation.statistic_errors import PrivateStatisticErrors, StatisticErrors
from privacy.evaluation.table_errors import PrivateTableErrors
from tasks.evaluation.public_rows import PUBLIC
from tasks.evaluation.score_pages import yardsticks
from tasks.storage.workspace.settings import Workspace

EvaluatedVersion = Annotated[
    Path, typer.Argument(metavar="VERSION_DIR", help="The folder of a version; with --attack a release spec too.")
]
Against = Annotated[
    Path | None,
    typer.Option("--against", metavar="SOURCE", help="The real rows: a file, or a release spec that names them."),
]
Holdout = Annotated[
    Path | None,
    typer.Option("--holdout", metavar="FILE", help="Instead: rows that are public; what is found is public too."),
]
Because = Annotated[
    str | None, typer.Option("--public-because", metavar="REASON", help="Why the rows of the holdout are public.")
]
Target = Annotated[
    str | None, typer.Option("--target", metavar="COLUMN", help="Train classifiers to predict this column.")
]
Others = Annotated[
    Path | None,
    typer.Option("--others", metavar="FILE", help="Rows that a model was not trained on, to attack it with."),
]
OfPeriod = Annotated[
    str | None, typer.Option("--period", help="Of a spec with `period:` the rows of this one: 2024Q3, 2024-07, 2024.")
]
AttackName = Annotated[
    str | None,
    typer.Option(
        "--attack",
        metavar="ATTACK",
        help="Attack shadow releases of the public rows: shadow, attribute_inference, inversion (of a model) or all.",
    ),
]
Attribute = Annotated[
    str | None, typer.Option("--attribute", metavar="COLUMN", help="The column that attribute inference guesses.")
]
Releases = Annotated[
    int | None, typer.Option("--releases", min=4, max=1000, help="Shadow releases of an attack, at most; 16.")
]
Minutes = Annotated[
    float | None, typer.Option("--minutes", min=0.1, help="Time for the shadow releases of an attack; 10.")
]
Show = Annotated[bool, typer.Option("--show", help="Print the private numbers too, not only where they lie.")]

Shown = Scores | PrivateTableErrors | PrivateStatisticErrors | PrivateModelScores
YARDSTICKS = ("real rows", "nothing learned")
PRIVATE = (
    "computed from confidential rows, without noise and without a charge: for the auditor alone, never publish it"
)


def evaluate(
    version_dir: EvaluatedVersion,
    against: Against = None,
    holdout: Holdout = None,
    public_because: Because = None,
    target: Target = None,
    others: Others = None,
    period: OfPeriod = None,
    attack: AttackName = None,
    attribute: Attribute = None,
    releases: Releases = None,
    minutes: Minutes = None,
    show: Show = False,
    workspace: At = None,
    as_json: AsJson = False,
) -> None:
    """Compare synthetic rows, tables or a model with the real rows (PRIVATE, stays here), or rows with public ones.

    Of tables the error of every cell, of statistics that of every number. Of a model its accuracy, and with --others
    how well its losses tell who was in its training. Of synthetic rows errors of all marginals of
    1 to 3 columns, of mutual information and association of pairs, how well a
    classifier tells them from real ones, and with --target what classifiers
    reach that learn from synthetic rows and are tested on real ones. It draws no
    noise and charges nothing, so no number of it may leave: they are written below .sudare, never into a version.

    With --holdout synthetic rows are compared with rows that you declare public, and why: those scores are public,
    and are written below public-scores/. Rows held back from the confidential table are not public.

    With --attack, of a version or of a release spec, the same product is made of the public rows again and again,
    each row in or out by the toss of a coin, and an attacker guesses who is in, or a column of theirs. Exit 5 where
    that refutes the epsilon that is claimed.

    Examples:

        sudare evaluate releases/adult-synthetic/v1 --against examples/adult/adult.parquet --target income

        sudare evaluate releases/adult-synthetic/v1 --against examples/adult/synthetic.yaml --show

        sudare evaluate releases/adult-tables/v1 --against examples/adult/adult.parquet

        sudare evaluate releases/visits-2024-q3/v1 --against visits.yaml --period 2024Q3

        sudare evaluate releases/adult-synthetic/v1 --holdout census-2000.parquet --public-because "public use sample"

        sudare evaluate synthetic.yaml --attack all --attribute occupation \\
            --holdout census-2000.parquet --public-because "public use sample"
    """
    where = workspace_at(workspace)
    extent = {"--attribute": attribute, "--releases": releases, "--minutes": minutes}
    if attack is not None:
        others_given = {"--against": against, "--others": others, "--target": target, "--show": show or None}
        # shadow releases and what makes them, another second: for --attack alone
        from console.attack import attack_command

        attack_command(
            version_dir, holdout, public_because, attack, extent, others_given, period, where, as_json=as_json
        )
        return
    _refuse_without_attack(extent)
    if against is None or holdout is not None or public_because is not None:
        if holdout is None or against is not None or period is not None:
            raise _one_of(against, holdout, period)
        _evaluate_on_holdout(version_dir, holdout, public_because, target, where, as_json=as_json)
        return
    with shown():
        found = evaluate_version(
            version_dir, against, target=target, workspace=where, at=datetime.now(UTC), others=others, period=period
        )
    numbers = (found.scores.scores if isinstance(found.scores, PrivateScores) else found.scores) if show else None
    payload = _payload(found, numbers)
    answer(payload, lambda console: _print(console, payload, numbers), as_json=as_json)


def _refuse_without_attack(extent: Mapping[str, Any]) -> None:
    """Refuse options of an attack where there is none."""
    for option, value in extent.items():
        if value is not None:
            allowed, remedy = "an option of an attack", "add --attack, or leave it out"
            raise SpecRefused([Finding("the command", option, "no --attack", allowed, remedy)])


def _one_of(against: Path | None, holdout: Path | None, period: str | None) -> SpecRefused:
    """Refuse both kinds of rows, none, a reason for confidential ones, or a period of public ones."""
    options = {"--against": against, "--holdout": holdout, "--period": period if against is None else None}
    given = [name for name, value in options.items() if value is not None]
    found = " and ".join(given) if len(given) > 1 else f"{(given or ['no rows'])[0]}, and --public-because"
    allowed = "either --against SOURCE (confidential rows), or --holdout FILE with --public-because REASON"
    return SpecRefused([Finding("the command", "the rows to compare with", found if given else "none", allowed)])


def _evaluate_on_holdout(
    version_dir: Path, holdout: Path, because: str | None, target: str | None, where: Workspace, *, as_json: bool
) -> None:
    """Compare with public rows, and show what was found."""
    with shown():
        found = evaluate_on_holdout(
            version_dir, holdout, because=because, target=target, workspace=where, at=datetime.now(UTC)
        )
    scores, declared = found.found.scores, found.found.declared
    payload = {
        "class": "public",
        "why": PUBLIC,
        "declared": asdict(declared),
        "release": found.found.release,
        "version": found.found.version,
        "columns": list(found.columns),
        "scores": str(found.files.numbers),
        "page": str(found.files.page),
        "found": scores.to_json(),
    }
    facts = [
        ("public", PUBLIC),
        ("declared public", f"{declared.file}: {declared.because}"),
        ("compared", f"{payload['release']} v{payload['version']}, {len(found.columns)} columns, as published"),
        ("scores", str(found.files.numbers)),
        ("page", str(found.files.page)),
    ]

    def show(console: Console) -> None:
        print_facts(console, facts)
        _print_numbers(console, scores, "score")

    answer(payload, show, as_json=as_json)


def _payload(found: Evaluation, numbers: Shown | None) -> dict[str, Any]:
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


def _print(console: Console, payload: dict[str, Any], numbers: Shown | None) -> None:
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
    _print_numbers(console, numbers, "private score")


def _print_numbers(console: Console, numbers: Shown, heading: str) -> None:
    """Print each number, and of synthetic rows its yardsticks beside it."""
    if not isinstance(numbers, Scores):
        console.print(table((heading, "value"), _rows(numbers), numbers=("value",)))
        return

    columns = ("value", *YARDSTICKS)
    rows = [(name, value, *yardsticks(numbers, name)) for name, value in _rows(numbers)]
    console.print(table((heading, *columns), rows, numbers=columns))
    console.print(
        "real rows: a bootstrap of them, or classifiers that learned from four fifths of them. "
        "nothing learned: independent columns, or the majority class."
    )


def _rows(numbers: Shown) -> list[tuple[str, str]]:
    """Return the private numbers, each with its name."""
    if isinstance(numbers, PrivateTableErrors):
        return [
            (
                f"{name}, mean error of a cell [rows]",
                f"{each.mean_absolute:.2f} (of a bootstrap {each.bootstrap:.2f})",
            )
            for name, each in numbers.tables.items()
        ]
    if isinstance(numbers, PrivateStatisticErrors):
        return [
            (f"{name}, {key}", _error_words(each))
            for name, errors in numbers.tables.items()
            for key, each in errors.items()
        ]
    if isinstance(numbers, PrivateModelScores):
        told = [("accuracy", f"{numbers.accuracy:.4f}"), ("mean F-measure", f"{numbers.f_measure:.4f}")]
        told.insert(1, ("accuracy of the majority class", f"{numbers.majority:.4f}"))
        attacked = numbers.membership
        return told if attacked is None else [*told, ("membership inference, AUC", f"{attacked.area:.4f}")]
    rows = [(f"{alpha}-way error", f"{error.mean:.4f}") for alpha, error in numbers.errors.items()]
    if numbers.mutual_information_error is not None:
        rows.append(("mutual information error [nats]", f"{numbers.mutual_information_error:.4f}"))
    if numbers.association_error is not None:
        rows.append(("association error (Cramér's V)", f"{numbers.association_error:.4f}"))
    rows += [(f"pMSE ratio, {learner}", f"{each.ratio:.2f}") for learner, each in numbers.propensity.items()]
    rows += [(f"accuracy, {learner}", f"{share:.4f}") for learner, share in numbers.accuracies.items()]
    return rows


def _error_words(errors: StatisticErrors) -> str:
    """Say how far off a statistic is, and how many of its intervals hold."""
    held = "" if errors.covered is None else f", {errors.covered:.1%} of intervals hold"
    return f"root mean square {errors.rmse:,.6g}, bias {errors.bias:,.6g}, {errors.relative:.4f} of the whole{held}"
