"""Follow a publisher's journal: python examples/monitor.py URL_OR_FOLDER KEY MEMORY_FILE.

Exit 1 on a rewritten past, a missing or changed entry, a fork, a rollback, or a status that leaves an entry out.
"""

import base64
import hashlib
import json
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

WHERE, KEY, MEMORY = sys.argv[1].rstrip("/"), sys.argv[2], Path(sys.argv[3])


def _get(name: str) -> bytes:
    return bytes(urlopen(f"{WHERE}/{name}", timeout=20).read()) if "://" in WHERE else Path(WHERE, name).read_bytes()


def _tree(hashes: list[bytes]) -> bytes:  # RFC 6962, section 2.1
    if len(hashes) < 2:
        return hashes[0] if hashes else hashlib.sha256(b"").digest()
    half = 1 << ((len(hashes) - 1).bit_length() - 1)
    return hashlib.sha256(b"\1" + _tree(hashes[:half]) + _tree(hashes[half:])).digest()


def _checkpoint() -> tuple[int, bytes]:  # c2sp.org/signed-note; the line of the pinned key
    name, key_hash, key = KEY.split("+", 2)
    text, _, lines = _get("checkpoint").decode().rpartition("\n\n")
    signed = [base64.b64decode(each.split(" ")[2]) for each in lines.splitlines() if each.split(" ")[1] == name]
    [line] = [each for each in signed if each[:4].hex() == key_hash]
    Ed25519PublicKey.from_public_bytes(base64.b64decode(key)[1:]).verify(line[4:], f"{text}\n".encode())
    return int(text.split("\n")[1]), base64.b64decode(text.split("\n")[2])


def _entries(size: int, logged: list[bytes]) -> list[bytes]:  # c2sp.org/tlog-tiles; bundles of 256
    for index in range(-(-size // 256)):
        *above, last = (group.zfill(3) for group in f"{index:,}".split(","))
        part = f".p/{size % 256}" if size < 256 * (index + 1) else ""
        content = memoryview(_get("tile/entries/" + "".join(f"x{group}/" for group in above) + last + part))
        while content:
            end = 2 + int.from_bytes(content[:2], "big")
            logged.append(bytes(content[2:end]))
            content = content[end:]
    return logged


def _check(size: int, root: bytes, logged: list[bytes], was: dict[str, Any]) -> str:
    leaves = [hashlib.sha256(b"\0" + each).digest() for each in logged]
    shown = [entry for each in logged if "release" in (entry := json.loads(each)).get("body", {})]
    if size < was["size"] or (size == was["size"] and root.hex() != was["root"]):
        return "a fork: two checkpoints of one size" if size == was["size"] else f"rolled back to {size} entries"
    if (len(leaves), _tree(leaves)) != (size, root):
        return "an entry is missing or was changed: another root follows"
    if _tree(leaves[: was["size"]]).hex() != was["root"]:
        return "the past was rewritten"
    for name in sorted({entry["body"]["release"] for entry in shown}):
        stated = json.loads(base64.b64decode(json.loads(_get(f"status/{name}.json"))["payload"]))["predicate"]
        if [each["entry"] for each in stated["entries"]] != [e for e in shown if e["body"]["release"] == name]:
            return f"the status of {name} leaves an entry out, or shows another"
    for entry in shown[-10:]:
        sys.stdout.write(f"{entry['at']} {entry['body']['release']} v{entry['body']['number']} {entry['kind']}\n")
    return ""


try:
    size, root = _checkpoint()
    known = json.loads(MEMORY.read_text()) if MEMORY.exists() else {"size": 0, "root": _tree([]).hex()}
    broken = _check(size, root, _entries(size, []), known)
except Exception as error:  # noqa: BLE001 (whatever cannot be read is told and ends it)
    broken = f"{type(error).__name__} {error}"
sys.exit(f"BROKEN: {broken}") if broken else MEMORY.write_text(json.dumps({"size": size, "root": root.hex()}))
