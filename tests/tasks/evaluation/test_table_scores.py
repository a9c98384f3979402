"""Published tables and statistics against the rows that they were made of."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from contracts.errors import SpecRefused
from contracts.release.tables.levels import Level, table_cells
from contracts.release.tables.tables import TablesProduct
from privacy.accounting.amounts import PICO
from privacy.evaluation.statistic_errors import PrivateStatisticErrors, StatisticErrors
from privacy.marginals.counts import coarsening, sum_up
from tasks.evaluation.errors import before_keys, evaluate_statistics, evaluate_tables, evaluated_lattices
from tasks.evaluation.score_pages import statistics_page
from tasks.ingest import ingest
from tasks.products.version_records import published_statistics_record
from tasks.records.files.tidy_tables import Tidy
from tasks.verification.table_meaning import Meaning
from tests.tasks.intake import KEY, make_contract, take_in, write_csv
from tests.tasks.verification.forgery import load
from tests.worlds.distinct_counts import laplace as apart
from tests.worlds.distinct_counts import of_keys as apart_by_keys
from tests.worlds.private_keys import pure as of_keys
from tests.worlds.statistic_kinds import clips as clipped_by_the_run
from tests.worlds.statistic_kinds import quotas as within_quotas
from tests.worlds.statistics import StatisticsScenario, of_tables
from tests.worlds.versions import Version, Worlds

AGES = ["3", "17", "17", "42", "42", "42", "95", ""]
SEXES = ["F", "M", "M", "F", "M", "", "F", "M"]


@pytest.mark.parametrize(
    "asked", [{}, {"bins": {"age": "0..99 at 20, 60", "sex": {"known": ["F", "M"], "not": ["(null)"]}}}]
)
@pytest.mark.parametrize("more", [0, 1])
def test_exact_counts_have_no_error(tmp_path: Path, asked: dict[str, object], more: int):
    """In the contract's cells, and in coarser ones; labels and columns beside them are read by name."""
    contract = make_contract(tmp_path)
    rows = (f"{age},{sex},10,2021-03-01" for age, sex in zip(AGES, SEXES, strict=True))
    table = take_in(write_csv(tmp_path, *rows), contract, tmp_path)
    tables = [{"columns": ["age", "sex"], "name": "t", **asked}]
    meaning = Meaning(
        contract, TablesProduct.model_validate({"kind": "tables", "mechanism": "laplace", "tables": tables})
    )
    counts = np.zeros(contract.shape(("age", "sex")), dtype=np.int64)
    for age, sex in zip(AGES, SEXES, strict=True):
        counts[10 if age == "" else int(age) // 10, ["F", "M", ""].index(sex)] += 1
    cells = table_cells(meaning.tables[0], contract)
    exact = sum_up(coarsening(cells), counts) if isinstance(cells, Level) else counts
    made = exact.copy()
    made[0, 0] += more
    values = {"count": made, "lower": made - 1, "upper": made + 1}
    tidy = Tidy(cells, ("age", "sex"), values, beside=cells.beside(("age", "sex")))
    tidy.write(tmp_path / "v1", "data/t.parquet", draw="", marks={})
    found = evaluate_tables(table, tmp_path / "v1", meaning, memory_limit="256MB").tables["t"]
    assert (found.cells, found.largest, found.covered) == (exact.size, float(more), 1.0)
    assert found.mean_absolute == pytest.approx(more / exact.size)


TABLES = """[
  {by: [ward], of: [count, {mean: age, clip: [10, 60]}, {variance: age}, {sum: bill}, {mean: bill}]},
  {by: [ward], name: middle, of: [{quantiles: [0.5, 0.9], of: age, resolution: 1, method: tree}]},
  {by: [insured], of: [{ratio: {sum: bill, clip: private, step: 2.5}, over: {sum: age}}]},
  {by: [], of: [count, {mean: bill}], survey_weight: age},
  {by: [floor], of: [count]}]"""


def all_kinds() -> StatisticsScenario:
    """Nearly no noise: what is published is nearly exact, so that errors tell of mistakes."""
    return of_tables(TABLES, epsilon="15", release="scored")


def evaluated(version: Version, scenario: StatisticsScenario, folder: Path) -> PrivateStatisticErrors:
    """Take the scenario's rows in again, and compare."""
    spec, *_, ledger = scenario.prepared_of(folder, object)
    ledger.close()
    record, meaning = published_statistics_record(version.folder)
    before = before_keys(meaning.contract, meaning.product)
    scenario.frame().select(before.source_columns).write_parquet(folder / "stays.parquet")
    lattices = evaluated_lattices(meaning.product, before)
    table = ingest(spec.source, before, folder=folder / "private", key=KEY, memory_limit="256MB", lattices=lattices)
    return evaluate_statistics(table, version.folder, record, meaning.contract, memory_limit="256MB")


@pytest.fixture(scope="module")
def errors(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> PrivateStatisticErrors:
    return evaluated(worlds.published(all_kinds()), all_kinds(), tmp_path_factory.mktemp("evaluation"))


def of(errors: PrivateStatisticErrors, table: str, statistic: str) -> StatisticErrors:
    return errors.tables[table][statistic]


@pytest.mark.long
def test_every_statistic_of_every_table_is_compared_and_close(errors: PrivateStatisticErrors):
    """At an epsilon of 15: counts within 10 rows, means within 1; laws of the noise give 1e-9 for more."""
    assert {name: [*each] for name, each in errors.tables.items()} == {
        "ward": ["count", "mean_age_clipped", "variance_age_clipped", "sum_bill", "mean_bill"],
        "middle": ["q50_age", "q90_age"],
        "insured": ["ratio_bill_over_age_clipped"],
        "all": ["count", "mean_bill"],
        "floor": ["count"],
    }
    assert of(errors, "ward", "count").largest < 40
    assert of(errors, "ward", "mean_age_clipped").largest < 4
    assert of(errors, "middle", "q50_age").largest < 4
    assert of(errors, "floor", "count").largest < 40
    for table in errors.tables.values():
        for each in table.values():
            assert each.cells > 0
            assert each.relative < 0.2
    assert of(errors, "insured", "ratio_bill_over_age_clipped").cells == 2


def test_exact_numbers_are_those_of_the_rows(errors: PrivateStatisticErrors):
    """By Polars: a count with missing ages, a clipped mean without them, a median, a weighted count."""
    rows = all_kinds().frame().filter(pl.col("ward") == "children")
    exact = {
        name: next(cell.exact for cell in of(errors, table, name).worst if cell.labels == ("children",))
        for table, name in (("ward", "count"), ("ward", "mean_age_clipped"), ("middle", "q50_age"))
    }
    ages = rows["age"].drop_nulls()
    assert exact["count"] == len(rows)
    assert exact["mean_age_clipped"] == pytest.approx(float(ages.clip(10, 60).mean()))  # type: ignore[arg-type]
    assert exact["q50_age"] == sorted(ages.clip(0, 99))[-(-len(ages) // 2) - 1]
    [weighed] = of(errors, "all", "count").worst
    assert weighed.exact == float(all_kinds().frame()["age"].clip(0, 99).sum())


def test_what_a_clip_cuts_off_stands_beside_the_error(errors: PrivateStatisticErrors):
    """Ages lie evenly from 0 to 99 with tails, so a mean of those from 10 to 60 is off by more than noise."""
    clipped = of(errors, "ward", "mean_age_clipped")
    assert clipped.rmse_unclipped is not None
    assert clipped.rmse_unclipped > 5 > clipped.rmse
    assert clipped.bias_unclipped is not None
    assert clipped.bias_unclipped < -5
    assert of(errors, "ward", "sum_bill").rmse_unclipped is None
    assert of(errors, "insured", "ratio_bill_over_age_clipped").rmse_unclipped is None


def test_a_clip_that_the_run_found_is_the_one_compared_with(worlds: Worlds, tmp_path: Path):
    """Ages clipped to what the histogram gave; their quantiles, which a tree over the bounds gives, are not.

    Noise decides the clip: one that is all of the bounds cuts nothing, so that there is nothing to compare.
    """
    version = worlds.published(clipped_by_the_run())
    found = evaluated(version, clipped_by_the_run(), tmp_path)
    ages, *_ = load(version.folder / "record.json")["replay"]["clips"]
    mean, middle = of(found, "ward", "mean_age_clipped"), of(found, "ward", "q50_age")
    assert (mean.rmse_unclipped is None) == ((float(ages["low"]), float(ages["high"])) == (0, 99))
    assert mean.rmse_unclipped != mean.rmse
    assert mean.largest < 5
    assert middle.rmse_unclipped is None


@pytest.mark.long
def test_refined_counts_are_compared_beside_the_noisy_ones(worlds: Worlds, tmp_path: Path):
    """With the same exact counts, weighted ones too. They have no interval; excluded cells are not compared."""
    tables = """[{by: [ward, floor], of: [count, {mean: bill}]}, {by: [ward], of: [{mean: bill}]},
      {by: [floor], of: [count, {effective_size: age}], survey_weight: age}]"""
    plain = of_tables(tables, release="both")
    scenario = replace(plain, product=plain.product.replace("tables:", "refine: {method: simplex}, tables:"))
    version = worlds.published(scenario)
    found = evaluated(version, scenario, tmp_path)
    assert {name: [*each] for name, each in found.tables.items()} == {
        "ward_x_floor": ["count", "count_refined", "mean_bill"],
        "ward": ["mean_bill"],
        "floor": ["count", "count_refined", "effective_size_age"],
    }
    for name in ("ward_x_floor", "floor"):
        noisy, refined = of(found, name, "count"), of(found, name, "count_refined")
        assert refined.cells == noisy.cells
        assert (refined.covered, noisy.covered is None) == (None, False)
        exact = {cell.labels: cell.exact for cell in noisy.worst}
        both = [cell for cell in refined.worst if cell.labels in exact]
        assert both
        assert all(cell.exact == exact[cell.labels] for cell in both)
        table = pl.read_parquet(version.folder / f"data/{name}.parquet")
        [worst] = refined.worst[:1]
        row = table.filter([pl.col(c) == label for c, label in zip(table.columns, worst.labels, strict=False)])
        assert row["count_refined"].to_list() == [worst.published]
    size = of(found, "floor", "effective_size_age")
    assert size.relative < 0.5
    assert size.covered is not None
    assert "<h3>count_refined</h3>" in statistics_page(found, release="both", version=1)


def test_the_page_is_private_and_has_every_statistic(errors: PrivateStatisticErrors):
    page = statistics_page(errors, release="scored", version=1)
    assert "PRIVATE" in page
    assert all(f"<h3>{name}</h3>" in page for table in errors.tables.values() for name in table)


def test_selected_keys_and_all_others_are_compared(worlds: Worlds, tmp_path: Path):
    """Rows of texts that were not selected are the exact number of `(others)`."""
    scenario = of_keys()
    found = evaluated(worlds.published(scenario), scenario, tmp_path)
    assert found.tables
    for table in found.tables.values():
        for each in table.values():
            assert each.cells > 1
    count = next(table["count"] for table in found.tables.values() if "count" in table)
    assert any("(others)" in cell.labels for cell in count.worst)
    assert count.largest < 200


@pytest.mark.long
def test_units_and_different_values_are_compared(worlds: Worlds, tmp_path: Path):
    """At an epsilon of 15 none is off by more than a few: notes, days, numbers, wards, keys that were selected."""
    for number, scenario in enumerate((apart(), apart_by_keys())):
        many = replace(scenario, epsilon="15", release=f"scored-{number}", cap=(60 * PICO, scenario.cap[1]))
        (tmp_path / str(number)).mkdir()
        found = evaluated(worlds.published(many), many, tmp_path / str(number))
        names = {name for table in found.tables.values() for name in table}
        assert "units" in names
        assert any(name.startswith("distinct_") for name in names)
        for table in found.tables.values():
            for name, each in table.items():
                assert each.cells > 0
                if name == "units" or name.startswith("distinct_"):
                    assert each.largest < 60
                    assert each.covered is not None


def test_suppressed_cells_are_counted_and_not_compared(worlds: Worlds, tmp_path: Path):
    base = of_tables("[{by: [insured, floor], of: [count]}]", release="hidden")
    scenario = replace(base, product=f"{base.product[:-1]}, minimum_frequency: {{k: 60, t: 0}}}}")
    errors = of(evaluated(worlds.published(scenario), scenario, tmp_path), "insured_x_floor", "count")
    assert (errors.cells, errors.unpublished) == (6, 3)


@pytest.mark.long
def test_a_table_that_is_none_and_one_of_other_cells_are_refused(worlds: Worlds, tmp_path: Path):
    version = worlds.published(all_kinds()).copy(tmp_path / "v")
    floors = pl.read_parquet(version.folder / "data/floor.parquet")
    for number, spoil in enumerate((lambda file: file.write_bytes(b"none"), floors.head(2).write_parquet)):
        spoil(version.folder / "data/floor.parquet")
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(SpecRefused) as refused:
            evaluated(version, all_kinds(), folder)
        (finding,) = refused.value.findings
        assert finding.where.endswith("floor.parquet")
        assert "sudare verify" in finding.remedy


@pytest.mark.long
def test_a_sum_within_a_quota_is_compared_with_the_cut_sums_and_with_the_whole_ones(worlds: Worlds, tmp_path: Path):
    """Some 33,000 of a ward are cut off; noise of a scale of 190 makes up 4,000 with probability below 1e-8."""
    scenario = replace(within_quotas(), epsilon="15", release="quotas-scored")
    scored = of(evaluated(worlds.published(scenario), scenario, tmp_path), "ward", "sum_bill_clipped")
    assert scored.bias_unclipped is not None
    assert scored.largest < 4000 < 20_000 < -scored.bias_unclipped
