"""A federation over Flower's deployment engine on loopback: real processes, secure aggregation, a killed site."""

import subprocess
from contextlib import ExitStack, closing
from pathlib import Path
from shutil import copytree

import pytest

from contracts.release.federation_spec import load_site
from flows.federation import federated_run as federated
from flows.federation.federated_run import SiteNetwork, coordinate
from flows.federation.site import PLAIN, SiteService, joined
from privacy.learning.training import initial_state
from privacy.ledger.journal.signing import Signer
from tasks.federation.flower import APP, OWN_APP, FlowerEngine, Lasting, answering
from tasks.products.across.results import ROUNDS
from tasks.records.files.classifier_files import WEIGHTS
from tasks.storage.workspace.environment import environment_for_flower, federation_environment
from tasks.verify import verify
from tests.tasks.federation.certificates import loopback_certificates
from tests.worlds.federations import SITES, a_coordinator, a_site, drawn, ledger_of
from tests.worlds.ports import port_of_its_own


@pytest.mark.long
def test_a_federation_under_secure_aggregation_goes_on_when_a_site_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The node of south is killed when south has made its contribution: it is paid, and is in no sum.

    The masks that it had agreed on with the others are taken out of the sum with their shares of its key.
    """
    environment, port = federation_environment(), port_of_its_own()
    certificates = loopback_certificates(tmp_path)
    spec, workspace = a_coordinator(tmp_path / "coordinator")
    sites = {name: a_site(tmp_path / name, name) for name in SITES}
    nodes: dict[str, Lasting] = {}

    class Killing(SiteService):
        def masked(self, message: bytes) -> bytes:
            answer = super().masked(message)
            if self._site.name == "south":
                nodes["south"].end()
            return answer

    monkeypatch.setattr(federated, "SiteService", Killing)
    told: list[str] = []
    with ExitStack() as stack:
        for name, (path, site_workspace) in sites.items():
            joining = federated.site(
                path, site_workspace, environment=environment, link=f"127.0.0.1:{port}", certificates=certificates
            )
            nodes[name] = stack.enter_context(joining)
        network = SiteNetwork(environment, "127.0.0.1", port, certificates, joining=200, answering=60, between=1)
        released = coordinate(spec, workspace, network, on_message=told.append)
    assert "round 1 of 1, without south: no answer" in told
    assert released.left_out == {"south": 1}
    assert [key for key in drawn(workspace) if "lost" not in key] == ["fed/00000"]
    for name in SITES:
        assert len(drawn(sites[name][1])) == 1 + released.lost
        with closing(ledger_of(sites[name][1])) as ledger:
            assert ledger.verify() == []
    public_key = workspace.public_key_file.read_text().strip()
    folder = Path(released.version.folder)
    assert verify(folder, public_key=public_key).ok
    other = Signer(bytes(32), "elsewhere.example").public_key
    assert "signatures, keyid" in {each.field for each in verify(folder, public_key=other).findings}
    (tmp_path / "copy").mkdir()
    for name in (WEIGHTS, ROUNDS):
        copy = copytree(folder, tmp_path / "copy" / name.replace("/", "-"))
        held = (copy / name).read_bytes()
        (copy / name).chmod(0o644)
        (copy / name).write_bytes(held[:-1] + bytes([held[-1] ^ 1]))
        assert not verify(copy, public_key=public_key).ok


@pytest.mark.services
def test_a_link_takes_no_app_but_its_own(tmp_path: Path):
    """An app with one more line is refused by a link that runs, and its messages are ignored by a node."""
    environment, port = federation_environment(), port_of_its_own()
    engine, other = FlowerEngine(environment, tmp_path / "home"), tmp_path / "app"
    copytree(APP, other)
    with (other / "sudare_federation" / "client.py").open("a") as code:
        code.write("print('more')\n")
    (engine.home / "config.toml").write_text(
        f'[superlink]\ndefault = "s"\n[superlink.s]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    with engine.link(port, None):
        for app, taken in ((other, False), (APP, True)):
            told = subprocess.run(
                [str(environment / "bin" / "flwr"), "run", str(app), "s"],
                env=environment_for_flower(environment / "bin", engine.home),
                capture_output=True,
                text=True,
                timeout=240,
            )
            assert ("Successfully started run" in told.stdout + told.stderr) is taken, told.stdout + told.stderr
    assert "the app that was sent is another" in (engine.home / "link.log").read_text()
    python = [str(environment / "bin" / "python"), "-c", IGNORING, str(APP), str(other)]
    subprocess.run(python, check=True, env={"PYTHONPATH": str(OWN_APP.parent), "HOME": str(tmp_path)}, timeout=240)


IGNORING = """
import sys
from pathlib import Path
from types import SimpleNamespace
from flwr.cli.build import build_fab_from_disk
from flwr.supernode import start_client_internal as node
import own_app
def asking(*, get_fab):
    return get_fab("0", 1)
