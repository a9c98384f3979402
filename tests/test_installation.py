"""Installation: the lock agrees with pyproject.toml and the constraints, and other systems are told in a line."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "deploy" / "lock.txt"
CHECK = ROOT / "deploy" / "check_python.sh"
HASH = re.compile(r"sha256:[0-9a-f]{64}")


def locked(lock: Path = LOCK) -> dict[str, tuple[Version, Marker | None, int]]:
    """Of each package of a lock its version, where it is needed, and how many hashes it has."""
    text = re.sub(r"^#.*\n", "", lock.read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        requirement = Requirement(line.partition("--hash")[0])
        [pin] = requirement.specifier
        assert pin.operator == "=="
        hashes = len(HASH.findall(line))
        found[canonicalize_name(requirement.name)] = (Version(pin.version), requirement.marker, hashes)
    return found


def constraints() -> dict[str, Version]:
    lines = (ROOT / "deploy" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def asked() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(line) for line in (*project["dependencies"], *project["optional-dependencies"]["publish"])]


def test_every_package_of_the_lock_has_hashes():
    """At least one file each: pip then takes no other."""
    assert [name for name, (_, _, hashes) in locked().items() if not hashes] == []
    assert len(locked()) > 100


def test_the_lock_has_what_pyproject_asks_for_in_a_version_that_it_allows():
    found = locked()
    missing = [str(each) for each in asked() if found[canonicalize_name(each.name)][0] not in each.specifier]
    assert missing == []


def test_the_lock_and_the_constraints_name_the_same_versions():
    """What the tested environment does not have is needed on other systems or by other versions of Python alone."""
    pinned, found = constraints(), locked()
    assert {name: found[name][0] for name in found if name in pinned} == {
        name: pinned[name] for name in found if name in pinned
    }
    tested = {"python_full_version": "3.11.7", "python_version": "3.11", "sys_platform": "linux"}
    others = {name: found[name][1] for name in found if name not in pinned}
    assert [name for name, marker in others.items() if marker is None or marker.evaluate(tested)] == []


def test_the_lock_names_no_host():
    """Packages come from the index that the user's installer is configured for."""
    lines = [line for line in LOCK.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert [line for line in lines if re.search("://|@ |index-url", line)] == []


def test_every_package_that_make_installs_is_locked_with_hashes_but_torch():
    """The locks of the extras and of the tests have what the tested environment pins, in those versions."""
    found: dict[str, Version] = {}
    for lock in (LOCK, *sorted((ROOT / "deploy" / "locks").glob("*.txt"))):
        packages = locked(lock)
        assert not found.keys() & packages.keys()
        assert all(hashes for _, _, hashes in packages.values())
        found |= {name: version for name, (version, _, _) in packages.items()}
    pinned = constraints()
    assert {name: version for name, version in pinned.items() if found.get(name) != version} == {
        "torch": pinned["torch"]
    }
    federation = locked(ROOT / "deploy" / "federation" / "lock.txt")
    assert all(hashes for _, _, hashes in federation.values())
    assert str(federation["flwr"][0]) == "1.41.0"


def test_what_the_lock_for_torch_holds_is_what_torch_asks_for():
    """torch is installed without what it depends on, which is locked."""
    needs = {canonicalize_name(Requirement(text).name) for text in requires("torch") or [] if "extra ==" not in text}
    assert needs <= locked().keys() | locked(ROOT / "deploy" / "locks" / "neural.txt").keys()


@pytest.mark.services
@pytest.mark.parametrize("target", ["install", "install-dev", "neural", ".venv/.docs-installed", "federation"])
def test_make_installs_by_hash_all_but_torch_and_our_own_tree(target: str):
    plan = subprocess.run(["make", "-n", "-B", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installs = re.findall(r"-m pip .* install (.*)", plan.replace("\\\n", " "))
    assert installs
    assert all("--no-deps" in words for words in installs)
    unlocked = [words for words in installs if "--require-hashes" not in words]
    ours, torch = "--no-build-isolation -e .", "-c deploy/constraints.txt torch"
    assert all(words.endswith((ours, torch)) for words in unlocked)
    assert any("--require-hashes" in words for words in installs)


def typed_on(platform: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process that takes its system for another one."""
    script = f"import sys; sys.platform = {platform!r}; {code}"
    return subprocess.run(
        [sys.executable, "-c", script, "--version"], capture_output=True, text=True, check=False, cwd=ROOT
    )


@pytest.mark.services
@pytest.mark.parametrize("platform", ["win32", "cygwin"])
def test_windows_is_refused_in_a_line_that_says_what_to_use(platform: str):
    """For the command and for `import sudare`, before anything of ours is loaded."""
    command = typed_on(platform, "from sudare.entrance import main; main()")
    assert (command.returncode, command.stdout, command.stderr.count("\n")) == (1, "", 1)
    assert "Use Linux, WSL 2, or the image of deploy/Dockerfile." in command.stderr
    python = typed_on(platform, "import sudare; sudare.Workspace")
    assert python.returncode == 1
    assert "ImportError: sudare: Windows is not supported." in python.stderr


@pytest.mark.services
def test_macos_is_told_that_it_was_not_tried_and_runs():
    told = typed_on("darwin", "from sudare.entrance import main; main()")
    assert (told.returncode, told.stderr.count("\n")) == (0, 1)
    assert "publish on Linux" in told.stderr
    assert told.stdout.startswith("sudare ")


@pytest.mark.services
def test_linux_is_told_nothing():
    told = typed_on("linux", "from sudare.entrance import main; main()")
    assert (told.returncode, told.stderr) == (0, "")


def test_what_is_claimed_of_python_is_what_ci_tries():
    """The manual names the versions that CI looks for as tried, but for the newest, which no machine had."""
    manual = " ".join((ROOT / "docs" / "start.md").read_text(encoding="utf-8").split())
    assert "Python 3.11: everything" in manual
    assert "Python 3.12 and 3.13: the demo" in manual
    assert "Not tried: Python 3.14" in manual
    assert "for version in 3.14 3.13 3.12; do\n" in (ROOT / ".ci" / "run").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["requires-python"], "classifiers" in project) == (">=3.11", False)


def checked(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", str(CHECK), *words], capture_output=True, text=True, check=False)


@pytest.mark.services
def test_a_python_that_is_not_here_is_told_and_fails_nothing_unless_it_was_named_as_a_program():
    """CI asks for a version and goes on; whoever names a program wants that one."""
    asked_for = checked("3.99")
    assert (asked_for.returncode, asked_for.stdout) == (0, "Python 3.99: not found on this machine, not checked\n")
    named = checked("python3.99")
    assert (named.returncode, named.stdout) == (1, "")
    assert "python3.99 is no Python with the module ensurepip" in named.stderr
    assert checked().returncode != 0


def test_the_tests_for_another_python_are_there_and_need_few_packages():
    """They run where the lock and three packages for tests are installed: no browser, no torch, no PostgreSQL."""
    named = re.search(r'TESTS="([^"]+)"', CHECK.read_text(encoding="utf-8"))
    assert named is not None
    files = [each for name in named[1].split() for each in sorted((ROOT / name).rglob("*.py")) or [ROOT / name]]
    assert len(files) > 8
    assert [str(each) for each in files if not each.is_file()] == []
    loaded = "\n".join(each.read_text(encoding="utf-8") for each in files)
    assert re.findall(r"^(?:import|from) (?:torch|playwright|moto|pgserver|sklearn|ibis)", loaded, re.MULTILINE) == []


def test_readme_and_manual_type_the_same_with_uv():
    """`deploy/check_uv.sh` types the lines of the manual in a copy of the tree; README.md has them on one line."""
    lines = re.findall(r"^    (uv .*)$", (ROOT / "docs" / "start.md").read_text(), re.MULTILINE)
    assert lines == ["uv venv", "uv pip sync deploy/lock.txt", "uv pip install --no-deps ."]
    assert f"`{' && '.join(lines)}`" in (ROOT / "README.md").read_text()
