"""The pages are a function of what is published: verify renders them again and finds every other byte."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from console.verify import _print as print_report
from tasks.records.page.page import PAGES
from tasks.verification import pages
from tasks.verification.outcomes import ALL_RULES, NOT_COMPARED
from tasks.verify import verify
from tests.tasks.products.tables.test_minimum_frequency import suppressing
from tests.tasks.verification.forgery import Json, as_forged, describe_again, edit, forge, told
from tests.tasks.verification.test_verify_period import of_a_quarter  # noqa: F401  (a fixture)
from tests.worlds.classifiers import anonymized_learning, dp_sgd
from tests.worlds.hierarchies import nested
from tests.worlds.pictures import PictureScenario
from tests.worlds.sparse_tables import small
from tests.worlds.statistics import gaussian, pure
from tests.worlds.synthetic_rows import aim, gaussians
from tests.worlds.tables import first, second
from tests.worlds.versions import AnyScenario, Version, Worlds, broken, named

KINDS: dict[str, Callable[[], AnyScenario]] = {
    "dense": second,
    "hierarchy": nested,
    "sparse": small,
    "suppressed cells": suppressing,
    "synthetic, marginals": aim,
    "synthetic, sums": gaussians,
    "pictures": PictureScenario,
    "statistics, Laplace": pure,
    "statistics, Gaussian": gaussian,
    "classifier, DP-SGD": dp_sgd,
    "classifier, noisy parameters": anonymized_learning,
}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, worlds: Worlds) -> Version:
    version = worlds.published(first(), here=True)
    return as_forged(version.copy(tmp_path_factory.mktemp("forged") / "v"))


@pytest.fixture
def version(published: Version, tmp_path: Path) -> Version:
    return published.copy(tmp_path / "v")


def replaced(pattern: str, by: str) -> Callable[[str], str]:
    """Replace the first place that a pattern matches; there is one."""

    def change(page: str) -> str:
        changed, number = re.subn(pattern, by, page, count=1)
        assert number == 1
        return changed

    return change


@pytest.mark.parametrize("kind", KINDS)
def test_pages_of_every_kind_of_product_render_the_same_again(kind: str, tmp_path: Path, worlds: Worlds) -> None:
    """From the published folder alone, compared byte for byte; a page that is changed by one space is found."""
    version = worlds.published(KINDS[kind](), here=True)
    report = verify(version.folder, public_key=version.key)
    assert report.ok, report.findings
    assert NOT_COMPARED not in report.cannot_tell
    version = version.copy(tmp_path / "copy")
    for name in PAGES.values():
        page = version.folder / name
        page.write_text(page.read_text().replace("</main>", "</main> "))
    forge(version)
    report = verify(version.folder, public_key=version.key)
    assert named(report) >= set(PAGES.values())


def test_pages_of_a_period_render_the_same_again(of_a_quarter: Version) -> None:  # noqa: F811
    report = verify(of_a_quarter.folder, public_key=of_a_quarter.key)
    assert report.ok, report.findings
    assert NOT_COMPARED not in report.cannot_tell


FORGERIES: dict[str, tuple[str, Callable[[str], str]]] = {
    "another epsilon": ("record.html", replaced(r"ε ≤ 1|ε = 1|≤ 1\b|= 1\b", "= 0.1")),
    "one digit": ("record.html", replaced(r"<td>(\d)", r"<td>9\1")),
    "a script": ("record.html", replaced("</body>", "<script>alert(1)</script></body>")),
    "an event handler": ("record.html", replaced("<main", '<main onclick="alert(1)"')),
    "a word of the Japanese page": ("record.ja.html", replaced("</h1>", "。</h1>")),
    "the end": ("record.ja.html", lambda page: page + "\n"),
    "nothing": ("record.html", lambda page: ""),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_page_that_its_publisher_changed_and_signed_is_found(version: Version, what: str) -> None:
    """Everything is signed again by the publisher's own key; rule 10 names the page and the first other byte."""
    name, change = FORGERIES[what]
    page = version.folder / name
    page.write_text(change(page.read_text(encoding="utf-8")), encoding="utf-8")
    forge(version)
    report = verify(version.folder, public_key=version.key)
    assert broken(report) == {10}
    assert ALL_RULES[9].code == "descriptions"
    [finding] = report.findings
    assert finding.where == name
    assert re.fullmatch(r"line \d+, byte \d+", finding.field)


def test_a_page_that_does_not_follow_a_record_that_was_changed_is_found(version: Version) -> None:
    """A declared word is changed in the record, and everything but the pages made again."""
    forge(version, record=lambda record: told(record, "source.select", "SELECT another"))
    report = verify(version.folder, public_key=version.key)
    assert named(report) == set(PAGES.values())


