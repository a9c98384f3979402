"""Every field of a proof's entries has a counterpart, or the report lists it as the publisher's word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.verify import verify
from tests.tasks.verification.forgery import Json, forge, load, of_kind, told
from tests.tasks.verification.test_fields import Path_, at, changed, leaves
from tests.worlds.tables import first
from tests.worlds.versions import Worlds

pytestmark = pytest.mark.long

WORD = {
    "journal.at",
    "journal.account_opened.delta",
    "journal.account_opened.spent",
    *(f"journal.{kind}.salt" for kind in ("account_opened", "charge_reserved", "grant_opened", "noise_drawn")),
    "journal.charge_reserved.parts.returnable",
    "journal.charge_reserved.snapshot_hash",
    "journal.grant_opened.draws_folder",
}
"""Hours and salts; the δ of a pure account; what it took over; what could be given back; a keyed hash; a name."""
OTHERWISE = {("version_published", "manifest"), ("version_published", "earlier")}
"""Fields that `forge` sets itself; other tests are about them."""


def otherwise(value: Any) -> Any:
    """Another value of the same form, further away than amounts are rounded."""
    return 2 * value + 1 if type(value) is int else changed(value)


def test_each_field_of_an_entry_that_is_changed_is_found_or_is_the_publishers_word(
    worlds: Worlds, tmp_path: Path
) -> None:
    """One by one, chained and signed again by the publisher; the first entry of a kind stands for the others."""
    version = worlds.published(first(), here=True).copy(tmp_path / "v")
    with_others = forge(version.copy(tmp_path / "w"), record=lambda r: told(r, "software.code", "f" * 64))
    report = verify(with_others.folder, public_key=version.key)
    assert report.ok, report.findings
    assert {name for name in report.word if name.startswith("journal.")} == WORD
    entries = [proven["entry"] for proven in load(with_others.folder / "PROOF.json")["entries"]]
    bodies = {entry["kind"]: entry["body"] for entry in reversed(entries)}
    unnoticed = set()
    for path in leaves(bodies):
        if path[:2] in OTHERWISE:
            continue

        def edit(entries: list[Json], path: Path_ = path) -> None:
            body = of_kind(entries, str(path[0]))
            body.update(at(body, path[1:], otherwise))

        forged = forge(with_others.copy(tmp_path / "-".join(map(str, path))), journal=edit)
        if verify(forged.folder, public_key=version.key).ok:
            unnoticed.add(".".join(("journal", *(step for step in path if isinstance(step, str)))))
    assert unnoticed == WORD - {"journal.at", "journal.charge_reserved.parts.returnable"}  # nothing was taken before
