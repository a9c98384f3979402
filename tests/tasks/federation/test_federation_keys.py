"""Keys of sites: only nodes that hold one are taken, each as the site whose key it holds; the link's other doors."""

import http.client
import ssl
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from contracts.contract.odcs import load_contract
from contracts.errors import SpecRefused
from contracts.release.federation_spec import load_federation, load_site
from flows.federation import federated_run as federated
from flows.federation.federated_run import SiteNetwork, coordinate
from flows.federation.flower_sites import OTHER_NAME
from flows.federation.site import SiteService, joined
from tasks.federation.flower import OWN_APP, Certificates, FlowerEngine, FlowerFailed, Lasting, answering
from tasks.federation.site_keys import key_file, key_of, site_key
from tasks.records.across.words import trusted
from tasks.storage.workspace.environment import federation_environment
from tasks.storage.workspace.settings import Workspace
from tests.tasks.federation.certificates import loopback_certificates
from tests.worlds.federated_runs import known_of
from tests.worlds.federations import FEDERATION, SITES, TRUSTING, a_coordinator, a_site, drawn
from tests.worlds.ports import port_of_its_own

PLAINLY = FEDERATION.replace(*TRUSTING)


def keyed(tmp_path: Path, federation: str = PLAINLY) -> tuple[dict[str, tuple[Path, Workspace]], str]:
    """Sites that have made their keys, and the spec that names them, which each has."""
    sites = {name: a_site(tmp_path / name, name, federation=federation) for name in SITES}
    for name, (path, workspace) in sites.items():
        key = site_key(workspace, load_site(path)[1].federation, name)
        federation = federation.replace(f"{{name: {name}, ", f"{{name: {name}, key: {key}, ")
    for path, _ in sites.values():
        (path.parent / "federation.yaml").write_text(federation)
    return sites, federation


def test_a_key_is_made_once_is_secret_and_is_the_one_that_the_spec_names(tmp_path: Path):
    sites = keyed(tmp_path)[0]
    path, workspace = sites["north"]
    mine, spec = load_site(path)
    file = key_of(mine, spec, workspace)
    assert file is not None
    assert file.stat().st_mode & 0o777 == 0o600
    assert site_key(workspace, spec.federation, "north") == spec.site_keys["north"]
    assert spec.site_keys["north"] not in (spec.site_keys["east"], spec.site_keys["south"])
    file.write_bytes(key_file(sites["east"][1], spec.federation, "east").read_bytes())
    with pytest.raises(SpecRefused, match="another key"):
        key_of(mine, spec, workspace)
    file.unlink()
    with pytest.raises(SpecRefused, match="no key"):
        key_of(mine, spec, workspace)
    assert any("by its key" in said for said in trusted(spec, load_contract(mine.contract)))
    without = load_federation(a_coordinator(tmp_path / "c", federation=PLAINLY)[0])
    assert (without.site_keys, without.digest == spec.digest) == ({}, False)


@pytest.mark.parametrize(
    ("given", "words_of_it"),
    [
        ("key: ecdsa-sha2-nistp384 AAAA", "write what sudare federation key prints"),
        ("key: {east}", "a key that two sites have"),
        ("", "no key for north"),
    ],
)
def test_keys_that_cannot_be_followed_are_refused(tmp_path: Path, given: str, words_of_it: str):
    sites, federation = keyed(tmp_path)
    keys = load_site(sites["north"][0])[1].site_keys
    other = federation.replace(f"key: {keys['north']}, ", given.format(**keys) + (", " if given else ""))
    spec_path = a_coordinator(tmp_path / "c", federation=other)[0]
    with pytest.raises(SpecRefused, match=words_of_it):
        known_of(spec_path)


@pytest.mark.services
def test_strangers_are_turned_away_and_a_key_is_good_for_its_own_site_alone(tmp_path: Path):
    """Nodes of north and east hold their keys. One holds none of the federation's; one has south's and says east."""
    environment, port = federation_environment(), port_of_its_own()
    certificates = loopback_certificates(tmp_path)
    sites, federation = keyed(tmp_path)
    spec, workspace = a_coordinator(tmp_path / "coordinator", federation=federation)
    link, told = f"127.0.0.1:{port}", list[str]()
    stranger, stranger_key = Workspace.create(tmp_path / "stranger"), tmp_path / "stranger" / "own.key"
    site_key(stranger, "long-stays", "south")
    key_file(stranger, "long-stays", "south").rename(stranger_key)
    with ExitStack() as stack:
        for name in ("north", "east"):
            path, own = sites[name]
            stack.enter_context(
                federated.site(path, own, environment=environment, link=link, certificates=certificates)
            )
        engine, turned_away = FlowerEngine(environment, tmp_path / "home"), list[str]()
        south_key = key_file(sites["south"][1], "long-stays", "south")
        impostor = joined(
            *load_site(a_site(tmp_path / "other", "east", federation=federation)[0]), other_of(tmp_path)
        )
        address = tmp_path / "impostor"
        stack.enter_context(answering(address, SiteService(stack.enter_context(impostor))))
        stack.enter_context(engine.node("east", (address, address), link, certificates, key=south_key))
        unknown = stack.enter_context(engine.node("north", (address, address), link, certificates, key=stranger_key))
        network = SiteNetwork(environment, "127.0.0.1", port, certificates, joining=200, answering=100, between=1)

        def say(text: str) -> None:
            told.append(text)
            turned_away.extend(end_of(unknown, seconds=100) if "south" in text and not turned_away else [])

        released = coordinate(spec, workspace, network, on_message=say)
    assert f"site south does not take part: {OTHER_NAME}" in told
    assert released.left_out == {"south": 1}
    assert len(turned_away) == 1
    assert "the link turned it away, as its key is of no site of the federation" in turned_away[0]
    assert [len(drawn(sites[name][1])) for name in SITES] == [1, 1, 0]
    assert drawn(other_of(tmp_path)) == []


