"""The page of measurements says what the committed results say."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measured import FIRST, page, results

PAGE = Path(__file__).resolve().parents[1] / "docs" / "measured.md"


def test_the_page_is_that_of_the_committed_results() -> None:
    """`make measured` writes it again after a benchmark has run."""
    assert PAGE.read_text(encoding="utf-8") == page(results())


def test_a_missed_target_is_always_shown() -> None:
    """A benchmark with many rows may leave rows out, but none that misses its target."""
    text = page(results())
    missed = {name: sum(row["holds"] is False for row in rows) for name, rows in results().items()}
    sections = {name: text.partition(f"\n## {name}\n")[2].partition("\n## ")[0] for name in missed}
    assert sum(missed.values()) > 10
    assert {name: section.count("| **no** |") for name, section in sections.items()} == missed


def test_another_number_is_another_page_and_a_main_figure_cannot_go_missing() -> None:
    measured = results()
    name, (what, *_) = next(iter(FIRST.items()))
    changed = [{**row, "measured": 61.5, "holds": False} if row["what"] == what else row for row in measured[name]]
    assert "| 61.5 s | **no** |" in page({**measured, name: changed})
    with pytest.raises(ValueError, match="not enough values"):
        page({**measured, name: [row for row in measured[name] if row["what"] != what]})
