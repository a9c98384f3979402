"""Hierarchies in a spec: what can be written, what each mistake gets to read, and what levels come of it."""

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.errors import Finding
from contracts.release.spec import load_spec, spec_schema
from contracts.release.spec_checks import check_spec
from contracts.release.tables.levels import level_problems, levels_of, parents
from contracts.release.tables.tables import TableSpec, TablesProduct
from privacy.refine.hierarchy import check_tree, quadtree
from tests.contracts.samples import SPEC, column, contract_of, loaded, replaced, spec_findings, write
from tests.worlds.hierarchies import PLACES, nested
from tests.worlds.tables import first

JOBS = "{job: [{name: kind, groups: {work: [clerk, care, other], none: ['(null)']}}]}"
ALL = "{'GROUP': [work, none]}"
MOVED = "{moved: [quarter, year]}"


def axis(name: str, size: int, **nulls: str) -> object:
    return column("integer", "integer", name, bounds=[0, size - 1], bins={"width": 1}, **nulls)


def mesh(rows: int, columns: int, **nulls: object) -> Contract:
    to_zero = {"nulls": {"policy": "map", "to": "0"}, **nulls}
    return contract_of(axis("row", rows, **to_zero), axis("col", columns, **to_zero))  # type: ignore[arg-type]


def table(hierarchy: object, *columns: str) -> TableSpec:
    return TableSpec.model_validate({"columns": list(columns), "hierarchy": hierarchy})


def findings(folder: Path, hierarchy: str, columns: str = "job, moved") -> tuple[Finding, ...]:
    """What is refused of a spec whose second table has a hierarchy, with the sample contract."""
    text = replaced(SPEC, ("{columns: [job]", f"{{hierarchy: {hierarchy}, columns: [{columns}]"))
    refused = spec_findings(folder, text)
    return refused or tuple(check_spec(load_spec(write(folder, "people.yaml", text)), loaded(folder)))


@pytest.mark.parametrize(
    "hierarchy", [JOBS, MOVED, "{job: [{name: kind, groups: {a: [clerk, care], b: [other, '(null)']}}]}"]
)
def test_every_form_loads_and_is_the_same_after_a_round_through_json(tmp_path: Path, hierarchy: str):
    """The recorded product is read again by verify; the order of the groups is that of the cells and is kept."""
    text = replaced(SPEC, ("{columns: [job]", f"{{hierarchy: {hierarchy}, columns: [job, moved]"))
    product = load_spec(write(tmp_path, "people.yaml", text)).product
    again = TablesProduct.model_validate(json.loads(json.dumps(product.model_dump(mode="json"), sort_keys=True)))
    assert again == product
    assert findings(tmp_path, hierarchy) == ()
    jsonschema.Draft202012Validator(spec_schema()).validate(yaml.safe_load(text))


@pytest.mark.parametrize("group", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "＝1+1", "care;=1+1"])
def test_a_group_that_a_spreadsheet_would_run_is_refused(tmp_path: Path, group: str):
    """On any level, with its place and line; the same with another sign in front is none."""
    kinds = "{name: kind, groups: {work: [clerk, care, other], none: ['(null)']}}"
    for level, levels in enumerate((kinds.replace("work", f"'{group}'"), f"{kinds}, {{name: all, groups: {ALL}}}")):
        hierarchy = f"{{job: [{levels.replace('GROUP', group)}]}}"
        [finding] = findings(tmp_path, hierarchy)
        assert (finding.found, finding.allowed) == (f"the group {group!r}", "names that are no formulas")
        assert finding.field == f"product.tables[1].hierarchy.job[{level}].groups"
        file, _, line = finding.where.rpartition(":")
        assert group in Path(file).read_text().splitlines()[int(line) - 1]
        assert findings(tmp_path, hierarchy.replace(group, "care 1+1")) == ()


def test_where_every_table_has_a_hierarchy_it_is_the_method(tmp_path: Path):
    product = load_spec(first_with(tmp_path, "[{columns: [a, b], hierarchy: quadtree}]")).product
    assert product.refine.method == "hierarchy"
    assert product.refine.integers


