"""deploy/chart: Helm lints and renders it, and what it renders is sound and closed."""

import ipaddress
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tasks.storage.workspace.settings import Workspace

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "chart"
pytestmark = pytest.mark.services
KUBERNETES = ("1.31", "1.37")
SOURCE = "10.9.8.0/24"
VALUES: dict[str, Any] = {
    "image": {"repository": "registry.example.org/sudare", "digest": f"sha256:{'a' * 64}", "pullSecrets": ["pull"]},
    "workerSecrets": ["warehouse"],
    "source": {
        "existingClaim": "rows",
        "egress": [{"to": [{"ipBlock": {"cidr": SOURCE}}], "ports": [{"port": 5432}]}],
    },
    "jobs": [
        {"name": "claims", "spec": "/data/claims.yaml", "schedule": "0 6 5 1,4,7,10 *", "arguments": ["--supersede"]},
        {"name": "births", "spec": "/data/births.yaml", "schedule": "0 6 * * 1", "timeZone": "Europe/Oslo"},
    ],
    "site": {
        "publicUrl": "https://review.example.org",
        "metricsTokens": "/workspace/.sudare/scrapers.txt",
        "ingressFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
    },
}
Manifest = dict[str, Any]


def helm(*words: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    program = shutil.which("helm") or str(ROOT / ".helm" / "helm")
    return subprocess.run(
        [program, *words, "--values", "-"],
        input=json.dumps(values or {}),
        text=True,
        capture_output=True,
        check=False,
    )


def rendered(values: dict[str, Any] | None = None) -> list[Manifest]:
    done = helm("template", "office", str(CHART), values=values)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.fixture(scope="module")
def manifests() -> list[Manifest]:
    return rendered(VALUES)


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    for each in manifests:
        if each["kind"] == "Deployment":
            yield each["metadata"]["name"], each["spec"]["template"]
        if each["kind"] == "CronJob":
            yield each["metadata"]["name"], each["spec"]["jobTemplate"]["spec"]["template"]


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def of_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {each["metadata"]["name"]: each for each in manifests if each["kind"] == kind}


@pytest.mark.parametrize("values", [{}, VALUES], ids=["defaults", "all"])
def test_helm_and_the_schemas_of_kubernetes_find_nothing(values: dict[str, Any]):
    linted = helm("lint", "--strict", str(CHART), values=values)
    assert linted.returncode == 0, linted.stdout
    for each in rendered(values):
        for version in KUBERNETES:
            kubernetes_validate.validate(each, version, strict=True)


def test_the_schemas_find_a_field_that_is_misspelt(manifests: list[Manifest]):
    """The wrong case: that the check above can fail."""
    broken = json.loads(json.dumps(of_kind(manifests, "Deployment")["office-site"]))
    broken["spec"]["template"]["spec"]["containers"][0]["redinessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES[-1], strict=True)


def test_no_pod_is_root_or_writes_where_it_need_not(manifests: list[Manifest]):
    found = dict(pods(manifests))
    assert set(found) == {"office-worker", "office-prefect", "office-site", "office-claims", "office-births"}
    for name, pod in found.items():
        said = pod["spec"]
        assert said["automountServiceAccountToken"] is False
        assert (said["securityContext"]["runAsNonRoot"], said["securityContext"]["runAsUser"]) == (True, 10001)
        assert said["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(said)
        empty = {volume["name"] for volume in said["volumes"] if "emptyDir" in volume}
        for each in containers(pod):
            assert each["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert set(each["resources"]["requests"]) >= {"cpu", "memory"}, name
            assert "memory" in each["resources"]["limits"]
            written = {mount["name"] for mount in each["volumeMounts"] if not mount.get("readOnly")}
            assert written <= {*empty, "workspace"}
            assert each["image"] == f"registry.example.org/sudare@sha256:{'a' * 64}"


def test_services_have_probes_and_passwords_are_named_never_written(manifests: list[Manifest]):
    for name in ("office-prefect", "office-site"):
        [container] = of_kind(manifests, "Deployment")[name]["spec"]["template"]["spec"]["containers"]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
    for _, pod in pods(manifests):
        for each in containers(pod):
            secret = [
                variable for variable in each["env"] if "LEDGER" in variable["name"] or "AUTH" in variable["name"]
            ]
            assert secret
            assert all(variable["valueFrom"]["secretKeyRef"]["name"] == "sudare" for variable in secret)
    assert not of_kind(manifests, "Secret")


def test_only_workers_mount_the_confidential_source_and_reach_it(manifests: list[Manifest]):
    """Jobs are workers too. Everybody is shut off first; each policy selects the pods of one component alone."""
    found = dict(pods(manifests))
    mounting = {
        name
        for name, pod in found.items()
        if any(mount["name"] == "source" for each in containers(pod) for mount in each["volumeMounts"])
    }
    workers = {"office-worker", "office-claims", "office-births"}
    assert mounting == workers
    policies = of_kind(manifests, "NetworkPolicy")
    nobody = policies.pop("office-nobody")["spec"]
    assert nobody["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & set(nobody)
    assert selected(nobody, found) == set(found)
    assert selected(policies["office-worker"]["spec"], found) == workers
    assert "ingress" not in policies["office-worker"]["spec"]
    for name, policy in policies.items():
        reaches = any(covers(peer, SOURCE) for rule in policy["spec"]["egress"] for peer in rule["to"])
        assert reaches == (name == "office-worker"), name
        assert all(rule.get("to") for rule in policy["spec"]["egress"]), "a rule without a peer allows all"
    assert {name for name, policy in policies.items() if selected(policy["spec"], found) & workers} == {
        "office-worker"
    }


def selected(policy: Manifest, found: dict[str, Manifest]) -> set[str]:
    wanted = policy["podSelector"]["matchLabels"].items()
    return {name for name, pod in found.items() if wanted <= pod["metadata"]["labels"].items()}


def covers(peer: Manifest, network: str) -> bool:
    block = peer.get("ipBlock")
    return block is not None and ipaddress.ip_network(network).overlaps(ipaddress.ip_network(block["cidr"]))


def test_the_commands_are_those_of_the_compose_file(manifests: list[Manifest]):
    """Both start the same image in the same ways."""
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    for name in ("worker", "prefect", "site"):
        [container] = of_kind(manifests, "Deployment")[f"office-{name}"]["spec"]["template"]["spec"]["containers"]
        command = services[name]["command"]
        assert container["command"][: len(command)] == command
    [worker] = dict(pods(manifests))["office-claims"]["spec"]["containers"]
    assert worker["command"] == ["sudare", "run", "/data/claims.yaml", "--supersede"]


def test_a_job_is_tried_again_after_a_kill_and_never_after_a_refusal(manifests: list[Manifest]):
    job = of_kind(manifests, "CronJob")["office-claims"]["spec"]
    assert job["concurrencyPolicy"] == "Forbid"
    [rule] = job["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [2, 3, 4, 5])


def test_pods_that_start_together_make_one_workspace(manifests: list[Manifest], tmp_path: Path):
    """The command of the init container, really run six times at once: one makes it, the others wait and find it."""
    [init] = dict(pods(manifests))["office-worker"]["spec"]["initContainers"]
    sudare = tmp_path / "sudare"
    sudare.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from console.main import main; main()" "$@"\n')
    sudare.chmod(0o755)
    place = tmp_path / "w"
    place.mkdir()
    command = [word.replace("/workspace", str(place)) for word in init["command"]]
    known = {name: value for name, value in os.environ.items() if not name.startswith("SUDARE_")}
    environment = {**known, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)
    ]
    said = [each.communicate() for each in started]
    assert [each.returncode for each in started] == [0] * 6, said
    assert sum(b"signing" in out or bool(out) for out, _ in said) == 1
    assert Workspace.open(place).signer().public_key == Workspace.open(place).public_key_file.read_text().strip()


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"image": {"repository": "x", "tag": "latest"}}, "tag"),
        ({"image": {"repository": "x", "digest": "sha256:abc"}}, "digest"),
        ({"jobs": [{"name": "a", "spec": "claims.yaml", "schedule": "0 6 * * 1"}]}, "spec"),
        ({"jobs": [{"name": "a", "spec": "/data/a.yaml", "schedule": "weekly"}]}, "schedule"),
        ({"site": {"publicUrl": "http://review.example.org"}}, "publicUrl"),
        ({"site": {"metricsTokens": "/data/scrapers.txt"}}, "metricsTokens"),
        ({"worker": {"resources": {"requests": {"cpu": "1", "memory": None}}}}, "memory"),
        ({"postgres": {"egress": []}}, "egress"),
        ({"wroker": {}}, "wroker"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused_by_name(values: dict[str, Any], named: str):
    refused = helm("template", "office", str(CHART), values=values)
    assert refused.returncode != 0
    assert named in refused.stderr
