"""The files of a version folder, looked at with suspicion: listed without following a link, hashed, read once.

No path is ever built from a name that stands in a file; only names that the folder itself lists are opened.
"""

from __future__ import annotations

import hashlib
import stat
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from contracts.errors import Finding, SpecRefused
from tasks.records.model.manifest import Manifest, read_envelope
from tasks.records.strict_json import CHANGED, LARGEST_JSON, printable, read_json
from tasks.storage.manifest import MANIFEST, PROOF

# --- What a path is that is no version folder, said so that whoever named it finds the right one.


OUTSIDE_MANIFEST = (MANIFEST, PROOF)
MARKS = (*OUTSIDE_MANIFEST, "record.json")
_REMEDY: Final = "name a version folder, such as releases/adult-tables/v1"
_MOST_LOOKED_AT: Final = 1000


def no_version(folder: Path, found: str, remedy: str = _REMEDY) -> SpecRefused:
    """Return the refusal of a path."""
    return SpecRefused([Finding(printable(str(folder)), "version folder", found, "a published version", remedy)])


def what_it_is(folder: Path, path: Path) -> SpecRefused:
    """Return the refusal of something that exists and is no version.

    Args:
        folder: the path as it was named.
        path: where it leads; no folder, or one without any of a version's own files.
    """
    return _folder(folder, path) if path.is_dir() else _file(folder, path)


def _file(folder: Path, path: Path) -> SpecRefused:
    if (path.parent / MANIFEST).is_file():
        return no_version(folder, "a file of a version", f"name the folder that it lies in: {_name(path.parent)}")
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
        packed = regular and (zipfile.is_zipfile(path) or tarfile.is_tarfile(path))
    except (OSError, ValueError):
        regular, packed = True, False
    if packed:
        remedy = f"unpack it into a new folder, and name the folder in which {MANIFEST} then lies"
        return no_version(folder, "an archive (zip or tar) instead of a folder", remedy)
    return no_version(folder, "a file" if regular else "a device, pipe or socket")


def _folder(folder: Path, path: Path) -> SpecRefused:
    missing = f"a folder without {', '.join(MARKS)}"
    try:
        entries = [each for each, _ in zip(sorted(path.iterdir()), range(_MOST_LOOKED_AT), strict=False)]
        inside = [each for each in entries if (each / MANIFEST).is_file() and not each.is_symlink()]
    except OSError as error:
        return no_version(folder, error.strerror or type(error).__name__, "give read access, or name another folder")
    if inside:
        names = ", ".join(_name(folder / each.name) for each in inside[:3]) + (", …" if len(inside) > 3 else "")
        return no_version(
            folder,
            f"a folder of {len(inside)} versions" if len(inside) > 1 else "the folder around a version",
            f"name one version: {names}",
        )
    if (path / "sudare.toml").is_file():
        return no_version(folder, "a workspace", f"name a version in it: {_name(folder / 'releases')}/RELEASE/vN")
    if not entries:
        return no_version(folder, "an empty folder", f"{_REMEDY}; if it is a copy, nothing of it arrived yet")
    if path.name in ("data", "measurements") and (path.parent / MANIFEST).is_file():
        return no_version(folder, "a part of a version", f"name the folder around it: {_name(path.parent)}")
    remedy = f"{_REMEDY}; if it is a copy, it is not finished: get the whole version again"
    return no_version(folder, missing, remedy)


def _name(path: Path) -> str:
    return printable(str(path))


_FOLDERS = frozenset({"data", "measurements"})
_MISSING = "it was lost, or the copy was not finished: get the whole version again from its publisher"
_CUT = "it was cut, or the copy was not finished: get the whole version again from its publisher"
_UNFINISHED = (".part", ".partial", ".crdownload", ".download", ".filepart", ".tmp")
_BEGUN = "a download that was not finished: remove it, and get the whole version again from its publisher"
_VERIFY = "use nothing from this version, and see what is wrong with it: sudare verify VERSION_DIR"
_UNVOUCHED = "nobody vouches for it: remove it, and use nothing from it"


@dataclass(frozen=True)
class VersionFolder:
    """What a folder holds.

    Args:
        path: where it is.
        files: size of each regular file, by its name with slashes.
        others: what else there is, by name: a link, a folder that should not be there, a device.
    """

    path: Path
    files: Mapping[str, int]
    others: Mapping[str, str]

    def read(self, name: str, *, limit: int | None = None) -> bytes:
        """Return a listed file's bytes.

        Raises:
            OSError: it cannot be read (any more), or is larger than `limit`.
        """
        if name not in self.files:
            raise FileNotFoundError(f"no file {name}")
        with (self.path / name).open("rb") as file:
            data = file.read() if limit is None else file.read(limit + 1)
        if limit is not None and len(data) > limit:
            raise OSError(f"more than {limit} bytes")
        return data


