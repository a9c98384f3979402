"""Scores on rows that the publisher declared public: the declaration, what is asked of it, and the files with it.

Such scores are functions of published rows and of public rows, so they are nobody's secret and cost nothing. Both
halves are asked about: the version must be one that this workspace's ledger published, with the bytes it published,
and the holdout must not be a source that the ledger knows, nor have the rows that the version was made of. That the
rows are public beyond that is a person's word, which stands beside the scores.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from contracts.errors import Finding, Refused, SpecRefused
from contracts.periods.time_blocks import division_of
from privacy.evaluation.rows import PrivateScores, Scores
from privacy.ledger.terms import VersionEntry
from privacy.private_table import PrivateTable, snapshot_mark
from tasks.evaluation.score_files import Evaluated, ScoreFiles
from tasks.evaluation.score_pages import holdout_page
from tasks.storage.workspace.settings import Workspace
from tasks.verification.files.folder import read_manifest

FOLDER: Final = "public-scores"
"""In the workspace's root."""
PUBLIC: Final = "computed from published rows and from rows that the publisher declared public; it cost no budget"
_OF_THIS_MACHINE: Final = re.compile("^[a-z0-9+.-]+://(?=/)")
_LEAST_LETTERS: Final = 10
_MOST_LETTERS: Final = 500
_PUBLISHED: Final = ("published", "superseded", "withdrawn")
_AS_PUBLISHED: Final = "a version that this workspace published, unchanged"


@dataclass(frozen=True)
class DeclaredPublic:
    """The publisher's word that rows are public.

    Args:
        file: name of the file with the rows; of its path nothing is told.
        sha256: of the file (hex).
        because: why they are public, in the publisher's words.
    """

    file: str
    sha256: str
    because: str

    @classmethod
    def of(cls, path: Path, *, because: str | None, option: str = "--holdout") -> DeclaredPublic:
        """Declare a file public that was named by an option.

        Raises:
            SpecRefused: it is no file that can be read, or there is no reason.
        """
        reason = _reason(because)
        return cls(path.name, _digest_of(path, option=option), reason)

    def check_unchanged(self, path: Path) -> None:
        """Refuse a file that was written to since it was declared.

        Raises:
            SpecRefused: it was, or it is gone.
        """
        if _digest_of(path) != self.sha256:
            found = "a file that changed while it was read"
            raise SpecRefused(
                [Finding("the command", "--holdout", found, "a file that nobody writes to", "run it again")]
            )


@dataclass(frozen=True)
class PublicScores:
    """Scores on public rows. The one way to them is here, beside what was asked.

    Args:
        scores: the numbers.
        declared: whose rows they are against.
        release, version: what was evaluated.
        digests: SHA-256 of the version's files that were read, by name.
    """

    scores: Scores
    declared: DeclaredPublic
    release: str
    version: int
    digests: dict[str, str]

    @classmethod
    def of(
        cls, found: PrivateScores, declared: DeclaredPublic, *, entry: VersionEntry, digests: dict[str, str]
    ) -> PublicScores:
        """Take scores out of the private type: the rows on both sides were asked about, and are public."""
        return cls(found.scores, declared, entry.release, entry.number, digests)


def published_files(
    path: Path, versions: Sequence[VersionEntry], *, number: int, names: Iterable[str]
) -> tuple[VersionEntry, dict[str, str]]:
    """Return which version a folder is, and the digests of files that are as they were published.

    Args:
        path: the version's folder.
        versions: what the workspace's ledger knows of the release.
        number: of the version.
        names: the files that are read.
    Raises:
        Refused: the ledger did not publish such a version, or a file is not the published one.
    """
    manifest, digest = read_manifest(path)
    known = [each for each in versions if each.number == number and each.status in _PUBLISHED]
    if manifest is None or not known or known[0].manifest != digest:
        found = "a version that this workspace's ledger does not have" if not known else "another manifest"
        remedy = "name the workspace that published it (--workspace); its ledger says what was published"
        raise Refused([Finding(str(path), "version", found, _AS_PUBLISHED, remedy)])
    digests = {name: _digest_of(path / name, option=name) for name in names}
    for name, found in digests.items():
        stated = manifest.files.get(name)
        if stated is None or stated.sha256 != found:
            allowed = "the file that was published"
            raise Refused([Finding(str(path), name, "a changed file", allowed, "sudare verify says what changed")])
    return known[0], digests


