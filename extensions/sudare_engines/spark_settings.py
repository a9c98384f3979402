"""Where Spark is: the Python that has PySpark, the master or server that counts, and the name of its secret.

Three kinds of places are admitted. `local[N]` is one process of this machine. A standalone cluster (`spark://`) and
a server of Spark Connect (`sc://`) are other machines: keys that choose rows, and the rows, travel there. Both need a
secret, and what the running session says of itself is held against `sudare_engines.spark`. All others
are refused: YARN, Kubernetes, and workers on this machine without secrets (`local-cluster`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tasks.storage.workspace.keys import refusal
from tasks.storage.workspace.settings import SettingsTable

_KEYS: Final = {
    "spark.python": "the Python of an environment with pyspark; a relative path is meant from this file",
    "spark.master": 'a Spark master, such as "local[2]", "spark://HOST:7077" or "sc://HOST:443"',
    "spark.memory": 'of the driver and of each executor, such as "1g"',
    "spark.credentials": "the name of the credentials of a cluster (`secret`) or of a Connect server (`token`)",
    "spark.host": "this machine's name or address, as the workers of a cluster reach it",
    "spark.certificate": "the certificate of the authority that signed a Connect server's, a PEM file",
}

PlaceKind = Literal["local", "cluster", "connect"]
_MASTERS: Final[dict[PlaceKind, re.Pattern[str]]] = {
    "local": re.compile(r"local(\[(\d+|\*)(, ?\d+)?\])?"),
    "cluster": re.compile(r"spark://(?P<host>[A-Za-z0-9.-]+):(?P<port>\d{1,5})"),
    "connect": re.compile(r"sc://(?P<host>[A-Za-z0-9.-]+):(?P<port>\d{1,5})/?"),
}
SECRETS: Final[dict[PlaceKind, str]] = {"cluster": "secret", "connect": "token"}
"""What the credentials of a place hold."""


@dataclass(frozen=True)
class SparkSettings:
    """How Spark is started or reached.

    Args:
        python: the Python that has PySpark.
        master: `local[N]`, `spark://HOST:PORT` or `sc://HOST:PORT`.
        memory: of the driver and of each executor [text, such as "1g"].
        credentials: the name under which the secret of another machine is found.
        host: this machine, as the workers of a cluster reach it.
        certificate: PEM file of the authority of a Connect server; None for those that the system trusts.
    """

    python: Path
    master: str = "local[2]"
    memory: str = "1g"
    credentials: str | None = None
    host: str = "127.0.0.1"
    certificate: Path | None = None

    @property
    def kind(self) -> PlaceKind:
        """Which kind of place counts."""
        return next(kind for kind, form in _MASTERS.items() if form.fullmatch(self.master))

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of a place on another machine."""
        found = _MASTERS[self.kind].fullmatch(self.master)
        if found is None or self.kind == "local":
            raise ValueError("a local master has no address")
        return found["host"], int(found["port"])

    @property
    def configuration(self) -> dict[str, str]:
        """Spark's own settings; a Connect server has its own master and memory."""
        if self.kind == "connect":
            return {}
        return {"spark.master": self.master, "spark.driver.memory": self.memory, "spark.executor.memory": self.memory}


def spark_settings(root: Path, values: Mapping[str, str]) -> SparkSettings | None:
    """Read the settings of a workspace; None where they name no Python with PySpark.

    Raises:
        WorkspaceRefused: the master is of no admitted kind, or the credentials of another machine are not named.
    """
    python = values.get("spark.python")
    if not python:
        return None
    own = {
        name: values[f"spark.{name}"]
        for name in ("master", "memory", "credentials", "host")
        if values.get(f"spark.{name}")
    }
    where, written = str(root / "sudare.toml"), own.get("master", "local")
    if not any(form.fullmatch(written) for form in _MASTERS.values()):
        # What follows a semicolon or an @ may be a token or a password, which no message shows.
        found = repr(re.split("[;@]", written)[0][:60])
        allowed = "local, local[N], local[*], spark://HOST:PORT, or sc://HOST:PORT without options"
        remedy = 'write master = "local[*]"; a secret is named by `spark.credentials`; or leave `engine:` out'
        raise refusal(where, "spark.master", found, allowed, remedy)
    certificate = values.get("spark.certificate")
    settings = SparkSettings(root / python, **own, certificate=root / certificate if certificate else None)
    secret = SECRETS.get(settings.kind)
    if secret is not None and settings.credentials is None:
        allowed = f"the name of credentials with a `{secret}`, since keys and rows travel to {settings.master}"
        remedy = (
            f"""write credentials = "NAME" below [spark], and set SUDARE_CREDENTIALS_NAME='{{"{secret}": "..."}}'"""
        )
        raise refusal(where, "spark.credentials", "nothing", allowed, remedy)
    for name, kind in (("certificate", "connect"), ("host", "cluster"), ("credentials", None)):
        if values.get(f"spark.{name}") and settings.kind != kind and (kind or settings.kind == "local"):
            allowed = f"`{name}` for {'another machine' if kind is None else kind}"
            raise refusal(where, f"spark.{name}", f"`{name}` beside master {settings.master!r}", allowed, "drop it")
    return settings


TABLE: Final = SettingsTable(_KEYS, spark_settings)
"""The table [spark] of sudare.toml."""
