"""Everything that compose.yaml describes, as processes on loopback: `python -m deploy.local --data FOLDER`.

Commands, environment, order, health checks and replicas are read out of compose.yaml; what is replaced is what a
container engine would give: names of services become loopback and free ports, volumes become folders. PostgreSQL is
the machine's own. Ctrl-C, or the end of COMMAND, tears all of it down.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, Final

import yaml

from contracts.plug_ins import absent_extension
from deploy.postgres_server import find_binaries, free_port, postgres_server

COMPOSE: Final = Path(__file__).with_name("compose.yaml")
SECONDS: Final = 240.0
POSTGRES: Final = "postgres"
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
_PROGRAMS: Final = {
    "prefect": [sys.executable, "-m", "prefect"],
    "sudare": [sys.executable, "-c", "from console.main import main; main()"],
    "python": [sys.executable],
}


@dataclass
class Stack:
    """The services while they run.

    Args:
        services: compose.yaml's, with variables filled in.
        folder: for logs.
        replaced: what stands in place of what only containers know.
        processes: by service.
    """

    services: dict[str, Any]
    folder: Path
    replaced: dict[str, str]
    processes: dict[str, list[subprocess.Popen[bytes]]] = field(default_factory=dict)

    def environment(self, service: str) -> dict[str, str]:
        """Return the whole environment of a service's processes."""
        own = {name: self.here(str(value)) for name, value in self.services[service].get("environment", {}).items()}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SUDARE_"))}
        return {**kept, **own}

    def here(self, text: str) -> str:
        """Return a text of compose.yaml as it reads on this machine."""
        for there, here in self.replaced.items():
            text = text.replace(there, here)
        return text

    def words(self, command: list[str]) -> list[str]:
        """Return a command of compose.yaml as it is run here."""
        program, *rest = [self.here(str(word)) for word in command]
        if program == "sh":  # what a shell is asked to run: the program that the image would have
            quoted = " ".join(f"'{word}'" for word in _PROGRAMS["sudare"])
            rest = [word.replace("sudare init", f"{quoted} init") for word in rest]
        return [*_PROGRAMS.get(program, [program]), *rest]

    def address(self, service: str) -> str:
        """Return host and port of a service."""
        return self.replaced[f"{service}:{_PORTS[service]}"]


_PORTS: Final = {"postgres": "5432", "prefect": "4200", "site": "8350"}


