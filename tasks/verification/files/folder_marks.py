"""What a path is that is no version folder, said so that whoever named it finds the right one."""

from __future__ import annotations

import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Final

from contracts.errors import Finding, SpecRefused
from tasks.records.strict_json import printable
from tasks.storage.version_folders import MANIFEST, PROOF

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
