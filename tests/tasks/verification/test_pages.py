"""The pages are a function of what is published: verify renders them again and finds every other byte."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from console.verify import _print as print_report
from tasks.records.page.language import languages, page_name
from tasks.records.software import software
from tasks.verification import pages
from tasks.verification.outcomes import ALL_RULES, NOT_COMPARED, PAGES_NOT_COMPARED, CheckerTerms
from tests.console.conftest import said as typed
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
    return as_forged(worlds.published(first(), here=True).copy(tmp_path_factory.mktemp("forged") / "v"))


def replaced(pattern: str, by: str) -> Callable[[str], str]:
    """Replace the first place that a pattern matches; there is one."""

    def change(page: str) -> str:
        changed, number = re.subn(pattern, by, page, count=1)
        assert number == 1
        return changed

    return change


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_pages_of_every_kind_of_product_render_the_same_again(kind: str, tmp_path: Path, worlds: Worlds):
    """From the published folder alone, compared byte for byte; a page that is changed by one space is found."""
    version = worlds.published(KINDS[kind](), here=True)
    report = version.verify()
    assert report.ok, report.findings
    assert NOT_COMPARED not in report.cannot_tell
    version = version.copy(tmp_path / "copy")
    report = forge(version, record=lambda record: told(record, "software.code", "f" * 64)).verify()
    assert report.ok, report.findings
    assert NOT_COMPARED in report.cannot_tell
    forge(version, record=lambda record: told(record, "software.code", software().code))
    for name in map(page_name, languages()):
        page = version.folder / name
        page.write_text(page.read_text().replace("</main>", "</main> "))
    forge(version)
    assert named(version.verify()) >= set(map(page_name, languages()))


def test_pages_of_a_period_render_the_same_again(of_a_quarter: Version):  # noqa: F811
    report = of_a_quarter.verify()
    assert report.ok, report.findings
    assert NOT_COMPARED not in report.cannot_tell


FORGERIES: dict[str, tuple[str, Callable[[str], str]]] = {
    "another epsilon": ("record.html", replaced(r"ε ≤ 1|ε = 1|≤ 1\b|= 1\b", "= 0.1")),
    "one digit": ("record.html", replaced(r"<td>(\d)", r"<td>9\1")),
    "a script": ("record.html", replaced("</body>", "<script>alert(1)</script></body>")),
    "an event handler": ("record.html", replaced("<main", '<main onclick="alert(1)"')),
    "the end": ("record.html", lambda page: page + "\n"),
    "nothing": ("record.html", lambda page: ""),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_page_that_its_publisher_changed_and_signed_is_found(version: Version, what: str):
    """Everything is signed again by the publisher's own key; rule 10 names the page and the first other byte."""
    name, change = FORGERIES[what]
    page = version.folder / name
    page.write_text(change(page.read_text(encoding="utf-8")), encoding="utf-8")
    report = forge(version).verify()
    assert broken(report) == {10}
    assert ALL_RULES[9].code == "descriptions"
    [finding] = report.findings
    assert finding.where == name
    assert re.fullmatch(r"line \d+, byte \d+", finding.field)


def test_a_page_that_does_not_follow_a_record_that_was_changed_is_found(version: Version):
    """A declared word is changed in the record, and everything but the pages made again."""
    forge(version, record=lambda record: told(record, "source.select", "SELECT another"))
    assert named(version.verify()) == set(map(page_name, languages()))


@pytest.mark.parametrize("path", ["code", "platform", "packages"])
def test_words_by_other_code_are_not_compared_and_the_report_says_so(version: Version, path: str):
    """Other code, other libraries or another kind of machine may write another page: go by the statement."""

    def change(record: Json) -> None:
        software = record["declarations"]["software"]
        software[path] = {**software["packages"], "jinja2": "1.0"} if path == "packages" else "f" * 64

    report = forge(version, record=change).verify()
    assert report.ok, report.findings
    assert NOT_COMPARED in report.cannot_tell
    assert "not compared, go by the statement" in NOT_COMPARED
    shown = Console(record=True, width=400)
    print_report(
        shown, report.to_json() | {"key": {"whose": "", "pinned_since": None, "file": "", "passed_over": None}}
    )
    assert "! MADE BY OTHER CODE" in shown.export_text()


