"""Runs Flower's link, or a site's node, so that it takes no app but the one beside this file; or Flower's `flwr`.

    python own_app.py superlink|supernode|flwr OPTIONS      options as Flower's own commands have them, and
        --site-keys FILE --site-nodes FILE                  of the link, where sites have keys (`own_nodes`)

Flower runs whatever app is sent to the link by whoever reaches it. Here an app is compared with the party's own copy,
file by file, before any of it is stored or run: the link refuses another, a node ignores its messages. Each ends when
the process that started it is gone (`own_end`).
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

APP = Path(__file__).resolve().parent / "app"
STATES = (
    ("flwr.supercore.corestate.in_memory_corestate", "InMemoryCoreState"),
    ("flwr.supercore.corestate.sql_corestate", "SqlCoreState"),
)
OTHER = "the app that was sent is another than the copy that this party has"


def contents(app: bytes) -> list[tuple[str, bytes]]:
    """Return the files of a packed app, by name; a name that comes twice is there twice."""
    with ZipFile(BytesIO(app)) as packed:
        return sorted((each.filename, packed.read(each)) for each in packed.infolist())


def own_alone(store: Callable[..., Any], own: list[tuple[str, bytes]]) -> Callable[..., Any]:
    """Let apps be stored only if they are this party's own."""

    def checked(state: Any, fab: Any, *given: Any, **named: Any) -> Any:
        if contents(fab.content) != own:
            raise ValueError(OTHER)
        return store(state, fab, *given, **named)

    return checked


def ignoring_others(
    pull: Callable[..., Any], own: list[tuple[str, bytes]], refusal: type[Exception]
) -> Callable[..., Any]:
    """Let a node ignore messages for another app, as those of a run that does not run."""

    def pulled(*, get_fab: Callable[[str, int], Any], **named: Any) -> Any:
        def own_fab(fab_hash: str, run_id: int) -> Any:
            fab = get_fab(fab_hash, run_id)
            if contents(fab.content) != own:
                sys.stderr.write(f"{OTHER}\n")
                raise refusal(OTHER)
            return fab

        return pull(get_fab=own_fab, **named)

    return pulled


def pin() -> None:
    """Put the checks in place.

    Raises:
        AttributeError: this version of Flower has not what they take the place of; nothing may be run with it.
    """
    own = contents(import_module("flwr.cli.build").build_fab_from_disk(APP))
    for module, name in STATES:
        state = getattr(import_module(module), name)
        for stores in ("store_fab", "store_app"):
            setattr(state, stores, own_alone(getattr(state, stores), own))
    node = import_module("flwr.supernode.start_client_internal")
    node._pull_and_store_message = ignoring_others(node._pull_and_store_message, own, node.RunNotRunningException)


def main() -> None:
    """Run the link, a node, or `flwr`."""
    sys.path.append(str(APP.parent))
    own_end, own_nodes = import_module("own_end"), import_module("own_nodes")
    options = ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("party", choices=("superlink", "supernode", "flwr"))
    options.add_argument("--site-keys", type=Path)
    options.add_argument("--site-nodes", type=Path)
    told, sys.argv[1:] = options.parse_known_args()
    own_end.end_with_parent()
    if told.party == "flwr":
        import_module("flwr.cli.app").app()
        return
    pin()
    if told.party == "superlink":
        own_nodes.close_doors(told.site_keys, told.site_nodes)
    started = {"superlink": "flwr.superlink.cli", "supernode": "flwr.supernode.cli"}[told.party]
    getattr(import_module(started), f"flower_{told.party}")()


if __name__ == "__main__":
    main()
