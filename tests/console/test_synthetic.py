"""Synthetic releases as people type them: planned, run, stopped, resumed, verified deeply, sampled from, refused."""

import hashlib
import json
import re
import shutil
import signal
import sqlite3
import time
from pathlib import Path

import polars as pl
import pytest

from flows.prefect_runs.server import PrefectServer
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import Place, Said, Typed

pytestmark = pytest.mark.usefixtures("served")

FEW = (
    (
        "[workclass, education, marital-status, occupation, relationship, race, sex, native-country, income]",
        "[race, sex, income]",
    ),
    ("epsilon: 1.0", "epsilon: 0.2"),
)


def synthetic(place: Place, name: str, *changes: tuple[str, str]) -> Path:
    """Write the synthetic example under another name, with other texts in it."""
    text = (place.adult / "synthetic.yaml").read_text().replace("release: adult-synthetic", f"release: {name}")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = place.adult / f"{name}.yaml"
    path.write_text(text)
    return path


def charges(place: Place, release: str) -> list[str]:
    with sqlite3.connect(place.workspace.private / "ledger.sqlite") as ledger:
        query = "select status from charges where run_key like ?"
        return [row[0] for row in ledger.execute(query, (f"{release}-%",))]


@pytest.fixture(scope="module")
def released(shared: Place, prefect_server: PrefectServer) -> Said:
    return shared.type_on(prefect_server, "run", str(synthetic(shared, "rows", *FEW)), "--json")


def test_a_synthetic_release_is_published_verified_deeply_and_sampled_from(
    shared: Place, released: Said, typed: Typed, tmp_path: Path
):
    """One command each; the steps are shown; sampling takes a condition and tells its seed."""
    assert released.code == 0, released.err
    assert "synthesize" in released.err
    folder, key = Path(released.json["folder"]), released.json["public_key_file"]
    rows = pl.read_parquet(folder / "data" / "rows.parquet")
    assert rows.columns == ["race", "sex", "income"]
    assert 46_000 < len(rows) < 52_000
    again = typed("run", str(shared.adult / "rows.yaml"), at=shared.workspace)
    assert re.search(rf"made-up rows +{len(rows):,}\n", again.out), again.out
    verified = typed("verify", str(folder), "--deep", "--key", key)
    assert verified.code == 0, verified.err
    assert "11 model estimated again" in verified.out
    assert "rows replayed from the published model and seed" in verified.out
    target = tmp_path / "women.csv"
    sampled = typed("sample", str(folder), "--rows", "50", "--where", "sex=Female", "--to", str(target), "--json")
    assert sampled.code == 0, sampled.err
    assert re.fullmatch(r"[0-9a-f]{32}", sampled.json["seed"])
    assert set(pl.read_csv(target)["sex"]) == {"Female"}
    shown = typed("releases", "show", "rows", at=shared.workspace)
    assert shown.code == 0
    assert "data/rows.parquet" in shown.out
    assert re.search(r"measured +marginal: \d+, in measurements/", shown.out)


@pytest.mark.parametrize(
    ("option", "written"),
    [("--rows", "0"), ("--rows", "-5"), ("--seed", "1g"), ("--seed", " 1_0"), ("--seed", "-1"), ("--seed", "0" * 33)],
)
def test_a_number_of_rows_or_a_seed_that_is_none_is_refused(
    option: str, written: str, released: Said, tmp_path: Path, typed: Typed
):
    """Nothing is written, and the option is named with what was found."""
    target = tmp_path / "more.csv"
    words = [word for pair in {"--rows": "5", "--seed": "1", option: written}.items() for word in pair]
    said = typed("sample", released.json["folder"], *words, "--to", str(target))
    assert (said.code, target.exists()) == (2, False)
    assert option in said.err
    assert written in said.err