node._pull_and_store_message = asking
own_app.pin()
own, other = (SimpleNamespace(content=build_fab_from_disk(Path(app))) for app in sys.argv[1:])
assert node._pull_and_store_message(get_fab=lambda hash, run: own) is own
try:
    node._pull_and_store_message(get_fab=lambda hash, run: other)
    sys.exit("taken")
except node.RunNotRunningException:
    pass
"""


@pytest.mark.services
def test_nothing_but_the_protocol_gets_a_contribution_that_it_masks(tmp_path: Path):
    """A query that says it is masked, and a message of training of which Flower's SecAgg+ does not look."""
    path, workspace = a_site(tmp_path / "north", "north")
    with joined(*load_site(path), workspace) as site:
        answers = SiteService(site)
        with answering(tmp_path / "q", answers), answering(tmp_path / "m", answers.masked):
            parameters = initial_state(site.federation.training[1]).parameters.tobytes()
            told = subprocess.run(
                [
                    str(federation_environment() / "bin" / "python"),
                    "-c",
                    ASKING,
                    str(tmp_path / "q"),
                    str(tmp_path / "m"),
                ],
                check=True,
                input=parameters,
                capture_output=True,
                env={"PYTHONPATH": str(APP), "HOME": str(tmp_path)},
                timeout=240,
            )
    assert told.stdout.decode().splitlines() == [
        f"{{'refused': '{PLAIN}'}} 0",
        "a message of training that secure aggregation did not see",
    ]
    assert drawn(workspace) == []


ASKING = """
import sys
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.common import FitIns, Parameters
from flwr.compat.common import recorddict_compat as compat
from flwr.supercore.task_identity import TaskIdentity
from sudare_federation.client import app
from sudare_federation.wire import packed, unpacked
TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
parameters = sys.stdin.buffer.read()
context = Context(1, 1, {"socket": sys.argv[1], "masked": sys.argv[2]}, RecordDict(), {})
said = {"number": 0, "attempt": "0" * 16}
query = packed({"op": "round", **said, "masked": True}, parameters)
asked = Message(RecordDict({"sudare": ConfigRecord({"message": query})}), dst_node_id=1, message_type="query")
told, body = unpacked(app(asked, context).content["sudare"]["message"])
print(told, len(body))
content = compat.fitins_to_recorddict(FitIns(Parameters([parameters], ""), said), True)
try:
    app(Message(content, dst_node_id=1, message_type="train.default"), context)
    print("a contribution")
except RuntimeError as refused:
    print(refused)
"""


@pytest.mark.services
def test_a_node_does_not_take_the_place_of_a_site_that_is_there(tmp_path: Path):
    """Nodes are met one by one; the second that calls itself north is north only when the first has gone."""
    python = [str(federation_environment() / "bin" / "python"), "-c", MEETING]
    subprocess.run(python, check=True, env={"PYTHONPATH": str(APP), "HOME": str(tmp_path)}, timeout=240)


MEETING = """
from sudare_federation.server import Serving
class Nodes(Serving):
    def __init__(self):
        super().__init__(self, None)
        self.there = {1: "north"}
    def get_node_ids(self):
        return list(self.there)
    def _ask(self, nodes, message, seconds):
        return {name: ({"site": self.there[node], "mark": "m"}, b"") for name, node in nodes.items()}
nodes = Nodes()
assert "mark" in nodes._meet({})["north"]
nodes.there |= {2: "north", 3: "east"}
assert set(nodes._meet({})) == {"east"} and nodes._nodes == {"north": 1, "east": 3}
del nodes.there[1]
assert set(nodes._meet({})) == {"north"} and nodes._nodes == {"north": 2, "east": 3}
nodes.there |= {4: "south", 5: "south"}
assert "refused" in nodes._meet({})["south"] and "south" not in nodes._nodes
"""


@pytest.mark.services
def test_masks_take_all_bits_of_their_seeds():
    """Two seeds whose words have the same exclusive or: Flower masks alike, the generator put in place does not."""
    program = """
import numpy as np
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from flwr.client.mod.secure_aggregation.secaggplus_mod import secaggplus_mod
from sudare_federation import masks
one, other = bytes(range(32)), bytes(range(4, 32)) + bytes(range(4))
shapes = [(1,), (3, 5)]
assert all((a == b).all() for a, b in zip(pseudo_rand_gen(one, 2**32, shapes), pseudo_rand_gen(other, 2**32, shapes)))
masks.put_in_place()
stretched = secaggplus_mod.__globals__["pseudo_rand_gen"]
left, right, again = (stretched(seed, 2**32, shapes) for seed in (one, other, one))
assert [part.shape for part in left] == shapes and left[1].dtype == np.int64
assert not (left[1] == right[1]).any() and (left[1] == again[1]).all()
many = stretched(one, 2**32, [(200_000,)])[0]
assert 0 <= many.min() and many.max() < 2**32 and abs(many.mean() / 2**31 - 1) < 0.01
"""
    python = federation_environment() / "bin" / "python"
    subprocess.run([str(python), "-c", program], check=True, env={"PYTHONPATH": str(APP)}, timeout=240)
