"""Which version of a release is the newest, and until when this may be believed: a signed note that is made again.

    sudare-latest/1
    RELEASE
    VERSION          0 where all were withdrawn
    MANIFEST         SHA-256 of its MANIFEST.json, 64 hex digits; 64 zeros for version 0
    SIZE             what the journal held [entries]
    MADE             the hour
    UNTIL            the hour after which nobody should believe it

What TUF calls the timestamp role. Its other roles are here already: targets is the manifest of a version, signed;
snapshot is the checkpoint of the journal, which only grows; root is the pinned key with its changes and the recovery
key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from privacy.ledger.entries import is_to_the_hour
from privacy.ledger.journal.signed_note import MalformedNote, SignedNote, read_note

LATEST_FORM: Final = "sudare-latest/1"
NONE_LEFT: Final = "0" * 64
_LINES: Final = 7
_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,15}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class LatestStatement:
    """What the publisher says of a release's newest version.

    Args:
        release: its name.
        version: the newest version that was not withdrawn; 0 for none.
        manifest: SHA-256 (hex) of its MANIFEST.json.
        size: what the newest signed checkpoint held when it was said [entries].
        made: the hour when it was said.
        until: the hour after which it is too old.
    """

    release: str
    version: int
    manifest: str
    size: int
    made: str
    until: str

    @property
    def text(self) -> str:
        """The note's text."""
        lines = (LATEST_FORM, self.release, self.version, self.manifest, self.size, self.made, self.until)
        return "".join(f"{line}\n" for line in lines)


def read_latest(content: bytes) -> tuple[SignedNote, LatestStatement]:
    """Read the note, whoever signed it.

    Raises:
        MalformedNote: names the line and the rule that it breaks.
    """
    note = read_note(content)
    lines = note.text[:-1].split("\n")
    if len(lines) != _LINES or lines[0] != LATEST_FORM:
        raise MalformedNote(f"newest version: {_LINES} lines are needed, the first {LATEST_FORM}")
    _, release, version, manifest, size, made, until = lines
    if not release or not _WHOLE.fullmatch(version) or not _WHOLE.fullmatch(size):
        raise MalformedNote("newest version, lines 2, 3 and 5: a name and whole numbers are needed")
    if not _DIGEST.fullmatch(manifest):
        raise MalformedNote("newest version, line 4: 64 hex digits are needed")
    if not (is_to_the_hour(made) and is_to_the_hour(until) and made < until):
        raise MalformedNote("newest version, lines 6 and 7: two hours are needed, the later one last")
    return note, LatestStatement(release, int(version), manifest, int(size), made, until)


def hour_of(moment: datetime) -> str:
    """Return the hour of a moment, as notes write it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:00:00Z")
