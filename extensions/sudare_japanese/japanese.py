"""The Japanese of pages: translations of messages (`ja.po`, compiled into `ja.mo`), and a style sheet with fonts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tasks.records.page.language import Translation

_FOLDER: Final = Path(__file__).parent
JAPANESE: Final = Translation("日本語", _FOLDER / "ja.mo", _FOLDER / "record.ja.css")
