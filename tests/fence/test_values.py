"""What seeded releases of every kind and option hold: the fence around changes that are to change nothing.

`values/` has a file a world: columns of data, measurements and models, events, costs and figures of the plan. Whole
numbers and texts are compared exactly, doubles within 10⁻⁹ (ε by Fourier transforms within 10⁻⁸, weights of 32 bits
within 10⁻⁴). The files change only in a commit that changes nothing else and says why:

    python -m tests.fence.test_values [NAME …]       writes them again, or those of these names
"""

import secrets
import sys
from collections.abc import Callable
from contextlib import ExitStack, chdir, closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from benchmarks.orchestration import release_plainly
from console.main import execute
from console.products.product_view import product_view
from contracts.release.spec import load_spec
from deploy.gallery import ACCOUNTS, EXHIBITS, ROOT, Exhibit
from flows.request import read_request
from privacy.accounting.events import DiscreteLaplace
from tasks.report import write_files
from tasks.storage.workspace.settings import Workspace
from tests.fence.kept_values import Made, World, differences, read, world_of, written
from tests.flows.test_linked_runs import Town
from tests.tasks.intake import KEY
from tests.tasks.products.synthetic import test_copies as copies
from tests.tasks.products.synthetic import test_pictures as pictures
from tests.tasks.products.tables import test_binned_tables as binned
from tests.tasks.products.tables import test_many_tables as many
from tests.tasks.products.tables import test_minimum_frequency as minimum_frequency
from tests.tasks.products.tables import test_reference_version as reference
from tests.tasks.products.tables import test_residual_release as residuals
from tests.tasks.verification.draws.test_fitted_draws import evolved, factors
from tests.tasks.verification.fitted import test_fitter_plan as fitters
from tests.worlds import (
    classifiers,
    distinct_counts,
    hierarchies,
    private_keys,
    sparse_tables,
    spines,
    statistic_kinds,
    statistics,
    synthetic_rows,
    tables,
)
from tests.worlds.federated_runs import FederatedRun, released, released_by
from tests.worlds.federations import FEDERATION, GENERATOR, MARGINALS, SITES
from tests.worlds.federations import TABLES as FEDERATED_TABLES
from tests.worlds.known_noise import known_noise
from tests.worlds.pictures import PictureScenario
from tests.worlds.versions import AnyScenario, publish_version

VALUES: Final = Path(__file__).parent / "values"
SCENARIOS: Final[dict[str, Callable[[], AnyScenario]]] = {
    "tables-laplace-simplex": tables.first,
    "tables-gaussian-negative-l2": tables.second,
    "tables-public-total": tables.third,
    "tables-lambda-auto": tables.fourth,
    "tables-empirical-bayes": lambda: tables.refined_by("{method: empirical_bayes}"),
    "tables-neighbourhood": lambda: tables.refined_by("{method: neighbourhood}"),
    "tables-sparse": sparse_tables.small,
    "tables-quadtree": hierarchies.mesh,
    "tables-named-levels": hierarchies.nested,
    "tables-binned": binned.scenario,
    "tables-residuals": residuals.scenario,
    "tables-many-optimal": many.many_tables,
    "tables-minimum-frequency": minimum_frequency.suppressing,
    "spine": spines.without_totals,
    "spine-teams": spines.with_teams,
    "spine-patterns": spines.with_patterns,
    "statistics-laplace": statistics.pure,
    "statistics-gaussian": statistics.gaussian,
    "statistics-weights": statistic_kinds.weights,
    "statistics-effective-sizes": statistic_kinds.sizes,
    "statistics-refined": statistic_kinds.refined,
    "statistics-moments": lambda: statistics.three_rows(statistic_kinds.MOMENTS),
    "statistics-private-clips": statistic_kinds.clips,
    "statistics-shares": statistic_kinds.shares,
    "statistics-minimum-frequency": statistic_kinds.suppressed,
    "statistics-tree-quantiles": statistic_kinds.trees,
    "statistics-chosen-quantiles": lambda: statistics.three_rows(statistic_kinds.CHOICES),
    "statistics-quotas": statistic_kinds.quotas,
    "statistics-quotas-of-keys": statistic_kinds.quotas_of_keys,
    "statistics-distinct": distinct_counts.laplace,
    "statistics-distinct-of-keys": distinct_counts.of_keys,
    "statistics-keys": private_keys.pure,
    "statistics-counted-keys": private_keys.counted,
    "statistics-few-groups": private_keys.few_groups,
    "synthetic-independent": synthetic_rows.pure,
    "synthetic-fixed": synthetic_rows.fixed,
    "synthetic-aim": synthetic_rows.aim,
    "synthetic-mst": fitters.mst,
    "synthetic-privbayes": fitters.network,
    "synthetic-gaussian-copula": lambda: factors("gaussian_copula"),
    "synthetic-latent-factors": factors,
    "synthetic-scaled-numbers": synthetic_rows.stretched,
    "synthetic-inside-bins": synthetic_rows.looked_into,
    "synthetic-private-bins": synthetic_rows.joined,
    "synthetic-auto": lambda: replace(
        synthetic_rows.aim(),
        product="{kind: synthetic, generator: auto, columns: [ward, floor, age], options: {rows_about: 3000}}",
    ),
    "synthetic-copies": copies.scenario,
    "synthetic-private-evolution": evolved,
    "synthetic-p3gm": fitters.p3gm,
    "synthetic-linear-decoder": lambda: PictureScenario(product=pictures.LINEAR),
    "synthetic-class-pictures": lambda: PictureScenario(product=pictures.CLASSES),
    "classifier-dp-sgd": classifiers.dp_sgd,
    "classifier-learning-first": classifiers.learning_first,
    "classifier-anonymized-learning": classifiers.anonymized_learning,
    "classifier-anonymizing-first": classifiers.anonymizing_first,
}
OF_THIS_MACHINE: Final = {"synthetic-latent-factors", "synthetic-p3gm", "federation-p3gm"}
"""Rows and models of these are those of the machine that wrote their files: last bits of its linear algebra decide
some of them. A machine of other last bits compares everything else, and makes the same rows twice."""

