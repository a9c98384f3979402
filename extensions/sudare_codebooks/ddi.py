"""DDI Codebook (versions 1.2 to 2.5): the XML in which data archives describe the variables of a study.

Read of each `var`: `name`, `labl`, `catgry` (`catValu`, `labl`, `missing="Y"`), `valrng/range`, `invalrng`,
`varFormat`. Names of elements are compared without their namespace.

The file is read by expat, and no document of its own is trusted: an entity that it declares, inside or outside, is
refused before it is expanded, so that there is no bomb and no file or address that it could name.

Source: DDI Codebook 2.5 field level documentation, https://ddialliance.org/Specification/DDI-Codebook/2.5/.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.parsers import expat

from contracts.contract.column import LogicalType
from contracts.drafting.codebooks.codebook import CodebookReader, read_bytes
from contracts.drafting.codebooks.entries import Codebook, CodebookEntry
from contracts.drafting.sketch import refuse_draft
from contracts.reading.yaml_lines import shown

DEEPEST: Final = 60
MOST_ELEMENTS: Final = 2_000_000


@dataclass
class XmlElement:
    """One element: its name without namespace, attributes, text with that of all below, children, and line."""

    name: str
    line: int
    attributes: dict[str, str]
    children: list[XmlElement] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    def below(self, name: str) -> Iterator[XmlElement]:
        """Yield the children of a name."""
        return (child for child in self.children if child.name == name)

    def first(self, name: str) -> str | None:
        """Return the text of the first child of a name."""
        child = next(self.below(name), None)
        return None if child is None else child.text

    @property
    def text(self) -> str:
        """The text, with that of all elements inside, so that markup within a label is no part of it."""
        return "".join(self.pieces)

    def everywhere(self, name: str) -> Iterator[XmlElement]:
        """Yield the elements of a name at any depth, in the order of the file."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            if element.name == name:
                yield element
            waiting += reversed(element.children)


class _Refused(Exception):
    """What the handlers of expat stop with."""

    def __init__(self, line: int, found: str, allowed: str, remedy: str) -> None:
        super().__init__(found)
        self.parts = (line, found, allowed, remedy)


class _XmlBuilder:
    """Takes expat's events and builds the tree; stops at the first entity."""

    def __init__(self) -> None:
        self.root: XmlElement | None = None
        self._open: list[XmlElement] = []
        self._count = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.EntityDeclHandler = self._entity
        self.parser.ExternalEntityRefHandler = self._outside
        self.parser.SkippedEntityHandler = self._skipped

    def _stop(self, found: str, allowed: str, remedy: str) -> None:
        raise _Refused(self.parser.CurrentLineNumber, found, allowed, remedy)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) >= DEEPEST or self._count > MOST_ELEMENTS:
            limits = f"at most {DEEPEST} levels and {MOST_ELEMENTS:,} elements"
            self._stop("XML that is nested too deeply or has too many elements", limits, "split the codebook")
        bare = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        element = XmlElement(name.rpartition(" ")[2], self.parser.CurrentLineNumber, bare)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, name: str) -> None:
        self._open.pop()

    def _characters(self, text: str) -> None:
        for element in self._open[-4:]:  # a label, and markup within it
            element.pieces.append(text)

    def _entity(self, name: str, *rest: object) -> None:
        self._stop(f"the entity {name!r}, declared in the file", *_NO_ENTITIES)

    def _outside(self, *rest: object) -> int:
        self._stop("a reference to another document", *_NO_ENTITIES)
        return 0

    def _skipped(self, name: str, is_parameter: bool) -> None:
        self._stop(f"the entity {name!r}, which the file does not declare", *_NO_ENTITIES)


_NO_ENTITIES: Final = (
    "no entities but &amp; &lt; &gt; &quot; &apos; and numbers: nothing else is expanded or fetched",
    "export the codebook without a DOCTYPE, or write the text in place of the entity",
)


def read_xml(path: Path, content: bytes) -> XmlElement:
    """Read an XML file without any entity of its own.

    Raises:
        DraftRefused: it is not well-formed, declares or names an entity, or is nested too deeply.
    """
    builder = _XmlBuilder()
    try:
        builder.parser.Parse(content, True)
        refusal = None
    except _Refused as stop:
        refusal = stop.parts
    except expat.ExpatError as error:
        words = expat.errors.messages[error.code]
        refusal = (error.lineno, words, "well-formed XML", "look at this line and the one before")
    except (LookupError, ValueError) as error:
        refusal = (1, str(error), "XML in an encoding that is known, such as UTF-8", "save the file as UTF-8")
    if refusal is not None or builder.root is None:
        line, found, allowed, remedy = refusal or (1, "an empty file", "well-formed XML", "check the path")
        refuse_draft(f"{shown(path)}:{line}", "codebook", found, allowed, remedy)
    return builder.root


def read_ddi(path: Path) -> Codebook | None:
    """Read the variables of a DDI Codebook; None for XML without any: DDI Lifecycle (version 3) has others."""
    root = read_xml(path, read_bytes(path))
    variables = [element for element in root.everywhere("var") if element.attributes.get("name")]
    if not variables:
        return None
    title = next(root.everywhere("titl"), None)
    entries = tuple(_entry(path, each) for each in variables)
    return Codebook(path.name, "ddi", entries, title=None if title is None else title.text)


def _entry(path: Path, var: XmlElement) -> CodebookEntry:
    categories = list(var.below("catgry"))
    values = [(each.first("catValu") or "", each.first("labl") or "", each) for each in categories]
    absent = [code for code, _, each in values if each.attributes.get("missing", "N").upper() in ("Y", "YES", "TRUE")]
    absent += [
        item.attributes["VALUE"]
        for rng in var.below("invalrng")
        for item in rng.below("item")
        if item.attributes.get("VALUE")
    ]
    codes = tuple((code.strip(), label) for code, label, _ in values if code.strip() and code not in absent)
    ranges = [each for rng in var.below("valrng") for each in rng.below("range")]
    only = ranges[0].attributes if len(ranges) == 1 else {}
    stated = next((each.attributes.get("type", "") for each in var.below("varFormat")), "")
    # Archives write the smallest and largest value of the rows into valrng, for categories as well.
    low, high = (only.get("min"), only.get("max")) if not codes else (None, None)
    logical = None if codes else _logical_type(stated, var, low, high)
    hint = "valrng is often the smallest and largest value of the rows; if it is, declare other bounds."
    return CodebookEntry(
        var.attributes["name"],
        f"{shown(path)}:{var.line}",
        logical,
        var.first("labl") or var.first("txt"),
        codes,
        low,
        high,
        tuple(code.strip() for code in absent),
        hints=(hint,) if low is not None and high is not None else (),
    )


def _logical_type(stated: str, var: XmlElement, low: str | None, high: str | None) -> LogicalType | None:
    """Texts, or numbers with decimals; None for whole numbers, which may be codes."""
    if stated == "character":
        return "string"
    decimals = var.attributes.get("dcml")
    points = decimals not in ("0", None) or (decimals is None and any("." in (end or "") for end in (low, high)))
    return "number" if stated == "numeric" and points else None


READER: Final = CodebookReader(
    read_ddi,
    "DDI Codebook: codeBook/dataDscr/var",
    "export the study as DDI Codebook 2.5; DDI Lifecycle (version 3) is not read",
)
