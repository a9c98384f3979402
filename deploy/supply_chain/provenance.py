"""How the files were built: an in-toto statement with SLSA provenance, version 1.

It names the commit and the tree, the lock, the build backend, and what was run. It holds no time of the build and no
name of a machine, so that a second build of the same commit gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "urn:sudare:build:make-dist:v1"
HERE: Final = "urn:sudare:builder:unattended-machine"
"""Who built it, where nothing else is named: no service that vouches for the machine."""


def provenance(
    files: Mapping[str, str],
    *,
    commit: str,
    tree: str,
    lock_sha256: str,
    backend: tuple[str, str, str],
    python: str,
    builder: str,
) -> dict[str, Any]:
    """Return the statement.

    Args:
        files: SHA-256 (hex) of each built file, by name: the subjects.
        commit: git's hash of the commit.
        tree: git's hash of its tree.
        lock_sha256: of deploy/lock.txt.
        backend: name, version and SHA-256 of the package that builds.
        python: the version that ran it.
        builder: a URI of who ran the build.
    """
    name, version, digest = backend
    return {
        "_type": STATEMENT,
        "subject": [{"name": file, "digest": {"sha256": digest}} for file, digest in sorted(files.items())],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"commit": commit, "target": "dist"},
                "internalParameters": {"python": python},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit, "gitTree": tree}},
                    {"name": "deploy/lock.txt", "digest": {"sha256": lock_sha256}},
                    {"uri": f"pkg:pypi/{name}@{version}", "digest": {"sha256": digest}},
                ],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }
