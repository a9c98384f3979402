"""Packages that are installed beside the tree: a module and the metadata with its entry point."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def installed(folder: Path, module: str, entry_points: str) -> Iterator[None]:
    """Copy a module of `tests/worlds` to where no package of the tree is, and register what it has."""
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name(f"{module}.py"), folder)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield
