"""What `plan` says where the packages of a store are not installed."""

import pytest

import sudare_lakes.addresses  # noqa: F401 - the kind under test
from tests.console.conftest import Place
from tests.console.test_capacity import typed_without

pytestmark = pytest.mark.services


def test_an_object_store_without_its_extra_is_refused(place: Place):
    spec = place.adult / "tables.yaml"
    spec.write_text(spec.read_text().replace("publish: {to: releases/", "publish: {to: 's3://bucket/prefix'"))
    [(code, err)] = typed_without(place, "boto3", "plan", spec=spec)
    assert code == 2, err
    assert "boto3 is not installed here" in err
    assert "sudare[s3]" in err
