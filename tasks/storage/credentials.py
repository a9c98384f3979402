"""Credentials of addresses by name: from the environment, else from a Prefect block; never from a spec, never shown.

    SUDARE_CREDENTIALS_WAREHOUSE='{"user": "reader", "password": "..."}'        for `credentials: warehouse`

or a Prefect `Secret` block named `warehouse` whose value is the same text, where a Prefect server is configured. It
must be text: of a value that is an object Prefect 3.8 hides nothing when blocks are listed. Beside
`tasks.storage.workspace.settings` this is the only module that reads the environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from contracts.errors import Finding, SourceUnreadable, SudareError


class CredentialsAway(SudareError):
    """The Prefect server that may have the named credentials does not answer; asking again later may help."""


def credentials_of(
    name: str | None, keys: Sequence[str], where: str, *, field: str = "source.path"
) -> dict[str, str]:
    """Return the credentials that a name stands for; empty without a name.

    Args:
        name: as the spec writes it behind `credentials:`.
        keys: what they may consist of.
        where: the address, for messages.
        field: which field holds the address ("publish.to"), for messages.
    Raises:
        SourceUnreadable: there are none of that name, or they are something else than texts under these keys; or the
            Prefect server does not let us ask, or shows what the block holds.
        CredentialsAway: the Prefect server does not answer.
    """
    if name is None:
        return {}
    told = _from_environment(name)
    place = f"{field.rpartition('.')[0]}.credentials".lstrip(".")
    held: Any = _parsed(told) if told is not None else _of_a_block(name, where, place)
    allowed = f"a JSON object with {', '.join(keys)} in {_variable_of(name)}, or in a Prefect Secret block {name!r}"
    if held is None:
        _refuse(where, place, f"no credentials named {name!r}", allowed)
    if (
        not isinstance(held, dict)
        or not all(isinstance(value, str) for value in held.values())
        or set(held) - {*keys}
    ):
        _refuse(where, place, f"credentials {name!r} of another form", allowed)
    return {str(key): str(value) for key, value in held.items()}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return ()


def _of_a_block(name: str, where: str, place: str) -> Any:
    """Read a Prefect block; None where there is no server to ask, or no such block. What Prefect says stays here."""
    if not _prefect_is_configured():
        return None
    import httpx
    from prefect.blocks.system import Secret
    from prefect.exceptions import PrefectHTTPStatusError

    load: Any = Secret.load
    try:
        held = load(name, _sync=True).value.get_secret_value()  # `get` would parse a text
    except ValueError:
        return None
    except PrefectHTTPStatusError as error:
        status = error.response.status_code
    except httpx.HTTPError:
        status = 0
    else:
        if isinstance(held, str):
            return _parsed(held)
        found, allowed = f"a Secret block {name!r} that holds an object", "one whose value is the JSON as text"
        _refuse(where, place, found, allowed, "make it anew: Prefect shows objects to whoever may list its blocks")
    if status in (401, 403):
        found, allowed = f"a Prefect server that refuses to look for the block {name!r}", "a server that lets us in"
        _refuse(where, place, found, allowed, "set PREFECT_API_AUTH_STRING or PREFECT_API_KEY, then run again")
    raise CredentialsAway(f"{where}: no Prefect server answered that could have the block {name!r}: run again later")


def _refuse(
    where: str, place: str, found: str, allowed: str, remedy: str = "set them where the run starts, then run again"
) -> NoReturn:
    raise SourceUnreadable([Finding(where, place, found, allowed, remedy)])


def _variable_of(credentials: str) -> str:
    """Return the environment variable that holds credentials of a name."""
    return "SUDARE_CREDENTIALS_" + credentials.upper().replace("-", "_")


def _from_environment(name: str) -> str | None:
    """Return the credentials of a name as the environment holds them, or None."""
    return os.environ.get(_variable_of(name))


def _prefect_is_configured() -> bool:
    """Say whether the environment names a Prefect server whose blocks can be asked for."""
    return bool(os.environ.get("PREFECT_API_URL"))


def variable_of(name: str) -> str | None:
    """Return what a variable of the environment holds, or None."""
    return os.environ.get(name)
