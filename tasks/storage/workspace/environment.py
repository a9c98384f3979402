"""The environment of this process, and of those that it starts: which variables each of them sees."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_TELEMETRY_OFF = {"DO_NOT_TRACK": "1", "GX_ANALYTICS_ENABLED": "false", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}


def is_workspace_configured() -> bool:
    """Say whether SUDARE_WORKSPACE names the workspace: then it is not one that was only found."""
    return bool(os.environ.get("SUDARE_WORKSPACE"))


def user_folder() -> Path:
    """Return where a user's own settings lie, for commands outside any workspace."""
    told = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(told) if Path(told).is_absolute() else Path.home() / ".config") / "sudare"


def container_digest() -> str | None:
    """Return the digest of the container image that SUDARE_CONTAINER tells; None where it tells none of that form."""
    told = os.environ.get("SUDARE_CONTAINER", "")
    return told if re.fullmatch(r"(?:[\w./:-]{1,200}@)?sha256:[0-9a-f]{64}", told) else None


def federation_environment() -> Path:
    """Return Flower's virtual environment: SUDARE_FEDERATION_ENV, else that of `make federation`."""
    own = Path(__file__).resolve().parents[3] / "deploy" / "federation" / ".venv"
    return Path(os.environ.get("SUDARE_FEDERATION_ENV") or own).absolute()


def environment_for_flower(binaries: Path, home: Path) -> dict[str, str]:
    """Return what Flower's processes see: no setting and no key of Sudare's."""
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE") if name in os.environ}
    told = {
        "FLWR_HOME": str(home),
        "HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    loopback = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    return {**kept, **told, **loopback, "PATH": f"{binaries}{os.pathsep}{os.defpath}"}


def switch_telemetry_off() -> None:
    """Tell Prefect and Great Expectations to report to nobody, unless the environment says otherwise."""
    for name, value in _TELEMETRY_OFF.items():
        os.environ.setdefault(name, value)


@contextmanager
def exported(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables inside a block, for libraries that read them when they are imported."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def environment_for_prefect(own: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with `own` as its only Prefect settings, for a server of our own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return {**inherited, **_TELEMETRY_OFF, **own}


def environment_for_engines() -> dict[str, str]:
    """Return all that an engine's worker sees of this environment: where programs are, and the language.

    Spark takes orders from variables: another master or server (SPARK_REMOTE, PYSPARK_SUBMIT_ARGS), another process
    (PYSPARK_GATEWAY_PORT), another file system or disk (HADOOP_CONF_DIR, SPARK_LOCAL_DIRS), options of Java. None of
    them may decide where rows go, and no key or credential of ours is for it.
    """
    kept = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"SPARK_LOCAL_IP": "127.0.0.1"}


def loopback_without_proxy() -> dict[str, str]:
    """Return the variables that keep requests to this machine from a configured proxy."""
    names = {name.strip() for name in os.environ.get("NO_PROXY", os.environ.get("no_proxy", "")).split(",")}
    value = ",".join(sorted((names | {"127.0.0.1"}) - {""}))
    return {"NO_PROXY": value, "no_proxy": value}
