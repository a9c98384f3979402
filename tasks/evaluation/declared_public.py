"""Scores against rows that the publisher declared public: who said so and why, and the files that state it.

Such scores are functions of published rows and of public rows, so they are nobody's secret and cost nothing. That the
rows are public is a person's word. One lie is found: rows that are those of the version's own source.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from contracts.errors import Finding, Refused, SpecRefused
from privacy.evaluation.scores import Scores
from privacy.private_table import PrivateTable, snapshot_mark
from tasks.evaluation.page import holdout_page
from tasks.evaluation.private_files import ScoreFiles, folder_name
from tasks.settings import Workspace

PUBLIC: Final = "computed from published rows and from rows that the publisher declared public; it cost no budget"
MOST_WORDS: Final = 500
_LEAST_LETTERS: Final = 10


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
    def of(cls, path: Path, *, because: str) -> DeclaredPublic:
        """Declare a file public.

        Raises:
            SpecRefused: it is no file that can be read.
        """
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise SpecRefused(
                [Finding("the command", "--holdout", reason, "a file of rows that are public")]
            ) from None
        return cls(path.name, found, because)


def check_reason(because: str | None) -> str:
    """Return why rows are public; refuse a declaration without a reason.

    Raises:
        SpecRefused: there is no reason, or one that is too short or too long.
    """
    told = " ".join((because or "").split())
    if _LEAST_LETTERS <= len(told) <= MOST_WORDS and told.isprintable():
        return told
    allowed = f"why these rows are public, in {_LEAST_LETTERS} to {MOST_WORDS} characters"
    found = "no reason" if not told else f"a reason of {len(told)} characters"
    remedy = "rows held back from the confidential table are as confidential as the rest: for those, use --against"
    raise SpecRefused([Finding("the command", "--public-because", found, allowed, remedy)])


def refuse_own_rows(table: PrivateTable, *, mark: str | None, spec_digest: str) -> None:
    """Refuse rows that are the confidential ones of the version.

    Args:
        table: the snapshot of the rows that are said to be public.
        mark: the version's mark of its snapshot, from its record.
        spec_digest: of the version's spec.
    Raises:
        Refused: the rows are the same, in encoded form.
    """
    if mark is not None and snapshot_mark(table.keyed_hash, spec_digest) == mark:
        found, allowed = "the rows that this version was made of", "rows that anybody may see, of other people"
        remedy = "scores against the version's own source are private: use --against"
        raise Refused([Finding("the holdout", "rows", found, allowed, remedy)])


def write_public_scores(
    scores: Scores,
    declared: DeclaredPublic,
    workspace: Workspace,
    *,
    release: str,
    version: int,
    record_sha256: str,
    at: datetime,
) -> ScoreFiles:
    """Write scores that anybody may see, in a new folder below the workspace's `evaluations`.

    Args:
        scores: what was found.
        declared: who the rows are.
        workspace: takes the folder.
        release, version, record_sha256: the version, and the digest of its record.
        at: when, in UTC.
    Raises:
        Refused: the folder cannot be written.
    """
    folder = workspace.root / "evaluations" / folder_name(release, version, at)
    content: dict[str, Any] = {
        "class": "public",
        "why": PUBLIC,
        "declared": asdict(declared),
        "release": release,
        "version": version,
        "record_sha256": record_sha256,
        **scores.to_json(),
    }
    page = holdout_page(scores, release=release, version=version, because=declared.because, file=declared.file)
    files = ScoreFiles(folder / "scores.json", folder / "scores.html")
    try:
        folder.mkdir(parents=True)
        files.numbers.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        files.page.write_text(page, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Refused([Finding(str(folder), "folder", reason, "a new folder that can be written")]) from None
    return files
