"""The files of seeded runs, one or more per kind of product: the same data and measurements as before."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.records.facts import RunFacts
from tasks.report import write_files
from tests.worlds.classifiers import dp_sgd
from tests.worlds.hierarchies import mesh, nested
from tests.worlds.sparse_tables import small
from tests.worlds.statistics import gaussian as gaussian_statistics
from tests.worlds.statistics import pure as laplace_statistics
from tests.worlds.synthetic_rows import SyntheticScenario, aim, fixed, gaussians, pure
from tests.worlds.tables import Scenario, first, second, third

DIGESTS = Path(__file__).with_name("seeded_files.json")
AnyScenario = Scenario | SyntheticScenario
SCENARIOS: dict[str, Callable[[], AnyScenario]] = {
    "tables, Laplace, simplex": first,
    "tables, Gaussian, negative l2": second,
    "tables, public total": third,
    "tables, sparse": small,
    "tables, quadtree": mesh,
    "tables, named levels": nested,
    "synthetic, independent": pure,
    "synthetic, fixed": fixed,
    "statistics, Laplace": laplace_statistics,
    "statistics, Gaussian": gaussian_statistics,
}
"""Their arithmetic is of whole numbers, or of doubles whose last bits decide nothing: all machines agree."""
OF_THIS_MACHINE: dict[str, Callable[[], AnyScenario]] = {
    "synthetic, AIM": aim,
    "synthetic, Gaussian per class": gaussians,
    "classifier, DP-SGD": dp_sgd,
}
"""They go through libraries of linear algebra, whose last bits differ between machines."""


def seeded(scenario: AnyScenario, folder: Path, monkeypatch: pytest.MonkeyPatch) -> RunFacts:
    """Run a scenario whose noise and post-processing come from seeds."""
    scenario.seeded = True
    monkeypatch.setattr("tasks.products.post_processing_seed.secrets.randbits", lambda bits: 12345)
    return scenario.run(folder)


def digests(facts: RunFacts, folder: Path) -> dict[str, str]:
    """Write data and measurements, and digest of each file what it holds: names, types and values."""
    folder.mkdir()
    return {file.path: digest(folder / file.path) for file in write_files(facts, folder)}


def digest(path: Path) -> str:
    """Parquet by its values, so that another version of the library that writes it changes nothing."""
    if path.suffix != ".parquet":
        return sha256(path.read_bytes()).hexdigest()
    table = pq.read_table(path)
    values = {name: [str(table.schema.field(name).type), _steady(table[name])] for name in table.column_names}
    return sha256(json.dumps(values, default=str).encode()).hexdigest()


def _steady(column: pa.ChunkedArray) -> list[object]:
    """Return values, doubles in nine digits: calibrated noise has variances whose last digits a machine decides."""
    values = column.to_pylist()
    if not pa.types.is_floating(column.type):
        return values
    return [None if value is None else f"{value:.9g}" for value in values]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seeded_run_writes_the_files_that_it_wrote_before(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of the house moves no bit of what is published.

    A change that means to (another refinement, another order of draws) writes the file of digests again:
    `python -m tests.tasks.products.test_seeded_files`.
    """
    facts = seeded(SCENARIOS[name](), tmp_path / "run", monkeypatch)
    assert digests(facts, tmp_path / "files") == json.loads(DIGESTS.read_text(encoding="utf-8"))[name]


@pytest.mark.long
@pytest.mark.parametrize("name", OF_THIS_MACHINE)
def test_a_seed_decides_everything_that_is_published(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for again in ("first", "again"):
        facts = seeded(OF_THIS_MACHINE[name](), tmp_path / again, monkeypatch)
        found.append(digests(facts, tmp_path / f"{again}-files"))
    assert found[0] == found[1]
    assert found[0]


def _written(folder: Path) -> None:
    """Write the digests of today's code."""
    found = {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        for place, (name, scenario) in enumerate(SCENARIOS.items()):
            facts = seeded(scenario(), folder / f"{place}", monkeypatch)
            found[name] = digests(facts, folder / f"{place}-files")
    DIGESTS.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        _written(Path(name))
