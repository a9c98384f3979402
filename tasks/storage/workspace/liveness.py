"""Which scheduled runs have a process that lives: a file for each, locked by its process.

The lock is the kernel's, so it goes when the process does, however it ends. That tells a run that goes on from one
whose worker was killed, where Prefect would know both as running.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Sign = Literal["lives", "died", "no sign"]


@contextmanager
def alive(folder: Path, name: str) -> Iterator[None]:
    """Show inside the block that this process works at something.

    Args:
        folder: a private folder that all workers share.
        name: of what it works at.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / name
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def note_end(folder: Path, name: str, said: str, code: int) -> None:
    """Note how something ended, for whoever started its process.

    Args:
        folder: as of `alive`.
        name: of what ended.
        said: in a line; public things only.
        code: the exit code that it stands for.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = folder / f".{name}.end"
    partial.write_text(f"{code} {said}", encoding="utf-8")
    partial.replace(folder / f"{name}.end")


def take_end(folder: Path, name: str) -> tuple[str, int] | None:
    """Return what was noted of an end, and its exit code, and forget it; None where nothing was."""
    path = folder / f"{name}.end"
    try:
        code, _, said = path.read_text(encoding="utf-8").partition(" ")
        path.unlink()
        return said, int(code)
    except (OSError, ValueError):
        return None


def sign_of_life(folder: Path, name: str) -> Sign:
    """Say whether a process works at something, or did and died before its end; no sign, if none began."""
    try:
        descriptor = os.open(folder / name, os.O_RDWR)
    except OSError:
        return "no sign"
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "lives"
    finally:
        os.close(descriptor)
    return "died"


@contextmanager
def only_one(folder: Path, name: str) -> Iterator[bool]:
    """Yield whether this process alone is inside the block now."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)
