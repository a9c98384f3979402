"""deploy/: what compose.yaml describes runs, its files are sound, and a backup comes back.

No container engine is needed: commands, environment and health checks are read out of compose.yaml and run here.
"""

import os
import re
import subprocess
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit
from urllib.request import urlopen

import psycopg
import pytest
import yaml

from benchmarks._periodic_place import make_periodic, open_accounts
from deploy import local
from deploy.postgres_server import find_binaries
from privacy.ledger.ledger import Ledger
from tasks.verify import verify

DEPLOY = Path(__file__).parents[1] / "deploy"
VALUES = {
    "POSTGRES_PASSWORD": "superusers-own",
    "SUDARE_DB_PASSWORD": "only-here",
    "PREFECT_DB_PASSWORD": "prefects-own",
    "PREFECT_PASSWORD": "only-here",
    "SUDARE_DATA": "confidential",
}
PASSWORDS = [name for name in VALUES if name.endswith("PASSWORD")]
SUDARE = [sys.executable, "-c", "from console.main import main; main()"]


@pytest.fixture(scope="module")
def compose() -> dict[str, dict[str, object]]:
    return yaml.safe_load(local.filled(local.COMPOSE.read_text(), VALUES))  # type: ignore[no-any-return]


def test_no_service_is_root_or_open_to_the_network(compose: dict[str, dict[str, object]]):
    """Ours run as a number that is not 0, on a read-only root without capabilities; only loopback is published."""
    services = compose["services"]
    assert set(services) == {"postgres", "prefect", "init", "worker", "site"}
    for name, service in services.items():
        assert isinstance(service, dict)
        if name != "postgres":
            assert (service["user"], service["read_only"], service["cap_drop"]) == ("10001:10001", True, ["ALL"])
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", []))
        assert ":latest" not in service["image"]
        assert set(service.get("depends_on", {})) < set(services)
    assert services["worker"]["deploy"] == {"replicas": 2}  # type: ignore[index]


def test_each_service_has_what_it_needs_and_no_more(compose: dict[str, dict[str, dict[str, object]]]):
    """Confidential tables are the workers' alone, the site changes no file, and Prefect is not the ledger's role."""
    services = compose["services"]
    mounted = {name: service.get("volumes", []) for name, service in services.items()}
    assert mounted["worker"] == ["workspace:/workspace", "confidential:/data:ro"]
    assert (mounted["site"], mounted["init"]) == (["workspace:/workspace:ro"], ["workspace:/workspace"])
    assert mounted["prefect"] == []
    own = services["prefect"]["environment"]
    assert isinstance(own, dict)
    database = urlsplit(own["PREFECT_SERVER_DATABASE_CONNECTION_URL"])
    assert (database.username, database.path) == ("prefect", "/prefect")
    for name in ("init", "worker", "site"):
        ledger = urlsplit(services[name]["environment"]["SUDARE_LEDGER_URL"])  # type: ignore[arg-type]
        assert (ledger.username, ledger.path) == ("ledger", "/ledger")
    holders = [name for name, service in services.items() if VALUES["POSTGRES_PASSWORD"] in str(service)]
    assert holders == ["postgres"], "nobody else is the superuser"
    assert not any(name.startswith("PREFECT") for name in services["site"]["environment"])  # type: ignore[attr-defined]


def test_no_password_stands_in_a_file(compose: dict[str, dict[str, object]]):
    """compose.yaml refuses to start without the passwords, and the example leaves them empty."""
    text = local.COMPOSE.read_text()
    assert "deploy/.env" in (DEPLOY.parent / ".gitignore").read_text().split()
    for name in PASSWORDS:
        with pytest.raises(ValueError, match=name):
            local.filled(text, {key: value for key, value in VALUES.items() if key != name})
        assert f"\n{name}=\n" in (DEPLOY / "example.env").read_text()


def test_the_image_is_not_root_and_installs_what_was_locked():
    """The last user is a number, the base is pinned, and pip installs by hash, but for torch and our own tree."""
    text = (DEPLOY / "Dockerfile").read_text()
    assert "--compile" in text  # what the image has compiled stays: its root is read-only where it runs
    assert "rm -rf" not in text
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["python:3.11-slim-bookworm"] * 2
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE)[-1] == "10001:10001"
    installs = re.findall(r"pip install[^\n\\]*", text)
    assert installs
    assert all("--no-deps" in line and "--compile" in line for line in installs)
    assert [line.split()[-1] for line in installs if "--require-hashes" not in line] == ["torch;", "."]
    assert '-c constraints.txt --compile --extra-index-url "$TORCH_INDEX" torch' in text
    assert "--no-build-isolation --compile ." in text
    assert "COPY deploy/backup.sh deploy/restore.sh /usr/local/share/sudare/\n" in text
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    sources = [name for line in copied for name in line.split()]
    kept = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().split() if line.startswith("!")]
    assert sorted(sources) == sorted(kept)
    assert all((DEPLOY.parent / name).exists() for name in sources)


def test_the_entrypoint_of_prefect_yaml_is_the_flow():
    """It is a module's, which workers have installed wherever they work, and no folder of whoever deployed is pulled;
    its parameters are those of the flow."""
    told = yaml.safe_load((DEPLOY / "prefect.yaml").read_text())
    [deployment] = told["deployments"]
    assert told["pull"] == []
    module, name = deployment["entrypoint"].rsplit(".", 1)
    flow = getattr(import_module(module), name)
    assert set(deployment["parameters"]) <= set(flow.parameters.properties)