def test_an_evaluation_stays_in_the_workspace_and_shows_its_numbers_when_asked_only(
    shared: Place, released: Said, typed: Typed
):
    """Against a file, or the source of a spec; nothing is charged, and the version stays as it is."""
    folder = Path(released.json["folder"])
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    before = typed("budget", "show", "adult-1994", "--json", at=shared.workspace).json
    said = typed("evaluate", str(folder), "--against", str(shared.adult / "adult.parquet"), at=shared.workspace)
    assert said.code == 0, said.err
    assert said.out.startswith("PRIVATE")
    assert "never publish it" in said.out
    assert "0." not in said.out.replace(str(shared.workspace.root), "")
    spec = str(shared.adult / "rows.yaml")
    time.sleep(1.1)  # the folder is named by the second
    words = ("--against", spec, "--target", "income", "--show", "--json")
    told = typed("evaluate", str(folder), *words, at=shared.workspace)
    assert told.code == 0, told.err
    assert told.json["class"] == "private"
    assert told.json["found"]["alpha_way_error"]["1"]["mean"] < 0.05
    assert set(told.json["found"]["accuracy"]) == {"decision tree", "support vector machine", "xgboost"}
    assert Path(told.json["scores"]).is_relative_to(shared.workspace.private)
    assert files == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert typed("budget", "show", "adult-1994", "--json", at=shared.workspace).json == before
    assert list(shared.workspace.runs.glob("evaluation-*/snapshot*")) == []


def declared(shared: Place) -> Path:
    """Write rows that stand in for public ones: of the same columns, each with its neighbour's sex and income."""
    path, table = shared.adult / "public.parquet", pl.read_parquet(shared.adult / "adult.parquet").head(2000)
    table.with_columns(
        pl.col("sex").shift(1, fill_value="Male"), pl.col("income").shift(2, fill_value="<=50K")
    ).write_parquet(path)
    return path


WHY = ("--public-because", "public use sample <b>of</b> 1994")


def test_scores_on_rows_that_are_declared_public_are_public(shared: Place, released: Said, typed: Typed):
    """The reason and the digests of what was read stand beside them: who has the files gets the same numbers."""
    folder, holdout = Path(released.json["folder"]), declared(shared)
    said = typed("evaluate", str(folder), "--holdout", str(holdout), *WHY, "--json", at=shared.workspace)
    assert said.code == 0, said.err
    written = json.loads(Path(said.json["scores"]).read_bytes())
    assert written["class"] == "public"
    assert written["declared"] == {
        "file": "public.parquet",
        "sha256": hashlib.sha256(holdout.read_bytes()).hexdigest(),
        "because": "public use sample <b>of</b> 1994",
    }
    assert written["sha256"] == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in ("record.json", "data/rows.parquet")
    }
    assert written["alpha_way_error"] == said.json["found"]["alpha_way_error"]
    assert 0 < written["alpha_way_error"]["1"]["mean"] < 0.2
    assert Path(said.json["scores"]).parent.parent == shared.workspace.root / "public-scores"
    page = Path(said.json["page"]).read_text()
    assert "public use sample &lt;b&gt;of&lt;/b&gt; 1994" in page
    assert "rivate" not in page
    assert "{" not in page.partition("</style>")[2]
    assert list(shared.workspace.runs.glob("evaluation-*/snapshot*")) == []


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--holdout", "adult.parquet", *WHY), 2, "a source that the ledger has bound to people"),
        (("--holdout", "copy.parquet", *WHY), 2, "the rows that this version was made of"),
        (("--holdout", "public.parquet"), 2, "as confidential as the rest"),
        (("--holdout", "public.parquet", "--public-because", "why?"), 2, "a reason of 4 characters"),
        (("--holdout", "public.parquet", "--against", "adult.parquet"), 2, "found: --against and --holdout"),
        (("--against", "adult.parquet", *WHY), 2, "found: --against, and --public-because"),
        ((), 2, "either --against SOURCE"),
        (WHY, 2, "either --against SOURCE"),
        (("--holdout", "rows.yaml", *WHY), 2, "what a release spec names is confidential"),
        (("--holdout", "nowhere.parquet", *WHY), 2, "No such file"),
        (("--holdout", "same-bytes.parquet", *WHY), 2, "a copy, byte for byte"),
    ],
)
def test_rows_that_cannot_be_public_are_refused(
    shared: Place, released: Said, typed: Typed, words: tuple[str, ...], code: int, told: str
):
    declared(shared)
    pl.read_parquet(shared.adult / "adult.parquet").write_parquet(shared.adult / "copy.parquet")  # other bytes
    shutil.copy(shared.adult / "adult.parquet", shared.adult / "same-bytes.parquet")
    named = [str(shared.adult / word) if word.endswith((".parquet", ".yaml")) else word for word in words]
    said = typed("evaluate", released.json["folder"], *named, at=shared.workspace)
    assert told in " ".join(said.err.split())
    assert said.code == code


