"""Results of a part of a benchmark go where they belong, and leave what was not measured again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.results import FOLDER, Row, write, write_again
from benchmarks.synthetic import FILES, SECTIONS, file_of


def test_rows_of_the_same_words_are_replaced_where_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    write("some", [Row("a", 1, "s"), Row("b", 2, "s"), Row("b", 3, "s"), Row("c", 4, "s")])
    path = write_again("some", [Row("d", 5, "s"), Row("b", 6, "s"), Row("b", 7, "s")])
    found = [(row["what"], row["measured"]) for row in json.loads(path.read_text(encoding="utf-8"))]
    assert found == [("a", 1), ("b", 6), ("b", 7), ("c", 4), ("d", 5)]
    assert json.loads(write_again("new", [Row("a", 1, "s")]).read_text(encoding="utf-8"))[0]["what"] == "a"


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_of_the_synthetic_benchmark_has_a_file_that_a_module_explains(section: str) -> None:
    """The page of what was measured quotes the module of that name."""
    name = file_of(section)
    assert [FOLDER.parent / f"{form}.py" for form in (name, f"_{name}") if (FOLDER.parent / f"{form}.py").exists()]


def test_no_file_of_results_names_a_section_that_is_gone() -> None:
    assert {section for sections in FILES.values() for section in sections} <= set(SECTIONS)