def first_with(folder: Path, tables: str, more: str = "") -> Path:
    text = replaced(first().spec, ("[[age], [age, sex]]", tables), ("refine: {method: simplex}, ", more))
    return write(folder, "spec.yaml", text)


SENSELESS = [
    ("[{columns: [a, b], hierarchy: quadtree}]", "refine: {method: simplex}, ", "every table has a `hierarchy`"),
    ("[{columns: [a, b], hierarchy: quadtree}]", "refine: {method: none}, ", "write method: hierarchy"),
    (
        "[{columns: [a, b], hierarchy: quadtree}, [a]]",
        "refine: {method: hierarchy}, ",
        "no `hierarchy` for table 'a'",
    ),
    ("[[a]]", "refine: {method: hierarchy}, ", "no `hierarchy` for table 'a'"),
    ("[{columns: [a, b], hierarchy: quadtree}]", "refine: {method: hierarchy, lambda: auto}, ", "negative_l2 only"),
    (
        "[{columns: [a, b], hierarchy: quadtree}, [a]]",
        "refine: {method: simplex, consistent: true}, ",
        "`consistent: true` with a table that has a `hierarchy`",
    ),
]


@pytest.mark.parametrize(("tables", "refine", "says"), SENSELESS)
def test_a_method_that_no_table_would_be_refined_by_is_refused(tmp_path: Path, tables: str, refine: str, says: str):
    text = first_with(tmp_path, tables, refine).read_text()
    assert says in "\n".join(map(str, spec_findings(tmp_path, text)))


MISTAKES = [
    (
        "{job: [{name: kind, groups: {work: [clerk, care]}}]}",
        "no group has the label 'other' and 1 more",
        "hierarchy.job",
    ),
    (
        "{job: [{name: kind, groups: {work: [clrk, care], rest: [other, '(null)']}}]}",
        "write 'clerk' instead",
        "groups.work",
    ),
    (
        "{job: [{name: kind, groups: {work: [clerk, care], rest: [clerk, other, '(null)']}}]}",
        "level 'kind', group 'rest': the label 'clerk' again, which is in 'work'",
        "groups.rest",
    ),
    ("{job: [{name: kind, groups: {work: [clerk, care, other, '(null)'], rest: []}}]}", "at least one label", "rest"),
    (
        "{job: [{name: kind, groups: {a: [clerk], b: [care], c: [other], d: ['(null)']}}]}",
        "fewer groups than there are below",
        "job[0]",
    ),
    (
        f"{JOBS[:-2]}, {{name: all, groups: {{all: [work]}}}}]}}",
        "every label of level kind in one group",
        "job[1].groups",
    ),
    ("{job: [year]}", "level 'year' of column job without `groups`", "job[0]"),
    ("{moved: [year, quarter]}", "from the finest to the coarsest: quarter before year", "moved[1]"),
    ("{moved: [week]}", "or one of quarter, year", "moved[0]"),
    ("{moved: [month]}", "level 'month'", "moved[0]"),
    ("{sex: [{name: a, groups: {a: [F, M]}}]}", "name a column of the table", "hierarchy"),
    ("quadtree", "which holds no numbers", "hierarchy"),
    ("{quadtree: [job, moved, age]}", "two columns of numbers", "hierarchy.quadtree"),
    ("{quadtree: [job, job]}", "'job' twice", "hierarchy.quadtree"),
    ("octree", "quadtree, {quadtree: [COLUMN, COLUMN]", "hierarchy"),
    ("[quadtree]", "quadtree, {quadtree", "hierarchy"),
    ("{}", "quadtree, {quadtree", "hierarchy"),
    ("{quadtree: [job, moved], levels: 1}", "drop the hierarchy", "levels"),
    ("{quadtree: [job, moved], levels: many}", "a whole number", "levels"),
    ("{quadtree: [job, moved], job: [year]}", "`quadtree` beside `job`", "hierarchy"),
    ("{job: []}", "name a level, or drop the column", "hierarchy.job"),
    ("{job: {work: [clerk]}}", "a list of levels, such as", "hierarchy.job"),
    ("{job: [3]}", "found", "hierarchy"),
    ("{job: [{name: kind, groups: [a]}]}", "found", "hierarchy"),
    ("{job: [{name: kind, groups: {a: clerk}}]}", "a list", "hierarchy.job[0].groups.a"),
    ("{moved: [year, year]}", "rename one: it names a file", "hierarchy.moved[1]"),
    ("{moved: [{name: a/b, groups: {x: [2020-01]}}]}", "no group has the label", "groups"),
]


