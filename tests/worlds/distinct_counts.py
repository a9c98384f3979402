"""Finished runs of units and distinct values: the hospital's stays with notes, three stays of a patient kept."""

from dataclasses import replace
from fractions import Fraction

from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus
from tests.worlds.private_keys import KeyScenario
from tests.worlds.private_keys import pure as notes

TABLES = """[
  {by: [ward], of: [count, units, {distinct: note}, {distinct: floor}]},
  {by: [], name: every, of: [units, {distinct: age}, {distinct: bill}, {distinct: arrived}]},
  {by: [insured, floor], name: beside, of: [{mean: age}, {distinct: ward}, units], survey_weight: bill},
  {by: [age, ward], name: zeros, of: [units, {distinct: note}]}]"""
OF_UNITS = "{unit: {kind: id, scope: block, column: patient, max_rows_per_unit: 3}, adjacency: RELATION, ZEROS}"


def laplace() -> KeyScenario:
    """add_remove, texts and declared columns, a survey weight beside, excluded cells; Parquet and CSV."""
    return replace(
        notes(),
        privacy=OF_UNITS.replace("RELATION", "add_remove"),
        unit="patient",
        product=f"{{kind: statistics, mechanism: laplace, tables: {TABLES}}}",
        delta="0",
        release="apart",
    )


def gaussian() -> KeyScenario:
    """Gaussian noise under a Rényi account, replace_one; Parquet in parts."""
    return replace(
        laplace(),
        privacy=OF_UNITS.replace("RELATION", "replace_one"),
        product=f"{{kind: statistics, mechanism: gaussian, tables: {TABLES}}}",
        delta="1e-9",
        epsilon="3",
        calculus=RenyiCalculus(Fraction(12)),
        cap=(20 * PICO, ATTO // 10**9),
        formats="[parquet, parts]",
        release="apart-replaced",
    )


def of_keys() -> KeyScenario:
    """Keys that are selected, with units and distinct values for each, and the notes told apart in another table."""
    selected = "{by: [insured, note], keys: private, of: [count, units, {distinct: ward}, {distinct: note}]}"
    tables = f"[{selected}, {{by: [ward], of: [{{distinct: note}}]}}]"
    return replace(
        laplace(),
        privacy="{unit: {kind: id, scope: block, column: patient, max_rows_per_unit: 3}, adjacency: add_remove}",
        product=f"{{kind: statistics, mechanism: laplace, tables: {tables}}}",
        delta="1e-6",
        release="apart-by-keys",
    )
