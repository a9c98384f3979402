"""`sudare federation` as it is typed, without Flower: keys, TLS, and the check of what was released."""

import json
from pathlib import Path

import pytest

from console.federation import _certificates
from contracts.errors import SpecRefused
from tests.console.conftest import Typed
from tests.worlds.federated_runs import released
from tests.worlds.federations import FEDERATION, TABLES, a_site


def test_a_site_makes_its_key_once_and_prints_the_line_of_the_spec(tmp_path: Path, typed: Typed):
    site, workspace = a_site(tmp_path / "north", "north")
    first, again = (typed("federation", "key", str(site), "--json", at=workspace) for _ in range(2))
    assert (first.code, first.json) == (0, again.json)
    line = f"key: {first.json['key']}"
    assert line in typed("federation", "key", str(site), at=workspace).out.splitlines()
    spec = tmp_path / "north" / "federation.yaml"
    spec.write_text(FEDERATION.replace("{name: north, ", f"{{name: north, {line}, "))
    half = typed("federation", "plan", str(spec))
    assert (half.code, "no key for east, south" in half.err) == (2, True)


@pytest.mark.long
def test_a_version_of_a_federation_is_verified_and_listed_like_any_other(tmp_path: Path, typed: Typed):
    run = released(tmp_path, TABLES)
    folder, key = str(run.folder), str(run.workspace.public_key_file)
    held = typed("verify", folder, "--key", key)
    assert held.code == 0, held.out + held.err
    assert "long-stays" in json.dumps(typed("releases", "list", "--json", at=run.workspace).json)
    planned = typed("federation", "plan", str(run.workspace.root / "federation.yaml"), "--json").json
    assert planned["spec_digest"] == run.known.spec.digest
    assert planned["epsilon_person"] == run.outcome.version.epsilon
    assert any("domain" in each or "source" in each for each in planned["unprotected"])
    assert typed("federation", "check", folder).code == 2


def test_beyond_loopback_somebody_says_that_the_link_is_closed(tmp_path: Path):
    authority = tmp_path / "ca.pem"
    with pytest.raises(SpecRefused, match="--link-is-closed"):
        _certificates("192.0.2.1", authority, None, None, closed=False, keyed=False)
    with pytest.raises(SpecRefused, match="TLS wherever other machines are reached"):
        _certificates("192.0.2.1", None, None, None, closed=True, keyed=False)
    certificates = _certificates("192.0.2.1", authority, None, None, closed=True, keyed=False)
    assert certificates is not None
    assert certificates.authority == authority
    assert _certificates("127.0.0.1", None, None, None, closed=False, keyed=False) is None


def test_where_sites_have_keys_the_link_need_not_be_closed_but_keys_need_tls(tmp_path: Path):
    authority = tmp_path / "ca.pem"
    assert _certificates("192.0.2.1", authority, None, None, closed=False, keyed=True) is not None
    with pytest.raises(SpecRefused, match="or sites have keys"):
        _certificates("127.0.0.1", None, None, None, closed=False, keyed=True)
