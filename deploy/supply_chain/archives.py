"""Archives with the same bytes wherever they are made: one order, one time, one owner, one mode."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
from pathlib import Path
from typing import Final

_MODES: Final = {True: 0o755, False: 0o644}
_LEVEL: Final = 9


def normalise_tree(folder: Path, *, seconds: int) -> None:
    """Give all files of a tree one time and the mode that a checkout has, whatever the umask was."""
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(_MODES[path.is_dir() or bool(path.stat().st_mode & stat.S_IXUSR)])
            os.utime(path, (seconds, seconds))


def pack_again(sdist: Path, *, seconds: int) -> None:
    """Write a source archive anew: members in order, without what tells the machine, the user or the hour.

    Args:
        sdist: a .tar.gz; replaced.
        seconds: the time of each member (Unix time).
    """
    plain = io.BytesIO()
    with (
        tarfile.open(sdist, "r:gz") as old,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            content = old.extractfile(member) if member.isfile() else None
            new.addfile(_plain(member, seconds), content)
    with sdist.open("wb") as file, gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
        packed.write(plain.getvalue())


def _plain(member: tarfile.TarInfo, seconds: int) -> tarfile.TarInfo:
    fresh = tarfile.TarInfo(member.name)
    fresh.size, fresh.type, fresh.linkname = member.size, member.type, member.linkname
    fresh.mode, fresh.mtime = _MODES[member.isdir() or bool(member.mode & stat.S_IXUSR)], seconds
    return fresh