@pytest.mark.parametrize("path", ["code", "platform", "packages"])
def test_words_by_other_code_are_not_compared_and_the_report_says_so(version: Version, path: str) -> None:
    """Other code, other libraries or another kind of machine may write another page: go by the statement."""

    def change(record: Json) -> None:
        software = record["declarations"]["software"]
        packages = {**software["packages"], "jinja2": "1.0"}
        software[path] = packages if path == "packages" else "f" * 64

    forge(version, record=change)
    report = verify(version.folder, public_key=version.key)
    assert report.ok, report.findings
    assert NOT_COMPARED in report.cannot_tell
    assert "not compared, go by the statement" in NOT_COMPARED
    shown = Console(record=True, width=400)
    print_report(
        shown, report.to_json() | {"key": {"whose": "", "pinned_since": None, "file": "", "passed_over": None}}
    )
    assert "! MADE BY OTHER CODE" in shown.export_text()


@pytest.mark.parametrize(
    ("key", "value"),
    [("description", "These are the exact counts; epsilon = 0.001"), ("license", "none"), ("name", "another-v9")],
)
def test_a_catalogue_entry_that_says_something_else_is_found(version: Version, key: str, value: str) -> None:
    """Signed again by the publisher; its digests are right."""
    page = version.folder / "croissant.json"
    page.write_text(json.dumps(json.loads(page.read_text()) | {key: value}), encoding="utf-8")
    forge(version)
    report = verify(version.folder, public_key=version.key)
    assert broken(report) == {10}
    assert [(finding.where, finding.field) for finding in report.findings] == [("croissant.json", key)]


def test_a_word_about_one_file_or_column_in_the_catalogue_entry_is_compared(version: Version) -> None:
    """Every text and flag of the first file and of the first column, all of them changed at once."""
    page = version.folder / "croissant.json"
    entry = json.loads(page.read_text())
    file, column = entry["distribution"][0], entry["recordSet"][0]["field"][0]
    words = {f"distribution[0].{key}" for key in file if key not in ("sha256", "contentUrl")}
    words |= {f"recordSet[0].field[0].{key}" for key, value in column.items() if isinstance(value, str)}
    assert {"distribution[0].description", "recordSet[0].field[0].description"} <= words
    for part, at in ((file, "distribution[0]."), (column, "recordSet[0].field[0].")):
        part.update({key: f"{value}1" for key, value in part.items() if f"{at}{key}" in words})
    page.write_text(json.dumps(entry), encoding="utf-8")
    forge(version)
    report = verify(version.folder, public_key=version.key)
    assert broken(report) == {10}
    assert {finding.field for finding in report.findings} == words


@pytest.mark.parametrize("name", PAGES.values())
def test_a_page_that_is_missing_is_found(version: Version, name: str) -> None:
    (version.folder / name).unlink()
    forge(version)
    report = verify(version.folder, public_key=version.key)
    assert not report.ok
    assert {finding.found for finding in report.findings} <= {"nothing", f"no {name}"}


@pytest.mark.parametrize("value", [3, {"x": [[{}], 3, {"y": None}]}, [], None, [[[[]]]], True])
@pytest.mark.parametrize("path", ["about.curator", "source.format", "software.packages", "software.code"])
def test_a_record_that_no_page_can_be_rendered_of_is_a_finding(version: Version, path: str, value: object) -> None:
    """Values of a form that no template expects; whatever rendering raises is a finding, and never a traceback."""
    forge(version, record=lambda record: told(record, path, value))
    report = verify(version.folder, public_key=version.key)
    assert not report.ok
    assert [each.rule for each in report.checks] == list(range(1, 11))


HOSTILE = {
    "a text of a sentence's beginnings": "cells: every combination of " * 4000,
    "short sentences": ["1 rows. " * 30 + str(number) for number in range(3000)],
    "clauses inside clauses": "day in 2024-01" + " (accounted)" * 330,
    "numbers and commas": "1,1" * 1300,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_texts_cost_bounded_work(version: Version, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever texts a publisher signs, translating them ends: within the bound of a rule, here a tenth of it."""
    monkeypatch.setattr("tasks.verify.MOST_TERMS", 10**8)
    path = version.folder / "record.json"
    edit(path, lambda record: told(record, "about.rationale", HOSTILE[what]))
    describe_again(version.folder)
    forge(version)
    started = time.monotonic()
    report = verify(version.folder, public_key=version.key)
    assert time.monotonic() - started < 60
    assert not report.ok


def test_the_work_that_a_record_makes_is_counted_before_it_is_done(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_TERMS_PER_BYTE", 10**9)
    report = verify(version.folder, public_key=version.key)
    assert {(f.where, f.field) for f in report.findings} == {("record.json", "what its numbers ask for")}
