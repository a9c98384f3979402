"""The short form of many tables: what it stands for, that it stays short, and what each mistake gets to read."""

from decimal import Decimal
from itertools import combinations
from pathlib import Path

import jsonschema
import pytest
import yaml

from contracts.canonical import digest
from contracts.contract.odcs import load_contract
from contracts.errors import SpecRefused
from contracts.release.spec import load_spec, spec_schema
from contracts.release.spec_checks import check_spec
from contracts.release.tables.tables import MOST_TABLES, TablesProduct, expand, tables_of
from tests.contracts.samples import SPEC, loaded, replaced, spec_findings, write

COLUMNS = ("age", "sex", "job", "income", "moved")
TABLES = "  tables:\n    - [age, sex]\n    - {columns: [job], name: jobs, weight: 2}\n"


def spec_with(tables: str) -> str:
    return replaced(SPEC, (TABLES, f"  tables: {tables}\n"))


def written_out(folder: Path, tables: str) -> list[tuple[str, tuple[str, ...], Decimal]]:
    spec = load_spec(write(folder, "people.yaml", spec_with(tables)))
    assert check_spec(spec, loaded(folder)) == []
    jsonschema.Draft202012Validator(spec_schema()).validate(yaml.safe_load(spec_with(tables)))
    return [(table.name, table.columns, table.weight) for table in tables_of(spec.product, loaded(folder))]


@pytest.mark.parametrize(
    ("tables", "names"),
    [
        ("all 1-way", list(COLUMNS)),
        ("all 2-way", ["_x_".join(pair) for pair in combinations(COLUMNS, 2)]),
        ("all 3-way", ["_x_".join(triple) for triple in combinations(COLUMNS, 3)]),
        ("[all 5-way, {all: 1, of: [sex]}]", ["age_x_sex_x_job_x_income_x_moved", "sex"]),
        ("[{all: 2, of: [job, age]}]", ["job_x_age"]),
    ],
)
def test_the_short_form_stands_for_every_table_of_so_many_columns(tmp_path: Path, tables: str, names: list[str]):
    assert [name for name, _, _ in written_out(tmp_path, tables)] == names


def test_a_table_that_is_listed_by_itself_keeps_its_name_weight_and_place(tmp_path: Path):
    """Each set of columns stands once, in any order of the columns."""
    made = written_out(
        tmp_path,
        "[{all: 2, of: [age, sex, job], weight: 0.5}, {columns: [job, age], name: ages, weight: 3}, "
        "{all: 2, of: [sex, job]}]",
    )
    assert made == [
        ("age_x_sex", ("age", "sex"), Decimal("0.5")),
        ("sex_x_job", ("sex", "job"), Decimal("0.5")),
        ("ages", ("job", "age"), Decimal(3)),
    ]


def test_the_spec_keeps_the_short_form(tmp_path: Path):
    """The dump states `all: 2` and not its tables; it is read back."""
    short = load_spec(write(tmp_path, "new.yaml", spec_with("all 2-way")))
    assert short.product.model_dump(mode="json", by_alias=True)["tables"] == [{"all": 2, "of": None, "weight": "1"}]
    dumped = short.product.model_dump(mode="json")
    assert digest(TablesProduct.model_validate(dumped).model_dump(mode="json")) == digest(dumped)
    listed = load_spec(write(tmp_path, "listed.yaml", spec_with("[{all: 2}]")))
    other = load_spec(write(tmp_path, "other.yaml", SPEC))
    assert (listed.digest, listed.digest != other.digest) == (short.digest, True)


@pytest.mark.parametrize(
    ("tables", "found", "allowed"),
    [
        ("all 6-way", "all 6-way tables of 5 columns", "at most 5"),
        ("[{all: 1, of: [agee]}]", "the column 'agee'", "one of age, sex, job, income, moved"),
        ("[{all: 2, of: [age]}]", "all 2-way tables of 1 columns", "at most 1"),
    ],
)
def test_what_the_contract_cannot_give_is_refused(tmp_path: Path, tables: str, found: str, allowed: str):
    spec = load_spec(write(tmp_path, "people.yaml", spec_with(tables)))
    (finding,) = check_spec(spec, loaded(tmp_path))
    assert (finding.found, finding.allowed) == (found, allowed)
    assert finding.where.endswith(f"people.yaml:{spec_with(tables).splitlines().index(f'  tables: {tables}') + 1}")
    with pytest.raises(SpecRefused):
        tables_of(spec.product, loaded(tmp_path))


@pytest.mark.parametrize(
    ("tables", "found"),
    [
        ("all 0-way", "'all 0-way'"),
        ("every 2-way", "'every 2-way'"),
        ("[{all: 0}]", "0"),
        ("[{all: 2, of: []}]", "an empty list"),
        ("[{all: 2, of: [age, age]}]", "'age' twice"),
        ("[{all: 2, weight: 0}]", "0"),
        ("[{all: 2, weigth: 2}]", "the unknown key 'weigth'"),
        ("[{all: 2, columns: [age]}]", "the unknown key 'columns'"),
    ],
)
def test_a_short_form_that_says_nothing_sensible_is_refused(tmp_path: Path, tables: str, found: str):
    (finding,) = spec_findings(tmp_path, spec_with(tables))
    assert finding.found == found
    assert finding.field.startswith("product.tables")


def test_too_many_tables_are_refused_before_they_are_made():
    """The number is computed, not counted: 99 out of 1,000 columns would be 10^139 tables."""
    product = TablesProduct.model_validate({"kind": "tables", "mechanism": "laplace", "tables": [{"all": 99}]})
    placed, (problem,) = expand(product, [f"c{number}" for number in range(1000)])
    assert placed == ()
    assert str(MOST_TABLES) in problem.allowed


def test_names_that_would_name_the_same_file_or_none_are_refused():
    product = TablesProduct.model_validate(
        {"kind": "tables", "mechanism": "laplace", "tables": [{"all": 1}, {"all": 2}]}
    )
    _, (clash,) = expand(product, ["a", "b", "a_x_b"])
    assert "a_x_b" in clash.found
    _, unfit = expand(product, ["a", "b/c"])
    assert [("b/c" in problem.found, "none of /" in problem.allowed) for problem in unfit] == [(True, True)] * 2


def test_every_product_of_the_manual_fits_the_example(tmp_path: Path):
    """docs/tables.md shows products; each loads, passes the schema and fits the contract of examples/adult."""
    root = Path(__file__).resolve().parents[4]
    contract = load_contract(root / "examples" / "adult" / "adult.odcs.yaml")
    page = (root / "docs" / "tables.md").read_text(encoding="utf-8").partition("\n## Refining tables\n")[0]
    shown = [line for line in page.splitlines() if line.startswith("product: ")]
    assert len(shown) == 8
    for number, line in enumerate(shown):
        text = SPEC[: SPEC.index("product:")] + line + "\n" + SPEC[SPEC.index("publish:") :]
        assert check_spec(load_spec(write(tmp_path, f"{number}.yaml", text)), contract) == []
        jsonschema.Draft202012Validator(spec_schema()).validate(yaml.safe_load(text))
