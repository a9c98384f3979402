"""A run under a contract that breaks with the last published version is refused unless the version announces it."""

import logging
from contextlib import closing

import pytest

from benchmarks.orchestration import release_plainly
from contracts.errors import ContractRefused
from flows.prepare import check_contract_of, intake
from flows.request import read_request
from tasks.contract_succession import last_published_contract
from tasks.storage.workspace.run_folder import SNAPSHOT_STEM, hold, run_name
from tests.console.conftest import Place, Typed, make_place, place, shared, typed

__all__ = ["make_place", "place", "shared", "typed"]

SEX = ('values: ["Female", "Male"]', 'values: ["Female", "Male", "Other"]')
MAJOR = ("version: 1.0.0", "version: 2.0.0")
MINOR = ("version: 1.0.0", "version: 1.1.0")
ORIGINAL: dict[str, str] = {}


@pytest.fixture
def published(shared: Place) -> Place:
    """A place where `kept` has one version; each test starts from the contract of that version."""
    contract = shared.adult / "adult.odcs.yaml"
    if not ORIGINAL:
        ORIGINAL["text"] = contract.read_text()
        release_plainly(shared.spec("kept"), shared.workspace.root)
    contract.write_text(ORIGINAL["text"])
    return shared


def _change(where: Place, *pairs: tuple[str, str]) -> None:
    text = ORIGINAL["text"]
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    (where.adult / "adult.odcs.yaml").write_text(text)


def _check(where: Place, name: str = "kept") -> None:
    request = read_request(where.adult / f"{name}.yaml")
    with closing(where.workspace.open_ledger()) as ledger:
        check_contract_of(request, where.workspace, ledger)


def _refused(where: Place) -> ContractRefused:
    with pytest.raises(ContractRefused) as refused:
        _check(where)
    return refused.value


@pytest.mark.parametrize("version", [(), (MINOR,)])
def test_a_breaking_change_that_is_not_announced_is_refused(published: Place, version: tuple[tuple[str, str], ...]):
    """Neither under the old version number nor under a new MINOR; the finding names field, change and remedy."""
    _change(published, SEX, *version)
    (finding,) = _refused(published).findings
    assert finding.field == "columns.sex.values"
    assert "Other is new" in finding.found
    assert "kept v1" in finding.where
    assert "raise MAJOR" in finding.remedy


def test_an_announced_change_and_a_compatible_one_pass(published: Place, caplog: pytest.LogCaptureFixture):
    """A new MAJOR is warned of once; another description is nobody's trouble; another release has its own history."""
    caplog.set_level(logging.WARNING)
    _change(published, ("description: Age in years", "description: Years of age"))
    _check(published)
    _change(published, SEX)
    published.spec("first-of-its-name")
    _check(published, "first-of-its-name")
    assert caplog.messages == []
    _change(published, SEX, MAJOR)
    _check(published)
    assert caplog.messages == [
        "the contract of kept is breaking for the account since v1, as 2.0.0 announces: columns.sex.values"
    ]


@pytest.mark.services
def test_the_run_stops_before_the_data_are_read_and_nothing_is_charged(published: Place, typed: Typed):
    """`sudare run` exits 2; the account is as before."""
    before = typed("budget", "show", "adult-1994", "--json", at=published.workspace).json
    _change(published, SEX)
    request = read_request(published.adult / "kept.yaml")
    with hold(published.workspace.runs, run_name("kept", request.spec.digest), keep_snapshot=False) as run:
        with pytest.raises(ContractRefused):
            intake(run, request, published.workspace)
        assert not list(run.path.glob(f"{SNAPSHOT_STEM}*"))
    typed("run", str(published.adult / "kept.yaml"), at=published.workspace).assert_ended(2, "columns.sex.values")
    assert typed("budget", "show", "adult-1994", "--json", at=published.workspace).json == before


def test_a_version_whose_record_is_not_as_published_is_no_witness(published: Place):
    """A forged record in the store neither admits nor refuses; the version itself is for `sudare verify`."""
    folder, store = published.workspace.releases / "kept" / "v1", published.workspace.releases
    with closing(published.workspace.open_ledger()) as ledger:
        known = last_published_contract("kept", ledger, store)
        assert known is not None
        assert (known.number, known.contract.version) == (1, "1.0.0")
        assert last_published_contract("never", ledger, store) is None
        record = folder / "record.json"
        content = record.read_bytes()
        record.chmod(0o644)
        record.write_bytes(content.replace(b"Female", b"Femail"))
        assert last_published_contract("kept", ledger, store) is None
        record.write_bytes(content)
        assert last_published_contract("kept", ledger, store) == known


def test_a_charged_run_goes_on_and_a_registered_version_means_what_was_registered(published: Place, typed: Typed):
    """What was admitted is not refused later; a text that differs from the registered one of its number is."""
    request = read_request(published.adult / "kept.yaml")
    with closing(published.workspace.open_ledger()) as ledger:
        [version] = ledger.versions("kept")
        _change(published, SEX)
        changed = read_request(published.adult / "kept.yaml")
        check_contract_of(changed, published.workspace, ledger, run_key=version.run_key)
        with pytest.raises(ContractRefused):
            check_contract_of(changed, published.workspace, ledger, run_key="another")
    _change(published)
    contract = published.adult / "adult.odcs.yaml"
    assert typed("contract", "register", str(contract), at=published.workspace).code == 0
    _check(published)
    _change(published, ("description: Age in years", "description: Years of age"))
    (finding,) = _refused(published).findings
    assert "another content than the registered" in finding.found
    assert request.contract.version == "1.0.0"
