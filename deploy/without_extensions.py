"""Copy the tree as if extensions had been deleted: their folders, their tests, their lines in pyproject.toml.

    python -m deploy.without_extensions FOLDER [NAME ...]

Without names it leaves all of them out. In the copy, `make demo` and `make test` show that the core needs none.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def extensions() -> list[str]:
    """Return the names of all extensions."""
    return sorted(path.parent.name for path in ROOT.glob("extensions/*/__init__.py"))


def copy_without(names: Sequence[str], folder: Path) -> None:
    """Copy the files that git knows, or would take, into a folder, without some of the extensions."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    left_out = tuple(f"{place}/{name}/" for name in names for place in ("extensions", "tests/extensions"))
    for file in files:
        if file and not file.startswith(left_out) and (ROOT / file).is_file():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, folder / file)  # with its time, so that what is compiled of it stays good
    project = folder / "pyproject.toml"
    project.write_text(lines_without(names, project.read_text(encoding="utf-8")), encoding="utf-8")


def lines_without(names: Sequence[str], text: str) -> str:
    """Take entry points of extensions, and their names in lists, out of pyproject.toml: each is a line of its own."""
    value = rf'"(?:{"|".join(map(re.escape, names))})\b[^"]*"'
    line_of_them = re.compile(rf'\s*(?:"?[\w.+-]+"? = )?{value},?\s*')
    return "".join(line for line in text.splitlines(keepends=True) if not line_of_them.fullmatch(line))


def main(arguments: Sequence[str]) -> int:
    """Copy into the folder that is named."""
    if not arguments or (unknown := set(arguments[1:]) - {*extensions()}):
        said = f"no extension {', '.join(sorted(unknown))}" if arguments else "name a new folder"
        sys.stderr.write(f"deploy.without_extensions: {said}; extensions: {', '.join(extensions())}\n")
        return 2
    copy_without(arguments[1:] or extensions(), Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
