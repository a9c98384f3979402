"""What the repository promises as a whole: it installs anywhere, its layers hold, and it ships what it says."""

import ast
import fnmatch
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from contracts.contract.odcs import load_contract
from contracts.release.linked_source import contract_of, table_sources
from contracts.release.spec import load_spec
from contracts.release.spec_checks import check_spec
from tests.source_folders import CORE, EXTENSIONS, FOLDERS, ROOT, folder_of

ADULT = ROOT / "examples" / "adult"
CONTRACTS = sorted(
    path for path in (ROOT / "examples").rglob("*.yaml") if path.name.endswith((".odcs.yaml", ".contract.yaml"))
)
FEDERATION = ROOT / "examples" / "federation"
"""Its specs are of another kind: tests/test_gallery.py loads them."""
SPECS = sorted(
    path for path in (ROOT / "examples").rglob("*.yaml") if path not in CONTRACTS and path.parent != FEDERATION
)

MACHINE_PATH = re.compile(r"(?<![\w.~$}])/(?:work|root|home|opt|tmp|Users)/|file:/{3}")
OUTSIDE = re.compile(r"\.\./shared\b")
PRIVATE_HOST = re.compile(
    r"https?://(?:[\w.-]+\.(?:internal|local|lan|corp|intranet)\b"
    r"|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|(?!localhost)[\w-]+[:/])"
)
PACKAGE_INDEX = re.compile(r"(?:index-url|find-links|trusted-host)[ =]+[^\s`\"']+")


@cache
def repository_files() -> tuple[Path, ...]:
    lines = (ROOT / ".gitignore").read_text().split()
    ignored = [".git", *(line.rstrip("/") for line in lines if not line.startswith("#"))]

    def kept(name: str, folder: Path) -> bool:
        parts = (folder / name).relative_to(ROOT).parts
        return not any(fnmatch.fnmatch(part, pattern) for part in parts for pattern in ignored)

    found: list[Path] = []
    for place, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if kept(name, Path(place))]
        found += [Path(place, name) for name in files if kept(name, Path(place))]
    return tuple(found)


def lines_matching(pattern: re.Pattern[str], *, in_tests: bool = True) -> list[str]:
    """`file:line: text` of every match in the text files of the repository."""
    hits = []
    for path in repository_files():
        relative = path.relative_to(ROOT).as_posix()
        content = path.read_bytes()
        if b"\0" in content or (relative.startswith("tests/") and not in_tests):
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
            hits += [f"{relative}:{number}: {hit.group()}" for hit in pattern.finditer(line)]
    return hits


def pins() -> dict[str, Version]:
    """The constraints file as a dictionary from normalised name to version."""
    lines = (ROOT / "deploy" / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pairs}


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def build_adult() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_adult", ADULT / "build_adult.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def adult() -> pa.Table:
    return pq.read_table(ADULT / "adult.parquet")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (MACHINE_PATH, "see /" + "work/main"),
        (MACHINE_PATH, "'/" + "root/.cache'"),
        (MACHINE_PATH, "file:" + "///srv"),
        (PRIVATE_HOST, "http:" + "//mirror:8080/simple"),
        (PRIVATE_HOST, "https:" + "//pypi.corp/simple"),
        (PRIVATE_HOST, "http:" + "//10.0.0.3/simple"),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: re.Pattern[str], text: str):
    """A search that finds nothing proves something only if it finds a planted case."""
    assert pattern.search(text)


@pytest.mark.long
def test_no_file_names_a_path_of_somebodys_machine():
    """A clone works in any folder: no absolute path of a home, a work or a scratch folder is written down."""
    assert lines_matching(MACHINE_PATH) == []


def test_no_file_names_a_private_host():
    """A clone works on any network: no host without a public name is written down."""
    assert lines_matching(PRIVATE_HOST, in_tests=False) == []


def test_only_the_torch_step_names_a_package_index():
    """Everything else comes from the index that the user's pip is configured for."""
    hits = [hit.split(":", 2) for hit in lines_matching(PACKAGE_INDEX)]
    assert [(path, text.strip()) for path, _, text in hits] == [("Makefile", "index-url" + " $(TORCH_INDEX)")]


