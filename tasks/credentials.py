"""Credentials of addresses by name: from the environment, else from a Prefect block; never from a spec, never shown.

    SUDARE_CREDENTIALS_WAREHOUSE='{"user": "reader", "password": "..."}'        for `credentials: warehouse`

or a Prefect `Secret` block named `warehouse` that holds the same object, where a Prefect server is configured. Beside
`tasks.settings` this is the only module that reads the environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from contracts.errors import Finding, SourceUnreadable


def credentials_of(name: str | None, keys: Sequence[str], where: str) -> dict[str, str]:
    """Return the credentials that a name stands for; empty without a name.

    Args:
        name: as the spec writes it behind `credentials:`.
        keys: what they may consist of.
        where: the address, for messages.
    Raises:
        SourceUnreadable: there are none of that name, or they are something else than texts under these keys.
    """
    if name is None:
        return {}
    told = _told(name)
    held: Any = _parsed(told) if told is not None else _of_a_block(name)
    allowed = f"a JSON object with {', '.join(keys)} in {_variable_of(name)}, or in a Prefect Secret block {name!r}"
    if held is None:
        _refuse(where, f"no credentials named {name!r}", allowed)
    if (
        not isinstance(held, dict)
        or not all(isinstance(value, str) for value in held.values())
        or set(held) - {*keys}
    ):
        _refuse(where, f"credentials {name!r} of another form", allowed)
    return {str(key): str(value) for key, value in held.items()}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return ()


def _of_a_block(name: str) -> Any:
    """Read a Prefect block; None where there is no server to ask, or no such block."""
    if not _prefect_is_configured():
        return None
    from prefect.blocks.system import Secret

    load: Any = Secret.load
    try:
        held = load(name, _sync=True).get()
    except ValueError:
        return None
    return _parsed(held) if isinstance(held, str) else held


def _refuse(where: str, found: str, allowed: str) -> None:
    finding = Finding(where, "source.credentials", found, allowed, "set them where the run starts, then run again")
    raise SourceUnreadable([finding])


def _variable_of(credentials: str) -> str:
    """Return the environment variable that holds credentials of a name."""
    return "SUDARE_CREDENTIALS_" + credentials.upper().replace("-", "_")


def _told(name: str) -> str | None:
    """Return the credentials of a name as the environment holds them, or None."""
    return os.environ.get(_variable_of(name))


def _prefect_is_configured() -> bool:
    """Say whether the environment names a Prefect server whose blocks can be asked for."""
    return bool(os.environ.get("PREFECT_API_URL"))


def variable_of(name: str) -> str | None:
    """Return what a variable of the environment holds, or None."""
    return os.environ.get(name)
