"""A record of every kind of product, and a browser to look at it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worlds.browsers import browser
from tests.worlds.classifiers import dp_sgd
from tests.worlds.federated_runs import released
from tests.worlds.federations import TABLES
from tests.worlds.hierarchies import nested
from tests.worlds.once import once
from tests.worlds.pictures import PictureScenario
from tests.worlds.sparse_tables import small
from tests.worlds.statistics import gaussian
from tests.worlds.synthetic_rows import aim
from tests.worlds.tables import second
from tests.worlds.versions import AnyScenario, Worlds

__all__ = ["browser"]
KINDS: dict[str, Callable[[], AnyScenario]] = {
    "tables": second,
    "levels": nested,
    "sparse": small,
    "synthetic": aim,
    "pictures": PictureScenario,
    "statistics": gaussian,
    "classifier": dp_sgd,
}


@pytest.fixture(scope="module")
def records(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    federated = once(tmp_path_factory, "federated-tables", lambda folder: released(folder, TABLES))
    [page] = federated.glob("c/models/*/v1/record.html")
    return {kind: worlds.published(make(), here=True).folder for kind, make in KINDS.items()} | {
        "federation": page.parent
    }