@pytest.mark.parametrize(("hierarchy", "says", "field"), MISTAKES)
def test_a_mistake_names_level_label_and_what_is_allowed(tmp_path: Path, hierarchy: str, says: str, field: str):
    found = findings(tmp_path, hierarchy)
    hits = [each for each in found if says in str(each) and field in each.field]
    assert hits, "\n".join(map(str, found))
    assert hits[0].where.rpartition(":")[2].isdigit()
    assert hits[0].allowed
    assert all("validation" not in str(each) for each in found)


def test_the_name_of_a_level_must_fit_a_file_and_no_other_table(tmp_path: Path):
    half = "{moved: [{name: NAME, groups: {a: [2020-01, 2020-02], b: [REST, '(null)']}}]}"
    rest = ", ".join(f"2020-{month:02d}" for month in range(3, 13))
    (unsafe,) = findings(tmp_path, half.replace("REST", rest).replace("NAME", "'a/b'"))
    assert "fits a file" in unsafe.allowed
    text = replaced(
        SPEC,
        ("{columns: [job]", f"{{hierarchy: {half.replace('REST', rest).replace('NAME', 'half')}, columns: [moved]"),
        ("- [age, sex]", "- {columns: [age, sex], name: Jobs.half}"),
    )
    (clash,) = check_spec(load_spec(write(tmp_path, "people.yaml", text)), loaded(tmp_path))
    assert "whose file would be 'jobs.half'" in clash.found


