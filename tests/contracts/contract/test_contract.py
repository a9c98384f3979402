"""The contract as a value: sizes, codes, impossible cells, digests, and what importing it costs."""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts.contract.contract import Contract
from contracts.errors import ContractRefused
from tests.contracts.samples import column, contract_of, loaded

SEX = column("categories", "string", "sex", values=["F", "M"], nulls={"policy": "map", "to": "F"})
JOB = column("mapping", "string", "job", mapping={"a": "clerk", "b": "care", "c": "clerk"}, other="other")
AGE = column("integer", "integer", "age", bounds=[0, 99], bins={"edges": [0, 18, 65, 99]})


def test_labels_are_in_the_order_of_the_codes():
    """Values or bins first, then other, then the cell of nulls; mapped categories in the order of first mention."""
    assert JOB.labels == ("clerk", "care", "other", "(null)")
    assert (JOB.size, JOB.null_code, JOB.domain.misfit_code, JOB.ordered) == (4, 3, 2, False)
    assert SEX.labels == ("F", "M")
    assert (SEX.size, SEX.null_code, SEX.domain.misfit_code) == (2, 0, 0)
    assert AGE.labels == ("0 to 17", "18 to 64", "65 to 99", "(null)")
    assert (AGE.null_code, AGE.ordered) == (3, True)


@pytest.mark.parametrize(
    ("label", "remedy"),
    [
        ("\t=1+1", "drop the tab"),
        ("a\tb", "drop the tab"),
        ("\r=1", "drop the carriage return"),
        ("a\nb", "drop the line feed"),
        ("\x00a", "drop the character U+0000"),
        ("a\u202eb", "drop the right-to-left override"),
        ("\ufeff=n", "drop the zero width no-break space"),
        (" =1", "drop the space: spaces around a value in the data are ignored"),
    ],
)
@pytest.mark.parametrize("kind", ["categories", "mapping"])
def test_a_label_with_a_character_that_is_not_seen_is_refused_by_its_name(kind: str, label: str, remedy: str):
    """The remedy names what has to go: a tab is no space, though both are dropped from the ends of a value."""
    domain = {"values": ["F", label]} if kind == "categories" else {"mapping": {"f": "F", "m": label}}
    with pytest.raises(ValidationError) as refused:
        column(kind, "string", "sex", nulls={"policy": "map", "to": "F"}, **domain)
    (problem,) = refused.value.errors()[0]["ctx"]["problems"]
    assert problem.remedy == remedy


def test_shape_and_cells_follow_the_clique():
    """The product is an exact integer, also where it passes 64 bits."""
    contract = contract_of(SEX, JOB, AGE)
    assert contract.shape(("age", "sex")) == (4, 2)
    assert contract.cells(("age", "sex", "job")) == 32
    assert (contract.shape(()), contract.cells(())) == ((), 1)
    wide = [column("integer", "integer", f"c{n}", bounds=[0, 99999], bins={"width": 1}) for n in range(5)]
    assert contract_of(*wide).cells([f"c{n}" for n in range(5)]) == 100001**5


def test_an_unknown_column_is_refused_with_a_suggestion():
    """The message lists the columns and names the nearest."""
    with pytest.raises(ContractRefused, match="write 'age' instead of 'aeg'"):
        contract_of(SEX, AGE).column("aeg")


ZEROS = ({"sex": ["M"], "job": ["clerk", "(null)"]}, {"age": ["0 to 17"]}, {"age": ["65 to 99"], "sex": ["F"]})


@settings(max_examples=30, deadline=None)
@given(
    clique=st.permutations(["sex", "job", "age"]).flatmap(lambda names: st.integers(0, 3).map(lambda n: names[:n]))
)
def test_impossible_cells_are_those_that_a_cell_by_cell_reading_excludes(clique: list[str]):
    """A zero applies in a marginal exactly where all its columns are, whatever the order of the axes."""
    contract = contract_of(SEX, JOB, AGE, structural_zeros=ZEROS)
    expected = np.zeros(contract.shape(clique), dtype=bool)
    for cell in itertools.product(*(range(n) for n in contract.shape(clique))):
        labels = {name: contract.column(name).labels[code] for name, code in zip(clique, cell, strict=True)}
        expected[cell] = any(all(labels.get(name) in allowed for name, allowed in zero.items()) for zero in ZEROS)
    excluded = contract.impossible(clique)
    assert excluded.shape == contract.shape(clique)
    assert excluded.dtype == np.bool_
    assert np.array_equal(excluded, expected)


def test_a_contract_made_in_code_is_held_to_the_same_rules():
    """What the loader refuses cannot be made by hand either."""
    with pytest.raises(ValidationError, match="a column with a domain"):
        contract_of(SEX, structural_zeros=[{"job": ["clerk"]}])
    with pytest.raises(ValidationError, match="kind categories or mapping"):
        column("integer", "string", bounds=[0, 1], bins={"width": 1})
    with pytest.raises(ValidationError, match="replace_one"):
        contract_of(SEX, invariants=[{"kind": "total", "value": 3, "reference": "yearbook"}])


def test_a_unit_made_in_code_has_no_scope_by_default():
    """Nothing that changes privacy has a default."""
    with pytest.raises(ValidationError, match=r"unit\.scope"):
        contract_of(SEX, unit={"kind": "row"})
    assert contract_of(SEX, unit={"kind": "row", "scope": "lifetime"}).unit.scope == "lifetime"


def test_contracts_are_frozen():
    """Nothing can be changed after the checks."""
    contract = contract_of(SEX)
    with pytest.raises(ValidationError, match="frozen"):
        contract.adjacency = "replace_one"
    with pytest.raises(ValidationError, match="frozen"):
        contract.columns[0].name = "x"


def test_a_contract_survives_json(tmp_path: Path):
    """The JSON that the digest is made of holds the whole contract."""
    for contract in (loaded(tmp_path), contract_of(SEX, JOB, AGE, structural_zeros=ZEROS)):
        again = Contract.model_validate_json(contract.model_dump_json())
        assert again == contract
        assert again.digest == contract.digest


def test_a_changed_copy_has_a_digest_of_its_own():
    """The digest is kept once it is found; a copy finds its own."""
    contract = contract_of(SEX, JOB, AGE)
    found = contract.digest
    changed = contract.model_copy(update={"version": "99.0.0"})
    assert changed.digest != found == contract.digest == contract.model_copy().digest


LIGHT = (
    "contracts.contract.contract",
    "contracts.contract.contract",
    "contracts.contract.odcs",
    "contracts.release.spec",
    "contracts.release.spec_checks",
    "contracts.sql.encoding",
    "contracts.sql.select",
)


@pytest.mark.services
@pytest.mark.parametrize("module", LIGHT)
def test_importing_the_contract_is_light(module: str):
    """No engine is loaded until it is used: `sudare --help` stays quick."""
    heavy = "{'duckdb', 'polars', 'numpy', 'pandas', 'pyarrow', 'prefect', 'great_expectations', 'jsonschema'}"
    code = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
