"""`sudare plan`: the cost and the error of a release, from the spec and the contract alone."""

import re
from pathlib import Path

import pytest

from benchmarks._periodic_place import make_periodic
from tests.console.conftest import Place, Typed


def test_a_plan_tells_cost_and_error_without_the_data(place: Place, typed: Typed, tmp_path: Path):
    """The table may be missing: a plan warns of that, and no more. Its numbers are those of the noise."""
    (place.adult / "adult.parquet").unlink()
    said = typed("plan", str(place.adult / "tables.yaml"), "--json", at=place.workspace)
    assert said.code == 0
    plan = said.json
    assert (plan["epsilon"], plan["delta"]) == ("1", "0")
    assert [draw["cells"] for draw in plan["draws"]] == [32, 15, 28]
    assert sum(draw["share"] for draw in plan["draws"]) == pytest.approx(1)
    assert plan["account"]["fits"] is True
    [missing] = plan["warnings"]
    assert missing["rule"] == "source"
    assert missing["found"].endswith("adult.parquet is not there")
    lines = typed("plan", str(place.adult / "tables.yaml"), at=place.workspace).out
    assert "education × income" in lines
    assert re.search(r"data read +none", lines)
    assert re.search(r"over the optimum +at most [\d.]+ times the least", lines)
    assert re.search(r"account +adult-1994: [\d.]+ % of the budget is used with this release", lines)
    assert "can still give" not in lines
    exact = typed("plan", str(place.adult / "tables.yaml"), "--exact", at=place.workspace).out
    assert re.search(r"can still give: ε = [\d.]+ at δ = 0, in one more release like this", exact)


def test_a_path_with_a_typing_error_is_no_such_file(shared: Place, typed: Typed):
    """It is bound to nobody, but to bind it would be wrong; a file that is there is to be bound."""
    spec = shared.spec("mistyped", ("path: adult.parquet", "path: adlut.parquet"))
    said = typed("plan", str(spec), at=shared.workspace)
    said.assert_ended(2, "source.path", f"found:   no such file: {shared.adult / 'adlut.parquet'}")
    assert "bind" not in said.err
    (shared.adult / "adlut.parquet").touch()
    said = typed("plan", str(spec), at=shared.workspace)
    (shared.adult / "adlut.parquet").unlink()
    assert said.code == 4
    assert "bind it: sudare budget bind" in said.err


def test_a_plan_of_more_cells_foretells_more_memory_and_time(shared: Place, typed: Typed):
    """Both grow with the cells that are measured."""
    few = typed("plan", str(shared.spec("few")), "--json", at=shared.workspace).json
    wide = "[age, workclass, education, occupation, native-country]"
    many = typed("plan", str(shared.spec("many", ("[education, income]", wide))), "--json", at=shared.workspace).json
    assert many["cells"] > few["cells"] + 10**5
    assert many["megabytes"] > few["megabytes"]
    assert many["seconds"] > few["seconds"]


def test_a_plan_of_a_sparse_table_tells_where_its_list_begins(shared: Place, typed: Typed):
    """Eight columns of Adult are more cells than memory holds; what is expected of them is a list."""
    columns = "[age, workclass, education, marital-status, occupation, relationship, race, native-country]"
    spec = shared.spec("sparse", ("[education, income]", columns))
    plan = typed("plan", str(spec), "--json", at=shared.workspace).json
    (wide,) = [draw for draw in plan["draws"] if draw["cells"] > 2**24]
    sparse = wide["sparse"]
    assert 1 <= sparse["least_threshold"] < sparse["first_threshold"]
    assert 0 < sparse["expected_rows"] <= 100_000
    assert plan["megabytes"] < 1000
    assert [draw["sparse"] for draw in plan["draws"] if draw is not wide] == [None] * (len(plan["draws"]) - 1)
    said = " ".join(typed("plan", str(spec), at=shared.workspace).out.split())
    assert f"is sparse: it lists noisy counts from {sparse['first_threshold']:,} on" in said


def test_a_plan_that_the_account_cannot_hold_is_refused(place: Place, typed: Typed):
    """Gaussian noise has no pure ε: exit 4, and what to do instead; as the run would say it."""
    typed("plan", str(place.pure_account("gaussian")), at=place.workspace).assert_ended(4, "--calculus renyi")