@pytest.mark.parametrize(("rows", "columns", "depth"), [(64, 64, 5), (5, 7, 2), (3, 9, 3), (1, 4, 1)])
def test_a_mesh_has_the_blocks_of_the_quadtree(rows: int, columns: int, depth: int):
    """Against the parent arrays of privacy.refine.hierarchy, an independent derivation."""
    contract, spec = mesh(rows, columns), table("quadtree", "row", "col")
    levels = levels_of(spec, contract)
    assert [level.name for level in levels] == [f"{2**level}x{2**level}" for level in range(depth, 0, -1)]
    for ours, theirs in zip(parents(levels, spec, contract), quadtree(rows, columns, depth), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_blocks_are_named_by_their_bounds_and_missing_values_stay_apart():
    contract = mesh(5, 4, nulls={"policy": "category"})
    (level,) = levels_of(table({"quadtree": ["row", "col"], "levels": 2}, "row", "col"), contract)
    assert level.column("row").labels == ("0 to 1", "2 to 3", "4", "(null)")
    assert level.column("row").codes == (0, 0, 1, 1, 2, 3)
    decimals = [
        column(
            "decimal", "number", name, bounds=["0", "2"], bins={"width": "0.5"}, nulls={"policy": "map", "to": "0"}
        )
        for name in ("x", "y")
    ]
    (level,) = levels_of(table("quadtree", "x", "y"), contract_of(*decimals))
    assert level.column("x").labels == ("[0, 1)", "[1, 2]")


def test_too_many_levels_of_a_mesh_are_refused():
    problems = level_problems(table({"quadtree": ["row", "col"], "levels": "7"}, "row", "col"), mesh(64, 64))
    assert problems[0].allowed == "2 to 6 levels"
    assert level_problems(table("quadtree", "row", "col"), mesh(2, 2))[0].found.startswith("1 levels for a mesh")
    with pytest.raises(ValueError, match="2 to 6 levels"):
        levels_of(table({"quadtree": ["row", "col"], "levels": "7"}, "row", "col"), mesh(64, 64))


def test_places_and_months_group_in_step_and_every_level_partitions_the_one_below(tmp_path: Path):
    """The list of one column may be shorter: it stays at its coarsest. Other columns are not touched."""
    contract = load_contract(write(tmp_path, "c.yaml", nested().contract))
    spec = table({"place": yaml.safe_load(PLACES), "moved": ["year"]}, "sex", "place", "moved")
    coarse, fine = levels_of(spec, contract)
    assert (coarse.name, fine.name) == ("region_x_year", "prefecture_x_year")
    assert coarse.column("place").labels == ("Tohoku", "outside")
    assert coarse.column("moved").labels == fine.column("moved").labels == ("2023", "2024", "(null)")
    assert coarse.column("sex").labels == contract.column("sex").labels
    sizes = [coarse.cells(spec.columns), fine.cells(spec.columns), contract.cells(spec.columns)]
    assert sizes == [3 * 2 * 3, 3 * 3 * 3, 3 * 7 * 15]
    check_tree(sizes, parents((coarse, fine), spec, contract))
    down = parents((coarse, fine), spec, contract)
    np.testing.assert_array_equal(down[0][fine.cell_of.reshape(-1)], coarse.cell_of.reshape(-1))
    place = contract.column("place").labels.index("Natori")
    assert fine.column("place").labels[fine.column("place").codes[place]] == "Miyagi"


def test_a_coarser_cell_is_impossible_when_all_that_it_sums_up_is(tmp_path: Path):
    """Places of Miyagi cannot have moved in 2023: the quarter 2023-Q4 is exactly these two months."""
    contract = load_contract(write(tmp_path, "c.yaml", nested().contract))
    spec = table({"place": yaml.safe_load(PLACES), "moved": ["quarter", "year"]}, "place", "moved")
    coarse, fine = levels_of(spec, contract)
    assert np.argwhere(fine.impossible(spec.columns)).tolist() == [[0, 0]]
    assert not coarse.impossible(spec.columns).any()


def test_the_bins_of_the_manual_fit_a_contract():
    """docs/tables.md: decades, cuts, months and groups of codes."""
    manual = (Path(__file__).resolve().parents[4] / "docs" / "tables.md").read_text(encoding="utf-8")
    (block,) = [each for each in re.findall(r"```yaml\n(.*?)```", manual, re.DOTALL) if "bins:" in each]
    category = {"policy": "category"}
    columns = (
        column("integer", "integer", "age", bounds=[0, 99], bins={"width": 1}),
        column("categories", "string", "sex", values=["F", "M"]),
        column("categories", "string", "ward", values=["A", "B"]),
        column("date", "date", "day", bounds=["2024-01-01", "2024-12-31"], granularity="day"),
        column("categories", "string", "area", values=["1", "2", "3"], nulls=category),
    )
    contract = contract_of(*columns)
    product = TablesProduct.model_validate({"kind": "tables", "mechanism": "laplace", **yaml.safe_load(block)})
    found = [level_problems(table, contract) for table in product.tables if isinstance(table, TableSpec)]
    assert found == [[], [], [], [], []]


def test_the_hierarchies_of_the_manual_fit_a_contract():
    """docs/tables.md: a bare quadtree, one with another column, places and months; a method may be left out."""
    manual = (Path(__file__).resolve().parents[4] / "docs" / "tables.md").read_text(encoding="utf-8")
    tables = [block for block in re.findall(r"```yaml\n(.*?)```", manual, re.DOTALL) if block.startswith("tables:")]
    blocks = [block for block in tables if "bins:" not in block]
    places = column("categories", "string", "place", values=["Aoba", "Izumi", "Sakata"], other="abroad")
    month = column("date", "date", "moved", bounds=["2024-01-01", "2025-12-31"], granularity="month")
    sex = column("categories", "string", "sex", values=["F", "M"])
    contract = contract_of(*mesh(64, 64).columns, places, month, sex)
    names = []
    for block in blocks:
        product = TablesProduct.model_validate({"kind": "tables", "mechanism": "laplace", **yaml.safe_load(block)})
        for table in product.tables:
            assert isinstance(table, TableSpec)
            assert level_problems(table, contract) == []
            names.append([level.name for level in levels_of(table, contract)])
        assert product.refine.method == ("hierarchy" if block is blocks[0] else "simplex")
    assert names[1:] == [["8x8", "4x4", "2x2"], ["region_x_year", "prefecture_x_quarter"], []]
