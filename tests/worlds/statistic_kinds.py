"""A release of each kind of statistic: what is asked for of the hospital's stays, with and without units of rows."""

from dataclasses import replace
from typing import Final

import pytest

from tests.worlds.private_keys import KeyScenario
from tests.worlds.private_keys import gaussian as by_notes
from tests.worlds.statistics import StatisticsScenario, gaussian, of_tables, three_rows
from tests.worlds.synthetic_rows import STAY

CLIPS: Final = """[
  {by: [ward], of: [count, {mean: age, clip: private}, {quantiles: [0.5], of: age}]},
  {by: [], of: [{sum: bill, clip: {private: true, share: 0.2}, step: 2.5}, {mean: age}], weight: 2},
  {by: [insured], of: [{ratio: {sum: bill, clip: private, step: 2.5}, over: {sum: age}}]}]"""
WEIGHTS: Final = """[
  {by: [ward], of: [count, {mean: bill}, {sum: bill, step: 0.5}], survey_weight: age},
  {by: [ward, age], name: wards, of: [count], survey_weight: {column: bill, clip: [0, 400], step: 2.5}},
  {by: [], of: [count, {quantiles: [0.25, 0.5], of: age}, {mean: age}], survey_weight: {column: bill, step: 100}}]"""
SIZES: Final = """[
  {by: [ward], of: [count, {effective_size: age}, {mean: bill, step: 0.5}], survey_weight: age},
  {by: [], of: [{effective_size: bill}], survey_weight: {column: bill, clip: [0, 400], step: 2.5}}]"""
MOMENTS: Final = """[
  {by: [ward], of: [count, {variance: age}, {mean: age}, {sum: age}]},
  {by: [], of: [{sd: bill, clip: [0, 500], step: 2.5}, {variance: bill}]},
  {by: [insured], name: alone, of: [{sum: age, clip: [18, 90], step: 2}, {sum: bill, clip: [0, 500]}]},
  {by: [floor], name: only, of: [{sum: age, clip: [20, 80]}]},
  {by: [age, ward], name: zeros, of: [{sd: bill}, {sum: bill}]}]"""
QUOTAS: Final = """[
  {by: [ward], of: [count, {sum: bill, clip: [0, 500], step: 2.5, per_unit: 400}]},
  {by: [], name: alone, of: [{sum: age, clip: [18, 90], per_unit: 70}]},
  {by: [insured], of: [count, {mean: age}, {sum: bill, clip: [0, 500], per_unit: 300}]},
  {by: [floor], of: [{sum: bill, per_unit: 100}, {quantiles: [0.5], of: bill}]}]"""
UNITS: Final = "{unit: {kind: id, scope: block, column: patient, max_rows_per_unit: 3}, adjacency: add_remove}"
TREES: Final = """[
  {by: [ward], of: [count, {quantiles: [0.1, 0.5, 0.975], of: age, method: tree}, {mean: age}]},
  {by: [], of: [count, {quantiles: [0.25], of: bill, clip: [0, 500], step: 2.5, resolution: 12.5, method: tree}]},
  {by: [age, ward], name: zeros, of: [{quantiles: [0.5], of: bill, resolution: 50, method: tree}]}]"""
CHOICES: Final = """[
  {by: [ward], of: [count, {quantiles: [0.5, 0.1, 0.975], of: age, method: exponential}, {mean: age}]},
  {by: [], of: [count, {quantiles: [0.25], of: bill, clip: [0, 500], step: 2.5}]},
  {by: [age, ward], name: zeros, of: [{quantiles: [0.5], of: bill, method: tree}]}]"""
SHARES: Final = "[{by: [ward], of: [count, {mean: age}]}, {by: [], of: [{sum: bill}, {quantiles: [0.5], of: age}]}]"
SUPPRESSED: Final = """[
  {by: [ward, age], of: [count, {mean: age, clip: [0, 90]}, {sum: bill, clip: [0, 500]}]},
  {by: [insured, floor], name: how many, of: [count]},
  {by: [insured], name: spread, of: [{variance: age}, {mean: bill}]}]"""