def test_nothing_that_users_run_needs_files_outside_the_repository():
    """Only tests may look for more data beside the clone, and CI for the tool that measures sizes."""
    assert {hit.partition(":")[0] for hit in lines_matching(OUTSIDE, in_tests=False)} == {".ci/run"}


def test_constraints_are_exact_sorted_and_name_each_package_once():
    """One line a package, `name==version`: no ranges, markers, paths, or local versions such as +cpu."""
    lines = (ROOT / "deploy" / "constraints.txt").read_text().splitlines()
    assert lines[0].startswith("# ")
    assert [line for line in lines[1:] if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)] == []
    assert lines[1:] == sorted(lines[1:], key=lambda line: line.split("==")[0].lower())
    assert len(pins()) == len(lines) - 1


def test_each_declared_dependency_is_pinned_inside_its_range(pyproject: dict[str, Any]):
    """What pyproject.toml allows and what is tested agree, for the program and for each extra."""
    project = pyproject["project"]
    declared = [*project["dependencies"], *(r for e in project["optional-dependencies"].values() for r in e)]
    tested = pins()
    for text in declared:
        requirement = Requirement(text)
        assert canonicalize_name(requirement.name) in tested, f"{text} has no pin"
        assert tested[canonicalize_name(requirement.name)] in requirement.specifier, text


def test_each_pin_installs_on_the_oldest_python_that_is_promised(pyproject: dict[str, Any]):
    """A pin that asks for a later patch release would stop `make` there: pip refuses the whole environment."""
    oldest = pyproject["project"]["requires-python"].removeprefix(">=") + ".0"
    installed = {canonicalize_name(found.metadata["Name"]): found for found in distributions()}
    checked = [
        installed[name] for name, pin in pins().items() if name in installed and installed[name].version == str(pin)
    ]
    assert len(checked) > 100
    asks = {found.metadata["Name"]: found.metadata.get("Requires-Python") or "" for found in checked}
    assert {name: needs for name, needs in asks.items() if oldest not in SpecifierSet(needs)} == {}


def test_torch_is_a_version_with_cpu_builds_and_drags_no_cuda_packages(pyproject: dict[str, Any]):
    """The pin fits `2.13.0+cpu` too, torch is no part of the plain install, and no CUDA package is pinned."""
    assert pins()["torch"] == Version("2.13.0")
    assert Version("2.13.0+cpu") in Requirement("torch==2.13.0").specifier
    assert not any(text.startswith("torch") for text in pyproject["project"]["dependencies"])
    assert [name for name in pins() if name.startswith(("nvidia", "cuda", "triton"))] == []