def open_version(folder: Path) -> Path:
    """Return the folder of a version, links in front of it resolved.

    Raises:
        SpecRefused: there is no such folder, or it holds none of the files that make it a version.
    """
    try:
        path = folder.resolve(strict=True)
        marks = [name for name in MARKS if (path / name).exists() or (path / name).is_symlink()]
    except (OSError, RuntimeError, ValueError) as error:
        raise no_version(folder, getattr(error, "strerror", None) or "no path that can be followed") from error
    if not path.is_dir() or not marks:
        raise what_it_is(folder, path)
    return path


def list_version(path: Path, names: Iterable[str]) -> tuple[VersionFolder, list[Finding]]:
    """List a version folder; it enters only the folders that the given names lie in."""
    entered = _FOLDERS | {name[:at] for name in names for at, sign in enumerate(name) if sign == "/"}
    files: dict[str, int] = {}
    others: dict[str, str] = {}
    findings = []
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        try:
            for entry in sorted((path / prefix).iterdir()):
                name, mode = f"{prefix}{entry.name}", entry.lstat()
                if stat.S_ISREG(mode.st_mode):
                    files[name] = mode.st_size
                elif stat.S_ISDIR(mode.st_mode) and name in entered:
                    waiting.append(f"{name}/")
                else:
                    others[name] = _kind(mode.st_mode)
        except OSError as error:
            where = printable(prefix or ".")
            found = error.strerror or type(error).__name__
            findings.append(Finding(where, "the folder", found, "a folder that can be read", "give read access"))
    return VersionFolder(path, files, others), findings


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"


def check_listing(folder: VersionFolder, manifest: Manifest | None) -> list[Finding]:
    """Check that the folder holds the manifest's files, MANIFEST.json and PROOF.json, and nothing else."""
    listed = set() if manifest is None else set(manifest.files)
    wanted = listed | set(OUTSIDE_MANIFEST)
    findings = [
        Finding(
            MANIFEST,
            printable(f"files.{name}"),
            "a file that cannot be in it",
            "files that it can vouch for",
            CHANGED,
        )
        for name in OUTSIDE_MANIFEST
        if name in listed
    ]
    for name in sorted(wanted - set(folder.files)):
        found = folder.others.get(name, "nothing")
        allowed = "the file that was published" if name in listed else "the file that every version has"
        remedy = CHANGED if name in folder.others else _MISSING
        findings.append(Finding(printable(name), "the file", found, allowed, remedy))
    for name, what in sorted(folder.others.items()):
        if name not in wanted:
            findings.append(Finding(printable(name), "the file", what, "files of the manifest only", _UNVOUCHED))
    for name in sorted(set(folder.files) - wanted if manifest is not None else ()):
        found, begun = "a file that the manifest does not list", name.endswith(_UNFINISHED)
        remedy = _BEGUN if begun else _UNVOUCHED
        findings.append(Finding(printable(name), "the file", found, "files of the manifest only", remedy))
    return findings


def check_contents(folder: VersionFolder, manifest: Manifest) -> tuple[frozenset[str], list[Finding]]:
    """Compare size and SHA-256 of every file that is there with the manifest.

    Returns:
        tuple: the names of the files that are as published, and a finding for each that is not.
    """
    sound, findings = set(), []
    for name, stated in sorted(manifest.files.items()):
        if name not in folder.files:
            continue
        where, size = printable(name), folder.files[name]
        if size != stated.bytes:
            remedy = _CUT if size < stated.bytes else CHANGED
            findings.append(Finding(where, "size", f"{size} bytes", f"{stated.bytes} bytes", remedy))
            continue
        try:
            with (folder.path / name).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            what = error.strerror or type(error).__name__
            findings.append(Finding(where, "the file", what, "a file that can be read", "give read access"))
            continue
        if found == stated.sha256:
            sound.add(name)
        else:
            findings.append(Finding(where, "SHA-256", found, f"{stated.sha256}, as in the manifest", CHANGED))
    return frozenset(sound), findings