def test_auto_on_an_account_that_adds_up_pure_losses_is_laplace(place: Place, typed: Typed):
    """All 105 two-way tables would take Gaussian noise, which that account cannot pay; both errors are told."""
    spec = place.pure_account("chosen", "auto")
    tables = spec.read_text().partition("  tables:")
    rest = tables[2][tables[2].index("  refine:") :]
    spec.write_text(f"{tables[0]}  tables: all 2-way\n  split: optimal\n{rest}")
    pure = typed("plan", str(spec), "--json", at=place.workspace).json
    assert (pure["mechanism"], set(pure["expected_rmse"]), pure["account"]["fits"]) == ("laplace", {"laplace"}, True)
    assert len(pure["draws"]) == 105
    spec.write_text(spec.read_text().replace("account: pure-chosen", "account: nobody"))
    free = typed("plan", str(spec), "--json", at=place.workspace).json
    assert free["mechanism"] == "gaussian"
    assert free["expected_rmse"]["gaussian"] < free["expected_rmse"]["laplace"] == pure["expected_rmse"]["laplace"]
    said = typed("plan", str(spec), at=place.workspace).out
    assert "laplace noise: ±" in said


def test_a_plan_shows_from_which_noisy_count_on_cells_are_published(shared: Place, typed: Typed):
    """k + t of each table; without the rule there is no such column."""
    rule = "minimum_frequency: {k: 10, t: auto, at_most: 0.01}"
    refine = "refine: {method: simplex, integers: true}"
    spec = shared.spec("small", (refine, rule))
    draws = typed("plan", str(spec), "--json", at=shared.workspace).json["draws"]
    assert all(draw["published_from"] > 10 for draw in draws)
    assert "published from" in typed("plan", str(spec), at=shared.workspace).out
    assert "published from" not in typed("plan", str(shared.spec("all")), at=shared.workspace).out


def test_a_plan_needs_no_workspace(shared: Place, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without one it tells all but what the account has left, and how to have an account."""
    monkeypatch.chdir(tmp_path)
    assert "--workspace DIR, or open it: sudare budget open" in typed("plan", str(shared.adult / "tables.yaml")).out
    said = typed("plan", str(shared.adult / "tables.yaml"), "--json")
    assert said.code == 0
    assert said.json["account"] == {"name": "adult-1994", "open": False}


def test_a_plan_names_the_engine_that_counts(
    shared: Place, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """No row is read here, so DuckDB needs nothing; Spark is not asked."""
    monkeypatch.chdir(tmp_path)
    text = (shared.adult / "tables.yaml").read_text()
    where = "source: {path: adult.parquet, engine: spark}"
    changed, times = re.subn(r"^source:.*$", where, text, flags=re.MULTILINE)
    assert times == 1
    spec = shared.adult / "counted-there.yaml"
    spec.write_text(changed)
    said = " ".join(typed("plan", str(spec)).out.split())
    assert "and what Spark needs, where it counts the rows" in said
    assert "what counting in Spark takes" in said
    assert "DuckDB" not in said
    assert typed("plan", str(spec), "--json").json["engine"] == "spark"
    here = " ".join(typed("plan", str(shared.adult / "tables.yaml")).out.split())
    assert "DuckDB may use to read the data" in here


def test_a_plan_says_when_the_account_cannot_pay(shared: Place, typed: Typed):
    """It is shown, with what would fit; a script hears it by exit code 4, as of the run."""
    spec = shared.spec("dear", ("epsilon: 1.0", "epsilon: 8"))
    said = typed("plan", str(spec), at=shared.workspace)
    assert said.code == 4
    assert "it does not fit: ask for epsilon" in said.out
    told = typed("plan", str(spec), "--json", at=shared.workspace)
    assert (told.code, told.json["account"]["fits"]) == (4, False)


def test_a_plan_of_a_period_is_that_of_its_account(tmp_path: Path, typed: Typed):
    """Without --period the message says what to type; with it, cost and what is left of the period's account."""
    place = make_periodic(tmp_path)
    typed("plan", str(place.spec), at=place.workspace).assert_ended(2, "--period")
    told = typed("plan", str(place.spec), "--period", "2024Q1", "--json", at=place.workspace).json
    assert (told["release"], told["account"]["name"]) == ("visits-2024-q1", "visits-2024-Q1")
    assert told["account"]["fits"] is True


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("mechanism:", "mechanizm:", "mechanizm"),
        ("epsilon: 1.0", "epsilon: 0", "above 0"),
        ("epsilon: 1.0", "epsilon: -1", "above 0"),
        ("epsilon: 1.0", "epsilon: .nan", "epsilon"),
        ("epsilon: 1.0", "epsilon: 1e309", "epsilon"),
        ("[education, income]", "[educaton, income]", "education"),
        ("kind: tables", "kind: synthetic", "tables"),
        ("adult.odcs.yaml", "nowhere.yaml", "no such file"),
    ],
)
def test_a_spec_that_cannot_be_followed_names_file_line_and_remedy(
    shared: Place, typed: Typed, old: str, new: str, told: str
):
    """Exit 2, and the message says where."""
    said = typed("plan", str(shared.spec("wrong", (old, new))), at=shared.workspace)
    assert said.code == 2
    assert told in said.err
    assert "wrong.yaml:" in said.err or "nowhere.yaml" in said.err
    assert "allowed:" in said.err


