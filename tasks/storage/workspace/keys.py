"""The keys of a workspace: files that only their owner may read, made once."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contracts.errors import Finding, Refused
from contracts.plug_ins import PlugInAway, absent_extension, find, names

if TYPE_CHECKING:
    from privacy.ledger.journal.signing import SecretKey


class WorkspaceRefused(Refused):
    """There is no workspace where one is needed, one where none may be, or its settings cannot be followed."""


def refusal(where: str, field: str, found: str, allowed: str, remedy: str = "") -> WorkspaceRefused:
    """Return the error with one finding."""
    return WorkspaceRefused([Finding(where, field, found, allowed, remedy)])


def create_keys(folder: Path, *, seed: bytes | None, name: str | None) -> None:
    """Make what is missing; a key that is there (an `init` that was interrupted) stays.

    Args:
        folder: of the keys.
        seed: the signing key's seed, where the environment gives it; then none is written.
        name: of the signing key and its journal; one is made of the key where it is None.
    Raises:
        WorkspaceRefused: no key can have this name.
    """
    for file in ("signing.key", "snapshot.key") if seed is None else ("snapshot.key",):
        if not (folder / file).exists():
            write_secret(folder / file, secrets.token_bytes(32))
    public = public_half(seed or read_key(folder / "signing.key"), name)
    (folder / "signing.pub").write_text(public + "\n", encoding="utf-8")


def create_signing_key(file: Path, name: str | None) -> str:
    """Make a signing key in a file of its own, with its public half in FILE.pub; return the public half.

    Raises:
        WorkspaceRefused: one of the two files is there already, or no key can have this name.
    """
    public = file.with_name(f"{file.name}.pub")
    for each in (file, public):
        if each.exists():
            raise refusal(str(each), "FILE", "a file that is there", "a name that is free", "name another file")
    seed = secrets.token_bytes(32)
    half = public_half(seed, name)
    write_secret(file, seed)
    public.write_text(half + "\n", encoding="utf-8")
    return half


def public_half(seed: bytes, name: str | None) -> str:
    """Return the public half of a signing key under a name: NAME+HASH+BASE64.

    Raises:
        WorkspaceRefused: no key can have this name.
    """
    from privacy.ledger.journal.notes import MalformedNote
    from privacy.ledger.journal.signing import Signer

    try:
        return Signer(seed, name).public_key
    except MalformedNote as error:
        allowed = "such as statistics.example/journal: no spaces, no plus"
        raise refusal("the command", "--name", str(error), allowed, "give another name") from None


def write_secret(path: Path, secret: bytes) -> None:
    """Write a file that only its owner may read; it appears whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def key_from_hex(text: str) -> bytes:
    """Read a signing key's seed as the environment writes it."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        allowed = "64 hex digits: the 32-byte seed of an Ed25519 key"
        raise refusal("the environment", "SUDARE_SIGNING_KEY", "something else", allowed)
    return key


def read_key(path: Path) -> bytes:
    """Read the 32 secret bytes of a key file."""
    try:
        key = path.read_bytes()
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise refusal(str(path), "key", found, "the key that `sudare init` made", "restore it") from error
    if len(key) != 32:
        raise refusal(str(path), "key", f"{len(key)} bytes", "the 32 bytes that `sudare init` made", "restore it")
    return key


# --- Where the signing key lies.


SECRET: Final = "SUDARE_SIGNING_SECRET"
"""The environment variable with the passphrase or PIN, where `secret_env` names no other."""
FILE_KEY: Final = "file"


@dataclass(frozen=True)
class KeyPlace:
    """Where a signing key lies.

    Args:
        kind: one of `KINDS`.
        values: what the kind needs to find it: `file`, `library`, `token`, `key`, `uri`.
        keys: the workspace's private folder of keys; a relative `file` is meant from there.
        settings: sudare.toml, which errors name.
        environment: the process's variables.
        secret_env: the one of them with the passphrase or PIN.
    """

    kind: str
    values: Mapping[str, str]
    keys: Path
    settings: Path
    environment: Mapping[str, str] = field(repr=False)
    secret_env: str = SECRET

    def value(self, name: str) -> str:
        """Return what sudare.toml says.

        Raises:
            WorkspaceRefused: it says nothing.
        """
        told = self.values.get(name, "")
        if not told:
            what = f'signer.{name}, which a key of kind "{self.kind}" needs'
            raise refusal(str(self.settings), f"signer.{name}", "nothing", what, f'write [signer] {name} = "..."')
        return told

    @property
    def has_secret(self) -> bool:
        """Whether the environment has the passphrase or PIN, or the kind needs none."""
        return not kind_of(self).secret or bool(self.environment.get(self.secret_env))

    @property
    def identity(self) -> tuple[str, ...]:
        """What makes it another place than others of this process."""
        return self.kind, str(self.keys), *(f"{name}={value}" for name, value in sorted(self.values.items()))


@dataclass(frozen=True)
class KeyKind:
    """A kind of place; packages register theirs as `sudare.key_places`.

    Args:
        open_key: opens the key, with the secret where the kind needs one; refuses where it is not there, or the
            secret is wrong.
        create_key: makes a new key where there is none; refuses where there is one already, or none can be made.
        secret: what a person is asked for, such as "PIN of the token"; empty where the kind needs no secret.
    """

    open_key: Callable[[KeyPlace, str | None], SecretKey]
    create_key: Callable[[KeyPlace, str | None], SecretKey]
    secret: str = ""


GROUP: Final = "sudare.key_places"
KINDS: Final[Mapping[str, str]] = {
    FILE_KEY: "tasks.storage.workspace.key_file:KIND",
    "encrypted_file": "tasks.storage.workspace.encrypted_key:KIND",
}
"""The kinds of the core; each is loaded when a key of the kind is opened."""

_open: dict[tuple[str, ...], SecretKey] = {}


def kind_of(place: KeyPlace) -> KeyKind:
    """Return the kind of a place; its module is loaded.

    Raises:
        WorkspaceRefused: no such kind is installed.
    """
    registered = find(GROUP, KINDS, place.kind)
    if registered is None:
        raise _unknown_kind(place.settings, "signer", place.kind)
    try:
        found: KeyKind = registered.load(KeyKind)
    except PlugInAway as error:
        raise refusal(str(place.settings), "signer.kind", error.found, error.allowed, error.remedy) from None
    return found


def opened(place: KeyPlace) -> SecretKey | None:
    """Return the key of a place that is open in this process already."""
    return _open.get(place.identity)


def open_key(place: KeyPlace, ask: Callable[[str], str] | None = None) -> SecretKey:
    """Open the key of a place, once a process.

    Args:
        place: where it lies.
        ask: asks a person for the secret; without it the environment alone is looked at.
    Raises:
        WorkspaceRefused: the key is not there, or the secret is wrong or missing.
    """
    if (known := opened(place)) is None:
        kind = kind_of(place)
        known = kind.open_key(place, secret_for(place, ask) if kind.secret else None)
        _open[place.identity] = known
    return known


def close_key(place: KeyPlace) -> None:
    """Forget the open key of a place: it was changed there."""
    _open.pop(place.identity, None)


def secret_for(place: KeyPlace, ask: Callable[[str], str] | None) -> str:
    """Return the passphrase or PIN: of the environment, else what a person types.

    Raises:
        WorkspaceRefused: there is neither.
    """
    told = place.environment.get(place.secret_env, "")
    if not told and ask is not None:
        told = ask(kind_of(place).secret)
    if not told:
        allowed = "the passphrase or PIN that opens the signing key"
        remedy = f"type it at the terminal, or set {place.secret_env} for this command; then give the command again"
        raise refusal("the environment", place.secret_env, "nothing", allowed, remedy)
    return told


def key_place(
    keys: Path, settings: Path, values: Mapping[str, str], environment: Mapping[str, str], table: str = "signer"
) -> KeyPlace:
    """Read where the signing key lies.

    Args:
        keys: the workspace's folder of keys.
        settings: sudare.toml.
        values: its settings by table and key.
        environment: the process's variables.
        table: `signer`, or `next_signer` for the one that `sudare keys rotate` changes to.
    Raises:
        WorkspaceRefused: an unknown kind.
    """
    told = {name.partition(".")[2]: value for name, value in values.items() if name.partition(".")[0] == table}
    kind = told.pop("kind", "") or FILE_KEY
    if kind not in KINDS and find(GROUP, KINDS, kind) is None:
        raise _unknown_kind(settings, table, kind)
    secret_env = told.pop("secret_env", "") or SECRET
    return KeyPlace(
        kind, {name: value for name, value in told.items() if value}, keys, settings, environment, secret_env
    )


def _unknown_kind(settings: Path, table: str, kind: str) -> WorkspaceRefused:
    extension = absent_extension(GROUP, kind)
    if extension is not None:
        found = f"{kind}, which needs the extension {extension}: it is not installed"
        return refusal(str(settings), f"{table}.kind", found, ", ".join(KINDS), f"install Sudare with {extension}")
    return refusal(str(settings), f"{table}.kind", repr(kind[:60]), ", ".join((*KINDS, *names(GROUP))), "correct it")


# --- The table `[signer]` in sudare.toml, as commands change it.


_HEADER: Final = re.compile(r"^\s*\[([A-Za-z0-9_.-]+)\]")


def replace_signer(file: Path, values: Mapping[str, str]) -> None:
    """Write another table `[signer]`, and take `[next_signer]` away; the file appears whole or stays as it is.

    Args:
        file: sudare.toml.
        values: the keys of the new table; without values there is none.
    """
    lines, kept, within = file.read_text(encoding="utf-8").splitlines(keepends=True), [], ""
    for line in lines:
        header = _HEADER.match(line)
        within = header[1] if header else within
        if within not in {"signer", "next_signer"}:
            kept.append(line)
    text = "".join(kept).rstrip("\n") + "\n"
    if values:
        text += "\n[signer]\n" + "".join(f"{key} = {_quoted(value)}\n" for key, value in values.items())
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)


def _quoted(value: str) -> str:
    """Write a text as TOML does."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
