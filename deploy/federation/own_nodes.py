"""Closes the doors of Flower's link: who may do what at its one address and port.

nodes       where sites have keys, a node is taken only with the key of a site, and is that site from then on
messages    a node sends answers of its own, and nothing in the name of another node or of the link
the rest    starting and stopping runs, and what apps ask for, only from the machine that the link runs on
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Any

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
FLEET = "/v1/fleet/"
OTHER_KEY = "the keys of this federation's sites are known; there is no place for another"


class OwnMachine:
    """Lets through what nodes ask for, whose keys Flower checks, and all else from this machine alone.

    Packets whose source is the very address that they come to are of the same machine: the kernel drops others.

    Args:
        app: what is asked.
    """

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        """Answer 403, or hand the request on."""
        if scope["type"] == "lifespan" or str(scope["path"]).startswith(FLEET) or from_here(scope):
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"the link takes this from its own machine alone\n"})


def from_here(scope: Scope) -> bool:
    """Tell whether a request comes from the machine that it came to."""
    client, server = scope.get("client"), scope.get("server")
    return bool(client and server and client[0] == server[0])


def pushing_own(push: Callable[..., Any]) -> Callable[..., Any]:
    """Let a node push answers of its own alone; Flower compares the key with the node that asks, not with these."""

    def pushed(request: Any, state: Any) -> Any:
        for message in request.messages_list:
            told = message.metadata
            if told.src_node_id != request.node.node_id or not told.reply_to_message_id:
                raise ValueError("a node pushed a message that is no answer of its own")
        return push(request=request, state=state)

    return pushed


def activating_again(activate: Callable[..., Any]) -> Callable[..., Any]:
    """Let a node that was started anew take the place of its predecessor, which Flower misses only after a while."""

    def activated(request: Any, state: Any) -> Any:
        node = state.get_node_id_by_public_key(request.public_key)
        if node is not None:
            state.deactivate_node(node)
        return activate(request=request, state=state)

    return activated


def registered(state: Any, keys: dict[str, str]) -> dict[str, int]:
    """Give each site's key a node, and none to anybody else from then on; return the nodes by site."""
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    constant = import_module("flwr.common.constant")
    encoded = import_module("flwr.supercore.primitives.asymmetric").public_key_to_bytes
    owner = (constant.NOOP_FLWR_AID, constant.NOOP_ACCOUNT_NAME)
    nodes = {
        name: state.create_node(*owner, encoded(load_ssh_public_key(key.encode())), 0, name=name)
        for name, key in keys.items()
    }

    def refused(*given: Any, **named: Any) -> Any:
        raise ValueError(OTHER_KEY)

    type(state).create_node = refused
    return nodes


def close_doors(keys: Path | None, nodes: Path | None) -> None:
    """Put the checks in place.

    Args:
        keys: JSON, the public key of each site (OpenSSH); None where sites have none.
        nodes: is written when the link starts: the node of each site.
    Raises:
        AttributeError: this version of Flower has not what they take the place of; nothing may be run with it.
    """
    middleware = import_module("starlette.middleware").Middleware
    extensions, handlers = (
        import_module(name) for name in ("flwr.superlink.extensions", "flwr.superlink.servicer.fleet.fleet_handlers")
    )
    before = extensions.get_middleware
    extensions.get_middleware = lambda: (middleware(OwnMachine), *before())
    handlers.push_messages = pushing_own(handlers.push_messages)
    if keys is None or nodes is None:
        return
    handlers.activate_node = activating_again(handlers.activate_node)
    lifespan, told = (
        import_module("flwr.superlink.cli.flower_superlink").SuperLinkLifespan,
        json.loads(keys.read_text()),
    )
    startup = lifespan.startup

    def started(self: Any) -> None:
        partial = nodes.with_suffix(".partial")
        partial.write_text(json.dumps(registered(self.state_factory.state(), told)))
        partial.replace(nodes)
        startup(self)

    lifespan.startup = started
