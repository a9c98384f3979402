"""MANIFEST.json as other people's tools read it: `securesystemslib`, OpenSSL, and a few lines of our own."""

import hashlib
import json
import re
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jsonschema import Draft202012Validator
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from privacy.ledger.entries import Entry
from privacy.ledger.journal.notes import read_verifier_key
from privacy.ledger.journal.signing import Signer, key_id
from tests.tasks.records.version_schemas import version_schemas
from tests.tasks.verification.forgery import Json, edit, forge, load, sign_manifest
from tests.worlds.versions import Version, broken


def public(version: Version) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(read_verifier_key(version.key).public)


def statement_of(version: Version) -> Json:
    value: Json = json.loads(b64decode(load(version.folder / "MANIFEST.json")["payload"]))
    return value


def restate(version: Version, change: Any) -> None:
    stated = statement_of(version)
    change(stated)
    payload = json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    edit(version.folder / "MANIFEST.json", lambda m: m.update(payload=b64encode(payload).decode()))


def test_securesystemslib_takes_the_envelope_and_refuses_a_changed_one(guild: Version):
    key = SSlibKey(key_id(guild.key), "ed25519", "ed25519", {"public": public(guild).public_bytes_raw().hex()})
    value = load(guild.folder / "MANIFEST.json")
    assert Envelope.from_dict(dict(value)).verify([key], 1) == {key.keyid: key}
    restate(guild, lambda stated: stated["predicate"].update(epsilon="0.1"))
    with pytest.raises(VerificationError):
        Envelope.from_dict(load(guild.folder / "MANIFEST.json")).verify([key], 1)


@pytest.mark.services
def test_openssl_verifies_the_signature_over_an_encoding_written_by_hand(guild: Version, tmp_path: Path):
    value = load(guild.folder / "MANIFEST.json")
    payload = b64decode(value["payload"])
    encoded = b"DSSEv1 28 application/vnd.in-toto+json " + str(len(payload)).encode() + b" " + payload
    (tmp_path / "encoded").write_bytes(encoded)
    (tmp_path / "signature").write_bytes(b64decode(value["signatures"][0]["sig"]))
    pem = public(guild).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(pem)
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pem", "-rawin", "-in", "encoded"]
    done = subprocess.run(
        [*command, "-sigfile", "signature"], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "Signature Verified Successfully")
    public(guild).verify(b64decode(value["signatures"][0]["sig"]), encoded)
    with pytest.raises(InvalidSignature):
        public(guild).verify(b64decode(value["signatures"][0]["sig"]), payload)


@pytest.mark.services
def test_what_the_manual_types_checks_the_envelope_and_makes_the_leaves(guild: Version):
    """docs/proof.md word for word, by jq, OpenSSL and plain Python: the note, the envelope, the leaves."""
    page = (Path(__file__).parents[3] / "docs" / "proof.md").read_text(encoding="utf-8")
    [shell] = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    [leaves] = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    [note] = re.findall(r"^    (jq -j \.checkpoint) .*PROOF\.json$", page, re.MULTILINE)
    (guild.folder / "signing.pub").write_text(f"{guild.key}\n")

    def typed(*command: str) -> str:
        done = subprocess.run(command, cwd=guild.folder, capture_output=True, text=True, timeout=240, check=True)
        return done.stdout

    assert typed("sh", "-ec", shell) == "Signature Verified Successfully\n"
    proof = load(guild.folder / "PROOF.json")
    assert typed("sh", "-ec", f"{note} PROOF.json") == proof["checkpoint"]
    entries = [Entry(**each["entry"]) for each in proof["entries"]]
    told = [line.split() for line in typed(sys.executable, "-c", leaves).splitlines()]
    assert told == [[str(each.sequence), each.hash] for each in entries]


