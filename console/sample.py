"""`sudare sample`: further rows out of a published model, at no cost."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Annotated

import typer

from console.output import AsJson, answer, print_facts, shown
from contracts.errors import Finding, SpecRefused
from privacy.generators.rows import seed_text
from privacy.marginals.portable import PostProcessingSeed
from tasks.sample import sample as sample_rows

SampledVersion = Annotated[Path, typer.Argument(metavar="VERSION_DIR", help="The folder of a synthetic version.")]
RowsOption = Annotated[int, typer.Option("--rows", help="How many rows.")]
To = Annotated[Path, typer.Option("--to", metavar="FILE", help="A new .parquet or .csv file.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="COLUMN=LABEL", help="Only rows with this label; again for more of them."),
]
SeedOption = Annotated[str | None, typer.Option("--seed", help="Up to 32 hex digits; drawn and printed without it.")]


def sample(
    version_dir: SampledVersion,
    rows: RowsOption,
    to: To,
    where: Where = None,
    seed: SeedOption = None,
    as_json: AsJson = False,
) -> None:
    """Sample further rows from the model of a synthetic version, under a condition too; it costs no privacy.

    Labels are the contract's: of numbers and dates those of their bins. Several
    labels of one column mean any of them. The same seed gives the same rows.

    Examples:

        sudare sample releases/adult-synthetic/v1 --rows 1000 --to more.parquet

        sudare sample releases/adult-synthetic/v1 --rows 500 --where sex=Female --where education=Masters --to m.csv
    """
    used = _seed(seed)
    with shown():
        sample_rows(version_dir, rows=rows, where=_where(where or []), seed=used, to=to)
    told = seed_text(used)
    payload = {"file": str(to), "rows": rows, "seed": told, "where": where or []}
    shown_facts = [("rows", f"{rows:,}"), ("file", str(to)), ("seed", told)]
    answer(payload, lambda console: print_facts(console, shown_facts), as_json=as_json)


def _where(written: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in written:
        column, sign, label = each.partition("=")
        if not sign:
            raise SpecRefused([Finding("the command", "--where", repr(each), "COLUMN=LABEL")])
        found.setdefault(column, []).append(label)
    return found


def _seed(written: str | None) -> PostProcessingSeed:
    """Read a seed, or draw one."""
    if written is None:
        return PostProcessingSeed(secrets.randbits(128))
    if re.fullmatch(r"[0-9A-Fa-f]{1,32}", written) is None:
        raise SpecRefused([Finding("the command", "--seed", repr(written), "up to 32 hex digits")])
    return PostProcessingSeed(int(written, 16))
