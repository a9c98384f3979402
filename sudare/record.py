"""The audit record of a version, as a mapping; in a notebook its first facts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from contracts.errors import Finding, SourceUnreadable
from sudare import html
from tasks.records.record import RecordExplanation, published_explanation

STATEMENT, PAGE = "record.json", "record.html"


class Record(Mapping[str, Any]):
    """What a version states of itself: `record.json` as a mapping.

    Args:
        folder: the version's folder.
    Raises:
        SourceUnreadable: the folder has no record that can be read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._record: dict[str, Any] = json.loads((folder / STATEMENT).read_bytes())
        except (OSError, ValueError):
            found, allowed = f"no {STATEMENT} that can be read", "a version as it was published"
            raise SourceUnreadable([Finding(str(folder), "record", found, allowed)]) from None

    @property
    def page(self) -> Path:
        """The record for people, a page that stands alone."""
        return self._folder / PAGE

    @property
    def unprotected(self) -> tuple[str, ...]:
        """What was published, or decided, without noise; empty for none."""
        found = self._explanation().values["unprotected.quantities"]
        return tuple(map(str, found)) if isinstance(found, list | tuple) else ()

    def _explanation(self) -> RecordExplanation:
        return published_explanation(lambda name: (self._folder / name).read_bytes())

    def __getitem__(self, key: str) -> Any:
        return self._record[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._record)

    def __len__(self) -> int:
        return len(self._record)

    def _facts(self) -> list[tuple[str, str]]:
        replay = self._record["replay"]
        charge = replay["charge"]
        return [
            ("promise", f"ε = {charge['epsilon']} at δ = {charge['delta']}, neighbours by {replay['adjacency']}"),
            ("account", str(charge["account"])),
            ("product", str(replay["product"]["kind"])),
            ("not protected", "; ".join(self.unprotected) or "nothing is published without noise"),
            ("page", str(self.page)),
        ]

    def __repr__(self) -> str:
        """Say its first facts in lines."""
        return "\n".join(f"{name}: {words}" for name, words in [("record of", self._title), *self._facts()])

    @property
    def _title(self) -> str:
        return f"{self._record['release']} v{self._record['version']}"

    def _repr_html_(self) -> str:
        facts = [(name, html.lines(words.split("; "))) for name, words in self._facts()]
        return html.facts(f"record of {self._title}", facts)