def read_published(folder: VersionFolder, manifest: Manifest, name: str) -> bytes:
    """Return the bytes of a file if they are still those that the manifest states.

    Raises:
        OSError: they are not, or cannot be read.
    """
    data = folder.read(name)
    if hashlib.sha256(data).hexdigest() != manifest.files[name].sha256:
        raise OSError("changed while it was being verified")
    return data


def read_text_file(path: Path, name: str) -> tuple[bytes | None, list[Finding]]:
    """Read a small file of a version, if it is a regular file; a finding says why it cannot be."""
    try:
        mode = (path / name).lstat()
        if not stat.S_ISREG(mode.st_mode):
            return None, [Finding(name, "the file", _kind(mode.st_mode), "a file", CHANGED)]
        return VersionFolder(path, {name: mode.st_size}, {}).read(name, limit=LARGEST_JSON), []
    except OSError as error:
        found = "nothing" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        remedy = _MISSING if found == "nothing" else CHANGED
        return None, [Finding(name, "the file", found, "the file that was published", remedy)]


@dataclass(frozen=True)
class Sealed:
    """A complete record for auditors, as it was read: the file's own name, and its bytes."""

    name: str
    data: bytes


def read_auditor_record(path: Path) -> Sealed:
    """Read the complete record for auditors.

    Raises:
        SpecRefused: no such file, or it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return Sealed(printable(path.name), file.read(LARGEST_JSON + 1))
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or "no path that can be followed"
        remedy = "it lies in the publisher's workspace: .sudare/records/RELEASE/vN/record.auditor.json"
        allowed = "the version's record for auditors"
        raise SpecRefused([Finding(printable(str(path)), "auditors' record", found, allowed, remedy)]) from error


def read_manifest(folder: Path) -> tuple[Manifest | None, str | None]:
    """Return what a version's manifest states, and the SHA-256 (hex) of its bytes; None where it cannot be read.

    Its signature is not checked: who reads it knows the digest that it must have.
    """
    data, _ = read_text_file(folder, MANIFEST)
    if data is None:
        return None, None
    value, _ = read_json(data, where=MANIFEST)
    manifest = None if value is None else read_envelope(value, where=MANIFEST)[1]
    return manifest, hashlib.sha256(data).hexdigest()


class OpenFiles:
    """The files of a version that may be opened: those whose checksums hold."""

    def __init__(self, folder: VersionFolder, manifest: Manifest, sound: frozenset[str]) -> None:
        self.folder, self.manifest, self._sound = folder, manifest, sound
        self.skipped: list[str] = []

    def is_sound(self, name: str) -> bool:
        """Say whether a file is there, as the manifest states it."""
        return name in self._sound

    def read(self, name: str, findings: list[Finding]) -> bytes | None:
        """Return a file's bytes if its checksum holds; else say that it was skipped, or add a finding."""
        if name not in self._sound:
            self.skipped.append(f"{printable(name)}: not opened, for it is missing or not as it was published")
            return None
        try:
            return read_published(self.folder, self.manifest, name)
        except OSError as error:
            found = error.strerror or str(error)
            findings.append(
                Finding(printable(name), "the file", found, "the file that was checked", "get the version again")
            )
            return None


class ManifestFiles:
    """The files of a version, for those who use it: opened only if their SHA-256 is that of the manifest.

    The manifest's signature is not checked: `sudare verify` does that.

    Args:
        path: the version's folder, links resolved.
    Raises:
        SpecRefused: it has no manifest that can be read.
    """

    def __init__(self, path: Path) -> None:
        manifest, _ = read_manifest(path)
        if manifest is None:
            finding = Finding(MANIFEST, "the file", "none that can be read", "the version's manifest", _VERIFY)
            raise SpecRefused([finding])
        self._stated, (self._folder, _) = manifest.files, list_version(path, manifest.files)

    def open(self, name: str) -> BinaryIO:
        """Return a file at its beginning; its bytes were hashed before.

        Raises:
            SpecRefused: it is missing, or is not the one that the manifest states.
        """
        if name not in self._stated:
            raise _unlike(name, "a file that the manifest does not list")
        if name not in self._folder.files:
            raise _unlike(name, self._folder.others.get(name, "nothing"))
        try:
            file = (self._folder.path / name).open("rb")
            found = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
        except OSError as error:
            raise _unlike(name, error.strerror or type(error).__name__) from error
        if found != self._stated[name].sha256:
            file.close()
            raise _unlike(name, "a file with another SHA-256")
        return file


def _unlike(name: str, found: str) -> SpecRefused:
    return SpecRefused([Finding(printable(name), "the file", found, "the file that the manifest states", _VERIFY)])
