"""What label, registry entry, lineage and dataset description say of a kind of product, and of its columns."""

from itertools import pairwise

import pytest
import yaml

from contracts.release.product_kinds import BUILT_IN
from tasks.records.descriptions.descriptions import label_html
from tasks.records.model.record_kinds import record_part
from tasks.records.record import published_explanation
from tests.tasks.records.descriptions.outside_schemas import DEPLOYMENT
from tests.tasks.verification.forgery import load
from tests.worlds.statistics import pure
from tests.worlds.versions import Version, Worlds

TYPES = DEPLOYMENT["properties"]["deployment"]["properties"]["product"]["properties"]["data_product_type"]["enum"]


@pytest.fixture(scope="module")
def costs(worlds: Worlds) -> Version:
    return worlds.published(pure(), here=True)


@pytest.mark.parametrize("kind", BUILT_IN)
def test_a_kind_has_words_and_a_type_that_the_registry_knows(kind: str):
    words = record_part(kind).words
    assert words.label
    assert words.registered in TYPES
    assert words.made[0].isupper()
    assert words.remark.endswith(".")


def test_kinds_differ_in_what_people_read_of_them():
    labels = sorted(record_part(kind).words.label for kind in BUILT_IN)
    assert all(one != other for one, other in pairwise(labels))


def test_label_and_entry_call_statistics_by_their_name(costs: Version):
    explanation = published_explanation(lambda name: (costs.folder / name).read_bytes())
    assert "counts, sums and means ·" in label_html(explanation).decode()
    entry = yaml.safe_load((costs.folder / "deployment.yaml").read_text(encoding="utf-8"))["deployment"]
    assert entry["product"]["data_product_type"] == "Summary statistics"
    assert entry["product"]["description"].startswith("Noisy counts, sums and means about ")


def test_every_column_of_statistics_and_of_noisy_sums_is_described(costs: Version):
    """Only columns that rows are grouped by are labels of cells, and nothing is called refined."""
    described = load(costs.folder / "croissant.json")
    contract = {column["name"] for column in load(costs.folder / "record.json")["replay"]["contract"]["columns"]}
    for records in described["recordSet"]:
        meanings = {field["name"]: field["description"] for field in records["field"]}
        assert {name for name, means in meanings.items() if means == "Label of the cell."} == contract & set(meanings)
        assert "Refined" not in " ".join(meanings.values())
    sets = {records["name"]: records for records in described["recordSet"]}
    bills = {field["name"]: field["description"] for field in sets["data/bills"]["field"]}
    assert bills["sum_bill_clipped"] == "Noisy sum of bill, its values clipped to [0, 500]."
    assert bills["mean_bill_clipped_low"].startswith("Lower end of a 95 % interval of the exact mean of bill")
    assert bills["count_high"] == "Upper end of a 95 % interval of the exact count of rows."
    sums = [records for name, records in sets.items() if name.startswith("measurements/") and "part" in str(records)]
    assert len(sums) == 4
    assert all("part of its sum" in records["description"] for records in sums)
    files = {file["contentUrl"]: file["description"] for file in described["distribution"]}
    assert files["data/bills.csv"] == "Statistics by cell, with 95 % intervals."


def test_what_is_added_up_is_a_source_of_sums_and_means_and_not_of_counts(costs: Version):
    """A sum of bills by ward and age comes of three declared columns, a count of two; the mark of small cells too."""
    outputs = {each["name"].partition("/v1/")[2]: each for each in load(costs.folder / "lineage.json")["outputs"]}

    def sources(file: str, column: str) -> set[str]:
        fields = outputs[file]["facets"]["columnLineage"]["fields"]
        return {each["field"] for each in fields[column]["inputFields"]}

    for file in ("data/bills.parquet", "data/bills.csv"):
        assert sources(file, "sum_bill_clipped") == sources(file, "mean_bill_clipped_high") == {"ward", "age", "bill"}
        assert sources(file, "count") == sources(file, "near_zero") == {"ward", "age"}
    assert sources("data/all.parquet", "sum_age_clipped_low") == {"age"}
    noisy = next(name for name in outputs if name.startswith("measurements/") and "ward_x_age_x_bill" in name)
    assert sources(noisy, "noisy") == {"ward", "age", "bill"}
    assert "part" not in outputs[noisy]["facets"]["columnLineage"]["fields"]
