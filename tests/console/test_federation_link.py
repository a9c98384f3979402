"""Federations beyond loopback: TLS, and somebody who says that the link is closed to others."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.federation import _certificates
from contracts.errors import SpecRefused


def test_beyond_loopback_somebody_says_that_the_link_is_closed(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    with pytest.raises(SpecRefused, match="--link-is-closed"):
        _certificates("192.0.2.1", authority, None, None, closed=False, keyed=False)
    with pytest.raises(SpecRefused, match="TLS wherever other machines are reached"):
        _certificates("192.0.2.1", None, None, None, closed=True, keyed=False)
    certificates = _certificates("192.0.2.1", authority, None, None, closed=True, keyed=False)
    assert certificates is not None
    assert certificates.authority == authority
    assert _certificates("127.0.0.1", None, None, None, closed=False, keyed=False) is None


def test_where_sites_have_keys_the_link_need_not_be_closed_but_keys_need_tls(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    assert _certificates("192.0.2.1", authority, None, None, closed=False, keyed=True) is not None
    with pytest.raises(SpecRefused, match="or sites have keys"):
        _certificates("127.0.0.1", None, None, None, closed=False, keyed=True)
