"""Versions that were published under an older schema of the record still verify, and are held to its rules."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from privacy.ledger.signing import Signer
from tasks.verify import verify
from tests.tasks.forgery import forge, load, told
from tests.tasks.version_fixture import SEED, Version, broken

FIRST = Path(__file__).parent / "versions" / "record-1.zip"
"""A version of one small table, as Sudare 0.1.0 published it when records had the schema sudare-record/1."""


@pytest.fixture
def first(tmp_path: Path) -> Version:
    with zipfile.ZipFile(FIRST) as archive:
        archive.extractall(tmp_path / "v1")
    return Version(tmp_path / "v1", Signer(SEED))


def test_a_version_of_the_first_schema_verifies(first: Version) -> None:
    """Every rule is checked and holds; nothing is skipped for its age."""
    assert load(first.folder / "record.json")["schema"] == "sudare-record/1"
    report = verify(first.folder, public_key=first.key)
    assert report.ok, report.findings


def test_a_forged_version_of_the_first_schema_is_caught(first: Version) -> None:
    """Its rules are those that it had: a prettier epsilon for people is found."""
    forge(first, record=lambda record: told(record, "F.epsilon", "0.1"))
    report = verify(first.folder, public_key=first.key)
    assert broken(report) == {5}
    assert "groups.F.epsilon" in str(report.findings)


def test_a_flipped_byte_in_it_is_caught(first: Version) -> None:
    """The record of the first schema is covered by the manifest like any other."""
    path = first.folder / "record.json"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert not verify(first.folder, public_key=first.key).ok


def test_a_schema_of_the_future_is_refused_in_words(first: Version) -> None:
    """An unknown schema is a finding of rule 5, never a traceback."""
    forge(first, record=lambda record: record.update(schema="sudare-record/9"))
    report = verify(first.folder, public_key=first.key)
    assert 5 in broken(report)
    assert "sudare-record/9" in "\n".join(map(str, report.findings))