def test_the_subjects_are_the_published_files_and_the_predicate_is_the_record_s(guild: Version):
    stated = statement_of(guild)
    for each in stated["subject"]:
        content = (guild.folder / each["name"]).read_bytes()
        assert each["digest"] == {"sha256": hashlib.sha256(content).hexdigest()}
        assert each["annotations"] == {"bytes": len(content)}
    names = [each["name"] for each in stated["subject"]]
    assert sorted([*names, "MANIFEST.json", "PROOF.json"]) == guild.files
    record = load(guild.folder / "record.json")
    assert stated["predicate"] == {
        "release": record["release"],
        "version": record["version"],
        "epsilon": str(record["replay"]["claim"]["epsilon"] / 10**12).removesuffix(".0"),
        "delta": guild.words["guarantee.delta"],
        "unit": record["replay"]["contract"]["unit"]["column"] or "row",
        "scope": record["replay"]["contract"]["unit"]["scope"],
        "rows_per_unit": record["replay"]["rows_per_unit"],
        "relation": record["replay"]["adjacency"],
        "account": record["replay"]["charge"]["account"],
        "record": hashlib.sha256((guild.folder / "record.json").read_bytes()).hexdigest(),
    }


def test_envelope_and_statement_follow_the_published_schemas(guild: Version):
    schemas = version_schemas()
    Draft202012Validator(schemas["manifest"]).validate(load(guild.folder / "MANIFEST.json"))
    Draft202012Validator(schemas["dp-release-v1"]).validate(statement_of(guild))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epsilon", "0.01"),
        ("delta", "0.5"),
        ("unit", "nobody"),
        ("scope", "lifetime"),
        ("rows_per_unit", 7),
        ("relation", "add_remove"),
        ("account", "another"),
        ("record", "0" * 64),
        ("version", 77),
    ],
)
def test_a_publisher_whose_predicate_says_more_than_the_record_is_found(guild: Version, field: str, value: object):
    """The publisher signs it: only the record tells that it is not so."""
    was = statement_of(guild)["predicate"][field]
    value = "replace_one" if was == value else value
    report = forge(guild, manifest=lambda manifest: manifest.update({field: value})).verify()
    assert 5 in broken(report)
    assert ("record.json", field) in {(each.where, each.field) for each in report.findings}


def test_a_statement_that_nobody_signed_or_somebody_else_is_found_by_name(guild: Version):
    restate(guild, lambda stated: stated["predicate"].update(epsilon="0.1"))
    assert {each.field for each in guild.verify().checks[1].findings} == {"signatures, sig"}
    sign_manifest(guild.folder, Signer(bytes(32)))
    [finding] = guild.verify().checks[1].findings
    assert (finding.field, finding.allowed) == ("signatures, keyid", f"{key_id(guild.key)}, the pinned key")


def test_a_second_signature_neither_helps_nor_harms_but_for_the_manifest_s_own_digest(guild: Version):
    """The envelope holds with it; the journal names the manifest that was published, so rule 4 finds the change."""
    other = {"keyid": "0" * 16, "sig": b64encode(bytes(64)).decode()}
    edit(guild.folder / "MANIFEST.json", lambda m: m["signatures"].append(other))
    assert broken(guild.verify()) == {4}
    edit(guild.folder / "MANIFEST.json", lambda m: m["signatures"].pop(0))
    assert 2 in broken(guild.verify())


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda m: m.update(payloadType="text/plain"), "payloadType"),
        (lambda m: m.update(payload=m["payload"] + "="), "payload"),
        (lambda m: m.update(payload="!"), "payload"),
        (lambda m: m.update(signatures=[]), "signatures"),
        (lambda m: m.update(more=1), "more"),
        (lambda m: m["signatures"][0].update(keyid="x"), "signatures[0].keyid"),
    ],
)
def test_an_envelope_of_another_form_is_refused_by_its_field(guild: Version, change: Any, found: str):
    edit(guild.folder / "MANIFEST.json", change)
    assert found in {each.field for each in guild.verify().checks[1].findings}
