"""What the record says about the software is measured: its versions, its digest, its commit; and no machine."""

import dataclasses
import json
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from tasks.records.software import code_commit, software, source_digest, source_files


def test_versions_are_those_that_are_installed():
    """Sudare first, then what it declares to need to publish, as installed; nothing of other extras."""
    found = software()
    assert next(iter(found.packages)) == "sudare"
    for name in ("sudare", "numpy", "duckdb", "sqlalchemy", "dp-accounting", "cryptography"):
        assert found.packages[name] == version(name)
    assert not {"pytest", "torch", "mypy"} & set(found.packages)
    assert found.python == platform.python_version()


def test_no_host_is_named():
    """Not as a word of the platform, nor anywhere else in what the record is given."""
    host = platform.node()
    assert host
    assert host not in re.findall(r"[\w.-]+", json.dumps(dataclasses.asdict(software())))


def test_the_digest_depends_on_names_and_contents(tmp_path: Path):
    """One changed byte, or one renamed file, gives another digest; the order of listing does not."""
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("1")
    second.write_text("2")
    digest = source_digest({"a.py": first, "b.py": second})
    assert digest == source_digest({"b.py": second, "a.py": first})
    assert digest != source_digest({"a.py": first, "c.py": second})
    second.write_text("3")
    assert digest != source_digest({"a.py": first, "b.py": second})


@pytest.mark.services
def test_our_own_sources_are_covered():
    """The digest is over the code of all layers, the page's template and style included, and nothing compiled."""
    files = source_files()
    for name in (
        "contracts/contract/contract.py",
        "privacy/grant/grant.py",
        "tasks/records/page/record.html.j2",
        "tasks/records/page/record.css",
        "flows/release.py",
        "console/main.py",
    ):
        assert files[name].is_file()
    assert not [name for name in files if "__pycache__" in name or name.endswith(".pyc")]
    assert software().code == source_digest(files)


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    told = subprocess.run(["git", "-C", str(folder), *who, *arguments], capture_output=True, text=True, check=True)
    return told.stdout.strip()


@pytest.mark.services
def test_the_commit_is_that_of_the_working_tree(tmp_path: Path):
    """Clean at first; a changed file is told."""
    git(tmp_path, "init", "-q")
    (tmp_path / "code.py").write_text("1")
    git(tmp_path, "add", "code.py")
    git(tmp_path, "commit", "-qm", "one")
    assert code_commit(tmp_path) == (git(tmp_path, "rev-parse", "HEAD"), False)
    (tmp_path / "code.py").write_text("2")
    assert code_commit(tmp_path)[1] is True


@pytest.mark.services
def test_a_folder_inside_another_repository_is_not_taken_for_it(tmp_path: Path):
    """Installed code below somebody's working tree is not of that tree's commit."""
    git(tmp_path, "init", "-q")
    inside = tmp_path / "site-packages"
    inside.mkdir()
    assert code_commit(inside)[1] is None


@pytest.mark.services
def test_a_repository_without_a_commit_tells_none(tmp_path: Path):
    git(tmp_path, "init", "-q")
    assert code_commit(tmp_path)[1] is None
