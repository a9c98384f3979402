"""The manual on releases after a dbt job: its files are what it says, from the draft to a spec that fits."""

import re
from datetime import date
from pathlib import Path

import duckdb
import pytest

from contracts.contract.odcs import load_contract
from contracts.drafting.advice.advice import advise
from contracts.errors import ContractRefused
from contracts.reading.yaml_lines import located
from contracts.release.spec import load_spec
from contracts.release.spec_checks import check_spec
from tasks.draft import draft_contract, open_places
from tests.contracts.samples import write

MANUAL = (Path(__file__).resolve().parents[3] / "docs" / "platform.md").read_text(encoding="utf-8")
PAGE = MANUAL.partition("\n## Releases after a dbt job\n")[2].partition("\n## ")[0]
SCHEMA, CONTRACT, SPEC = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_draft_has_as_many_open_places_as_the_page_says(tmp_path: Path):
    """And what dbt declares is in it."""
    text = draft_contract(write(tmp_path, "schema.yml", SCHEMA), table="orders").text
    assert f"The draft has {open_places(text)} places" in PAGE
    assert "values: [placed, shipped, returned]" in text


def test_the_completed_contract_holds_without_a_warning_and_fits_its_spec(tmp_path: Path):
    """The unit by customers, at most five rows of each."""
    path = write(tmp_path, "orders.odcs.yaml", CONTRACT)
    contract = load_contract(path)
    assert advise(contract, located(path, refusal=ContractRefused)) == ()
    assert (contract.unit.column, contract.unit.max_rows_per_unit) == ("customer_id", 5)
    spec = load_spec(write(tmp_path, "orders.yaml", SPEC))
    assert check_spec(spec, contract) == []
    assert (spec.source.format, spec.source.table) == ("duckdb", "orders")


def test_the_columns_of_the_contract_are_those_of_the_model():
    """The page's SELECT, run by DuckDB over a seed with the columns that it names."""
    query = re.search(r"```sql\n\{\{.*?\}\}\n(.*?)```", PAGE, re.DOTALL)
    assert query is not None
    sql = query[1].replace("{{ ref('raw_orders') }}", "raw_orders")
    with duckdb.connect() as session:
        session.execute("CREATE TABLE raw_orders AS SELECT 7 AS order_id, 1 AS customer_id, 'placed' AS status")
        session.execute("ALTER TABLE raw_orders ADD COLUMN amount DOUBLE")
        session.execute("ALTER TABLE raw_orders ADD COLUMN ordered_on VARCHAR DEFAULT '2026-02-03'")
        result = session.execute(sql)
        assert [column[0] for column in result.description] == ["customer_id", "status", "amount", "ordered_on"]
        assert result.fetchone() == (1, "placed", None, date(2026, 2, 3))


@pytest.mark.parametrize("word", ["dbt-core 1.10", "dbt-duckdb 1.10", "DuckDB 1.5"])
def test_the_page_says_what_it_was_tried_with(word: str):
    assert word in PAGE
