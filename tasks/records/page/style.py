"""Style sheets of self-contained pages: the palette, and after it the sheets of one kind of page."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from markupsafe import Markup

FOLDER: Final = Path(__file__).parent
PALETTE: Final = FOLDER / "palette.css"


def style(*sheets: Path) -> Markup:
    """Return the palette and the sheets, one after the other, for a page's <style>."""
    return Markup("".join(sheet.read_text(encoding="utf-8") for sheet in (PALETTE, *sheets)))
