"""Tables at several resolutions, or with a lambda found on an earlier version: the real thing on Adult."""

import json
from pathlib import Path

import pytest

from benchmarks.orchestration import release_plainly
from tests.console.conftest import Place, Typed

HIERARCHY = (
    "- {columns: [education, sex], name: schooling, hierarchy: {education: [{name: stage, groups: {"
    "school: [Preschool, 1st-4th, 5th-6th, 7th-8th, 9th, 10th, 11th, 12th, HS-grad], "
    "college: [Some-college, Assoc-voc, Assoc-acdm], university: [Bachelors, Masters, Prof-school, Doctorate]}}]}}"
)


@pytest.mark.usefixtures("served")
def test_levels_are_planned_released_verified_and_not_drawn_twice(shared: Place, typed: Typed):
    """The plan lists each level with its noise; the run publishes them; the same run again finds them published."""
    spec = shared.spec("stages", ("- [education, income]", HIERARCHY))
    plan = typed("plan", str(spec), "--json", at=shared.workspace).json
    assert [(draw["key"], draw["level"], draw["cells"]) for draw in plan["draws"]] == [
        ("table:schooling/stage", "stage", 6),
        ("table:schooling", None, 32),
        ("table:age", None, 15),
        ("table:marital-status_x_sex_x_income", None, 28),
    ]
    assert sum(draw["share"] for draw in plan["draws"]) == pytest.approx(1)
    assert "education × sex, by stage" in typed("plan", str(spec), at=shared.workspace).out
    assert release_plainly(spec, shared.workspace.root) == 0
    again = typed("run", str(spec), "--json", at=shared.workspace)
    assert again.code == 0, again.err
    assert again.json["repeated"] is True
    folder = Path(again.json["folder"])
    assert {path.name for path in (folder / "data").iterdir()} >= {"schooling.stage.parquet", "schooling.stage.csv"}
    lines = (folder / "data" / "schooling.stage.csv").read_text().splitlines()
    assert [",".join(line.split(",")[:2]) for line in lines] == [
        "education,sex",
        *(f"{stage},{sex}" for stage in ("school", "college", "university") for sex in ("Female", "Male")),
    ]
    assert typed("verify", str(folder), "--key", again.json["public_key_file"]).code == 0


def test_a_hierarchy_that_does_not_partition_its_column_stops_the_plan(shared: Place, typed: Typed):
    """Exit code 2; the message names the level, the label and the line."""
    spec = shared.spec("lost", ("- [education, income]", HIERARCHY.replace("Masters, ", "")))
    said = typed("plan", str(spec), at=shared.workspace)
    assert said.code == 2
    assert "level 'stage': no group has the label 'Masters'" in said.err
    assert "every label of column education in one group" in said.err
    assert "lost.yaml:10" in said.err


@pytest.mark.long
@pytest.mark.usefixtures("served")
def test_a_release_chooses_lambda_on_an_earlier_one(shared: Place, typed: Typed):
    """A version that is not there is refused by plan and run, before a charge; one that is there serves for free."""
    half = ("epsilon: 1.0", "epsilon: 0.5")
    spec = shared.spec("later", half, ("{method: simplex,", "{method: negative_l2, lambda: {reference: before/1},"))
    for early in (typed("plan", str(spec), "--json", at=shared.workspace), shared.run("run", str(spec), "--json")):
        assert early.code == 2
        assert "product.refine.lambda.reference" in early.out
        assert "of before there is none here" in early.out
    assert release_plainly(shared.spec("before", half), shared.workspace.root) == 0
    assert "chosen on before/1, at no cost" in typed("plan", str(spec), at=shared.workspace).out
    made = shared.run("run", str(spec), "--json")
    assert made.code == 0, made.err
    assert made.json["epsilon"] == "0.5"
    folder, key = Path(made.json["folder"]), made.json["public_key_file"]
    reference = json.loads((folder / "record.json").read_bytes())["replay"]["reference"]
    assert (reference["release"], reference["version"]) == ("before", 1)
    verified = typed("verify", str(folder), "--key", key)
    assert verified.code == 0
    assert "whether lambda" not in verified.out
    (shared.workspace.releases / "before" / "v1").rename(shared.workspace.root / "elsewhere")
    typed("verify", str(folder), "--key", key).assert_printed("whether lambda is the one that before v1 leads to")