RULE: Final = "minimum_frequency: {k: 100, t: auto, at_most: 0.01}"
MAPPED: Final = STAY.replace("nulls: {policy: category}", "nulls: {policy: map, to: 50}", 1)
"""Missing ages count as 50."""
WEIGHT: Final = "survey_weight: {column: age, clip: [0, 90], step: 4.5}"
REFINED: Final = f"""[
  {{by: [ward, age], of: [count, {{mean: age, clip: [0, 90]}}, {{mean: bill}}]}},
  {{by: [insured, floor], name: many, of: [count]}},
  {{by: [ward], of: [{{quantiles: [0.5], of: bill}}, count]}},
  {{by: [floor], of: [{{mean: age}}]}},
  {{by: [], of: [count, {{mean: bill}}], {WEIGHT}}},
  {{by: [insured], of: [count], {WEIGHT}}}]"""


def _in_csv_too(tables: str, release: str, **changed: object) -> StatisticsScenario:
    return replace(of_tables(tables, release=release, **changed), formats="[parquet, csv]")


def _with(scenario: StatisticsScenario, words: str) -> StatisticsScenario:
    return replace(scenario, product=f"{scenario.product[:-1]}, {words}}}")


def clips() -> StatisticsScenario:
    """Two histograms, of which one serves two tables; a tree and a declared clip beside them."""
    return _in_csv_too(CLIPS, "clips", epsilon="4")


def weights() -> StatisticsScenario:
    """Weights that may be missing and weights that are mapped, broken steps, excluded cells."""
    return _in_csv_too(WEIGHTS, "weighted")


def sizes() -> StatisticsScenario:
    """A weight that may be missing and one that is mapped."""
    return _in_csv_too(SIZES, "sizes")


def moments() -> StatisticsScenario:
    """Missing ages, excluded cells, clips away from 0."""
    return _in_csv_too(MOMENTS, "moments")


def quotas() -> StatisticsScenario:
    return _in_csv_too(QUOTAS, "quotas", privacy=UNITS, unit="patient")


def quotas_of_rows() -> StatisticsScenario:
    return of_tables(QUOTAS, release="rows")


def quotas_of_keys() -> KeyScenario:
    """By notes whose keys are selected: rows are coded anew, and keep their units and places."""
    selected = "{by: [note], keys: private, of: [count, {sum: bill, clip: [0, 500], per_unit: 600}]}"
    tables = f"[{selected}, {{by: [ward], of: [{{sum: bill, clip: [0, 500], per_unit: 600}}]}}]"
    product = f"{{kind: statistics, mechanism: gaussian, tables: {tables}}}"
    return replace(by_notes(), product=product, release="quotas-of-notes")


def trees() -> StatisticsScenario:
    """Missing ages, excluded cells, a name with a dot."""
    return _in_csv_too(TREES, "quantiles")


def choices() -> StatisticsScenario:
    """Missing ages, excluded cells, quantiles in no order."""
    return _in_csv_too(CHOICES, "choices")


def shares(mechanism: str = "laplace") -> StatisticsScenario:
    """Draws that share the charge optimally."""
    product = f"{{kind: statistics, mechanism: {mechanism}, split: optimal, tables: {SHARES}}}"
    return replace(of_tables(SHARES) if mechanism == "laplace" else gaussian(), product=product, release="shares")


def suppressed() -> StatisticsScenario:
    """Structural zeros, several columns of a table, counts alone, and moments."""
    return _with(_in_csv_too(SUPPRESSED, "small", properties=MAPPED), RULE)


def suppressed_units() -> StatisticsScenario:
    """Gaussian noise, replace_one, three rows a unit; Parquet in parts."""
    return replace(_with(three_rows(SUPPRESSED), RULE), properties=MAPPED)


def refined() -> StatisticsScenario:
    """Excluded cells, averages of several columns, counts alone, a tree, weights."""
    return _with(_in_csv_too(REFINED, "refined"), "refine: {method: negative_l2, lambda: 0.02}")


def refined_total() -> StatisticsScenario:
    """A total that is declared public, replace_one, the plain projection."""
    total = 'invariants: [{kind: total, value: 2000, reference: "yearbook"}]'
    privacy = f"{{unit: {{kind: row, scope: block}}, adjacency: replace_one, {total}}}"
    return _with(of_tables(REFINED, privacy=privacy, release="yearbook"), "refine: {method: simplex}")


def under_both(kind: str) -> pytest.MarkDecorator:
    """With Laplace noise for rows, and with Gaussian noise for units of three."""
    scenarios = [globals()[kind](), three_rows(globals()[kind.upper()])]
    return pytest.mark.parametrize("scenario", scenarios, ids=["laplace", "gaussian"])
