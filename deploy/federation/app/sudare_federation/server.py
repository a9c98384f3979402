"""Beside the coordinator: does on Flower's grid what the coordinator's Sudare asks for over one Unix socket.

    {"op": "sites", "sites", "message", "seconds",    find the sites, hand each the message, answer with what they say
     "nodes"}                                         (whose node is which by its key, or null)
    {"op": "round", "sites", "secure", ...}, call     one attempt of a round; answers with the sum
    {"op": "stop"}                                    end

It decides nothing: who must answer, and what comes of too few, the coordinator knows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from sudare_federation.masks import put_in_place
from sudare_federation.secure_sum import secure_sum
from sudare_federation.wire import connected, packed, unpacked

put_in_place()
app = ServerApp()
RECORD = "sudare"
NO_ANSWER = "no answer"
EVERY_SECONDS = 0.3
TWICE = "two nodes call themselves that"
OTHER_NAME = "the node with its key calls itself another site"


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Do what is asked for until it says stop."""
    serving = Serving(QuickGrid(grid), context)
    with connected(str(context.run_config["socket"])) as line:
        while True:
            header, body = unpacked(line.recv_bytes())
            if header["op"] == "stop":
                return
            line.send_bytes(packed(*getattr(serving, header["op"])(header, body)))


class QuickGrid:
    """Flower's grid, looked at often: its own `send_and_receive` looks every three seconds.

    Args:
        grid: Flower's.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def get_node_ids(self) -> list[int]:
        """Return the nodes that are there now."""
        return list(self._grid.get_node_ids())

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Send messages; return the answers that come in time."""
        waiting, answers = set(self._grid.push_messages(messages)), []
        until = None if timeout is None else time.monotonic() + timeout
        while waiting and (until is None or time.monotonic() < until):
            came = list(self._grid.pull_messages(waiting))
            answers += came
            waiting -= {answer.metadata.reply_to_message_id for answer in came}
            if waiting:
                time.sleep(EVERY_SECONDS)
        return answers


class Serving:
    """Knows which node is which site.

    Args:
        grid: Flower's way to the nodes.
        context: of the server app.
    """

    def __init__(self, grid: QuickGrid, context: Context) -> None:
        self._grid, self._context = grid, context
        self._nodes: dict[str, int] = {}
        self._met: set[int] = set()
        self._named: dict[int, str] = {}

    def sites(self, header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """Wait until every site has joined or refused, or the time is over."""
        told: dict[str, Any] = {}
        self._named = {node: name for name, node in (header["nodes"] or {}).items()}
        until = time.monotonic() + header["seconds"]
        while True:
            told |= self._meet(header["message"])
            if set(header["sites"]) <= set(told) or time.monotonic() > until:
                return {"told": told}, b""
            time.sleep(0.5)

    def round(self, header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """Make one attempt with the sites that are there."""
        self._meet(header["message"])
        here = set(self._grid.get_node_ids())
        nodes = {name: node for name, node in self._nodes.items() if node in here and name in header["sites"]}
        if header["secure"]:
            present, total = secure_sum(
                self._grid, self._context, sorted(nodes.values()), header, body, timeout=header["seconds"]
            )
            names = [name for name, node in nodes.items() if node in present]
        else:
            names, total = self._plain_sum(nodes, header, body)
        residues = b"" if total is None else (total & (2**32 - 1)).astype("<u4").tobytes()
        return {"present": names, "absent": self._absent(header, names, nodes)}, residues

    def _plain_sum(
        self, nodes: dict[str, int], header: dict[str, Any], body: bytes
    ) -> tuple[list[str], np.ndarray | None]:
        """Add up contributions that this server may see."""
        agreed = {name: header["message"][name] for name in ("spec", "contract", "plan")}
        told = {"number": header["number"], "attempt": header["attempt"], **agreed}
        call = packed({"op": "round", **told}, body)
        total: np.ndarray | None = None
        names = []
        for name, (answer, sent) in self._ask(nodes, call, header["seconds"]).items():
            if "refused" not in answer:
                numbers = np.frombuffer(sent, dtype="<u4").astype(np.int64)
                total = numbers if total is None else total + numbers
                names.append(name)
        return names, total

    def _absent(self, header: dict[str, Any], names: list[str], nodes: dict[str, int]) -> dict[str, str]:
        """Ask those that are not in the sum why."""
        here = set(self._grid.get_node_ids())
        missing = {name: node for name, node in nodes.items() if name not in names and node in here}
        told = self._ask(missing, packed({"op": "why"}), min(15.0, header["seconds"])) if missing else {}
        return {
            name: told[name][0].get("refused", NO_ANSWER) if name in told else NO_ANSWER
            for name in header["sites"]
            if name not in names
        }

    def _meet(self, message: dict[str, Any]) -> dict[str, Any]:
        """Hand the message to nodes that are new; who they are, their keys say, or where sites have none they say.

        One that calls itself a site whose node is there is not taken in its place; it is asked again, as a site that
        was started anew is known by its old node for a while.
        """
        here = set(self._grid.get_node_ids())
        self._met &= here
        taken = {name: node for name, node in self._nodes.items() if node in here}
        new = [node for node in sorted(here) if node not in self._met]
        answers = self._ask({str(node): node for node in new}, packed(message), 60.0) if new else {}
        told: dict[str, Any] = {}
        for node, (answer, _) in answers.items():
            name, answer = self._who(int(node), answer)
            if taken.get(name, int(node)) != int(node):
                continue
            self._met.add(int(node))
            if name is not None:
                if name in told:
                    answer = {"site": name, "refused": TWICE}
                told[name] = answer
                if "refused" not in answer:
                    self._nodes[name] = int(node)
                else:
                    self._nodes.pop(name, None)
        return told

    def _who(self, node: int, answer: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return which site a node is, and its answer; one whose key is another site's is refused."""
        said = answer.get("site")
        if not self._named:
            return said, answer
        name = self._named.get(node)
        return name, answer if said in (None, name) else {"site": name, "refused": OTHER_NAME}

    def _ask(self, nodes: dict[str, int], message: bytes, seconds: float) -> dict[str, tuple[dict[str, Any], bytes]]:
        """Ask nodes one thing; those that do not answer are not in the result."""
        names = {node: name for name, node in nodes.items()}
        asked = [
            Message(RecordDict({RECORD: ConfigRecord({"message": message})}), dst_node_id=node, message_type="query")
            for node in names
        ]
        replies = self._grid.send_and_receive(asked, timeout=seconds) if asked else []
        return {
            names[reply.metadata.src_node_id]: unpacked(reply.content[RECORD]["message"])
            for reply in replies
            if not reply.has_error()
        }