def refuse_confidential(
    holdout: str,
    sources: Iterable[str],
    *,
    what: str = "the holdout",
    remedy: str = "compare with it privately: --against",
) -> None:
    """Refuse a holdout that is a source of an account, lies in one, or is a copy of one byte for byte.

    Args:
        holdout: its canonical name.
        sources: the sources that the ledger has bound to people, as it names them.
        what: what the file is, for the refusal.
        remedy: what to do instead.
    Raises:
        Refused: it is one of them, lies in a folder that is one, or has the same bytes as a file that is one.
    """
    bound, allowed = list(sources), "rows that anybody may see"
    inside = any(_is_within(holdout, source) for source in bound)
    if inside or any(_same_bytes(Path(holdout), source) for source in bound):
        found = "a source" if inside else "a copy, byte for byte, of a source"
        found += " that the ledger has bound to people"
        raise Refused([Finding(what, "file", found, allowed, remedy)])


def refuse_own_rows(table: PrivateTable, *, mark: str | None, spec_digest: str, due: str | None) -> None:
    """Refuse rows that are the confidential ones of the version.

    Args:
        table: the snapshot of the rows that are said to be public.
        mark: the version's mark of its snapshot, from its record.
        spec_digest: of the version's spec.
        due: the date that the version was due on, where its record has one.
    Raises:
        Refused: the rows are the same, in encoded form, or the record has no mark to compare.
    """
    if mark is None or snapshot_mark(table.keyed_hash, spec_digest, due) == mark:
        found = "the rows that this version was made of" if mark else "a record without the mark of its snapshot"
        remedy = "scores against the version's own source are private: use --against"
        raise Refused([Finding("the holdout", "rows", found, "rows that anybody may see, of other people", remedy)])


def write_public_scores(scores: PublicScores, workspace: Workspace, *, at: datetime) -> ScoreFiles:
    """Write scores that anybody may see into a new folder below the workspace's `public-scores`.

    Args:
        scores: what was found.
        workspace: takes the folder.
        at: when, in UTC.
    Raises:
        Refused: the folder cannot be written.
    """
    folder = workspace.root / FOLDER / Evaluated.of(scores.release, scores.version, at).folder
    content: dict[str, Any] = {
        "class": "public",
        "why": PUBLIC,
        "declared": asdict(scores.declared),
        "release": scores.release,
        "version": scores.version,
        "sha256": scores.digests,
        **scores.scores.to_json(),
    }
    because, file = scores.declared.because, scores.declared.file
    page = holdout_page(scores.scores, release=scores.release, version=scores.version, because=because, file=file)
    files = ScoreFiles.below(folder)
    try:
        folder.mkdir(parents=True)
        files.numbers.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        files.page.write_text(page, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Refused([Finding(str(folder), "folder", reason, "a new folder that can be written")]) from None
    return files


def _is_within(holdout: str, source: str) -> bool:
    """Say whether a file is what a source names, a column of days and a table aside, or lies in that folder."""
    return any(Path(holdout).is_relative_to(name) for name in _paths_of(source))


def _same_bytes(holdout: Path, source: str) -> bool:
    """Say whether a file is a copy of a file that a source names, or has below it; nothing of either is kept."""
    if not holdout.is_file():
        return False
    size = holdout.stat().st_size
    named = (Path(name) for name in _paths_of(source))
    below = (each for path in named for each in (path.rglob("*") if path.is_dir() else (path,)))
    return any(
        each.is_file()
        and os.access(each, os.R_OK)
        and each.stat().st_size == size
        and filecmp.cmp(each, holdout, shallow=False)
        for each in below
    )


def _paths_of(source: str) -> set[str]:
    """Return what of a source's name may be a path: without a column of days, and without a table."""
    division = division_of(source)
    place = _OF_THIS_MACHINE.sub("", source if division is None else division[0])
    return {place, place.partition("::")[0], place.rpartition("::")[0]} - {""}


def _reason(because: str | None) -> str:
    """Return why rows are public; refuse a declaration without a reason."""
    told = " ".join((because or "").split())
    if _LEAST_LETTERS <= len(told) <= _MOST_LETTERS and told.isprintable():
        return told
    found = "no reason" if not told else f"a reason of {len(told)} characters"
    allowed = f"why these rows are public, in {_LEAST_LETTERS} to {_MOST_LETTERS} characters"
    remedy = "rows held back from the confidential table are as confidential as the rest: for those, use --against"
    raise SpecRefused([Finding("the command", "--public-because", found, allowed, remedy)])


def _digest_of(path: Path, *, option: str = "--holdout") -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        remedy = "name another file, or make this one readable"
        raise SpecRefused([Finding("the command", option, reason, "a file that can be read", remedy)]) from None
