"""The shipped examples with what `make install` brings and no other package: each is released and verified.

Processes of this environment stand for one of `make install`: what deploy/lock.txt does not name is not found there.
CI installs by that lock for `make demo`, and once more in deploy/check_python.sh.
"""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.gallery import ACCOUNTS
from flows.prefect_runs.server import PrefectServer
from tasks.storage.workspace.settings import Workspace
from tests.source_folders import CORE, EXTENSIONS, ROOT
from tests.test_installation import locked
from tests.worlds.packages import Hidden, left_out_by

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

MODEL = ROOT / "examples" / "adult" / "model.yaml"
"""It needs torch, which its page says."""
SPECS = [
    path
    for path in sorted((ROOT / "examples").glob("*/*.yaml"))
    if path != MODEL and path.parent.name != "federation" and len(path.suffixes) == 1
]
OF_EXTRAS = {
    "torch": ("privacy.learning.",),
    "ibis": ("sudare_engines.", "contracts.domains.portable_cell"),
    "sqlglot": ("sudare_engines.",),
    "pyiceberg": ("sudare_lakes.iceberg_files",),
}
"""Of each package that `make install` leaves out, which modules may ask for it when they are imported."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Hidden:
    return Hidden(tmp_path_factory.mktemp("installed"), left_out_by(locked()))


@pytest.fixture(scope="module")
def released(installed: Hidden) -> subprocess.CompletedProcess[str]:
    """What one process said that released and verified all, the network's after it was refused for want of torch."""
    root = Workspace.create(installed.folder / "place").root
    at = ("--workspace", str(root))

    def publish(spec: Path) -> list[list[str]]:
        release = spec.read_text().partition("release: ")[2].split()[0]
        key = ("--key", f"{root}/.sudare/keys/signing.pub")
        return [["release", str(spec)], ["verify", f"{root}/releases/{release}/latest", *key]]

    words = [[*replace(each, epsilon="20").words, *at] for each in ACCOUNTS]
    words += [each for spec in SPECS for each in publish(spec)]
    words += [["run", str(MODEL), *at], ["make", "neural"], *publish(MODEL)]
    return installed.tried((), root, *words)


def test_every_module_is_imported_without_the_packages_of_other_extras_than_its_own(installed: Hidden):
    """`make install` installs the extra `publish`: no module of a command or a flow asks for more at its import."""
    tried = installed.tried((*CORE, *EXTENSIONS), installed.folder)
    assert tried.returncode == 0, tried.stderr
    told = [line.split() for line in tried.stdout.splitlines()]
    assert [name for name, package in told if not name.startswith(OF_EXTRAS[package])] == []
    assert {package for _, package in told} == OF_EXTRAS.keys()


def test_every_example_but_the_network_s_is_released_and_verified(released: subprocess.CompletedProcess[str]):
    said, number = released.stdout.partition("run ended with")[0], len(SPECS)
    assert said.count("release ended with 0\n") == said.count("verify ended with 0\n") == number, released.stderr
    assert said.count("holds under key") == number >= 9


def test_the_network_s_example_says_what_it_needs_and_runs_with_it(released: subprocess.CompletedProcess[str]):
    """Before anything is charged; with torch, which `make neural` installs and is found by then, it is released."""
    said = released.stdout.partition("run ended with ")[2]
    assert said.startswith("2\nrelease ended with 0\n"), released.stderr
    assert said.endswith("verify ended with 0\n")
    assert "torch" in released.stderr
    assert "make neural" in released.stderr


def test_the_commands_of_the_federation_s_script_lead_to_a_verified_release(
    installed: Hidden, prefect_server: PrefectServer
):
    """A federation of a table over three sites, at a Prefect server that runs."""
    engine = os.environ.get("SUDARE_FEDERATION_ENV", str(ROOT / "deploy" / "federation" / ".venv"))
    known = {"PREFECT_API_URL": prefect_server.api_url, "PREFECT_API_AUTH_STRING": prefect_server.auth or ""}
    here = replace(installed, environment={"SUDARE_FEDERATION_ENV": engine, **known})
    said = here.done("sh", "examples/federation/federation.sh", installed.folder / "federation")
    assert "holds under key" in said