def test_only_rows_that_this_workspace_published_get_public_scores(
    shared: Place, released: Said, typed: Typed, tmp_path: Path
):
    """Rows that were put into a copy of the version may be anybody's; another workspace cannot say what is whose."""
    words = ("--holdout", str(declared(shared)), *WHY)
    folder = tmp_path / "copy"
    shutil.copytree(released.json["folder"], folder)
    rows = folder / "data" / "rows.parquet"
    rows.chmod(0o600)
    shutil.copy(shared.adult / "adult.parquet", rows)
    said = typed("evaluate", str(folder), *words, at=shared.workspace)
    assert (said.code, "a changed file" in said.err) == (2, True)
    elsewhere = Workspace.create(tmp_path / "elsewhere")
    said = typed("evaluate", released.json["folder"], *words, at=elsewhere)
    assert (said.code, "this workspace's ledger does not have" in said.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--against", "nowhere.parquet"), 2, "no such file"),
        (("--against", "table.txt"), 2, "a release spec"),
        (("--against", "adult.parquet", "--target", "incom"), 2, "write 'income'"),
    ],
)
def test_an_evaluation_that_cannot_be_made_is_refused(
    shared: Place, released: Said, typed: Typed, words: tuple[str, ...], code: int, told: str
):
    named = [str(shared.adult / word) if "." in word else word for word in words]
    typed("evaluate", released.json["folder"], *named, at=shared.workspace).assert_ended(code, told)


def test_the_same_run_again_says_that_it_is_published(shared: Place, released: Said, typed: Typed):
    """However the options are spelled: the same options are the same run."""
    spec = shared.adult / "rows.yaml"
    spec.write_text(spec.read_text().replace("{degree: 2}", '{"degree": "2"}'))
    again = typed("run", str(spec), "--json", at=shared.workspace)
    assert again.code == 0, again.err
    assert again.json["repeated"] is True
    assert charges(shared, "rows") == ["published"]


def test_a_fit_that_is_stopped_resumes_with_what_it_drew(shared: Place, typed: Typed):
    """Stopped after its first draws it exits 130; the same command keeps these draws and pays nothing more."""
    spec = synthetic(shared, "stopped", (FEW[0][0], "[workclass, relationship, race, sex, income]"), FEW[1])
    draws = shared.workspace.draws
    with shared.start("run", str(spec)) as process:
        while len(list(draws.glob("stopped-*/*.draw"))) < 3:
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130, err
    first = sorted(draws.glob("stopped-*/*.draw"))[:3]
    kept = [path.read_bytes() for path in first]
    done = typed("run", str(spec), "--json", at=shared.workspace)
    assert done.code == 0, done.err
    assert [path.read_bytes() for path in first] == kept
    assert charges(shared, "stopped") == ["published"]
    assert typed("verify", done.json["folder"], at=shared.workspace).code == 0


def test_a_synthetic_plan_shows_what_the_generator_will_draw(shared: Place, typed: Typed):
    """Steps with their noise, expected error, memory, time, and whether the account can pay."""
    spec = synthetic(shared, "planned", ("epsilon: 1.0", "epsilon: 0.1"))
    said = typed("plan", str(spec), at=shared.workspace)
    assert said.code == 0
    for told in ("aim on 9 columns", "one-way marginals", "discrete Gaussian", "memory", "it fits", "data read"):
        assert told in said.out
    plan = typed("plan", str(spec), "--json", at=shared.workspace).json
    assert plan["kind"] == "synthetic"
    assert plan["events"][0]["kind"] == "zero_concentrated"
    assert sum(step["share"] for step in plan["steps"]) == pytest.approx(1)
    assert float(plan["expected_error"]["1"]) > 0
    limited = synthetic(shared, "limited", ("{degree: 2}", "{degree: 2, time_limit: 2}"))
    assert typed("plan", str(limited), "--json", at=shared.workspace).json["seconds"] == 8