@pytest.mark.services
def test_the_layers_are_a_contract(pyproject: dict[str, Any]):
    """import-linter enforces the order of the house (what it refuses inside: `test_import_contracts`)."""
    contracts = pyproject["tool"]["importlinter"]["contracts"]
    forbidden = [contract for contract in contracts if contract["type"] == "forbidden"]
    assert [*CORE] in [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    core = next(c for c in forbidden if "prefect" in c["forbidden_modules"])
    assert {"privacy", "contracts"} <= set(core["source_modules"])
    assert "great_expectations" in core["forbidden_modules"]
    linter = Path(sys.executable).with_name("lint-imports")
    said = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout


@pytest.mark.services
@pytest.mark.parametrize(
    ("target", "commands"),
    [
        ("check", ["ruff format --check", "ruff check", "mypy", "lint-imports", "tests.halves"]),
        ("test", ["tests.halves"]),
        ("demo", ["examples/adult/demo.sh"]),
        ("demo-synthetic", ["examples/adult/synthetic.sh"]),
        ("neural", ["--no-deps --extra-index-url"]),
    ],
)
def test_make_runs_what_the_target_says(target: str, commands: list[str]):
    """`make -n -B` prints the commands of each promised target, in this order, whatever is installed already."""
    plan = subprocess.run(["make", "-n", "-B", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    places = [plan.find(command) for command in commands]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize(
    "script",
    [".ci/run", "examples/adult/demo.sh", "examples/adult/synthetic.sh", "examples/federation/federation.sh"],
)
def test_the_scripts_can_be_executed(script: str):
    """The scripts carry the executable bit and stop at the first error."""
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    assert re.search(r"^set -eu", path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", CONTRACTS, ids=lambda path: path.name)
def test_every_example_contract_loads(path: Path):
    """A contract that ships is one that the program accepts."""
    assert load_contract(path).columns


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_every_example_spec_loads_and_fits_its_contract(path: Path):
    """A spec that ships is accepted, fits its contract, and its source is there."""
    spec = load_spec(path)
    assert check_spec(spec, contract_of(spec)) == []
    places = [spec.source] if spec.source.tables is None else table_sources(spec.source).values()
    assert all(each.path.is_file() for each in places)


def test_the_wide_table_is_wide():
    """At least 100,000 cells: 15 ages x 16 schoolings x 15 occupations x 7 x 2 x 2 = 100,800."""
    spec = load_spec(ADULT / "wide.yaml")
    (table,) = spec.product.tables
    assert load_contract(spec.contract).cells(table.columns) == 100_800


def test_the_account_of_the_demo_can_pay_for_both_example_releases():
    """Whoever runs the demo and then the wide table stays under the cap that the demo opened."""
    opened = re.search(r"budget open (\S+)(?s:.*?)--epsilon (\S+)", (ADULT / "demo.sh").read_text())
    assert opened is not None
    charges = [load_spec(ADULT / name).charge for name in ("tables.yaml", "wide.yaml")]
    assert {charge.account for charge in charges} == {opened[1]}
    assert sum(charge.epsilon for charge in charges) <= Decimal(opened[2])


def test_adult_is_small_and_has_the_columns_of_its_contract(adult: pa.Table):
    """Well under 1 MB; 48,842 rows; the 15 columns, in the order of the contract."""
    assert (ADULT / "adult.parquet").stat().st_size < 1_000_000
    assert adult.num_rows == 48_842
    contract = load_contract(ADULT / "adult.odcs.yaml")
    assert adult.column_names == [column.name for column in contract.columns]
    assert adult.num_columns == 15


def test_adult_agrees_with_the_counts_in_its_documentation(adult: pa.Table):
    """adult.names: 30,162 + 15,060 rows have no unknowns; 23.93 % of all and 24.78 % of these earn more than 50K."""
    complete = adult.drop_null()
    assert (adult[:32_561].drop_null().num_rows, adult[32_561:].drop_null().num_rows) == (30_162, 15_060)
    for table, share in ((adult, 23.93), (complete, 24.78)):
        above = pc.sum(pc.equal(table["income"], ">50K")).as_py()
        assert round(100 * above / table.num_rows, 2) == share


def test_every_category_of_adult_is_declared(adult: pa.Table):
    """No value of the shipped table is outside the categories, and nulls are only where they are a category."""
    for column in load_contract(ADULT / "adult.odcs.yaml").columns:
        if column.domain.kind == "categories":
            found = {value for value in pc.unique(adult[column.name]).to_pylist() if value is not None}
            assert found <= set(column.labels)
        assert adult[column.name].null_count == 0 or "(null)" in column.labels


TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, ?, <=50K
54, ?, 180211, Some-college, 10, Married-civ-spouse, ?, Husband, Black, Male, 0, 0, 60, South, >50K

"""
TEST = """\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Sales, Own-child, Black, Male, 0, 0, 40, United-States, >50K.
"""


def test_build_adult_keeps_every_row_and_cleans_three_things(build_adult: ModuleType):
    """Training rows come first; "?" is null, labels lose their full stop, numbers are integers; no other change."""
    table = build_adult.adult(TRAIN, TEST)
    assert table.schema.equals(build_adult.SCHEMA)
    assert table["age"].to_pylist() == [39, 54, 25]
    assert table["workclass"].to_pylist() == ["State-gov", None, "Private"]
    assert table["occupation"].to_pylist() == ["Adm-clerical", None, "Sales"]
    assert table["native-country"].to_pylist() == [None, "South", "United-States"]
    assert table["income"].to_pylist() == ["<=50K", ">50K", ">50K"]
    assert table["capital-gain"].to_pylist() == [2174, 0, 0]


def test_build_adult_writes_the_shipped_table(build_adult: ModuleType, adult: pa.Table):
    """The shipped file has the schema of the script; writing it twice gives the same bytes and the same table."""
    assert adult.schema.equals(build_adult.SCHEMA)
    content = build_adult.parquet(adult)
    assert content == build_adult.parquet(adult)
    assert pq.read_table(pa.BufferReader(content)).equals(adult)


@pytest.mark.parametrize("line", ["39, State-gov", TRAIN.splitlines()[0] + ", more"])
def test_build_adult_names_a_line_that_is_no_row(build_adult: ModuleType, line: str):
    """A line with another number of fields is refused with its number, not padded or skipped."""
    with pytest.raises(ValueError, match=r"line 2: \d+ fields, expected 15"):
        build_adult.records("\n" + line)


def types_of(source: str) -> Iterator[str]:
    """Yield the classes and aliases of types that a module defines; type variables are its own affair."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, variable = node.targets[0].id, "TypeVar" in ast.unparse(node.value)
            if name[:1].isupper() and not name.isupper() and not variable:
                yield name


FRONT = {"Account", "Contract", "Plan", "Record", "Spec", "Table", "Workspace"}
"""What `sudare` shows people, by the words of the field; inside the house they name what it is made of."""


@pytest.mark.long
def test_a_types_name_is_defined_in_one_file():
    """Somebody who searches for a name finds one thing, and the front of a few of them."""
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / CORE[0]).rglob("*.py")):
        for name in set(types_of(path.read_text(encoding="utf-8"))) - FRONT:
            places.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    for folder in FOLDERS[1:]:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in types_of(path.read_text(encoding="utf-8")):
                places.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def names_at_top_level(source: str) -> Iterator[str]:
    """Yield what the top level of a module defines or assigns, once a time; a `__main__` block by its condition."""
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                names = (each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
                yield from (each.id for each in names if isinstance(each.ctx, ast.Store))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If(test=ast.Compare() as condition):
                yield ast.unparse(condition)
            case _:
                pass


@pytest.mark.long
def test_a_module_binds_a_name_once():
    """Two files that were merged: the second value, function or `__main__` would silently hide the first."""
    twice = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            names = Counter(names_at_top_level(path.read_text(encoding="utf-8")))
            twice += [f"{path.relative_to(ROOT)}: {name}" for name, times in names.items() if times > 1]
    assert twice == []
    assert max(Counter(names_at_top_level("A = 1\nB = 2\nA: int = 3")).values()) == 2


@cache
def module_names(module: str) -> set[str]:
    """The names that a module of ours binds anywhere, and the modules in it where it is a package."""
    package, *inside = module.split(".")
    path = (ROOT / folder_of(package)).joinpath(*inside)
    if not path.with_suffix(".py").exists():
        return {entry.stem for entry in path.iterdir()} if path.is_dir() else set()
    names = set()
    for node in ast.walk(ast.parse(path.with_suffix(".py").read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name for alias in aliases}
            case _:
                pass
    return names


@pytest.mark.long
def test_tests_and_benchmarks_import_names_that_exist():
    """Types are checked in the packages alone, so that nobody else tells when a renamed thing is asked for here."""
    missing = []
    for path in sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.module or node.level:
                continue
            if node.module.split(".")[0] in {*CORE, *EXTENSIONS, "tests", "benchmarks"}:
                missing += [
                    f"{path.relative_to(ROOT)}:{node.lineno} {node.module}.{alias.name}"
                    for alias in node.names
                    if alias.name not in module_names(node.module)
                ]
    assert missing == []
