"""What the whole suite shares."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.engine import create_database


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prefect's folder as `sudare init` makes it, made once; tests copy it into their workspaces."""
    home = tmp_path_factory.mktemp("prefect") / "prefect"
    create_database(home)
    return home
