"""Build what is given out: wheel, source archive, bill of materials, provenance, checksums: `make dist`.

It builds the commit that is checked out, not the working tree: changes that are not committed are left out, and said.
Two builds of one commit give the same bytes. The build needs the package that deploy/build.txt names, by its hash.

    python -m deploy.dist [FOLDER]
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from deploy.supply_chain.archives import normalise_tree, pack_again
from deploy.supply_chain.bill_of_materials import bill_of_materials
from deploy.supply_chain.lock_file import read_lock
from deploy.supply_chain.provenance import HERE, provenance

ROOT: Final = Path(__file__).resolve().parents[1]
BILL: Final = "sudare.cdx.json"
PROVENANCE: Final = "provenance.intoto.json"
SUMS: Final = "SHA256SUMS"
BUILDER: Final = "SUDARE_BUILDER_ID"
_BUILD: Final = """
import sys
from setuptools import build_meta
folder = sys.argv[1]  # the backend changes sys.argv
build_meta.build_sdist(folder)
build_meta.build_wheel(folder)
"""


class BuildRefused(Exception):
    """Nothing was built; the message says what to do."""


def build(folder: Path, root: Path = ROOT, *, builder: str = HERE) -> list[Path]:
    """Build the checked-out commit of `root` into a folder.

    Args:
        folder: takes the files; what it holds of the same names is replaced.
        root: a git checkout.
        builder: a URI of who builds.
    Returns:
        list[Path]: the files.
    Raises:
        BuildRefused: no checkout with a commit, or the build failed.
    """
    commit, seconds = git(root, "rev-parse", "HEAD"), int(git(root, "log", "-1", "--format=%ct"))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sudare-dist-") as scratch:
        tree, made = Path(scratch, "tree"), Path(scratch, "made")
        for each in (tree, made):
            each.mkdir()
        _export(root, commit, tree, seconds)
        python = _build_environment(Path(scratch, "env"), tree / "deploy" / "build.txt")
        _run([python, "-c", _BUILD, str(made)], tree, SOURCE_DATE_EPOCH=str(seconds))
        for sdist in made.glob("*.tar.gz"):
            pack_again(sdist, seconds=seconds)
        digests = {path.name: _sha256(path) for path in sorted(made.iterdir())}
        _describe(made, tree, digests, seconds=seconds, commit=commit, builder=builder, root=root)
        for path in made.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        return sorted(folder / path.name for path in made.iterdir())


def _describe(
    made: Path, tree: Path, digests: dict[str, str], *, seconds: int, commit: str, builder: str, root: Path
) -> None:
    """Write the bill, the provenance over files and bill, and the checksums of all."""
    _write(made / BILL, bill_of_materials(tree, seconds=seconds, files=digests))
    [tool] = read_lock(tree / "deploy" / "build.txt")
    statement = provenance(
        {**digests, BILL: _sha256(made / BILL)},
        commit=commit,
        tree=git(root, "rev-parse", f"{commit}^{{tree}}"),
        lock_sha256=_sha256(tree / "deploy" / "lock.txt"),
        backend=(tool.name, tool.version, tool.digests[0]),
        python=sys.version.split()[0],
        builder=builder,
    )
    _write(made / PROVENANCE, statement)
    lines = [f"{_sha256(path)}  {path.name}\n" for path in sorted(made.iterdir())]
    (made / SUMS).write_text("".join(lines), encoding="ascii")


def git(root: Path, *words: str) -> str:
    """Ask git about a checkout."""
    try:
        asked = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildRefused("git is not installed; a build names the commit that it was made of") from None
    if asked.returncode != 0:
        raise BuildRefused(f"{root} is no git checkout with a commit: clone the repository, and type make dist there")
    return asked.stdout.strip()


def _export(root: Path, commit: str, tree: Path, seconds: int) -> None:
    """Write the commit's files, without .git, with one time."""
    archive = tree.with_suffix(".tar")
    git(root, "archive", "--format=tar", f"--output={archive}", commit)
    _run(["tar", "-xf", str(archive), "-C", str(tree)], tree)
    normalise_tree(tree, seconds=seconds)


def _build_environment(folder: Path, requirements: Path) -> str:
    """Make an environment with the build backend alone, by its hash; return its Python."""
    _run([sys.executable, "-m", "venv", str(folder)], folder.parent)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--require-hashes"]
    _run([*pip, "--no-deps", "-r", str(requirements)], folder.parent)
    return python


def _run(words: Sequence[str], folder: Path, **environment: str) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SOURCE_DATE"))}
    done = subprocess.run(
        words,
        cwd=folder,
        env={**own, **environment, "PYTHONHASHSEED": "0"},
        umask=0o022,  # the modes of files are in the archives
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise BuildRefused(f"{' '.join(map(str, words[:4]))} ... ended with {done.returncode}:\n{last}")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Build into the folder that is named, or dist/."""
    folder, builder = Path(arguments[0]) if arguments else ROOT / "dist", os.environ.get(BUILDER) or HERE
    try:
        if changed := git(ROOT, "status", "--porcelain"):
            number = len(changed.splitlines())
            sys.stdout.write(f"! {number} changed file(s) are not in the build: it is made of the commit\n")
        files = build(folder, builder=builder)
    except BuildRefused as refused:
        sys.stderr.write(f"deploy.dist: {refused}\n")
        return 1
    sys.stdout.write("".join(f"{path}\n" for path in files))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
