"""A check that is tried: whatever a stranger's folder makes it raise is a finding, and its work is bounded."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from contracts.errors import Finding
from tasks.records.strict_json import printable
from tasks.verification.recompute.event_forms import TooMuchWork, bounded

logger = logging.getLogger(__name__)

_LEADS_NOWHERE: Final = "no honest version leads to this: do not use it, and tell Sudare's maintainers"
_TOO_MUCH: Final = "no release of ours comes near: do not believe what it claims, and use nothing from it"


def tried(check: Callable[[], object], where: str, *, most: int) -> Finding | None:
    """Run a check; whatever it raises comes out of what the folder holds, and is a finding about a file.

    Args:
        check: the check.
        where: the file that it reads.
        most: terms that it may add up.
    """
    try:
        with bounded(most):
            check()
    except TooMuchWork as error:
        allowed = f"what at most {most:,} terms compute"
        return Finding(where, "what its numbers ask for", str(error), allowed, _TOO_MUCH)
    except Exception as error:  # no list of what a stranger's file can raise is whole
        logger.debug("a check of %s raised", where, exc_info=True)
        found = printable(f"the check stopped at it, with {type(error).__name__}: {error}")
        return Finding(where, "what it leads to", found, "values that can be checked", _LEADS_NOWHERE)
    return None
