"""CSV on the Web of two linked tables."""

from __future__ import annotations

import json
from pathlib import Path

from sudare_exchange.csvw import CSVW
from tests.flows.test_linked_synthetic import RELEASE, SPEC, Town


def test_the_metadata_state_the_link(tmp_path: Path) -> None:
    """A primary and a foreign key."""
    town = Town(tmp_path)
    town.change(SPEC, ("formats: [parquet, csv]", "formats: [parquet, csv], exchange: [csvw]"))
    described = json.loads((town.run(SPEC) / CSVW).read_text())
    tables = {each["url"]: each["tableSchema"] for each in described["tables"]}
    assert tables[f"../data/{RELEASE}-parents.csv"]["primaryKey"] == "household_id"
    (foreign,) = tables[f"../data/{RELEASE}.csv"]["foreignKeys"]
    assert foreign["reference"] == {"resource": f"../data/{RELEASE}-parents.csv", "columnReference": "household_id"}