def test_a_plan_warns_as_a_reviewer_would(shared: Place, typed: Typed):
    """A large epsilon and tables that are noise at a public number of rows; none of it on the example as it is."""
    example = str(shared.spec("fine"))
    assert typed("plan", example, "--rows", "48842", "--json", at=shared.workspace).json["warnings"] == []
    few = typed("plan", example, "--rows", "40", "--json", at=shared.workspace).json
    [noise] = few["warnings"]
    assert noise["rule"] == "only-noise"
    assert noise["found"].startswith("3 of 3 tables at 40 rows: education × income, age, marital-status × sex")
    edges = {draw["key"]: draw["noise_below_rows"] for draw in few["draws"] if draw["columns"]}
    between = sorted(edges.values())[1]
    one_less = typed("plan", example, "--rows", str(between), "--json", at=shared.workspace).json["warnings"]
    assert one_less[0]["found"].startswith("1 of 3 tables")
    dear = typed("plan", str(shared.spec("loose", ("epsilon: 1.0", "epsilon: 12"))), at=shared.workspace).out
    assert "large-epsilon: ε = 12" in dear
    assert "162,755 : 1" in dear
    at_ten = str(shared.spec("ten", ("epsilon: 1.0", "epsilon: 10")))
    assert typed("plan", at_ten, "--json", at=shared.workspace).json["warnings"] == []


@pytest.mark.parametrize(
    ("select", "warns"),
    [
        ("SELECT * FROM source WHERE occupation = 'Armed-Forces'", True),
        ("SELECT * FROM source WHERE age IN (17, 90)", True),
        ("SELECT * FROM source WHERE occupation IS NOT NULL", False),
        ("SELECT * FROM source", False),
    ],
)
def test_a_plan_warns_of_literals_that_a_select_would_publish(shared: Place, typed: Typed, select: str, warns: bool):
    """A select is published word for word; what it holds columns against may be one person's."""
    spec = shared.spec("selected", ("adult.parquet}", f'adult.parquet, select: "{select}"}}'))
    rules = [each["rule"] for each in typed("plan", str(spec), "--json", at=shared.workspace).json["warnings"]]
    assert rules == ["select"] * warns


def test_a_plan_of_very_many_tables_is_a_line_for_each_number_of_columns(shared: Place, typed: Typed):
    """All 455 three-way tables of Adult: two lines, and how many of them are noise; --json has each."""
    spec = shared.spec("ways", ("delta: 0", "delta: 1e-9"), ("mechanism: laplace", "mechanism: gaussian"))
    tables = spec.read_text().partition("  tables:")
    spec.write_text(f"{tables[0]}  tables: all 3-way\n{tables[2][tables[2].index('  refine:') :]}")
    said = typed("plan", str(spec), "--rows", "48842", at=shared.workspace).out
    assert len([line for line in said.splitlines() if "±" in line]) <= 4
    assert "455 tables of 3 columns" in said
    plan = typed("plan", str(spec), "--rows", "48842", "--json", at=shared.workspace).json
    assert len(plan["draws"]) == 455
    noisy = sum(draw["noise_below_rows"] > 48842 for draw in plan["draws"] if draw["columns"])
    assert 0 < noisy < 455
    assert plan["warnings"][0]["found"].startswith(f"{noisy} of 455 tables at 48,842 rows")
    assert f"{noisy} of 455 tables" in said


def test_a_plan_says_where_delta_was_held_against_no_number_of_rows(shared: Place, typed: Typed):
    """No one declares how many rows there are: a number that is typed is held against delta, as a warning."""
    spec = str(shared.spec("unheld", ("delta: 0", "delta: 1e-9"), ("mechanism: laplace", "mechanism: gaussian")))
    line = "δ was not held against the number of rows: none is declared"
    assert line in " ".join(typed("plan", spec, at=shared.workspace).out.split())
    assert typed("plan", spec, "--json", at=shared.workspace).json["delta_unheld"].startswith(line)
    for rows, warned in (("48842", False), ("2000000000", True)):
        plan = typed("plan", spec, "--rows", rows, "--json", at=shared.workspace).json
        assert plan["delta_unheld"] is None
        assert ("large-delta" in {each["rule"] for each in plan["warnings"]}) is warned
    pure = typed("plan", str(shared.spec("pure")), "--json", at=shared.workspace).json
    assert pure["delta_unheld"] is None
