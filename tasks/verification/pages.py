"""Rule 10, the pages: record.html and its translations are rendered again from record.json and the data files.

A page is a function of what is published. Where the very code that rendered it runs here, with the same libraries on
the same kind of machine, the pages must be the same byte for byte. Otherwise they are words by other code: they are
not compared, and the report says to go by the statement, which is record.json. No page holds a script, whatever code
its publisher names.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Final

from contracts.errors import Finding
from contracts.plug_ins import OF_EXTENSIONS
from tasks.records.explanation import RecordExplanation
from tasks.records.model.declarations import SoftwareStatement
from tasks.records.model.release_statement import Manifest
from tasks.records.page.language import GROUP, absence, languages, page_name
from tasks.records.page.page import prepare, public_pages
from tasks.records.software import software
from tasks.records.strict_json import shown
from tasks.verification.files.version_folder import VersionFolder, read_published
from tasks.verification.recompute.effort import spend

_RENDERERS: Final = ("jinja2", "numpy", "pyarrow", "pyyaml", "scipy", "zlib")
_TERMS_PER_BYTE: Final = 20
"""Of the record: its fields are laid out in two languages, and copied a few times on the way."""
_REWRITTEN: Final = "the page says something else than record.json and the data files: go by these, not by the page"
_SCRIPTED: Final = (
    "a script can show other numbers than the data files: do not open the page, use nothing from this version"
)
_TAG: Final = re.compile(
    r'</?([a-z][a-z0-9]*+)((?:\s++[a-z][-a-z0-9:]*+(?:="[^"<]*+")?+)*+)\s*+/?>|<!doctype html>', re.IGNORECASE
)
_ATTRIBUTE: Final = re.compile(r'([-a-z0-9:]++)(?:="([^"]*+)")?+', re.IGNORECASE)
_LOADED: Final = re.compile(r"@import|url\(\s*+[\"']?(?!data:|#)|\\", re.IGNORECASE)
"""What a style may not hold: what loads something, and escapes, which could spell it."""
_STYLE: Final = re.compile(r"<style\b.*?(?:</style|\Z)", re.IGNORECASE | re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ADDRESSES: Final = {
    "href": re.compile(r"https?:|mailto:|[^:]*(?:[/#?]|$)", re.IGNORECASE),
    "src": re.compile(r"data:image/", re.IGNORECASE),
    "http-equiv": re.compile(r"content-security-policy$", re.IGNORECASE),
    "charset": re.compile(r"utf-8$", re.IGNORECASE),
    "style": re.compile(r"(?!.*(?:@import|url\(|\\))", re.IGNORECASE),
}
"""What the attributes may hold that lead elsewhere, load or redirect; others that do are in no page."""
_ACTIVE: Final = re.compile(r"on.*|.*:.*|srcdoc|srcset|action|formaction|background|ping|poster", re.IGNORECASE)
_PASSIVE: Final = re.compile(
    """html|head|meta|title|style|body|main|header|footer|nav|section|article|aside|div|p|h[1-6]|span|small|[abiqsu]|em
    |strong|del|ins|mark|code|pre|kbd|samp|var|su[bp]|abbr|cite|blockquote|data|time|dfn|bd[io]|w?br|hr|[uod]l|li|d[td]
    |table|caption|col|colgroup|t[rhd]|thead|tbody|tfoot|details|summary|figure|figcaption|picture|img|meter|progress
    |ruby|r[tp]|svg|g|defs|symbol|use|path|rect|circle|ellipse|line|polyline|polygon|text|tspan|desc|pattern|clippath
    |mask|marker|lineargradient|radialgradient|stop""",
    re.IGNORECASE | re.VERBOSE,
)
"""Elements of text, tables and pictures; none runs, loads or sends anything."""


def words_of_this_code(stated: SoftwareStatement) -> bool:
    """Say whether the code that runs here rendered a version's words, with the same libraries.

    Args:
        stated: the software that the record names.
    """
    here = software()
    same = all(stated.packages.get(name) == here.packages.get(name) for name in _RENDERERS)
    return same and (stated.code, stated.platform) == (here.code, here.platform)


def render(folder: VersionFolder, explanation: RecordExplanation, manifest: Manifest) -> dict[str, bytes]:
    """Render the pages by their names; arguments and what is raised as for `check_pages`."""
    spend(_TERMS_PER_BYTE * folder.files["record.json"])
    return public_pages(explanation, prepare(explanation, lambda name: read_published(folder, manifest, name)))


def unreadable(manifest: Manifest) -> dict[str, str]:
    """Return the pages of a version in languages that are not installed, and what each needs."""
    lacking = {page_name(code): absence(code) for code in OF_EXTENSIONS[GROUP]}
    return {name: needed for name, needed in sorted(lacking.items()) if needed is not None and name in manifest.files}


def check_pages(folder: VersionFolder, explanation: RecordExplanation, manifest: Manifest) -> list[Finding]:
    """Render the pages again and compare them.

    Args:
        folder: the version's folder; every file was checked by the rules before.
        explanation: the words of the record, which this code wrote.
        manifest: the manifest.
    Raises:
        TooMuchWork: the texts of the record ask for more terms than are left.
    """
    missing = [name for name in map(page_name, languages()) if name not in manifest.files]
    if missing:
        return [Finding(name, "the file", "nothing", "a page of the version", _REWRITTEN) for name in missing]
    findings = []
    for name, expected in render(folder, explanation, manifest).items():
        found = read_published(folder, manifest, name)
        if found != expected:
            findings.append(_first_difference(name, found, expected))
    return findings


def check_passive(folder: VersionFolder, manifest: Manifest, names: Iterable[str]) -> list[Finding]:
    """Check that pages hold text, tables and pictures only, in a form that every browser reads alike.

    Each `<` has to begin a tag in the one form that is written, of a passive element. So no reading of the page,
    lenient or strict, finds a script in it.

    Args:
        folder, manifest: the version.
        names: files whose checksums hold; those that are no page are left out.
    """
    findings = []
    for name in sorted(each for each in names if each.lower().endswith((".html", ".htm", ".xhtml", ".svg"))):
        spend(folder.files[name])
        page = read_published(folder, manifest, name)
        at = _first_active(page.decode("utf-8", "surrogateescape"))
        if at is not None:
            field, allowed = (
                f"character {at + 1}",
                "text, tables and pictures: no script, and nothing that runs or loads",
            )
            found = page.decode("utf-8", "replace")[at : at + 40]
            findings.append(Finding(name, field, shown(found), allowed, _SCRIPTED))
    return findings


def _first_active(page: str) -> int | None:
    """Return where the first thing stands that is not plainly passive; None where all of a page is."""
    odd = _CONTROL.search(page) or re.search("[\ud800-\udfff]", page)
    if odd is not None:
        return odd.start()
    for style in _STYLE.finditer(page):
        if (loaded := _LOADED.search(style[0])) is not None:
            return style.start() + loaded.start()
    at = page.find("<")
    while at != -1:
        tag = _TAG.match(page, at)
        if tag is None:
            return at
        element, attributes = tag.groups(default="")
        if element and (not _PASSIVE.fullmatch(element) or not _is_passive(attributes)):
            return at
        at = page.find("<", tag.end())
    return None


def _is_passive(attributes: str) -> bool:
    """Say whether no attribute of a tag runs, redirects or loads anything."""
    for name, value in _ATTRIBUTE.findall(attributes):
        address = "".join(html.unescape(value).split())
        allowed = _ADDRESSES.get(name.lower())
        if _ACTIVE.fullmatch(name) if allowed is None else not allowed.match(address):
            return False
    return True


def _first_difference(name: str, found: bytes, expected: bytes) -> Finding:
    """Name the first byte at which a page is another."""
    pairs = zip(found, expected, strict=False)
    at = next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(found), len(expected)))
    field = f"line {found.count(bytes([10]), 0, at) + 1}, byte {at + 1}"
    allowed = f"{shown(_text(expected, at))}, which is what this code makes of record.json and the data files"
    return Finding(name, field, shown(_text(found, at)), allowed, _REWRITTEN)


def _text(page: bytes, at: int) -> str:
    return page[max(0, at - 12) : at + 24].decode("utf-8", "replace")
