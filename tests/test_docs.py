"""The manual holds together: its links, its menu, and the numbers that a page works out."""

import itertools
import re
import unicodedata
from collections.abc import Iterator
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from console.main import GROUP, GROUPS, DeferredCommand
from contracts import plug_ins
from privacy.accounting.posterior import largest_posterior, loss_about_a_row, odds_bound
from tests.source_folders import CORE, DELETED, EXTENSIONS, ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OF_EXTENSIONS = [path for name in EXTENSIONS if (path := ROOT / "extensions" / name / "README.md").exists()]
MANUAL = [ROOT / "README.md", *(page for page in PAGES if page.parent == DOCS), *OF_EXTENSIONS]
COMMAND_POINTS = {
    tuple(point.name.split(".")): plug_ins.RegisteredName(point) for point in plug_ins.registered(GROUP)
}
TO_EXTENSION = re.compile(r"(?:\.\./)?extensions/(\w+)/README\.md")
FENCE_LINE = re.compile(r"^```.*$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as MkDocs makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def anchor(heading: str) -> str:
    """ASCII letters, digits, hyphens: what Python-Markdown keeps of a heading."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def links(page: Path) -> Iterator[str]:
    """Every link of a page that leads to a file or a heading of the repository."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    yield from (link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *PAGES, *OF_EXTENSIONS], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_every_link_leads_to_a_file_and_a_heading(page: Path):
    """The page of an extension that was deleted is not looked for."""
    for link in links(page):
        name, _, heading = link.partition("#")
        extension = TO_EXTENSION.fullmatch(name)
        if extension and extension[1] in DELETED:
            continue
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link


def test_a_link_of_the_manual_stays_inside_of_it():
    """The site holds docs/ and the pages of extensions alone: a link out of it would be dead there."""
    outside = [(page.name, link) for page in PAGES for link in links(page) if link.startswith(("../../", "/"))]
    outside += [
        (page.name, link)
        for page in PAGES
        if page.parent == DOCS
        for link in links(page)
        if link[:2] == ".." and not TO_EXTENSION.fullmatch(link.partition("#")[0])
    ]
    outside += [
        (page.parent.name, link) for page in OF_EXTENSIONS for link in links(page) if link[:11] != "../../docs/"
    ]
    assert outside == []


def test_every_module_and_folder_that_the_manual_names_is_there():
    """Decisions are left out: they name what was there when they were taken."""
    folders = "|".join((*CORE, "extensions", "benchmarks", "tests", "deploy", "examples"))
    named = re.compile(rf"`((?:{folders})/[\w./-]+)[` ]")
    missing = []
    for page in MANUAL[1:]:
        paths = named.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
        missing += [
            (page.name, path) for path in paths if not any((ROOT / f"{path}{end}").exists() for end in ("", ".py"))
        ]
    assert missing == []


def test_every_test_that_the_manual_names_is_there():
    """As a file, or as a function in one."""
    files = list((ROOT / "tests").rglob("test_*.py"))
    there = {file.stem for file in files}
    for file in files:
        there.update(re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8")))
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))}
    assert len(named) > 50
    assert named - there == set()


def typed_commands(page: Path) -> Iterator[str]:
    """Every `sudare ...` of a page that begins a line of a block, follows another command, or is a span of code."""
    text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
    in_blocks = re.findall(
        r"^(?: {4,}|! )?sudare ([a-z].*)|&& sudare ([a-z].*)", FENCE_LINE.sub("", text), re.MULTILINE
    )
    in_spans = re.findall(r"`sudare ([a-z][^`]*)`", " ".join(text.split()))
    for words in (*(first or second for first, second in in_blocks), *in_spans):
        yield re.split(r" {3,}| # | && |\||; ", words)[0]


@pytest.mark.parametrize("page", MANUAL, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_and_option_that_a_page_types_exists(page: Path):
    for typed in typed_commands(page):
        group, *rest = typed.split()
        words = (group, rest[0].rstrip("…")) if group in GROUPS and rest else (group,)
        if typed in GROUPS or plug_ins.absent_extension(GROUP, group):
            continue
        assert words in COMMAND_POINTS, typed
        command = DeferredCommand(words[-1], COMMAND_POINTS[words]).command
        known = {"--help", *(name for option in command.params for name in option.opts)}
        assert set(re.findall(r"(?<!\S)--[a-z][\w-]*", typed)) <= known, typed


def test_the_menu_has_every_page_once():
    def pages(entry: object) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for part in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
            yield from pages(part)

    menu = list(pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    assert sorted(menu) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def test_lists_and_tables_begin_after_an_empty_line():
    """Without one, Markdown renderers make a paragraph of them."""
    glued = []
    for page in [*PAGES, *OF_EXTENSIONS]:
        lines = FENCE.sub("", page.read_text(encoding="utf-8")).splitlines()
        for before, line in itertools.pairwise(lines):
            item, inside = re.match(r"([-*]|\d+\.) ", line), re.match(r"([-*]|\d+\.) |\s{2,}\S|#", before)
            table = line.startswith("|") and not before.startswith("|")
            if before.strip() and ((item and not inside) or table):
                glued.append(f"{page.name}: {line[:60]}")
    assert glued == []


def test_a_cell_of_a_table_holds_a_phrase_and_no_paragraph():
    long = []
    for page in [*PAGES, *OF_EXTENSIONS]:
        lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
        cells = (re.sub(r"\]\([^)]*\)", "]", cell).strip() for line in lines for cell in line.split("|"))
        long += [f"{page.name}: {cell[:60]}" for cell in cells if len(cell) > 190]
    assert long == []


def test_the_beliefs_of_the_guarantees_are_those_of_the_record():
    """Largest beliefs at delta 0, rounded up to a tenth: of presence at epsilon, of attributes at twice epsilon."""
    page = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([0-9.]+) \| ([0-9.]+) % \| ([0-9.]+) % \| ([0-9.]+) % \|$", page, re.MULTILINE)
    assert len(rows) == 2 * 5
    attributes = loss_about_a_row(10**12, 0, adjacency="add_remove").epsilon / 10**12
    for place, (epsilon, *beliefs) in enumerate(rows):
        loss = int(Decimal(epsilon) * 10**12 * (1 if place < len(rows) // 2 else int(attributes)))
        for prior, belief in zip((Fraction(1, 100), Fraction(1, 10), Fraction(1, 2)), beliefs, strict=True):
            exact = largest_posterior(prior, odds_bound(loss, 0)).removesuffix(" %")
            assert Decimal(belief) == Decimal(exact).quantize(Decimal("0.1"), rounding=ROUND_CEILING)
