"""Rule 10, the pages: record.html and its translations are rendered again from record.json and the data files.

A page is a function of what is published. Where the very code that rendered it runs here, with the same libraries on
the same kind of machine, the pages must be the same byte for byte. Otherwise they are words by other code: they are
not compared, and the report says to go by the statement, which is record.json. No page holds a script, whatever code
its publisher names.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from contracts.errors import Finding
from contracts.plug_ins import OF_EXTENSIONS
from contracts.release.exchange_forms import EXCHANGE
from tasks.records.descriptions.descriptions import croissant
from tasks.records.exchange_files import absent_forms, exchange_files
from tasks.records.model.declarations import SoftwareStatement
from tasks.records.model.journal_statements import Proof
from tasks.records.model.manifest import Manifest
from tasks.records.model.record_kinds import kind_of
from tasks.records.model.version_statements import RecordTerms
from tasks.records.page.language import GROUP, absence, languages, page_name
from tasks.records.page.page import prepare, public_pages
from tasks.records.published_run import evidence, published_run
from tasks.records.record import RecordExplanation, explain, underived
from tasks.records.software import software
from tasks.records.strict_json import printable, shown
from tasks.verification.descriptions import check_descriptions
from tasks.verification.files.folder import VersionFolder, read_published
from tasks.verification.outcomes import EXCHANGE_WORDS, FILES_NOT_COMPARED, NOT_COMPARED, Words
from tasks.verification.recompute.event_forms import spend
from tasks.verification.record_identity import DESCRIPTIONS, FIXED_FILES, TRANSLATED

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
    parts = _TAG.split(page)  # texts, and between them element and attributes of each tag: many are alike
    tags = {
        (element or "", attributes or "") for element, attributes in set(zip(parts[1::3], parts[2::3], strict=True))
    }
    wrong = {tag for tag in tags if not _is_passive(*tag)}
    if not wrong and not any("<" in text for text in parts[::3]):
        return None
    at = page.find("<")
    while (tag := _TAG.match(page, at)) is not None and tag.groups(default="") not in wrong:
        at = page.find("<", tag.end())
    return at


def _is_passive(element: str, attributes: str) -> bool:
    """Say whether an element is a passive one, and no attribute of it runs, redirects or loads anything."""
    if element and not _PASSIVE.fullmatch(element):
        return False
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


# --- Rule 10 of a verification.


_MOST: Final = 20
_MISDESCRIBED: Final = "the catalogue entry describes other files: go by the manifest"


def check_catalogue(value: Any, manifest: Manifest, *, where: str) -> list[Finding]:
    """Check the file objects of a Croissant description against the manifest.

    Args:
        value: croissant.json.
        manifest: the manifest.
        where: the name of the file.
    Returns:
        list[Finding]: for each described file that is not in the manifest or has another digest, and for each data
        file that is not described.
    """
    listed = value.get("distribution") if isinstance(value, dict) else None
    if not isinstance(listed, list) or not all(isinstance(part, dict) for part in listed):
        return [Finding(where, "distribution", shown(listed), "a list of file objects", _MISDESCRIBED)]
    findings = []
    described = set()
    for place, part in enumerate(listed):
        name, stated = part.get("contentUrl"), part.get("sha256")
        at = f"distribution[{place}]"
        if not isinstance(name, str) or name not in manifest.files:
            findings.append(Finding(where, f"{at}.contentUrl", shown(name), "a file of the manifest", _MISDESCRIBED))
            continue
        described.add(name)
        if stated != manifest.files[name].sha256:
            allowed = f"{manifest.files[name].sha256}, as in the manifest for {printable(name)}"
            findings.append(Finding(where, f"{at}.sha256", shown(stated), allowed, _MISDESCRIBED))
    for name in sorted(manifest.files):
        if name not in described | FIXED_FILES | DESCRIPTIONS:
            found = f"nothing about {printable(name)}"
            findings.append(Finding(where, "distribution", found, "every data file", _MISDESCRIBED))
    return findings


def check_whole(value: Any, explanation: RecordExplanation, *, where: str) -> list[Finding]:
    """Compare a Croissant description with what this code makes of the record: files and columns, each by itself.

    Args:
        value: croissant.json.
        explanation: what the record tells people; this code wrote it.
        where: the name of the file.
    """
    return [
        Finding(where, printable(at), shown(found), f"{shown(expected)}, as the record says", "go by record.json")
        for at, found, expected in islice(_different(value, croissant(explanation), ""), _MOST)
    ]


def _different(found: Any, expected: Any, at: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the places in which two JSON values differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in sorted({*found, *expected}):
            yield from _different(found.get(key), expected.get(key), f"{at}.{key}" if at else key)
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from _different(one, other, f"{at}[{place}]")
    elif type(found) is not type(expected) or found != expected:
        yield at, found, expected


# --- Rule 10, the words.


_TWICE: Final = "what follows from the rest of a version is not stated again: go by the rest"


def check_words(
    folder: VersionFolder,
    record: RecordTerms,
    value: Any,
    proof: Proof,
    manifest: Manifest,
    sound: frozenset[str],
    *,
    catalogue: Any,
    complete: bool,
    page: str | None = None,
) -> Words:
    """Explain the record again, and compare what people read.

    Args:
        folder: the version's folder.
        record, value: record.json, as a statement and as JSON.
        proof: the journal's entries of the run.
        manifest: the manifest.
        sound: names of the files whose checksums hold; others are not opened.
        catalogue: croissant.json, as JSON.
        complete: whether all rules before hold, so that pages are rendered and data files opened.
        page: the name of the page that is wanted as this code renders it.
    Raises:
        TooMuchWork: the texts of the record ask for more terms than are left.
    """
    told, again = explain(value, proof, manifest), words_of_this_code(record.declarations.software)
    findings = check_descriptions(folder, told, manifest, sound, again=again and complete)
    if complete:
        findings += _check_own(record, proof, manifest)
    lacking = unreadable(manifest)
    uncompared = tuple(f"{FILES_NOT_COMPARED}: {name}: {needed}" for name, needed in lacking.items())
    others: tuple[str, ...] = ()
    if complete and record.replay.exchange:
        pass  # for the few versions that have any

        wrong, others = check_exchange(folder, told, manifest, again=again)
        findings += wrong
        uncompared += others
    unread = {name for name in sound if name in lacking or (others and name.startswith(EXCHANGE))}
    findings += check_passive(folder, manifest, unread if again and complete else sound)
    wanted = render(folder, told, manifest)[page] if page is not None and complete else None
    if not again:
        # Who made it may not have had the language: where this code did, `check_pages` asks for the page.
        absent = (
            f"{FILES_NOT_COMPARED}: {name}: the version has none" for name in sorted(TRANSLATED - {*manifest.files})
        )
        cannot_tell = (NOT_COMPARED, *([EXCHANGE_WORDS] if record.replay.exchange and not others else []))
        return Words(tuple(findings), cannot_tell, wanted, (*uncompared, *absent))
    if complete:
        findings += check_pages(folder, told, manifest)
        findings += check_whole(catalogue, told, where="croissant.json")
    return Words(tuple(findings), page=wanted, uncompared=uncompared)


def _check_own(record: RecordTerms, proof: Proof, manifest: Manifest) -> Sequence[Finding]:
    """Check that the declarations state no field that follows from the rest of the version."""
    allowed = set(underived(kind_of(record), published_run(record, evidence(proof, manifest))))
    return [
        Finding("record.json", printable(f"declarations.fields.{name}"), shown(value), "no such field here", _TWICE)
        for name, value in sorted(record.declarations.fields.items())
        if name not in allowed
    ]


# --- Rule 10, the forms of exchange.


_OTHER: Final = "the file says something else than record.json and the data files: go by these"


def check_exchange(
    folder: VersionFolder, explanation: RecordExplanation, manifest: Manifest, *, again: bool
) -> tuple[list[Finding], tuple[str, ...]]:
    """Make the files of exchange again and compare them.

    Args:
        folder: the version's folder; every file was checked by the rules before.
        explanation: what the record tells people.
        manifest: the manifest.
        again: whether this code made them, so that descriptions must be the same too.
    Returns:
        tuple: what is wrong, and what could not be compared.
    Raises:
        OSError: a file changed while it was verified, or cannot be read.
    """
    findings: list[Finding] = []
    made, listed = set(), {name for name in manifest.files if name.startswith(EXCHANGE)}
    for name, pieces in exchange_files(explanation, lambda path: read_published(folder, manifest, path)):
        made.add(name)
        if name in listed and (again or name.endswith(".csv")):
            findings += _differences(name, read_published(folder, manifest, name), pieces)
    absent = absent_forms(explanation)
    uncompared = sorted(listed - made) if absent else []
    for name in sorted((listed ^ made) - {*uncompared}):
        found = "a file" if name in listed else "nothing"
        allowed = "one file for each description and table of the forms in replay.exchange, and no other"
        findings.append(Finding(printable(name), "the file", found, allowed, _OTHER))
    if not absent:
        return findings, ()
    needed = f"they need {', '.join(sorted({*absent.values()}))}, which is not installed"
    files = ", ".join(map(printable, uncompared)) or f"the files of {', '.join(absent)} in {EXCHANGE}"
    return findings, (f"{FILES_NOT_COMPARED}: {files}: {needed}",)


def _differences(name: str, found: bytes, pieces: Iterable[bytes]) -> Iterator[Finding]:
    """Compare a file with what is made again, piece by piece; name the first line that differs."""
    start, line = 0, 1
    for piece in pieces:
        own = found[start : start + len(piece)]
        if own != piece:
            equal = next(
                (i for i, (one, other) in enumerate(zip(own, piece, strict=False)) if one != other), len(own)
            )
            at = line + piece.count(b"\n", 0, equal)
            yield Finding(printable(name), f"line {at}", "other bytes", "what this code makes of the version", _OTHER)
            return
        start, line = start + len(piece), line + piece.count(b"\n")
    if start < len(found):
        yield Finding(printable(name), f"line {line}", "more bytes", "the end of the file", _OTHER)
