"""The private page of how the rows fit the contract, in each language: in the run's folder, for its owner alone."""

from __future__ import annotations

import os
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tasks.records.page.language import ENGLISH, language, languages
from tasks.records.page.style import FOLDER as PAGE_FOLDER
from tasks.records.page.style import style
from tasks.storage.duckdb_session import trouble
from tasks.validation.misfits import ColumnMisfits, Misfits

_FOLDER: Final = Path(__file__).parent


def page_file(folder: Path, code: str = ENGLISH) -> Path:
    """Return where the page of a run's folder lies."""
    return folder / ("misfits.private.html" if code == ENGLISH else f"misfits.private.{code}.html")


def write_misfits(found: Misfits, *, release: str, share: Fraction, folder: Path) -> Path:
    """Write the pages, each in place of the one of an earlier look.

    Args:
        found: how the rows fit.
        release: its name.
        share: above which `sudare run` asks.
        folder: the run's private folder.
    Returns:
        Path: of the page in English.
    Raises:
        SudareError: the folder cannot be written.
    Privacy: private files, mode 0600, in a folder of mode 0700.
    """
    for code in languages():
        path = page_file(folder, code)
        try:
            path.unlink(missing_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(misfits_page(found, release=release, share=share, code=code))
        except OSError as error:
            raise trouble(error, folder, "writing the private page") from None
    return page_file(folder)


def misfits_page(found: Misfits, *, release: str, share: Fraction, code: str = ENGLISH) -> str:
    """Render how the rows fit; every text is escaped.

    Privacy: private.
    """
    page: str = _template().render(
        lang=language(code),
        release=release,
        rows=f"{found.rows:,}",
        notes=found.notes,
        asked=percent(share),
        gates=found.broken_gates,
        above=[each.column for each in found.above(share) if not each.is_key],
        left_out=[each.column for each in found.above(share) if each.is_key],
        linked=any(each.is_key for each in found.columns),
        columns=[_row(each, share) for each in (*found.columns, *found.clips)],
        others=[(other, language(other).name) for other in languages() if other != code],
        file=lambda other: page_file(Path(), other).name,
        style=style(PAGE_FOLDER / "record.css"),
    )
    return page


def percent(share: Fraction) -> str:
    """Write a share to a tenth of a per cent; none and all are written only where they are exact."""
    if share in (0, 1):
        return f"{int(share * 100)} %"
    tenths = min(max(round(share * 1000), 1), 999)
    return f"{'< ' if share * 1000 < tenths == 1 else ''}{tenths / 10:g} %"


def _row(column: ColumnMisfits, share: Fraction) -> dict[str, Any]:
    shares = {name: percent(column.part(getattr(column, name))) for name in ("unfit", "clipped", "null")}
    return {"column": column, "mark": "!" if column.share > share else "", **shares}


@cache
def _template() -> Any:
    environment = Environment(
        loader=FileSystemLoader([_FOLDER, PAGE_FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("misfits.html.j2")