def other_of(tmp_path: Path) -> Workspace:
    return Workspace.open(tmp_path / "other")


def end_of(running: Lasting, *, seconds: float) -> list[str]:
    """Why a process of Flower's ended, when it does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            running.check()
        except FlowerFailed as error:
            return [str(error)]
        time.sleep(0.2)
    return []


@pytest.mark.services
def test_runs_are_started_and_stopped_from_the_machine_of_the_link_alone(tmp_path: Path):
    """127.0.0.2 is another machine here. Of a link without keys, its doors are closed too, but for nodes."""
    port, certificates = port_of_its_own(), loopback_certificates(tmp_path)
    engine = FlowerEngine(federation_environment(), tmp_path / "home")
    with engine.link(port, certificates):
        for path in ("/v1/control/list-runs", "/v1/control/register-node", "/v1/runtime/acquire-task", "/docs"):
            assert asked(port, certificates, path, source="127.0.0.2") == 403
            assert asked(port, certificates, path, source="127.0.0.1") != 403
        assert asked(port, certificates, "/v1/fleet/pull-messages", source="127.0.0.2") == 401
        assert asked(port, certificates, "/v1/fleet/../control/list-runs", source="127.0.0.2") in (403, 404)


def asked(port: int, certificates: Certificates, path: str, *, source: str) -> int:
    context = ssl.create_default_context(cafile=str(certificates.authority))
    line = http.client.HTTPSConnection("127.0.0.1", port, source_address=(source, 0), context=context, timeout=120)
    line.request("POST", path, body=b"", headers={"content-type": "application/protobuf"})
    return line.getresponse().status


@pytest.mark.services
def test_a_node_pushes_answers_of_its_own_alone(tmp_path: Path):
    run_in_flower(tmp_path, PUSHING)


@pytest.mark.services
def test_a_name_belongs_to_the_node_with_its_key(tmp_path: Path):
    run_in_flower(tmp_path, NAMING, app=True)


def run_in_flower(tmp_path: Path, program: str, *, app: bool = False) -> Any:
    paths = OWN_APP.parent / "app" if app else OWN_APP.parent
    python = [str(federation_environment() / "bin" / "python"), "-c", program]
    subprocess.run(python, check=True, env={"PYTHONPATH": str(paths), "HOME": str(tmp_path)}, timeout=240)


PUSHING = """
import own_nodes
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import Message, Metadata
from flwr.proto.node_pb2 import Node
push = own_nodes.pushing_own(lambda request, state: "taken")
def pushed(node, **told):
    message = Message(metadata=Metadata(**told))
    return push(PushMessagesRequest(node=Node(node_id=node), messages_list=[message]), None)
assert pushed(7, src_node_id=7, reply_to_message_id="m") == "taken"
for told in ({"src_node_id": 8, "reply_to_message_id": "m"}, {"src_node_id": 7}, {"src_node_id": 1}):
    try:
        pushed(7, **told)
        raise SystemExit("taken")
    except ValueError:
        pass
"""
NAMING = """
from sudare_federation.server import OTHER_NAME, Serving
class Nodes(Serving):
    def __init__(self):
        super().__init__(self, None)
        self.there = {1: "north", 2: "north", 9: "south"}
        self._named = {1: "north", 2: "east"}
    def get_node_ids(self):
        return list(self.there)
    def _ask(self, nodes, message, seconds):
        return {name: ({"site": self.there[node], "mark": "m"}, b"") for name, node in nodes.items()}
nodes = Nodes()
told = nodes._meet({})
assert "mark" in told["north"] and told["east"]["refused"] == OTHER_NAME and "south" not in told
assert nodes._nodes == {"north": 1}
del nodes.there[1]
assert nodes._meet({}) == {}
nodes.there[1] = "north"
assert set(nodes._meet({})) == {"north"} and nodes._nodes == {"north": 1}
"""
