"""Addresses of stores and of tables with a log: one name for one table, and never a credential."""

import pytest

import sudare_lakes.addresses  # noqa: F401 - the kinds under test
from contracts.errors import SpecRefused
from contracts.release.source import Source, written_address, written_source_name
from tests.console.conftest import Place
from tests.console.test_capacity import typed_without

SECRET = "hunter2Xq7"
ONE_TABLE = {
    "s3://bucket/visits/": ("s3://bucket/visits/", "S3://bucket/visits//"),
    "s3+https://store.example/bucket/visits.parquet": (
        "s3+https://store.example:443/bucket/visits.parquet",
        "s3+https://Store.Example/bucket/visits.parquet",
    ),
    "s3+http://localhost:9000/bucket/a.csv": (
        "s3+http://127.0.0.1:9000/bucket/a.csv",
        "s3+http://0.0.0.0:9000/bucket/a.csv",
    ),
}
DIFFERENT = (
    "s3://bucket/visits",
    "s3://bucket/visits/",
    "s3://bucket/Visits",
    "s3+https://store.example/bucket/visits",
)


@pytest.mark.parametrize(
    ("name", "written"), [(name, each) for name, many in ONE_TABLE.items() for each in (name, *many)]
)
def test_spellings_of_one_table_have_one_name(name: str, written: str):
    """Two names would be two sources, with two accounts for the same people."""
    assert written_source_name(written) == name


def test_different_tables_have_different_names():
    assert len({written_source_name(written) for written in DIFFERENT}) == len(DIFFERENT)


def test_a_spec_and_the_command_line_agree():
    for path in ("s3://bucket/visits", "s3://bucket/visits/"):
        found = Source.model_validate({"path": path, "files": "csv"}).name
        assert found == written_source_name("s3://bucket/visits/")


@pytest.mark.parametrize(
    "address",
    [
        f"s3://AKIA:{SECRET}@bucket/visits.csv",
        f"s3://AKIA:{SECRET}/x@bucket/visits.csv",
        f"s3+https://key:{SECRET}@store.example/bucket/visits.csv",
        f"s3+https://key:{SECRET}/x@store.example/bucket/visits.csv",
        f"s3://bucket/visits.csv?X-Amz-Signature={SECRET}",
        f"s3://key:{SECRET}@bucket",
    ],
)
def test_a_credential_in_an_address_is_refused_and_never_shown(address: str):
    for read in (
        lambda: Source.model_validate({"path": address}),
        lambda: written_source_name(f"{address}::visits"),
        lambda: written_address(address, "--to"),
    ):
        with pytest.raises((SpecRefused, ValueError)) as refused:
            read()
        said = str(refused.value) if isinstance(refused.value, SpecRefused) else refused.value.errors()[0]["msg"]
        assert SECRET not in said


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("s3+http://store.example/bucket/a.csv", "clear text"),
        ("s3://Bucket/a.csv", "lower-case letters"),
        ("s3a://bucket/a.csv", "write s3://"),
        ("https://store.example/bucket/a.csv", r"write s3\+https://"),
        ("s3+https://s3.amazonaws.com/bucket/a.csv", "write s3://BUCKET/KEY"),
        ("s3+https://S3.eu-west-1.Amazonaws.com.:443/bucket/a.csv", "write s3://BUCKET/KEY"),
        ("s3+https://bucket.s3.amazonaws.com/bucket/a.csv", "write s3://BUCKET/KEY"),
        ("s3+https://s3.cn-north-1.amazonaws.com.cn/bucket/a.csv", "write s3://BUCKET/KEY"),
        ("s3+https://s3.eu-west-1.api.aws/bucket/a.csv", "write s3://BUCKET/KEY"),
    ],
)
def test_what_is_no_address_is_refused_in_words(written: str, says: str):
    with pytest.raises(SpecRefused, match=says):
        written_source_name(written)


def test_a_name_of_a_store_that_is_not_amazons_stays():
    for host in ("notamazonaws.com", "amazonaws.com.example"):
        name = f"s3+https://{host}/bucket/a.csv"
        assert written_source_name(name) == name


def test_what_a_source_at_an_address_cannot_be():
    for more, says in (
        ({"path": "s3://bucket", "files": "csv"}, "a whole bucket"),
        ({"path": "s3://bucket/people.db", "table": "t"}, "Parquet and CSV at an address"),
        ({"path": "s3://rows/people/", "files": "parquet", "engine": "spark"}, "`engine` for parquet"),
        ({"path": "delta:///lake", "credentials": "town"}, "for delta://"),
        ({"path": "iceberg:///lake", "credentials": "town"}, "for iceberg://"),
    ):
        with pytest.raises(ValueError, match=says):
            Source.model_validate(more)


def test_an_address_that_is_typed_takes_credentials_only_where_it_asks_for_them():
    """The refusal names the option, the kind and what to do."""
    assert written_address("s3://open", "--to", "store") == "s3://open"
    for kind in ("delta", "iceberg"):
        assert written_address(f"{kind}:///lake", "--to") == f"{kind}:///lake"
        with pytest.raises(SpecRefused) as refused:
            written_address(f"{kind}:///lake", "--to", "store")
        [finding] = refused.value.findings
        assert (finding.field, finding.found) == ("--credentials", f"`credentials` for {kind}://")
        assert finding.remedy == "drop it"


@pytest.mark.services
def test_an_object_store_without_its_extra_is_refused(place: Place):
    spec = place.adult / "tables.yaml"
    spec.write_text(spec.read_text().replace("publish: {to: releases/", "publish: {to: 's3://bucket/prefix'"))
    [(code, err)] = typed_without(place, "boto3", "plan", spec=spec)
    assert code == 2, err
    assert "boto3 is not installed here" in err
    assert "sudare[s3]" in err