SCRIPTS = {
    "a script": ("</body>", "<script>alert(1)</script></body>"),
    "a script of a picture": ("</body>", "<svg><script>alert(1)</script></svg></body>"),
    "a script in capitals that is cut": ("</body>", "</body><SCRIPT src=x"),
    "an event handler": ("<main", '<main onclick="alert(1)"'),
    "an event handler without quotes": ("</body>", "<img src=x onerror=alert(1)></body>"),
    "an event handler after a slash": ("</body>", '<img/onerror="alert(1)" src="x"></body>'),
    "an address that runs": ("</body>", '<a href="java&#10;script:alert(1)">the guarantee</a></body>'),
    "an address that runs, in a picture": ("</body>", '<svg><a xlink:href="javascript:alert(1)"/></svg></body>'),
    "another page": ("</body>", '<iframe src="other.html"></iframe></body>'),
    "a move to another page": ("<title>", '<meta http-equiv="refresh" content="0;url=other.html"><title>'),
    "a base": ("<title>", '<base href="https://elsewhere.example/"><title>'),
    "an animated address": ("</body>", '<svg><set attributeName="href" to="javascript:alert(1)"/></svg></body>'),
    "a comment that ends early": ("</body>", "<!--><script>alert(1)</script>--></body>"),
    "another set of characters": ("</body>", "\x1b(J</body>"),
    "a style from elsewhere": ("</title>", '</title><style>@import "https://elsewhere.example/x.css";</style>'),
    "a style that loads": ("</body>", '<p style="background: url(https://elsewhere.example/?who)">0.01</p></body>'),
    "a style that spells it": ("</title>", "</title><style>p{background:u\\72l(//elsewhere.example/)}</style>"),
    "a picture of the folder": ("</body>", '<img src="pixel.png"></body>'),
    "a picture from elsewhere": ("</body>", '<img src="//elsewhere.example/seen"></body>'),
}


@pytest.mark.parametrize("name", [*map(page_name, languages()), "label.html"])
@pytest.mark.parametrize("what", SCRIPTS)
def test_a_publisher_that_names_other_code_cannot_put_a_script_into_a_page(version: Version, what: str, name: str):
    """The code is stated by the publisher: it switches off the comparison, and never this."""
    forge(version, record=lambda record: told(record, "software.code", "f" * 64))
    page = version.folder / name
    before = page.read_text(encoding="utf-8")
    at, by = SCRIPTS[what]
    page.write_text(before.replace(at, by, 1), encoding="utf-8")
    assert page.read_text(encoding="utf-8") != before
    report = forge(version).verify()
    assert broken(report) == {10}
    assert [finding.where for finding in report.findings] == [name]


def test_pages_that_another_version_made_fail_a_strict_check_and_the_verdict_names_them(
    version: Version, tmp_path: Path
):
    """A false page without a script passes, and the verdict says so; `--strict` fails, `--page` is the checker's own.

    The page that the checker renders of the same statement is the one that was published before the forgery.
    """
    honest = {name: (version.folder / name).read_bytes() for name in map(page_name, languages())}
    forge(version, record=lambda record: told(record, "software.packages", {"jinja2": "1.0"}))
    before = version.verify(terms=CheckerTerms(page="record.html")).page
    (version.folder / "record.html").write_text("<p>epsilon = 0.01, perfectly safe</p>")
    forge(version)
    (tmp_path / "key.pub").write_text(version.key + "\n")
    command = ["verify", str(version.folder), "--key", str(tmp_path / "key.pub")]
    said = typed(*command)
    assert (said.code, PAGES_NOT_COMPARED in said.out) == (0, True)
    own = tmp_path / "own.html"
    said = typed(*command, "--strict", "--page", str(own))
    assert said.code == 5
    assert PAGES_NOT_COMPARED in said.out
    assert PAGES_NOT_COMPARED in said.err
    assert own.read_bytes() == before
    assert b"perfectly safe" not in before
    assert len(before) > 0.9 * len(honest["record.html"])


