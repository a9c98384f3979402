"""Versions of statistics on the site: listed with their files, and compared."""

import pytest
from fastapi.testclient import TestClient

from sudare_web.serve import make_site
from sudare_web.site.app import make_app
from tests.console.conftest import Place
from tests.console.test_statistics_plans import NAME, twice

pytestmark = pytest.mark.services

__all__ = ["twice"]


def test_the_site_lists_the_statistics_and_links_tables_and_noisy_numbers(twice: Place):
    site = make_site(twice.workspace)
    client = TestClient(make_app(site), base_url="http://localhost")
    with client:
        told = client.get(f"/api/releases/{NAME}/v2").json()["tables"]
        page = client.get(f"/releases/{NAME}/v2").text
        compared = client.get(f"/releases/{NAME}/compare", params={"first": 1, "second": 2}).text
        first = client.get(f"/releases/{NAME}/v2/tables", params={"file": told[0]["data"]}).text
    site.verifications.close()
    site.forecasts.close()
    site.view.close()
    assert [each["method"] for each in told] == ["count, mean_hours-per-week", "sum_capital-gain, mean_capital-gain"]
    assert [len(each["measurements"]) for each in told] == [1, 1]
    assert '<th scope="col">Statistics</th>' in page
    assert "Refined by" not in page
    assert "data/education.parquet · mean_capital-gain" in compared
    assert "near_zero" in first
