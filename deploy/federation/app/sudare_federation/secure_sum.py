"""A sum of whole numbers under SecAgg+: Flower's protocol, fed so that its floats stay whole.

The protocol averages floats: it clips them to [-R, R], moves them to [0, 2 R], rounds, masks, adds modulo 2^32, and
divides. With whole numbers within R, a lattice of width 1 and equal weights nothing is rounded, and n times the
average is the sum; n 2 R stays below 2^32 (`FederatedPlan.largest_entry`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.common import ConfigRecord, FitIns, Parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat
from flwr.server.compat import LegacyContext
from flwr.server.server_config import ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key

MODULUS = 2**32


@dataclass(frozen=True)
class Node:
    """A site's node, as the protocol wants it."""

    node_id: int


class Summing(FedAvg):
    """Sends one call to the given nodes and keeps what the protocol makes of the answers."""

    def __init__(self, nodes: list[int], config: dict[str, Any], parameters: bytes) -> None:
        super().__init__()
        self._nodes, self._config, self._parameters = nodes, config, parameters
        self.present: list[int] = []
        self.total: np.ndarray | None = None

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[Any]:
        """Send every node the call."""
        call = FitIns(Parameters([self._parameters], "bytes"), self._config)
        return [(Node(node), call) for node in self._nodes]

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> tuple[None, dict[str, Any]]:
        """Keep the sum: the average times the number of nodes in it, whole again."""
        self.present = [node.node_id for node, _ in results]
        (average,) = parameters_to_ndarrays(results[0][1].parameters)
        self.total = np.rint(average * len(results)).astype(np.int64)
        return None, {}


class WithWhoIsLeft(SecAggPlusWorkflow):
    """SecAgg+ that goes on without nodes that were lost before they shared their keys.

    Flower's own asks for shares of every node that was asked at first, finds none of such a node, and gives up.
    Nothing of it has to be recovered: nodes mask with those alone whose shares reached them.
    """

    def share_keys_stage(self, grid: Any, context: LegacyContext, state: Any) -> bool:
        """Let every node share its keys; who did not is not of the round any more."""
        enough: bool = super().share_keys_stage(grid, context, state)
        left = set(state.active_node_ids)
        state.sampled_node_ids = left
        state.nid_to_neighbours = {node: state.nid_to_neighbours[node] & left for node in left}
        return enough


class _Nodes:
    """Counts nodes, for the protocol's log."""

    def __init__(self, nodes: list[int]) -> None:
        self._nodes = nodes

    def num_available(self) -> int:
        """How many there are."""
        return len(self._nodes)


def secure_sum(
    grid: Any, context: Any, nodes: list[int], config: dict[str, Any], parameters: bytes, *, timeout: float
) -> tuple[list[int], np.ndarray | None]:
    """Run the protocol once.

    Args:
        grid: Flower's way to the nodes.
        context: of the server app.
        nodes: whom to ask.
        config: number and attempt of the round, what all parties agree on, `fewest` and `largest`.
        parameters: float32, little-endian.
        timeout: of each of the four stages [seconds].
    Returns:
        The nodes whose numbers are in the sum, and the sum; none where fewer than `fewest` were left.
    """
    fewest, largest = int(config["fewest"]), int(config["largest"])
    if len(nodes) < max(2, fewest):
        return [], None
    agreed = {key: config["message"][key] for key in ("spec", "contract", "plan")}
    told = {key: config[key] for key in ("number", "attempt")} | agreed
    strategy = Summing(nodes, told, parameters)
    legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=1), strategy=strategy)
    legacy.client_manager = _Nodes(nodes)
    legacy.state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(Parameters([], "bytes"), True)
    legacy.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: int(config["number"]) + 1})
    workflow = WithWhoIsLeft(
        num_shares=1.0,
        reconstruction_threshold=fewest / len(nodes),
        max_weight=1.0,
        clipping_range=float(largest),
        quantization_range=2 * largest,
        modulus_range=MODULUS,
        timeout=timeout,
    )
    workflow(grid, legacy)
    return strategy.present, strategy.total
