"""The key of a site: its node proves by it who it is to the link; made once, kept in the site's workspace.

    keys/site-*.key        secret, OpenSSH, of its owner alone
    the spec's `key:`      public, OpenSSH: ecdsa-sha2-nistp384 ...

A key is for one federation: what a node signs is the time, so that whoever runs one link could for a moment show
another link what it was shown.
"""

from __future__ import annotations

from pathlib import Path

from contracts.canonical import digest
from contracts.errors import Finding, SpecRefused
from contracts.release.federation_spec import FederationSpec, SiteFile
from tasks.storage.workspace.keys import write_secret
from tasks.storage.workspace.settings import Workspace


def key_file(workspace: Workspace, federation: str, site: str) -> Path:
    """Return where a site's key is kept."""
    return workspace.keys / f"site-{digest({'federation': federation, 'site': site})[:24]}.key"


def site_key(workspace: Workspace, federation: str, site: str) -> str:
    """Make a site's key, unless there is one, and return its public half."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path = key_file(workspace, federation, site)
    if not path.is_file():
        made = ec.generate_private_key(ec.SECP384R1())
        write_secret(path, made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    return public_half(path)


def public_half(path: Path) -> str:
    """Return the public half of a key file.

    Raises:
        SpecRefused: it is no such key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    try:
        key = load_ssh_private_key(path.read_bytes(), None)
    except (ValueError, UnsupportedAlgorithm):
        raise SpecRefused([Finding(str(path), "key", "no key of a site", "what `federation key` made")]) from None
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")


def key_of(mine: SiteFile, spec: FederationSpec, workspace: Workspace) -> Path | None:
    """Return the file of the key that the spec names for this site; None where sites have no keys.

    Raises:
        SpecRefused: this workspace has none, or another.
    """
    named = spec.site_keys.get(mine.site)
    if named is None:
        return None
    path = key_file(workspace, spec.federation, mine.site)
    found = "another key" if path.is_file() else "no key"
    if not path.is_file() or public_half(path) != named:
        allowed = f"the key that the federation spec names for {mine.site}"
        remedy = (
            "join from the workspace that made it; or make one, sudare federation key, and give all parties the spec"
        )
        raise SpecRefused([Finding(str(path), "key", found, allowed, remedy)])
    return path
