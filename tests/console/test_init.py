"""`sudare init`: a workspace that is ready at once, and is never made twice."""

from __future__ import annotations

import json
from pathlib import Path

from tasks.storage.workspace.settings import Workspace
from tasks.verification.keys import is_own
from tests.console.conftest import Typed


def test_init_makes_a_workspace_that_is_ready(
    initialised: tuple[Path, str], prefect_home: Path, typed: Typed
) -> None:
    """Ledger, keys and store are there, and Prefect's database soon; a second init is refused and changes nothing."""
    root, printed = initialised
    told = json.loads(printed)
    workspace = Workspace.open(root)
    assert told["workspace"] == str(workspace.root)
    assert told["public_key"] == workspace.public_key_file.read_text().strip()
    assert (workspace.private / "ledger.sqlite").is_file()
    assert workspace.prefect_home == prefect_home
    assert (prefect_home / "prefect.db").is_file()
    assert workspace.releases.is_dir()
    noted = root.parent / "config" / "sudare"
    assert told["noted_as_yours"] is True
    assert is_own(told["public_key"], workspace.root, noted)
    assert not is_own(told["public_key"], root.parent, noted)
    typed("init", str(root)).assert_ended(2, "a workspace already")
    assert workspace.public_key_file.read_text().strip() == told["public_key"]


def test_init_where_nothing_can_be_written_says_where(tmp_path: Path, typed: Typed) -> None:
    """The refusal names the folder."""
    (tmp_path / "file").write_text("")
    typed("init", str(tmp_path / "file" / "w")).assert_ended(2, str(tmp_path / "file" / "w"))


def test_a_command_without_a_workspace_says_how_to_make_one(tmp_path: Path, typed: Typed) -> None:
    """What needs a workspace names `sudare init` and `--workspace`."""
    typed("budget", "show", "--workspace", str(tmp_path)).assert_ended(2, "sudare init", "--workspace")
