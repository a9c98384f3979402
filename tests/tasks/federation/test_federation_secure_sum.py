"""SecAgg+ among three nodes, one of which is lost at any of its stages; in Flower's environment, without network."""

import json
import subprocess

import pytest

from tasks.federation.flower import APP
from tasks.storage.workspace.environment import environment_for_flower, federation_environment

pytestmark = pytest.mark.services

PROTOCOL = """
import copy, json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from types import SimpleNamespace
from flwr.app import Context, Message, RecordDict
from flwr.client.mod.secure_aggregation.secaggplus_mod import secaggplus_mod
from flwr.common import Code, ConfigRecord, FitRes, Status, ndarrays_to_parameters
from flwr.compat.common import recorddict_compat as compat
from flwr.supercore.task_identity import TaskIdentity
from sudare_federation.masks import put_in_place
from sudare_federation.secure_sum import secure_sum

put_in_place()
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
lost_at, lost = int(sys.argv[2]), 2
numbers = {1: np.array([5, -7, 0]), 2: np.array([100, 100, 100]), 3: np.array([-1, 2, 1000])}
stages = ["setup", "share_keys", "collect_masked_vectors", "unmask"]
contexts = {node: Context(1, node, {}, RecordDict(), {}) for node in numbers}


def fit(node):
    def call(message, context):
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([numbers[node].astype(float)]), 1, {})
        return Message(compat.fitres_to_recorddict(result, keep_input=True), reply_to=message)
    return call


class Grid:
    def send_and_receive(self, messages, *, timeout=None):
        answers = []
        for message in messages:
            message = copy.deepcopy(message)  # as a network would: nodes share no objects
            node, configs = message.metadata.dst_node_id, message.content.config_records["secaggplus_configs"]
            stage = stages.index(configs["stage"])
            if node == lost and stage >= lost_at:
                continue
            message.metadata.__dict__["_message_id"] = f"m{node}-{stage}"
            answers.append(secaggplus_mod(message, contexts[node], fit(node)))
        return answers


config = {"number": 0, "attempt": 0, "fewest": int(sys.argv[3]), "largest": 4096,
          "message": {"spec": "s", "contract": "c", "plan": "p"}}
server = Context(1, 0, {}, RecordDict(), {})
present, total = secure_sum(Grid(), server, sorted(numbers), config, b"", timeout=1.0)
print(json.dumps({"present": sorted(present), "total": None if total is None else total.tolist()}))
"""


def made(lost_at: int, fewest: int) -> dict[str, object]:
    environment = federation_environment()
    done = subprocess.run(
        [str(environment / "bin" / "python"), "-c", PROTOCOL, str(APP), str(lost_at), str(fewest)],
        env=environment_for_flower(environment / "bin", environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize(
    ("lost_at", "present", "total"),
    [
        (0, [1, 3], [4, -5, 1000]),
        (1, [1, 3], [4, -5, 1000]),
        (2, [1, 3], [4, -5, 1000]),
        (3, [1, 2, 3], [104, 95, 1100]),
        (4, [1, 2, 3], [104, 95, 1100]),
    ],
)
def test_a_node_that_is_lost_at_any_stage_costs_no_round(lost_at: int, present: list[int], total: list[int]):
    """Two of three are enough: before it shared its keys, after, before its sum, before it helps to unmask."""
    assert made(lost_at, fewest=2) == {"present": present, "total": total}


@pytest.mark.parametrize("lost_at", [0, 1, 2])
def test_fewer_than_are_needed_give_no_sum(lost_at: int):
    assert made(lost_at, fewest=3) == {"present": [], "total": None}
