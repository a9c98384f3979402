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

SPECS = {
    "adult-1994": ("tables", "wide", "statistics", "synthetic"),
    "households-2026": ("size", "people", "income", "synthetic"),
    "sado-2020": ("map",),
}
"""By the account that pays, those of its folder; examples/adult/model.yaml needs torch, which its page says."""
OF_EXTRAS = {
    "torch": ("privacy.learning.",),
    "ibis": ("sudare_engines.", "contracts.domains.portable_cell"),
    "sqlglot": ("sudare_engines.",),
    "pyiceberg": ("sudare_lakes.iceberg_files",),
}
"""Of each package that `make install` leaves out, which modules may ask for it when they are imported."""
MODEL = "examples/adult/model.yaml"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Hidden:
    return Hidden(tmp_path_factory.mktemp("installed"), left_out_by(locked()))


@pytest.fixture(scope="module")
def released(installed: Hidden) -> subprocess.CompletedProcess[str]:
    """What one process said that released and verified all, the network's after it was refused for want of torch."""
    root = Workspace.create(installed.folder / "place").root
    at = ("--workspace", str(root))

    def publish(folder: str, name: str) -> list[list[str]]:
        spec = ROOT / "examples" / folder / f"{name}.yaml"
        release = spec.read_text().partition("release: ")[2].split()[0]
        key = ("--key", f"{root}/.sudare/keys/signing.pub")
        return [["release", str(spec)], ["verify", f"{root}/releases/{release}/latest", *key]]

    words = [[*replace(each, epsilon="20").words, *at] for each in ACCOUNTS]
    for account in ACCOUNTS:
        for name in SPECS[account.name]:
            words += publish(Path(account.source).parts[1], name)
    words += [["run", "examples/adult/model.yaml", *at], ["make", "neural"], *publish("adult", "model")]
    return installed.tried((), root, *words)


def test_every_module_is_imported_without_the_packages_of_other_extras_than_its_own(installed: Hidden):
    """`make install` installs the extra `publish`: no module of a command or a flow asks for more at its import."""
    tried = installed.tried((*CORE, *EXTENSIONS), installed.folder)
    assert tried.returncode == 0, tried.stderr
    told = [line.split() for line in tried.stdout.splitlines()]
    assert [name for name, package in told if not name.startswith(OF_EXTRAS[package])] == []
    assert {package for _, package in told} == OF_EXTRAS.keys()


def test_every_example_but_the_network_s_is_released_and_verified(released: subprocess.CompletedProcess[str]):
    said, number = released.stdout.partition("run ended with")[0], sum(map(len, SPECS.values()))
    assert said.count("release ended with 0\n") == said.count("verify ended with 0\n") == number, released.stderr
    assert said.count("holds under key") == number


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


def test_every_spec_of_the_examples_is_here():
    folders = {Path(account.source).parts[1]: SPECS[account.name] for account in ACCOUNTS}
    typed = {f"{folder}/{name}.yaml" for folder, names in folders.items() for name in names} | {"adult/model.yaml"}
    shipped = {path.relative_to(ROOT / "examples").as_posix() for path in (ROOT / "examples").glob("*/*.yaml")}
    assert {
        name
        for name in shipped - typed
        if not name.endswith((".odcs.yaml", ".contract.yaml")) and not name.startswith("federation/")
    } == set()