@pytest.mark.long
def test_the_checkers_own_page_is_the_published_one_where_the_same_code_made_it(published: Version, tmp_path: Path):
    """In each language; nothing is written into the version, nor of a version that does not hold."""
    (tmp_path / "key.pub").write_text(published.key + "\n")
    command = ["verify", str(published.folder), "--strict", "--key", str(tmp_path / "key.pub")]
    for name in map(page_name, languages()):
        own = tmp_path / name.replace("record", "own")
        written = typed(*command, "--page", str(own))
        assert (written.code, f"your own page is in {own}" in written.err) == (0, True)
        again = typed(*command, "--page", str(own))
        assert (again.code, "a new file" in again.err) == (2, True)
        assert own.read_bytes() == (published.folder / name).read_bytes()
    said = typed(*command, "--page", str(published.folder / "own.html"))
    assert (said.code, "outside the version" in said.err) == (2, True)
    broken_copy = published.copy(tmp_path / "copy")
    (broken_copy.folder / "record.html").write_text("other")
    command[1] = str(broken_copy.folder)
    assert typed(*command, "--page", str(tmp_path / "broken.html")).code == 5
    assert not (tmp_path / "broken.html").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [("description", "These are the exact counts; epsilon = 0.001"), ("license", "none"), ("name", "another-v9")],
)
def test_a_catalogue_entry_that_says_something_else_is_found(version: Version, key: str, value: str):
    """Signed again by the publisher; its digests are right."""
    page = version.folder / "croissant.json"
    page.write_text(json.dumps(json.loads(page.read_text()) | {key: value}), encoding="utf-8")
    report = forge(version).verify()
    assert broken(report) == {10}
    assert [(finding.where, finding.field) for finding in report.findings] == [("croissant.json", key)]


def test_a_word_about_one_file_or_column_in_the_catalogue_entry_is_compared(version: Version):
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
    report = forge(version).verify()
    assert broken(report) == {10}
    assert {finding.field for finding in report.findings} == words


@pytest.mark.parametrize("name", [*map(page_name, languages())])
def test_a_page_that_is_missing_is_found(version: Version, name: str):
    (version.folder / name).unlink()
    report = forge(version).verify()
    assert not report.ok
    assert {finding.found for finding in report.findings} <= {"nothing", f"no {name}"}


@pytest.mark.parametrize("value", [3, {"x": [[{}], 3, {"y": None}]}, [], None, [[[[]]]], True])
@pytest.mark.parametrize("path", ["about.curator", "source.format", "software.packages", "software.code"])
def test_a_record_that_no_page_can_be_rendered_of_is_a_finding(version: Version, path: str, value: object):
    """Values of a form that no template expects; whatever rendering raises is a finding, and never a traceback."""
    report = forge(version, record=lambda record: told(record, path, value)).verify()
    assert not report.ok
    assert [each.rule for each in report.checks] == list(range(1, 11))


HOSTILE = {
    "a text of a sentence's beginnings": "cells: every combination of " * 4000,
    "short sentences": ["1 rows. " * 30 + str(number) for number in range(3000)],
    "clauses inside clauses": "day in 2024-01" + " (accounted)" * 330,
    "numbers and commas": "1,1" * 1300,
}


@pytest.mark.long
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_texts_cost_bounded_work(version: Version, what: str, monkeypatch: pytest.MonkeyPatch):
    """Whatever texts a publisher signs, translating them ends: within the bound of a rule, here a tenth of it."""
    monkeypatch.setattr("tasks.verify.MOST_TERMS", 10**8)
    path = version.folder / "record.json"
    edit(path, lambda record: told(record, "about.rationale", HOSTILE[what]))
    describe_again(version.folder)
    forge(version)
    started = time.monotonic()
    report = version.verify()
    assert time.monotonic() - started < 60
    assert not report.ok


def test_the_work_that_a_record_makes_is_counted_before_it_is_done(version: Version, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages, "_TERMS_PER_BYTE", 10**9)
    report = version.verify()
    assert {(f.where, f.field) for f in report.findings} == {("record.json", "what its numbers ask for")}