MACHINE: Final = "of this machine"


def of_scenario(scenario: AnyScenario, folder: Path) -> Made:
    scenario.seeded = True
    facts = scenario.run(folder / "run")
    (folder / "files").mkdir()
    write_files(facts, folder / "files")
    plan = product_view(facts.spec.product.kind).plan_object(facts.spec, facts.plan)
    return Made(folder / "files", [facts.charge], plan)


def of_reference(folder: Path) -> Made:
    publish_version(tables.first(), folder / "run")
    return of_scenario(reference.second_census(), folder)


def of_run(spec: Path, workspace: Workspace) -> Made:
    assert release_plainly(spec, workspace.root) == 0
    request = read_request(spec, workspace)
    with closing(workspace.open_ledger()) as ledger:
        charges = ledger.charges(account=request.spec.charge.account)
    plan = product_view(request.spec.product.kind).plan_object(request.spec, request.plan)
    return Made(workspace.releases / request.spec.release / "v1", charges, plan)


def of_linked_tables(folder: Path) -> Made:
    town = Town(folder)
    return of_run(town.example / "synthetic.yaml", town.workspace)


def of_federation(run: FederatedRun, accounts: dict[str, Workspace]) -> Made:
    """What a federation published, with what it cost its coordinator and its sites."""
    with ExitStack() as stack:
        ledgers = {name: stack.enter_context(closing(each.open_ledger())) for name, each in accounts.items()}
        charges = [charge for name, ledger in ledgers.items() for charge in ledger.charges(account=name)]
    return Made(run.folder, charges, run.known.plan.to_json())


def federated(terms: str) -> Callable[[Path], Made]:
    def make(folder: Path) -> Made:
        run = released(folder, terms)
        sites = {f"{name}-2026": Workspace.open(folder / name) for name in SITES}
        return of_federation(run, {"everyone": run.workspace, **sites})

    return make


WORLDS: Final[dict[str, Callable[[Path], Made]]] = {
    **{name: lambda folder, make=make: of_scenario(make(), folder) for name, make in SCENARIOS.items()},  # type: ignore[misc]
    "tables-lambda-of-a-reference": of_reference,
    "synthetic-linked-tables": of_linked_tables,
    "federation-tables": federated(FEDERATED_TABLES),
    "federation-marginals": federated(MARGINALS),
    "federation-training": federated(FEDERATION),
    "federation-p3gm": federated(GENERATOR),
}


def exhibited(exhibit: Exhibit, folder: Path) -> Made:
    """Publish one release of the gallery as `make gallery` does, in this process."""
    with chdir(ROOT):
        if exhibit.script is None:
            workspace = Workspace.create(folder / "w")
            spec = ROOT / exhibit.spec
            [account] = [each for each in ACCOUNTS if each.name == load_spec(spec).charge.account]
            assert execute([*account.words, "--workspace", str(workspace.root)]) == 0
            return of_run(spec, workspace)
        names = ("private", "government", "self-employed")
        accounts = {name: f"{name}-1994" for name in names} | {"coordinator": "everyone"}
        workspaces = {name: Workspace.create(folder / name) for name in accounts}
        for name, paying in accounts.items():
            source = exhibit.spec if name == "coordinator" else ACCOUNTS[0].source
            terms = replace(ACCOUNTS[0], name=paying, epsilon="2", delta="1e-5", source=source)
            assert execute([*terms.words, "--workspace", str(workspaces[name].root)]) == 0
        sites = {name: (ROOT / "examples" / "federation" / f"{name}.yaml", workspaces[name]) for name in names}
        run = released_by(sites, ROOT / exhibit.spec, workspaces["coordinator"])
        return of_federation(run, {paying: workspaces[name] for name, paying in accounts.items()})


