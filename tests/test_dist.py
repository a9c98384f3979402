"""What `make dist` gives out: built twice it has the same bytes, and tools of others accept what describes it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf.json_format import ParseDict, ParseError
from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as Message

from deploy.dist import BILL, PROVENANCE, SUMS, BuildRefused, build, git
from deploy.supply_chain.lock_file import read_lock
from tests.source_folders import FOLDERS, ROOT, folder_of
from tests.test_installation import asked, locked

SOURCES = (*FOLDERS, "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git checkout of this tree as it stands, with one commit."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in (*SOURCES, "deploy"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".venv"))
        else:
            shutil.copy(ROOT / name, folder / name)
    (folder / ".gitignore").write_text("__pycache__/\n.venv/\n")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    who = {f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "all of it"]):
        subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(folder, checkout)
    return folder


def loaded(path: Path) -> Any:
    return json.loads(path.read_bytes())


@pytest.mark.services
def test_a_second_build_gives_the_same_bytes(checkout: Path, built: Path, tmp_path: Path):
    """In another folder, under another umask, another time zone, and with other times of the files."""
    elsewhere = shutil.copytree(checkout, tmp_path / "elsewhere")
    for path in elsewhere.rglob("*.py"):
        os.utime(path, (1, 1))
    program = "import sys; from pathlib import Path as P; from deploy.dist import build; build(*map(P, sys.argv[1:]))"
    words, there = [sys.executable, "-c", program, tmp_path / "again", elsewhere], {**os.environ, "TZ": "Asia/Tokyo"}
    subprocess.run(words, cwd=ROOT, env=there, umask=0o077, check=True)
    assert len(list(built.iterdir())) == 5
    assert differing(built, tmp_path / "again") == []


def differing(first: Path, second: Path) -> list[str]:
    """The names of the files of two folders that are not the same in both."""
    one, other = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (first, second))
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


@pytest.mark.services
def test_a_byte_that_differs_is_found(built: Path, tmp_path: Path):
    """The comparison of two builds would find one byte in any of the files, and a file that only one of them has."""
    again = shutil.copytree(built, tmp_path / "again")
    (again / "more").touch()
    for path in built.iterdir():
        (again / path.name).write_bytes(path.read_bytes()[:-1] + b"~")
    assert differing(built, again) == sorted([*(path.name for path in built.iterdir()), "more"])


@pytest.mark.services
def test_the_source_archive_builds_the_same_wheel(checkout: Path, built: Path, tmp_path: Path):
    """What a distribution builds of the archive has the modules of the wheel, byte for byte: those of the commit.

    So a changed file changes the wheel, whose digest the provenance names beside the commit.
    """
    [sdist], [wheel] = built.glob("*.tar.gz"), built.glob("*.whl")
    with tarfile.open(sdist) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and later ask for one
        archive.extractall(tmp_path)
        members = archive.getmembers()
    [tree] = tmp_path.iterdir()
    with ZipFile(wheel) as zipped:
        inside = {name: zipped.read(name) for name in zipped.namelist() if ".dist-info/" not in name}
    for source in (tree, checkout):
        files = {name: source / folder_of(name.partition("/")[0]) / name.partition("/")[2] for name in inside}
        assert [name for name, content in inside.items() if content != files[name].read_bytes()] == []
    assert len(inside) > 500
    owners = {(member.uid, member.gid, member.uname, member.mtime) for member in members}
    assert owners == {(0, 0, "", members[0].mtime)}


@pytest.mark.services
def test_the_bill_of_materials_is_what_others_take_for_one(built: Path):
    """CycloneDX's own validator accepts it; with a key too much, or without a version, it does not."""
    bill, validator = (built / BILL).read_text(), JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(bill) is None
    assert validator.validate_str(json.dumps({**json.loads(bill), "colour": "red"})) is not None
    assert validator.validate_str(json.dumps({**json.loads(bill), "version": "one"})) is not None


@pytest.mark.services
def test_the_bill_names_every_package_of_the_lock_with_its_digests(built: Path):
    bill = loaded(built / BILL)
    listed = {each["name"]: each for each in bill["components"]}
    assert {name: each["version"] for name, each in listed.items()} == {
        name: str(version) for name, (version, _, _) in locked().items()
    }
    hashes = {name: len(each["externalReferences"][0]["hashes"]) for name, each in listed.items()}
    assert hashes == {name: number for name, (_, _, number) in locked().items()}
    assert {each["purl"] for each in bill["components"]} == {each["bom-ref"] for each in bill["components"]}


@pytest.mark.services
def test_the_bill_says_who_needs_whom_and_what_it_does_not_know(built: Path):
    """Needs lead from Sudare to every package of this system; those of other systems are listed as unknown."""
    bill = loaded(built / BILL)
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    subject = bill["metadata"]["component"]["bom-ref"]
    assert {ref.partition("@")[0].removeprefix("pkg:pypi/") for ref in needs[subject]} == {
        requirement.name.lower() for requirement in asked()
    }
    reached, waiting = set(), [subject]
    while waiting:
        if (ref := waiting.pop()) not in reached:
            reached.add(ref)
            waiting.extend(needs.get(ref, ()))
    unknown = next(each["dependencies"] for each in bill["compositions"] if each["aggregate"] == "unknown")
    assert {each["bom-ref"] for each in bill["components"]} - reached <= set(unknown)
    assert len({each["bom-ref"] for each in bill["components"] if "licenses" in each}) > 100


@pytest.mark.services
def test_the_provenance_is_what_others_take_for_one(built: Path, checkout: Path):
    """in-toto's own classes read it, field by field; a field that SLSA does not know is refused."""
    statement = loaded(built / PROVENANCE)
    Statement.copy_from_pb(ParseDict(statement, Message())).validate()
    predicate = ParseDict(statement["predicate"], Provenance())
    source = predicate.build_definition.resolved_dependencies[0]
    assert source.digest["gitCommit"] == git(checkout, "rev-parse", "HEAD")
    assert predicate.run_details.builder.id.startswith("urn:")
    with pytest.raises(ParseError):
        ParseDict({**statement["predicate"], "when": "today"}, Provenance())


@pytest.mark.services
def test_provenance_and_checksums_are_those_of_the_files(built: Path):
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in built.iterdir()}
    subjects = {each["name"]: each["digest"]["sha256"] for each in loaded(built / PROVENANCE)["subject"]}
    assert subjects == {name: digest for name, digest in digests.items() if name not in {PROVENANCE, SUMS}}
    lines = dict(reversed(line.split("  ")) for line in (built / SUMS).read_text().splitlines())
    assert lines == {name: digest for name, digest in digests.items() if name != SUMS}


@pytest.mark.services
def test_nothing_that_is_given_out_names_this_machine(built: Path, checkout: Path):
    for name in (BILL, PROVENANCE, SUMS):
        text = (built / name).read_text()
        assert [place for place in (str(ROOT), str(checkout), str(built)) if place in text] == []


@pytest.mark.services
def test_outside_a_checkout_nothing_is_built(tmp_path: Path):
    with pytest.raises(BuildRefused, match="no git checkout with a commit: clone the repository"):
        build(tmp_path / "dist", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_without_a_digest_is_refused_by_the_name_of_the_package(tmp_path: Path):
    (tmp_path / "lock.txt").write_text("numpy==2.4.6\n")
    with pytest.raises(ValueError, match=r"lock\.txt, numpy: one version \(==\) and a SHA-256"):
        read_lock(tmp_path / "lock.txt")
