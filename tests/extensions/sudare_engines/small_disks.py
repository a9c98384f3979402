"""A file system that is soon full."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)]
    if subprocess.run(command, check=False).returncode:
        pytest.skip("no right to mount a small file system here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