def filled(text: str, values: Mapping[str, str]) -> str:
    """Fill in the variables of compose.yaml as a container engine does.

    Raises:
        ValueError: one that must be set is not.
    """

    def one(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if values.get(name):
            return values[name]
        if kind == "-":
            return rest or ""
        raise ValueError(f"{name} is not set: {rest or 'compose.yaml needs it'}")

    return _VARIABLE.sub(one, text)


@contextmanager
def running(workspace: Path, data: Path, folder: Path, values: Mapping[str, str]) -> Iterator[Stack]:
    """Run all services inside the block.

    Args:
        workspace: stands for the volume `workspace`; made where it is missing.
        data: stands for the volume of confidential tables.
        folder: for logs, one a service.
        values: the variables that deploy/.env would hold.
    Raises:
        RuntimeError: a service does not start.
    """
    services = yaml.safe_load(filled(COMPOSE.read_text(encoding="utf-8"), values))["services"]
    if absent_extension("sudare.commands", "serve"):
        del services["site"]
    ports = {name: str(free_port()) for name in ("prefect", "site")}
    with ExitStack() as stack:
        told = services[POSTGRES]["environment"]
        user, password = told["POSTGRES_USER"], told["POSTGRES_PASSWORD"]
        ports[POSTGRES] = str(stack.enter_context(postgres_server(user, password, folder / "postgres.log")))
        replaced = {f"{name}:{_PORTS[name]}": f"127.0.0.1:{port}" for name, port in ports.items()}
        replaced |= {f"127.0.0.1:{_PORTS[name]}": f"127.0.0.1:{ports[name]}" for name in ("prefect", "site")}
        replaced |= {
            "0.0.0.0": "127.0.0.1",
            "/workspace": str(workspace),
            "/var/lib/sudare/prefect": str(folder / "prefect"),
        }
        made = Stack(services, folder, replaced)
        _make_databases(told, ports[POSTGRES])
        stack.callback(_stop, made)
        for name in _in_order(services):
            _start(made, name, ports)
        made.replaced |= {"/data": str(data)}
        yield made


def _make_databases(settings: Mapping[str, str], port: str) -> None:
    """Run what the image of PostgreSQL would run when its volume is new, with the program that it would take."""
    where = ["-h", "127.0.0.1", "-p", port, "-U", settings["POSTGRES_USER"], "-d", "postgres"]
    options = ["-v", "ON_ERROR_STOP=1", "--no-password", "--no-psqlrc", "--quiet"]
    command = [find_binaries() / "psql", *options, *where, "-f", COMPOSE.with_name("databases.sql")]
    environment = {**os.environ, **settings, "PGPASSWORD": settings["POSTGRES_PASSWORD"]}
    subprocess.run(command, env=environment, check=True)


def _in_order(services: Mapping[str, Any]) -> list[str]:
    """Return the services but PostgreSQL, each after those that it depends on."""
    ordered: list[str] = [POSTGRES]
    while len(ordered) < len(services):
        ready = [
            name
            for name, service in services.items()
            if name not in ordered and set(service.get("depends_on", {})) <= set(ordered)
        ]
        if not ready:
            raise RuntimeError("compose.yaml: services wait for each other")
        ordered += ready
    return ordered[1:]


def _start(stack: Stack, name: str, ports: Mapping[str, str]) -> None:
    """Start a service's processes; wait until it is healthy, or has ended where it is to end."""
    service = stack.services[name]
    words = [ports[name] if word == _PORTS.get(name) else word for word in stack.words(service["command"])]
    stack.processes[name] = []
    for number in range(service.get("deploy", {}).get("replicas", 1)):
        with (stack.folder / f"{name}-{number}.log").open("ab") as log:
            started = subprocess.Popen(words, env=stack.environment(name), stdout=log, stderr=log, cwd=stack.folder)
        stack.processes[name].append(started)
    if str(service["restart"]) == "no":
        if stack.processes[name][0].wait(timeout=SECONDS) != 0:
            raise RuntimeError(f"{name} failed; its log: {stack.folder / name}-0.log")
    elif "healthcheck" in service:
        _await_health(stack, name, stack.words(service["healthcheck"]["test"][1:]))


def _await_health(stack: Stack, name: str, check: list[str]) -> None:
    began = monotonic()
    while monotonic() - began < SECONDS and stack.processes[name][0].poll() is None:
        if subprocess.run(check, env=stack.environment(name), capture_output=True, check=False).returncode == 0:
            return
        sleep(0.5)
    raise RuntimeError(f"{name} is not healthy; its log: {stack.folder / name}-0.log")


def _stop(stack: Stack) -> None:
    """Stop the services, the last that was started first."""
    for processes in reversed(stack.processes.values()):
        for each in processes:
            each.terminate()
        for each in processes:
            try:
                each.wait(timeout=40)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()


def main() -> None:
    """Run everything until COMMAND ends, or until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workspace", type=Path, help="a new folder; without it, one that goes with the database")
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("command", nargs="*", help="run with the workers' environment; without it, until Ctrl-C")
    asked = parser.parse_args()
    if asked.workspace is not None and (asked.workspace / "sudare.toml").exists():
        why = "its ledger is another, and what that holds would be unspent in the new database here"
        parser.error(f"--workspace {asked.workspace}: a workspace already; {why}: name a new folder")
    needed = ("POSTGRES_PASSWORD", "SUDARE_DB_PASSWORD", "PREFECT_DB_PASSWORD", "PREFECT_PASSWORD")
    values = dict.fromkeys(needed, "only-local") | dict(os.environ)
    with TemporaryDirectory(prefix="sudare-local-") as logs:
        workspace = asked.workspace or Path(logs) / "workspace"
        with running(workspace.absolute(), asked.data.absolute(), Path(logs), values) as stack:
            for name in ("prefect", "site"):
                if name in stack.processes:
                    sys.stdout.write(f"{name:8}http://{stack.address(name)}\n")
            sys.stdout.flush()
            if asked.command:
                done = subprocess.run(stack.words(asked.command), env=stack.environment("worker"), check=False)
                sys.exit(done.returncode)
            try:
                while True:
                    sleep(3600)
            except KeyboardInterrupt:
                return


if __name__ == "__main__":
    main()