@pytest.mark.parametrize(
    ("old", "new", "where", "told"),
    [
        ("generator: aim", "generator: aimm", "product.generator", "aim"),
        ("{degree: 2}", "{degre: 2}", "product.options.degre", "degree"),
        ("{degree: 2}", "{degree: two}", "product.options.degree", "a whole number from 1 to 8"),
        ("{degree: 2}", "{degree: 2, workload: [[sex]]}", "product.options", "not both"),
        (
            "{degree: 2}",
            "{workload: [[sex, incom]]}",
            "product.options.workload",
            "write 'income' instead of 'incom'",
        ),
        ("{degree: 2}", "{workload: [[]]}", "product.options.workload[0]", "a list of at least 1"),
        ("{degree: 2}", "{max_model_megabytes: 0.0001}", "product.options.max_model_megabytes", "0.00"),
        ("{degree: 2}", "{time_limit: 0.001}", "product.options.time_limit", "at least"),
        ("{degree: 2}", "{measured_share: 3}", "product.options.measured_share", "a number from 0.01 to 0.99"),
        ("{degree: 2}", "{init: maybe}", "product.options.init", "true or false"),
        ("epsilon: 1.0", "epsilon: 1e-9", "charge.epsilon", "too small"),
        ("[workclass, education", "[workclas, education", "product.columns[0]", "workclass"),
        ("rows: estimated", "rows: -3", "product.rows", "a whole number"),
        ("delta: 1e-9", "delta: 0", "product", "laplace"),
    ],
)
def test_what_the_plan_can_see_is_refused_with_its_place(
    shared: Place, typed: Typed, old: str, new: str, where: str, told: str
):
    """Exit 2 with file, line, field and remedy; nothing is charged, for nothing is run."""
    options = ("{degree: 2}", "{degree: 2, noise: gaussian}")
    changes = [(old, new)] if "delta" not in old else [(old, new), options]
    said = typed("plan", str(synthetic(shared, "synthetic-wrong", *changes)), at=shared.workspace)
    assert said.code == 2
    assert re.search(r"synthetic-wrong\.yaml:\d+", said.err)
    assert where in said.err
    assert told in said.err
    assert "Input should" not in said.err
    assert "validation" not in said.err


def test_a_pure_account_does_not_pay_for_a_zcdp_budget(shared: Place, typed: Typed):
    """Exit 4 before the data are read."""
    shared.pure_account("plain")
    changes = (("path: adult.parquet", "path: plain.parquet"), ("account: adult-1994", "account: pure-plain"))
    said = typed("run", str(synthetic(shared, "impure", *changes)), at=shared.workspace)
    assert said.code == 4, said.err
    assert charges(shared, "impure") == []


def test_a_source_without_rows_is_told_and_nothing_is_charged(shared: Place, typed: Typed):
    """No row is a gate of every release: exit 3."""
    people = ("--population", "nobody", "--block", "1994", "--unit", "row", "--epsilon", "3", "--delta", "1e-9")
    empty = shared.adult / "empty.parquet"
    pl.read_parquet(shared.adult / "adult.parquet").head(0).write_parquet(empty)
    account = ("--calculus", "renyi", "--adjacency", "add_remove", "--source", str(empty))
    assert typed("budget", "open", "nobody-1994", *people, *account, at=shared.workspace).code == 0
    changes = (("path: adult.parquet", "path: empty.parquet"), ("account: adult-1994", "account: nobody-1994"))
    said = typed("run", str(synthetic(shared, "nobody", *changes)), at=shared.workspace)
    assert said.code == 3, said.err
    assert charges(shared, "nobody") == []


def test_one_row_and_columns_of_one_label_give_a_sound_release(shared: Place, typed: Typed):
    """A table so small that noise is all there is: rows or none, and a version that verifies."""
    one = shared.adult / "one.parquet"
    pl.read_parquet(shared.adult / "adult.parquet").head(1).write_parquet(one)
    shutil.copy(shared.adult / "adult.odcs.yaml", shared.adult / "kept.odcs.yaml")
    people = ("--population", "somebody", "--block", "1994", "--unit", "row", "--epsilon", "3", "--delta", "1e-9")
    account = ("--calculus", "renyi", "--adjacency", "add_remove", "--source", str(one))
    assert typed("budget", "open", "one-1994", *people, *account, at=shared.workspace).code == 0
    changes = (*FEW, ("path: adult.parquet", "path: one.parquet"), ("account: adult-1994", "account: one-1994"))
    said = typed("run", str(synthetic(shared, "one", *changes)), "--json", at=shared.workspace)
    assert said.code == 0, said.err
    assert typed("verify", said.json["folder"], at=shared.workspace).code == 0
    record = json.loads((Path(said.json["folder"]) / "record.json").read_bytes())
    assert record["replay"]["rows"]["number"] < 500
