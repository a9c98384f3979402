"""Settings that a run chose by itself, and whether what it read for that was paid for."""

from __future__ import annotations

from contracts.message import message
from tasks.records.groups.field import NONE, Run
from tasks.records.groups.post_processing import chosen

_PUBLIC = message("public data")
_ACCOUNTED = "accounted"


def chosen_settings(run: Run) -> list[dict[str, str]] | str:
    """List each setting that the spec left open, what it was chosen from, and whether that is accounted for."""
    return (_of_tables(run) if run.facts.of_tables else _of_rows(run)) or NONE


def _of_tables(run: Run) -> list[dict[str, str]]:
    product = run.facts.spec.tables_product
    listed = []
    if product.mechanism == "auto":
        noise = message(run.facts.tables_plan.mechanism)
        least = message("{noise}, of which less error is expected", noise=noise)
        found = message("{noise}, as residuals have", noise=noise) if product.noise_is_gaussian else least
        listed.append(_entry("mechanism", found, message("the public parameters of contract and spec"), _PUBLIC))
    for table in run.facts.tables:
        if table.refined.chosen is not None:
            of = table.refined.chosen.of
            value = str(table.refined.lambda_) if of == "lambda" else table.refined.method
            listed.append(
                _entry(
                    message("{setting} of {table}", setting=message(of), table=table.name),
                    value,
                    chosen(run, table),
                    _ACCOUNTED,
                )
            )
    return listed


def _of_rows(run: Run) -> list[dict[str, str]]:
    made = run.facts.fit[1].fitted
    listed = []
    if made.selections:
        text = message(
            "{number} private choices, each a draw of its own that was paid for", number=len(made.selections)
        )
        listed.append(_entry(message("what is measured"), message("see product.choices"), text, _ACCOUNTED))
    return listed


def _entry(setting: str, value: str, chosen_from: str, accounted: str) -> dict[str, str]:
    return {"setting": setting, "chosen": value, "from": chosen_from, "accounted": accounted}
