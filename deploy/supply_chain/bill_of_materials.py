"""The bill of materials of the wheel: CycloneDX 1.6, made of the lock and of what the packages say of themselves.

Every package of the lock is a component, on whatever system it is needed. Licences and needs are known of those that
are installed here in the version of the lock; the bill says of which others they are unknown.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.supply_chain.installed_packages import installed, licences, needs
from deploy.supply_chain.lock_file import LockedPackage, read_lock

SCHEMA: Final = "http://cyclonedx.org/schema/bom-1.6.schema.json"
_NAMESPACE: Final = uuid.UUID("6f1d5e0c-6e0b-5f0e-9a53-7a1f2f5d1c11")


def bill_of_materials(tree: Path, *, seconds: int, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the bill of materials.

    Args:
        tree: the sources that were built: pyproject.toml and deploy/lock.txt.
        seconds: when they were committed (Unix time), which the bill gives as its own time.
        files: SHA-256 (hex) of the built files, by name.
    Returns:
        dict: the same for the same sources, files and installed packages.
    """
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = read_lock(tree / "deploy" / "lock.txt")
    here = installed(packages)
    roots = [Requirement(line) for line in (*project["dependencies"], *project["optional-dependencies"]["publish"])]
    bill: dict[str, Any] = {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycles": [{"phase": "build"}],
            "component": _subject(project, files),
        },
        "components": [_component(package, here.get(package.name)) for package in packages],
        **_graph(project, roots, packages, here),
    }
    content = hashlib.sha256(json.dumps(bill, sort_keys=True).encode()).hexdigest()
    return {**bill, "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, content)}"}


def _subject(project: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    """Describe what the bill is for: the project, and each built file of it."""
    return {
        "type": "application",
        "bom-ref": _reference(project),
        "name": project["name"],
        "version": project["version"],
        "description": project["description"],
        "licenses": [{"license": {"id": project["license"]}}],
        "purl": _reference(project),
        "components": [
            {"type": "file", "bom-ref": name, "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
            for name, digest in sorted(files.items())
        ],
    }


def _reference(project: Mapping[str, Any]) -> str:
    return f"pkg:pypi/{project['name']}@{project['version']}"


def _component(package: LockedPackage, here: Distribution | None) -> dict[str, Any]:
    """Describe one package; an installer takes any of its files whose digest is listed."""
    files = [{"alg": "SHA-256", "content": digest} for digest in package.digests]
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.reference,
        "name": package.name,
        "version": package.version,
        "purl": package.reference,
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{package.name}/{package.version}/#files",
                "comment": "an installer takes one of the files with these digests",
                "hashes": files,
            }
        ],
    }
    if here is not None and (known := licences(here)):
        component["licenses"] = known
    if package.marker:
        component["properties"] = [{"name": "sudare:marker", "value": package.marker}]
    return component


def _graph(
    project: Mapping[str, Any],
    roots: list[Requirement],
    packages: tuple[LockedPackage, ...],
    here: Mapping[str, Distribution],
) -> dict[str, Any]:
    """Return who needs whom, and of which packages that is unknown here."""
    locked = {package.name: package for package in packages}
    edges = needs(here, roots, locked)
    direct = sorted({locked[canonicalize_name(root.name)].reference for root in roots})
    known = [
        {"ref": locked[name].reference, "dependsOn": sorted(locked[other].reference for other in others)}
        for name, others in sorted(edges.items())
    ]
    unknown = [package.reference for package in packages if package.name not in edges]
    compositions = [{"aggregate": "complete", "assemblies": [_reference(project)]}]
    if unknown:
        compositions.append({"aggregate": "unknown", "dependencies": unknown})
    return {"dependencies": [{"ref": _reference(project), "dependsOn": direct}, *known], "compositions": compositions}
