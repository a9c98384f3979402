"""The offline check of a version: it holds under the publisher's key, or it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from console.output import VerificationFailed
from contracts.errors import Finding, SpecRefused
from sudare import html
from sudare.words import call
from tasks.verification.outcomes import NOT_COMPARED, PAGES_NOT_COMPARED

if TYPE_CHECKING:
    from tasks.verification.outcomes import VerificationReport


class Verification:
    """A check that a version has passed: each rule, and what no check can tell."""

    def __init__(self, report: VerificationReport) -> None:
        self._report = report

    @property
    def rules(self) -> Mapping[int, str]:
        """What was checked and holds, by the number of the rule."""
        return MappingProxyType({check.rule: check.name for check in self._report.checks})

    @property
    def key_id(self) -> str:
        """Short public name of the key."""
        return self._report.key_id

    @property
    def cannot_tell(self) -> tuple[str, ...]:
        """What no check of a folder can establish."""
        return self._report.cannot_tell

    def to_json(self) -> dict[str, Any]:
        """Return the report as `sudare verify --json` has it."""
        return self._report.to_json()

    def _title(self) -> str:
        unread = f"; {PAGES_NOT_COMPARED}" if NOT_COMPARED in self.cannot_tell else ""
        return f"{self._report.release} v{self._report.version} holds under key {self.key_id}{unread}"

    def __repr__(self) -> str:
        """Say what holds, and what nobody can tell."""
        return "\n".join([self._title(), *(f"cannot tell: {line}" for line in self.cannot_tell)])

    def _repr_html_(self) -> str:
        rows = [("✓", str(number), name) for number, name in self.rules.items()]
        notes = "".join(html.note(line) for line in (*self._report.notes, "No check can tell:", *self.cannot_tell))
        return html.facts(self._title(), []) + html.table(("", "rule", "holds"), rows) + notes


def verify(path: str | Path, key: str | Path, *, deep: bool = False) -> Verification:
    """Check a published version offline, by the rules of `sudare verify`.

    Args:
        path: the version's folder.
        key: the publisher's public key, a file; a key inside the version's folder is never trusted.
        deep: whether the model of synthetic rows or of a classifier is fitted again, as long as that takes.
    Returns:
        Verification: every rule was checked and holds.
    Raises:
        VerificationFailed: something does not hold, or could not be checked; with every finding.
        SpecRefused: there is no version, or no public key.
    Privacy: reads published files only.
    """

    def checked() -> Verification:
        from console.verify import failures
        from tasks import verify as verification
        from tasks.verification.keys import read_public_key

        if not isinstance(key, str | Path) or not isinstance(path, str | Path):
            found = f"{key!r} for the key" if isinstance(path, str | Path) else f"{path!r} for the folder"
            remedy = f'write sudare.verify({str(path)!r}, "publisher.pub"), with the key that the publisher gave you'
            raise SpecRefused([Finding("sudare.verify", "arguments", found, "two paths", remedy)])
        report = verification.verify(Path(path), public_key=read_public_key(Path(key)), deep=deep, auditor=None)
        if not report.ok:
            raise VerificationFailed(failures(report))
        return Verification(report)

    return call(checked)
