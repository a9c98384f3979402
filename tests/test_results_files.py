"""Results of benchmarks: where they go, and that the page of measurements says what they say."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks._ledger_growth import grow
from benchmarks._ledger_places import SIGNER, connect, make_ledger, request
from benchmarks.measured import FIRST, page, results
from benchmarks.promised_accuracy import AIMS, FLOOR, PlannedAim, kept
from benchmarks.results import FOLDER, Row, write, write_again
from benchmarks.synthetic import FILES, SECTIONS, file_of
from privacy.noise.random_bytes import SeededBytes


def test_rows_of_the_same_words_are_replaced_where_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmarks.results.FOLDER", tmp_path)
    write("some", [Row("a", 1, "s"), Row("b", 2, "s"), Row("b", 3, "s"), Row("c", 4, "s")])
    path = write_again("some", [Row("d", 5, "s"), Row("b", 6, "s"), Row("b", 7, "s")])
    found = [(row["what"], row["measured"]) for row in json.loads(path.read_text(encoding="utf-8"))]
    assert found == [("a", 1), ("b", 6), ("b", 7), ("c", 4), ("d", 5)]
    assert json.loads(write_again("new", [Row("a", 1, "s")]).read_text(encoding="utf-8"))[0]["what"] == "a"


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_of_the_synthetic_benchmark_has_a_file_that_a_module_explains(section: str):
    """The page of what was measured quotes the module of that name."""
    name = file_of(section)
    assert [FOLDER.parent / f"{form}.py" for form in (name, f"_{name}") if (FOLDER.parent / f"{form}.py").exists()]


def test_no_file_of_results_names_a_section_that_is_gone():
    assert {section for sections in FILES.values() for section in sections} <= set(SECTIONS)


PAGE = Path(__file__).resolve().parents[1] / "docs" / "measured.md"


def test_the_page_is_that_of_the_committed_results():
    """`make measured` writes it again after a benchmark has run."""
    assert PAGE.read_text(encoding="utf-8") == page(results())


def test_a_missed_target_is_always_shown():
    """A benchmark with many rows may leave rows out, but none that misses its target."""
    text = page(results())
    missed = {name: sum(row["holds"] is False for row in rows) for name, rows in results().items()}
    sections = {name: text.partition(f"\n## {name}\n")[2].partition("\n## ")[0] for name in missed}
    assert sum(missed.values()) > 10
    assert {name: section.count("| **no** |") for name, section in sections.items()} == missed


def test_another_number_is_another_page_and_a_main_figure_cannot_go_missing():
    measured = results()
    name, (what, *_) = next(iter(FIRST.items()))
    changed = [{**row, "measured": 61.5, "holds": False} if row["what"] == what else row for row in measured[name]]
    assert "| 61.5 s | **no** |" in page({**measured, name: changed})
    with pytest.raises(ValueError, match="not enough values"):
        page({**measured, name: [row for row in measured[name] if row["what"] != what]})


def test_a_grown_journal_holds_and_goes_on(tmp_path: Path):
    """A full check of 200 grown runs finds nothing, and the next charge is admitted behind them."""
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    make_ledger(url, tmp_path, epsilon=100)
    grow(url, tmp_path, until=1_000)
    with closing(connect(url, tmp_path)) as ledger:
        entries = len(ledger.journal())
        assert entries >= 1_000
        assert ledger.verify(public_key=SIGNER.public_key) == []
        ledger.reserve(request("next"))
        assert len(ledger.journal()) == entries + 1


@pytest.mark.stat
@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: aim.kind)
def test_an_aim_is_kept_in_95_per_cent_of_releases(aim: PlannedAim, tmp_path: Path):
    """Stat: n = 1,000 releases; 95 % falls below the floor with probability 1e-7 an aim. Half the epsilon fails."""
    _, share = kept(aim, tmp_path, noise=SeededBytes(22))
    _, halved = kept(aim, tmp_path, noise=SeededBytes(23), times=0.5)
    assert share >= FLOOR > halved
