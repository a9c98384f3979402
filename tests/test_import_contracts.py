"""What import-linter's contracts refuse: files that break a law of the house, added to a copy of the tree."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Final

import pytest

from tests.source_folders import CORE, EXTENSIONS, FOLDERS, ROOT

NOISE: Final = "Only the door draws noise (law 1)"
SAMPLERS: Final = "Only the grant samples (law 1)"
BOOKS: Final = "The books know accounting and contracts only"
JOURNAL: Final = "The journal is checked without a database"
CIRCLES: Final = "No two neighbours import each other, directly or in a circle"
FITTED: Final = "What is drawn or fitted knows no ledger, no noise and no scan of rows"
ROOMS: Final = "The rooms of privacy, each above those that it imports"
STUDIO: Final = "The studio reads no rows"
ONE_WAY: Final = "The core imports no extension, and no extension another"

REFUSED: Final = (
    ("tasks.added", "privacy.noise.random_bytes", NOISE),
    ("privacy.refine.added", "privacy.noise.bernoulli", NOISE),
    ("privacy.generators.added", "privacy.noise.discrete_laplace", NOISE),
    ("privacy.grant.added", "privacy.noise.discrete_gaussian", NOISE),
    ("privacy.grant.added", "privacy.noise.rounded_gaussian", NOISE),
    ("privacy.grant.queries.added", "privacy.noise.discrete_laplace", NOISE),
    ("privacy.ledger.added", "privacy.noise.random_bytes", NOISE),
    ("privacy.classifiers.added", "privacy.grant.sampled_noise", SAMPLERS),
    ("privacy.grant.queries.added", "privacy.grant.sampled_noise", SAMPLERS),
    ("tasks.added", "privacy.grant.sampled_noise", SAMPLERS),
    ("privacy.ledger.added", "privacy.grant.measurement", BOOKS),
    ("privacy.ledger.accounts.added", "privacy.marginals.counts", BOOKS),
    ("privacy.ledger.journal.added", "privacy.ledger.store.schema", JOURNAL),
    ("privacy.generators.added", "privacy.ledger.terms", FITTED),
    ("privacy.classifiers.added", "privacy.grant.grant", FITTED),
    ("privacy.coordination.added", "privacy.noise.random_bytes", NOISE),
    ("privacy.grant.queries.added", "privacy.ledger.draw_files", FITTED),
    ("privacy.snapshots.added", "privacy.grant.measurement", ROOMS),
    ("privacy.marginals.added", "privacy.learning.layout", ROOMS),
    ("privacy.refine.added", "privacy.table_plans.plan", ROOMS),
    ("privacy.accounting.added", "privacy.ledger.terms", ROOMS),
    *((("sudare_web.studio.added", "tasks.ingest", STUDIO),) if "sudare_web" in EXTENSIONS else ()),
    *((f"{package}.added", name, ONE_WAY) for name in EXTENSIONS for package in CORE),
    *((f"{one}.added", other, ONE_WAY) for one, other in permutations(EXTENSIONS, 2)),
)
ALLOWED: Final = (
    ("privacy.grant.sampled_noise", "privacy.noise.bernoulli"),
    ("privacy.grant.grant", "privacy.noise.lattice_shares"),
)


def lint(folder: Path, *, added: dict[str, list[str]]) -> dict[str, str]:
    """Add modules with these imports to a copy of the tree; return what is said of each contract that breaks."""
    for package in FOLDERS:
        skipped = shutil.ignore_patterns("__pycache__", "*.json", "*.j2", "*.css", "*.js", "*.mo", "*.po")
        shutil.copytree(ROOT / package, folder / package, ignore=skipped)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for module, imported in added.items():
        root = folder / "extensions" if module.startswith(EXTENSIONS) else folder
        path = root.joinpath(*module.split(".")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        body = "".join(f"    import {name}\n" for name in imported)  # inside a function: counted all the same
        path.write_text(f"def late() -> None:\n{body or '    pass'}\n")
    linter = Path(sys.executable).with_name("lint-imports")
    own = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'extensions'}"}
    done = subprocess.run(
        [linter, "--no-cache"], cwd=folder, env=own, capture_output=True, text=True, check=False, timeout=280
    )
    _, _, broken = done.stdout.partition("Broken contracts")
    assert (done.returncode == 1) == bool(broken), done.stdout + done.stderr
    titles = re.split(r"\n([^\n]+)\n-{3,}\n", re.sub(r"^\s*-+\n", "", broken))
    return dict(zip(titles[1::2], titles[2::2], strict=True))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said of the tree with all these files."""
    added: dict[str, list[str]] = {}
    for module, imported, *_ in (*REFUSED, *ALLOWED):
        added.setdefault(module, []).append(imported)
    return lint(tmp_path_factory.mktemp("tree"), added=added)


