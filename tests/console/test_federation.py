"""`sudare federation` as it is typed, without Flower: keys, and the check of what was released."""

from __future__ import annotations

import json
from pathlib import Path

from tasks.federation.federation_page import PAGE
from tests.console.conftest import Typed
from tests.tasks.federation.test_federation_sites import released
from tests.worlds.federations import FEDERATION, a_site


def test_a_site_makes_its_key_once_and_prints_the_line_of_the_spec(tmp_path: Path, typed: Typed) -> None:
    site, workspace = a_site(tmp_path / "north", "north")
    first, again = (typed("federation", "key", str(site), "--json", at=workspace) for _ in range(2))
    assert (first.code, first.json) == (0, again.json)
    line = f"key: {first.json['key']}"
    assert line in typed("federation", "key", str(site), at=workspace).out.splitlines()
    spec = tmp_path / "north" / "federation.yaml"
    spec.write_text(FEDERATION.replace("{name: north, ", f"{{name: north, {line}, "))
    half = typed("federation", "plan", str(spec))
    assert (half.code, "no key for east, south" in half.err) == (2, True)


def test_a_release_is_checked_by_its_own_command_and_verify_says_which(tmp_path: Path, typed: Typed) -> None:
    _, _, workspace, _ = released(tmp_path, FEDERATION)
    folder, spec, key = tmp_path / "m", tmp_path / "c" / "federation.yaml", str(workspace.public_key_file)
    checked = ("federation", "check", str(folder), str(spec), "--key", key)
    held, told = typed(*checked), typed(*checked, "--json").json
    assert (held.code, told["holds"]) == (0, True)
    assert told["page"] == "page: byte for byte what this code makes of federation.json"
    assert told["page"] in held.out.replace("\n", " ")
    refused = typed("verify", str(folder), "--key", key)
    assert refused.code == 2
    assert "found:   the release of a federation" in refused.err
    assert f"sudare federation check {folder} FEDERATION.yaml --key FILE" in refused.err.replace("\n", "")
    page = folder / PAGE
    page.write_bytes(page.read_bytes().replace(b"Not protected", b"Protected"))
    failed = typed(*checked)
    assert (failed.code, PAGE in failed.err) == (5, True)
    (tmp_path / "other.pub").write_text("0" * 64)
    other = typed(*checked[:-1], str(tmp_path / "other.pub"))
    assert (other.code, "not of the key that was given" in other.err) == (5, True)
    (folder / "federation.json").write_text(json.dumps([]))
    assert typed(*checked).code == 5
