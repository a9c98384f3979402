"""Run the tests in two processes, each with half of the folders: neither imports what only the other needs.

python -m tests.halves [OPTIONS OF PYTEST ...]
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

TESTS = Path(__file__).parent
FIRST = ("privacy", "contracts", "extensions")


def halves() -> tuple[list[str], list[str]]:
    places = sorted(path for path in TESTS.iterdir() if path.is_dir() or path.name.startswith("test_"))
    shared = [path for path in places if path.name not in FIRST]
    return [str(TESTS / name) for name in FIRST], [str(path) for path in shared if path.name != "__pycache__"]


def main(options: list[str]) -> int:
    """Run both; what the second says follows what the first says."""
    first, second = ([sys.executable, "-m", "pytest", *options, *paths] for paths in halves())
    with TemporaryFile() as said, subprocess.Popen(second, stdout=said, stderr=subprocess.STDOUT) as other:
        codes = (subprocess.run(first, check=False).returncode, other.wait())
        said.seek(0)
        sys.stdout.buffer.write(said.read())
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