@pytest.mark.services
@pytest.mark.parametrize(("module", "imported", "contract"), REFUSED)
def test_a_file_that_is_added_is_inside_the_law(broken: dict[str, str], module: str, imported: str, contract: str):
    """The contract names the file and what it imports, wherever in the file it is imported."""
    assert f"{module} -> {imported} " in broken[contract]


@pytest.mark.services
@pytest.mark.parametrize(("module", "imported"), ALLOWED)
def test_what_draws_may_import_noise(broken: dict[str, str], module: str, imported: str):
    assert f"{module} -> {imported} " not in broken[NOISE]


@pytest.mark.services
def test_a_room_that_is_added_to_privacy_must_be_given_its_place(tmp_path: Path):
    """A folder that no layer names breaks the contract, even if it imports nothing."""
    assert "- privacy.attic" in lint(tmp_path, added={"privacy.attic.added": []})[ROOMS]


@pytest.mark.services
def test_two_files_of_a_room_that_import_each_other_are_a_circle(tmp_path: Path):
    """Even where the import stands inside a function."""
    pair = {"privacy.refine.one": ["privacy.refine.other"], "privacy.refine.other": ["privacy.refine.one"]}
    assert "privacy.refine" in lint(tmp_path, added=pair)[CIRCLES]


@pytest.mark.services
def test_the_tree_itself_breaks_nothing(tmp_path: Path):
    assert lint(tmp_path, added={}) == {}


def sources(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.long
def test_of_the_grants_module_others_take_the_grant_alone():
    """What it imports to draw with (samplers, bytes) would leave by its name, and linters of imports see nothing."""
    for name, tree in sources(*FOLDERS):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "privacy.grant.grant":
                assert {alias.name for alias in node.names} <= {"Grant", "open_grant"}, name
            if isinstance(node, ast.ImportFrom) and node.module == "privacy.grant":
                assert "grant" not in {alias.name for alias in node.names}, name
            if isinstance(node, ast.Import):
                assert "privacy.grant.grant" not in {alias.name for alias in node.names}, name


@pytest.mark.long
def test_exact_counts_and_the_grants_own_parts_are_asked_for_in_the_grant_alone():
    """Not even by a query. `_count` and `_read` give what is behind a handle; the others make draws of it."""
    private = {"_count", "_read", "_once", "_random_bytes"}
    inside = (
        "privacy/grant/grant.py",
        "privacy/snapshots/",
        "privacy/marginals/counts.py",
        "privacy/learning/layout.py",
    )
    for name, tree in sources(*FOLDERS):
        if name.startswith(inside):
            continue
        for node in ast.walk(tree):
            of_another = isinstance(node, ast.Attribute) and not (
                isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            )
            assert not (of_another and isinstance(node, ast.Attribute) and node.attr in private), (name, node.lineno)


@pytest.mark.long
def test_no_name_that_is_worked_out_leads_to_noise():
    """`import_module` takes names of kinds from tables of ours, and no linter follows it."""
    for name, tree in sources(*FOLDERS):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.match(r"privacy\.(noise|grant)\b", node.value), (name, node.lineno)


RANDOM: Final = frozenset(
    {
        "console/sample.py",
        "extensions/sudare_engines/spark_worker.py",
        "extensions/sudare_engines/stage.py",
        "extensions/sudare_web/studio/door.py",
        "extensions/sudare_web/studio/files.py",
        "flows/evaluation/shadow_attack.py",
        "flows/federation/federated_run.py",
        "flows/prefect_runs/server.py",
        "privacy/evaluation/rows.py",
        "privacy/ledger/draw_files.py",
        "privacy/ledger/entries.py",
        "privacy/ledger/ledger.py",
        "privacy/marginals/latent_factors.py",
        "privacy/marginals/portable.py",
        "privacy/noise/random_bytes.py",
        "sudare/release.py",
        "tasks/evaluation/scores.py",
        "tasks/evaluation/seen_products.py",
        "tasks/evaluation/shadow_releases.py",
        "tasks/products/fit.py",
        "tasks/records/private_record.py",
        "tasks/storage/workspace/run_folder.py",
        "tasks/storage/workspace/keys.py",
    }
)
"""Keys, salts and names; seeds of post-processing; scores of what is public. Noise is drawn from `random_bytes`."""


def test_other_sources_of_randomness_stand_in_files_that_are_listed():
    """NumPy's generator beside a handle would break laws 1 and 2, and no contract of imports sees it."""
    pattern = re.compile(
        r"\b(?:np|numpy)\.random\b|\bdefault_rng\b|^(?:import|from) (?:random|secrets)\b|\burandom\b", re.M
    )
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if pattern.search(path.read_text(encoding="utf-8"))
    }
    assert found == {name for name in RANDOM if not name.startswith("extensions/") or (ROOT / name).exists()}