@pytest.fixture
def _postgres() -> None:
    try:
        find_binaries()
    except RuntimeError as none:
        pytest.skip(str(none))


def _bin(folder: Path) -> dict[str, str]:
    folder.mkdir()
    program = folder / "sudare"
    program.write_text(f"#!/bin/sh\nexec {' '.join(SUDARE[:2])} '{SUDARE[2]}' \"$@\"\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.services
def test_a_backup_comes_back(tmp_path: Path):
    """Files, keys, ledger and draws, those that were made after the ledger's copy too; a broken copy and a folder
    that holds a workspace are refused."""
    from benchmarks.orchestration import release_plainly

    place, own = make_periodic(tmp_path / "place"), _bin(tmp_path / "bin")
    release_plainly(place.spec, place.workspace.root, period="2024Q1")
    late = place.workspace.draws / "late"  # is drawn at the instant at which the ledger is copied
    program = tmp_path / "bin" / "sudare"
    program.write_text(program.read_text().replace("exec", f"mkdir -p '{late}'\n: > '{late}/0.draw'\nexec", 1))

    def run(script: str, *words: Path) -> subprocess.CompletedProcess[str]:
        command = ["sh", str(DEPLOY / script), *map(str, words)]
        return subprocess.run(command, env=own, capture_output=True, text=True, check=False)

    made = run("backup.sh", place.workspace.root, tmp_path / "backups")
    assert made.returncode == 0, made.stderr
    backup = Path(made.stdout.splitlines()[-1])
    assert sorted(path.name for path in backup.iterdir()) == ["SHA256SUMS", "draws.tar", "files.tar", "ledger.ndjson"]
    done = run("restore.sh", backup, tmp_path / "restored")
    assert done.returncode == 0, done.stderr
    key = (tmp_path / "restored" / ".sudare" / "keys" / "signing.pub").read_text().strip()
    assert verify(tmp_path / "restored" / "releases" / "visits-2024-q1" / "v1", public_key=key).ok
    back = tmp_path / "restored" / ".sudare" / "draws"
    kept, returned = (
        {path.relative_to(draws) for path in draws.rglob("*") if not path.name.startswith("journal-seen-")}
        for draws in (place.workspace.draws, back)
    )
    assert Path("late/0.draw") in kept == returned
    assert run("restore.sh", backup, tmp_path / "restored").returncode == 2
    with (backup / "ledger.ndjson").open("a") as file:
        file.write("\n")
    assert run("restore.sh", backup, tmp_path / "again").returncode != 0
    assert not (tmp_path / "again").exists()


@pytest.mark.services
def test_a_workspace_with_a_ledger_of_its_own_is_not_tried_out(tmp_path: Path):
    """`deploy.local` has a new database each time: what the workspace's own ledger holds would be unspent."""
    (tmp_path / "sudare.toml").write_text("")
    command = [sys.executable, "-m", "deploy.local", "--workspace", str(tmp_path), "--", "sudare", "--help"]
    done = subprocess.run(command, cwd=DEPLOY.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "a workspace already" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["sudare.toml"]


@pytest.mark.services
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("_postgres")
def test_what_compose_describes_publishes_a_period(tmp_path: Path):
    """Server, PostgreSQL, two workers and the site, if it is installed; a period is published; all of it ends."""
    (tmp_path / "logs").mkdir()
    place = make_periodic(tmp_path / "data")  # gives contract, spec and rows; its own workspace is not used
    with local.running(tmp_path / "w", place.folder, tmp_path / "logs", VALUES) as stack:
        own = stack.environment("worker")
        prefects = stack.environment("prefect")["PREFECT_SERVER_DATABASE_CONNECTION_URL"].replace("+asyncpg", "")
        with pytest.raises(psycopg.OperationalError, match="CONNECT"):
            psycopg.connect(f"{prefects.removesuffix('/prefect')}/ledger")
        with pytest.raises(psycopg.OperationalError, match="CONNECT"):
            psycopg.connect(f"{own['SUDARE_LEDGER_URL'].removesuffix('/ledger')}/prefect")
        for url in (prefects, own["SUDARE_LEDGER_URL"]):
            with psycopg.connect(url) as connection:
                [role] = connection.execute(
                    "SELECT rolsuper, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = current_user"
                )
            assert role == (False, False, False)
        with closing(Ledger(own["SUDARE_LEDGER_URL"], draws=tmp_path / "w" / ".sudare" / "draws")) as ledger:
            open_accounts(ledger, place.folder)
            deploy = ["deploy", str(place.spec), "--cron", "0 6 5 1,4,7,10 *", "--backfill", "2024Q1"]
            subprocess.run([*SUDARE, *deploy], env=own, check=True, capture_output=True)
            began = monotonic()
            while "published" not in _statuses(ledger) and monotonic() - began < 600:
                sleep(0.5)
            assert _statuses(ledger) == ["published"]
        assert len(stack.processes["worker"]) == 2
        if "site" in stack.processes:
            with closing(urlopen(f"http://{stack.address('site')}/", timeout=30)) as page:
                assert "visits-2024-q1" in page.read().decode()
        processes = [each for several in stack.processes.values() for each in several]
    assert all(each.poll() is not None for each in processes)


def _statuses(ledger: Ledger) -> list[str]:
    return [version.status for version in ledger.versions("visits-2024-q1")]
