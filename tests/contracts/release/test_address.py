"""Addresses: one name for one table, however it is written, and never a credential; engines that are registered."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from contracts import plug_ins
from contracts.errors import SpecRefused
from contracts.release.source import Source, source_name, written_source_name
from contracts.release.spec import load_spec

SECRET = "hunter2Xq7"

ONE_TABLE = {
    "postgresql://db.example:5432/clinic::public.visits": (
        "postgresql://db.example/clinic::visits",
        "postgres://DB.Example/clinic::public.visits",
        "PostgreSQL://db.example.:5432/clinic::visits",
        "postgresql://db.example/cl%69nic::visits",
    ),
    "postgresql://localhost:5433/clinic::public.visits": (
        "postgresql://127.0.0.1:5433/clinic::visits",
        "postgresql://[::1]:5433/clinic::visits",
        "postgresql://[0:0:0:0:0:0:0:1]:5433/clinic::public.visits",
        "postgresql://[::ffff:127.0.0.1]:5433/clinic::visits",
        "postgresql://LOCALHOST:5433/clinic::visits",
        "postgresql://0.0.0.0:5433/clinic::visits",
        "postgresql://[::]:5433/clinic::visits",
        "postgresql://[::ffff:0.0.0.0]:5433/clinic::visits",
    ),
}


@pytest.mark.parametrize(
    ("name", "written"), [(name, each) for name, many in ONE_TABLE.items() for each in (name, *many)]
)
def test_spellings_of_one_table_have_one_name(name: str, written: str):
    """Two names would be two sources, with two accounts for the same people."""
    assert written_source_name(written) == name


DIFFERENT = (
    "postgresql://db.example/clinic::visits",
    "postgresql://db.example/clinic::Visits",
    "postgresql://db.example/clinic::other.visits",
    "postgresql://db.example/Clinic::visits",
    "postgresql://db.example:5433/clinic::visits",
    "postgresql:///clinic?host=/var/run/postgresql::visits",
)


def test_different_tables_have_different_names():
    assert len({written_source_name(written) for written in DIFFERENT}) == len(DIFFERENT)


def test_a_spec_and_the_command_line_agree(tmp_path: Path):
    folder = tmp_path / "visits"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    as_read = {"path": "postgresql://DB.example/clinic", "table": "visits"}
    assert Source.model_validate(as_read).name == written_source_name("postgres://db.example:5432/clinic::visits")
    for path in ("visits", "visits/", "./link/"):
        source = Source.model_validate({"path": path, "files": "csv"}, context={"folder": tmp_path})
        assert source.name == source_name(folder) == written_source_name(f"{tmp_path}/visits/")


def test_a_socket_has_the_name_of_its_real_folder(tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "run")
    names = {written_source_name(f"postgresql:///clinic?host={tmp_path}/{each}::visits") for each in ("run", "alias")}
    assert names == {f"postgresql:///clinic?host={tmp_path.resolve()}/run&port=5432::public.visits"}


WITH_SECRETS = (
    f"postgresql://reader:{SECRET}@db.example/clinic",
    f"postgresql://{SECRET}@db.example/clinic",
    f"postgresql://reader:{SECRET}/x@db.example/clinic",
    f"postgresql://db.example/clinic?password={SECRET}",
    f"postgresql://db.example/clinic?host=h&user={SECRET}",
    f"postgresql:///clinic?host=/run&passfile={SECRET}",
)


@pytest.mark.parametrize("address", WITH_SECRETS)
def test_a_credential_in_a_spec_is_refused_and_never_shown(tmp_path: Path, address: str):
    spec = tmp_path / "spec.yaml"
    table = ", table: visits" if address.startswith("postgresql") else ""
    spec.write_text(
        f"release: r\ncontract: c.yaml\nsource: {{path: '{address}'{table}}}\n"
        "charge: {account: a, epsilon: 1, delta: 0}\n"
        "product: {kind: tables, mechanism: laplace, tables: [[age]], total: noisy, refine: {method: simplex}}\n"
        "publish: {to: releases}\n"
    )
    with pytest.raises(SpecRefused) as refused:
        load_spec(spec)
    assert [finding.field for finding in refused.value.findings] == ["source.path"]
    assert SECRET not in str(refused.value)
    with pytest.raises(SpecRefused) as refused:
        written_source_name(f"{address}::visits")
    assert SECRET not in str(refused.value)


def test_credentials_are_a_name_and_nothing_else(tmp_path: Path):
    source = {"path": "postgresql://db.example/clinic", "table": "visits"}
    assert Source.model_validate({**source, "credentials": "ware-house-2"}).credentials == "ware-house-2"
    for written in (f"user:{SECRET}", "Reader", '{"user": "u"}', "a" * 41):
        with pytest.raises(ValueError, match="something else than a name") as refused:
            Source.model_validate({**source, "credentials": written})
        assert SECRET not in str(refused.value.errors()[0]["msg"])


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("postgresql://127.1/clinic::t", "the name or the number of a host"),
        ("postgresql://0x7f.0x1/clinic::t", "the name or the number of a host"),
        ("postgresql://2130706433/clinic::t", "the name or the number of a host"),
        ("postgresql:///clinic::t", "write the host"),
        ("postgresql://db.example/::t", "name one database"),
        ("postgresql://db.example:99999/clinic::t", "a port from 1 to 65535"),
        ("postgresql://db.example/clinic", "a database without a table"),
        (f"postgresql://db.example/{'d' * 64}::t", "at most 63 bytes"),
        (f"postgresql:///{'é' * 32}?host=/run::t", "at most 63 bytes"),
        (f"postgresql://db.example/clinic::{'t' * 64}", "at most 63 bytes"),
        (f"postgresql://db.example/clinic::{'s' * 64}.t", "at most 63 bytes"),
        ("mysql://host/db::t", "an address that begins with 'mysql://'"),
        ("postgresql+psycopg://db.example/clinic::t", "write postgresql://"),
    ],
)
def test_what_is_no_address_is_refused_in_words(written: str, says: str):
    with pytest.raises(SpecRefused, match=says):
        written_source_name(written)


def test_a_name_that_the_server_would_cut_off_is_refused():
    """PostgreSQL reads 63 bytes of a name: all longer ones that begin alike would be one table."""
    longest = f"{'é' * 31}s.{'t' * 63}"
    place = f"postgresql://db.example/{'d' * 63}"
    source = Source.model_validate({"path": place, "table": longest})
    assert source.name == written_source_name(f"{place}::{longest}")
    for table in (f"x{longest}", f"{longest}x"):
        with pytest.raises(ValueError, match="at most 63 bytes") as refused:
            Source.model_validate({"path": place, "table": table})
        assert table not in str(refused.value.errors()[0]["msg"])


def test_an_engine_of_an_extension_that_is_not_installed_is_refused_with_its_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plug_ins, "registered", lambda group: ())
    with pytest.raises(ValidationError, match="needs the extension sudare_engines"):
        Source(path=Path("people.parquet"), engine="spark")


def test_an_unknown_engine_is_refused_with_those_there_are():
    with pytest.raises(ValidationError, match="one of spark"):
        Source(path=Path("people.parquet"), engine="oracle")
