"""The registry: versions that never change, breaking changes that say so, and several processes at once."""

from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from contracts.errors import ContractRefused
from tasks.storage.workspace.contract_registry import FILE, REGISTRATION, Registry, RegistryRefused
from tests.contracts.samples import CONTRACT, replaced, write

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
X = ("[F, M]", "[F, M, X]")


def _text(version: str, *pairs: tuple[str, str]) -> str:
    return replaced(CONTRACT, ("version: 1.0.0", f"version: {version}"), *pairs)


def _register(folder: Path, version: str, *pairs: tuple[str, str]) -> tuple[str, bool]:
    """Register a version of the sample; return what changed, and whether it was registered before."""
    path = write(folder, f"{version}.odcs.yaml", _text(version, *pairs))
    entry, repeated = Registry(folder / "contracts").register(path, now=NOW)
    return entry.change, repeated


def test_a_history_of_versions(tmp_path: Path):
    """First, compatible, breaking with a new MAJOR; by number, each with its changes, kept byte for byte."""
    registry = Registry(tmp_path / "contracts")
    assert registry.contracts() == ()
    assert _register(tmp_path, "1.9.0") == ("first", False)
    assert _register(tmp_path, "1.10.0", ("purpose: tests", "purpose: all tests")) == ("compatible", False)
    assert _register(tmp_path, "2.0.0", X) == ("breaking for the account", False)
    assert _register(tmp_path, "2.0.0", X) == ("breaking for the account", True)
    entries = registry.history("people")
    assert [entry.version for entry in entries] == ["1.9.0", "1.10.0", "2.0.0"]
    assert [change["field"] for change in entries[2].changes] == ["columns.sex.values", "description"]
    assert entries[2].at == "2026-01-02T03:04:05+00:00"
    assert entries[2].file.read_text() == _text("2.0.0", X)
    assert entries[2].file.stat().st_mode & 0o222 == 0
    assert registry.load(entries[0]).version == "1.9.0"
    assert registry.contracts() == ("people",)


@pytest.mark.parametrize(
    ("version", "pairs", "found"),
    [
        ("1.2.0", [X], "X is new"),
        ("1.1.0", [X], "registered with another content"),
        ("1.0.0", [], "1.0.0"),
        ("v2", [], "'v2'"),
        ("1.2.0", [("unit: {kind: row, scope: block}", "unit: {kind: row, scope: lifetime}")], "block → lifetime"),
    ],
)
def test_what_cannot_be_registered(tmp_path: Path, version: str, pairs: list[tuple[str, str]], found: str):
    """After 1.1.0: a breaking change without a new MAJOR, a version that is taken, one below, one of another form."""
    _register(tmp_path, "1.1.0")
    with pytest.raises(RegistryRefused) as refused:
        _register(tmp_path, version, *pairs)
    (finding,) = refused.value.findings
    assert found in finding.found
    assert finding.remedy
    assert [entry.version for entry in Registry(tmp_path / "contracts").history("people")] == ["1.1.0"]


def test_a_draft_is_not_registered(tmp_path: Path):
    with pytest.raises(ContractRefused, match="nobody has declared yet"):
        _register(tmp_path, "1.0.0", ("adjacency: add_remove", "adjacency: <declare>"))
    assert not (tmp_path / "contracts").exists()


@pytest.mark.parametrize("name", ["urn:shop:orders/latest", "..", "../../etc", ".hidden", "100%", "Größe und mehr"])
def test_an_id_is_one_folder_whatever_stands_in_it(tmp_path: Path, name: str):
    """No id leads out of the registry, and each is found again by its name."""
    _register(tmp_path, "1.0.0", ("id: people", f'id: "{name}"'))
    registry = Registry(tmp_path / "contracts")
    assert registry.contracts() == (name,)
    (entry,) = registry.history(name)
    assert entry.file.resolve().parents[2] == (tmp_path / "contracts").resolve()
    assert {path.name for path in tmp_path.iterdir()} == {"contracts", "1.0.0.odcs.yaml"}


def test_a_registered_version_that_was_changed_is_named(tmp_path: Path):
    """Neither a changed contract nor an unreadable registration passes for what was registered."""
    _register(tmp_path, "1.0.0")
    registry = Registry(tmp_path / "contracts")
    (entry,) = registry.history("people")
    entry.file.chmod(0o644)
    entry.file.write_text(_text("1.0.0", X))
    with pytest.raises(RegistryRefused, match="another contract"):
        registry.load(entry)
    with pytest.raises(RegistryRefused, match="another contract"):
        _register(tmp_path, "2.0.0", X)
    told = entry.file.with_name(REGISTRATION)
    told.chmod(0o644)
    told.write_text("{")
    with pytest.raises(RegistryRefused, match="cannot be read"):
        registry.history("people")


def test_a_registration_that_was_interrupted_is_made_again(tmp_path: Path):
    """What a process left half-written is not seen, and is in nobody's way."""
    staging = tmp_path / "contracts" / "people" / ".staging-1.0.0"
    staging.mkdir(parents=True)
    (staging / FILE).write_text("half")
    assert Registry(tmp_path / "contracts").contracts() == ()
    assert _register(tmp_path, "1.0.0") == ("first", False)


def _try(folder: Path, writer: int) -> str:
    path = write(folder, f"{writer}.yaml", _text("1.0.0", *([X] if writer % 2 else [])))
    try:
        return Registry(folder / "contracts").register(path, now=NOW)[0].change
    except RegistryRefused:
        return "refused"


@pytest.mark.services
def test_of_two_contents_of_one_version_one_is_registered(tmp_path: Path):
    """Eight processes register two contents of version 1.0.0: one content is in, the other is refused each time."""
    with ProcessPoolExecutor(4) as pool:
        said = list(pool.map(_try, [tmp_path] * 8, range(8)))
    assert sorted(said) == ["first"] * 4 + ["refused"] * 4
    assert len(Registry(tmp_path / "contracts").history("people")) == 1


def test_a_registry_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "contracts").write_text("a file")
    with pytest.raises(RegistryRefused, match="a folder that can be written"):
        _register(tmp_path, "1.0.0")