GALLERY: Final[dict[str, Callable[[Path], Made]]] = {
    f"gallery-{each.name}": lambda folder, each=each: exhibited(each, folder)  # type: ignore[misc]
    for each in EXHIBITS
    if each.name != "adult-model"  # its last checkpoint is another in some processes
}


def world(name: str, folder: Path) -> World:
    """Make a world with noise of its name, one seed of rows and one key of snapshots, and keep what is compared."""
    with known_noise(name), pytest.MonkeyPatch.context() as fixed:
        # Libraries that are loaded on the way ask for bits, too: those of rows may not depend on it.
        fixed.setattr(secrets, "randbits", lambda bits: 12345)
        fixed.setattr(Workspace, "snapshot_key", lambda workspace: KEY)
        kept = world_of((WORLDS | GALLERY)[name](folder))
    if name in OF_THIS_MACHINE:
        kept[MACHINE] = {"last bits": {"type": "text", "values": [last_bits()]}}
    return kept


def last_bits() -> str:
    """Digest of some linear algebra: machines that differ here may differ in the rows of a model."""
    square = np.random.default_rng(1).normal(size=(60, 60))
    parts = np.linalg.eigh(square @ square.T)[1], np.linalg.svd(square)[0], np.exp(square)
    network = torch.tanh(torch.from_numpy(square.astype(np.float32)) @ torch.full((60, 7), 0.1)).numpy()
    return sha256(b"".join(part.tobytes() for part in (*parts, network))).hexdigest()[:10]


def check(name: str, folder: Path) -> None:
    before, now = read((VALUES / f"{name}.json").read_text(encoding="utf-8")), world(name, folder / "one")
    if before.get(MACHINE) != now.get(MACHINE):
        assert world(name, folder / "again") == now
        for each in (before, now):
            for file in [file for file in each if file.startswith(("data/", "model/", MACHINE))]:
                del each[file]
    assert list(differences(before, now)) == []


@pytest.mark.long
@pytest.mark.parametrize("name", WORLDS)
def test_a_world_holds_what_it_held(tmp_path: Path, name: str):
    check(name, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", GALLERY)
def test_a_release_of_the_gallery_holds_what_it_held(tmp_path: Path, name: str):
    check(name, tmp_path)


def test_every_file_is_of_a_world():
    assert {path.stem for path in VALUES.iterdir()} == {*WORLDS, *GALLERY}


def change(path: Path, name: str, row: int, kind: pa.DataType | None = None) -> None:
    """Add 1 to a whole number, and to a double its millionth; or write the column as another type."""
    table = pq.read_table(path)
    place, values = table.column_names.index(name), table[name].to_pylist()
    values[row] += 0 if kind else values[row] * 1e-6 if isinstance(values[row], float) else 1
    pq.write_table(table.set_column(place, name, pa.array(values, kind or table[name].type)), path)


def test_a_change_of_one_value_is_found_and_named(tmp_path: Path):
    """A number near and far down, a type, a file that is gone, a field of an event, a figure of the plan."""
    made = of_scenario(hierarchies.mesh(), tmp_path)
    before = read(written(world_of(made)))
    assert list(differences(before, world_of(made))) == []
    data, measurements = made.folder / "data", made.folder / "measurements"
    change(data / "mesh.32x32.parquet", "count", 3)
    change(data / "mesh.parquet", "count", 3456)
    change(measurements / "mesh.parquet", "variance", 3456)
    change(measurements / "mesh.8x8.parquet", "variance", 1)
    change(measurements / "mesh.16x16.parquet", "noisy", 0, pa.int32())
    (measurements / "mesh.2x2.parquet").unlink()
    [charge] = made.charges
    first, *others = charge.request.events
    assert isinstance(first, DiscreteLaplace)
    moved = replace(charge, request=replace(charge.request, events=(replace(first, moves=(2,)), *others)))
    now = world_of(made._replace(charges=[moved], plan={**made.plan, "seconds": 9}))
    assert [found.partition(":")[0] for found in differences(before, now)] == [
        "charge 0, epsilon and claim, row 1",
        "charge 0, events[].moves, row 0",
        "data/mesh.32x32.parquet, count, row 3",
        "data/mesh.parquet, count, rows 3300 to 3599",
        "measurements/mesh.16x16.parquet, noisy, type",
        "measurements/mesh.2x2.parquet",
        "measurements/mesh.8x8.parquet, variance, row 1",
        "measurements/mesh.parquet, variance, rows 3300 to 3599",
        "plan, seconds, row 0",
    ]


def main(names: list[str]) -> None:
    VALUES.mkdir(exist_ok=True)
    for name in names or [*WORLDS, *GALLERY]:
        with TemporaryDirectory() as folder:
            (VALUES / f"{name}.json").write_text(written(world(name, Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
