"""Texts that nobody declared: one cell until keys are selected, and which texts may be keys."""

from __future__ import annotations

import re

import duckdb
import pytest
from pydantic import ValidationError

from contracts.contract import labels as spreadsheet
from contracts.domains.text import NO_KEY, SPLIT, KeyColumn, TextDomain
from tests.contracts.samples import column, contract_of

TERMS = {"nulls": {"policy": "category"}, "provenance": {"kind": "declared"}}


def domain(**changed: object) -> TextDomain:
    return TextDomain.model_validate({"kind": "text", "max_bytes": 10, "missing": ["none"], **TERMS, **changed})


def read(made: TextDomain, text: str | None) -> tuple[int, str]:
    value = made.value_sql("x")
    query = f"SELECT {made.code_sql('v', 'x')}, {made.offset_sql(KeyColumn('x'), 'v')} FROM "
    found = duckdb.execute(f"{query} (SELECT x, {value} AS v FROM (SELECT ?::VARCHAR AS x))", [text]).fetchone()
    assert found is not None
    return found[0], found[1]


@pytest.mark.parametrize("text", ["baker", "=1+1", "-", "ä" * 5, "a b", "'; DROP TABLE codes", "𝔘𝔫"])
def test_a_text_of_few_bytes_may_be_a_key(text: str) -> None:
    """As it is, a formula too; without the spaces around it."""
    fits = len(text.encode()) <= 10
    assert read(domain(), f"  {text} ") == (0, text if fits else NO_KEY)


@pytest.mark.parametrize(
    "text", ["x" * 11, "x" * 10_000, "ä" * 6, "a\x00b", "a\nb", "a\u202eb", "a\u200bb", "(others)", "a;=1"]
)
def test_other_texts_are_never_keys(text: str) -> None:
    """They count among all others: too long, control characters, marks of direction, a label, a formula."""
    assert read(domain(), text) == (0, NO_KEY)


@pytest.mark.parametrize("text", [None, "", "  ", "none", "(null)"])
def test_missing_texts_have_a_cell_of_their_own(text: str | None) -> None:
    assert read(domain(), text) == (1, NO_KEY)


def test_selected_keys_have_cells_and_the_contract_is_written_the_same() -> None:
    """Before all others, then missing ones; a copy: the declared domain keeps its two cells."""
    contract = contract_of(column("text", "string", max_bytes=9, **TERMS))
    selected = contract.with_keys({"x": ("a", "b")})
    assert selected.column("x").labels == ("a", "b", "(others)", "(null)")
    assert (selected.column("x").null_code, selected.shape(("x",))) == (3, (4,))
    assert contract.column("x").labels == ("(others)", "(null)")
    assert selected.digest == contract.digest
    assert selected.model_dump() == contract.model_dump()
    assert (contract.texts(), contract.texts(["y"])) == (("x",), ())
    assert contract.with_keys({}) is contract


@pytest.mark.parametrize(
    "changed", [{"max_bytes": 0}, {"max_bytes": 1001}, {"nulls": {"policy": "map", "to": "a"}}, {"more": 1}]
)
def test_terms_that_texts_cannot_have_are_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        domain(**changed)


def test_a_formula_after_a_semicolon_is_what_spreadsheets_have_it() -> None:
    """The domain's pattern finds what `spreadsheet` finds, in both of its forms."""
    for sign in (*spreadsheet._FIRST, "a", " "):
        for space in ("", " ", "  "):
            text = f"x;{space}{sign}1"
            assert bool(re.search(SPLIT, text)) is bool(spreadsheet._SPLIT.search(text))


def test_a_column_of_texts_in_csv_asks_for_a_word_on_formulas() -> None:
    columns = [column("text", "string", max_bytes=9, **TERMS)]
    found = spreadsheet.formula_problem(columns, None)
    assert found is not None
    assert "formulas: neutralised" in found.remedy
    assert spreadsheet.formula_problem(columns, "neutralised") is None


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "FLOAT", "DECIMAL(12,2)", "HUGEINT", "VARCHAR"])
def test_a_number_is_the_same_text_in_whatever_type_it_is_stored(kind: str) -> None:
    """One missing value makes a writer store whole numbers as doubles: no key may change by it."""
    made = domain(missing=["99"])
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS SELECT CAST(x AS {kind}) AS x FROM (VALUES (1234), (99), (NULL)) v(x)")
        found = connection.execute(f"SELECT {made.value_sql('x')} FROM t").fetchall()
    assert [text for (text,) in found] == ["1234", None, None]


@pytest.mark.long
def test_what_is_a_space_or_a_formula_is_the_same_in_sql_and_in_python() -> None:
    """Every sign that Unicode has between a `;` and a formula."""
    signs = [chr(code) for code in range(1, 0x3100)]
    with duckdb.connect() as connection:
        texts = [f"a;{sign}=1" for sign in signs]
        connection.execute("CREATE TABLE t (x VARCHAR)")
        connection.executemany("INSERT INTO t VALUES (?)", [[text] for text in texts])
        found = connection.execute(f"SELECT x FROM t WHERE {domain().offset_sql(None, 'x')} = ''").fetchall()
    unfit = {text for (text,) in found}
    assert {text for text in texts if SPLIT.search(text)} <= unfit
    fit = [text for text in texts if text not in unfit]
    assert fit
    assert not any(SPLIT.search(text) for text in fit)
