"""Fields that only people can know, as `about:` of a spec or `[publisher]` of a workspace declares them."""

from __future__ import annotations

from functools import partial
from typing import Any

from contracts.message import message
from contracts.release.terms import About, Publisher
from tasks.records.groups.field import Field, Run


def declares(entry: str, means: str) -> Field:
    """Make a public field that the publisher declares, of the same name, and what it says."""
    if entry not in About.model_fields:
        raise ValueError(f"no declaration {entry!r}")
    absent = message("not declared: only people know it; write `about: {{{entry}: ...}}` in the spec", entry=entry)
    if entry in Publisher.model_fields:
        absent = message(
            "not declared: only people know it; write `about: {{{entry}: ...}}` in the spec, or for all releases in "
            "`[publisher]` of sudare.toml",
            entry=entry,
        )
    return Field(entry, message(means), "public", partial(_declared, entry), absent, declared=True)


def _declared(entry: str, run: Run) -> Any:
    """Return a declaration as JSON values; None where there is none."""
    return run.facts.about.model_dump(mode="json", exclude_none=True).get(entry) or None
