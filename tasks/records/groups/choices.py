"""Settings that a run chose by itself, and whether what it read for that was paid for."""

from __future__ import annotations

from tasks.records.groups.field import NONE, Run
from tasks.records.groups.noise import chosen

_PUBLIC = "public data"
_ACCOUNTED = "accounted"


def chosen_settings(run: Run) -> list[dict[str, str]] | str:
    """List each setting that the spec left open, what it was chosen from, and whether that is accounted for."""
    return (_of_tables(run) if run.facts.of_tables else _of_rows(run)) or NONE


def _of_tables(run: Run) -> list[dict[str, str]]:
    product = run.facts.spec.tables_product
    listed = []
    if product.mechanism == "auto":
        found = f"{run.facts.tables_plan.mechanism}, of which less error is expected"
        listed.append(_entry("mechanism", found, "the public parameters of contract and spec", _PUBLIC))
    for table in run.facts.tables:
        if table.refined.chosen is not None:
            of = table.refined.chosen.of
            value = table.refined.method if of == "method" else str(table.refined.lambda_)
            listed.append(_entry(f"{of} of {table.name}", value, chosen(run, table), _ACCOUNTED))
    return listed


def _of_rows(run: Run) -> list[dict[str, str]]:
    made = run.facts.fit[1].fitted
    listed = []
    if made.selections:
        text = f"{len(made.selections)} private choices, each a draw of its own that was paid for"
        listed.append(_entry("what is measured", "see product.choices", text, _ACCOUNTED))
    return listed


def _entry(setting: str, value: str, chosen_from: str, accounted: str) -> dict[str, str]:
    return {"setting": setting, "chosen": value, "from": chosen_from, "accounted": accounted}
