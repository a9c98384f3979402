"""Does `sudare plan --for` keep what it promises? 1,000 simulated releases at the epsilon that it names.

    python -m benchmarks.promised_accuracy

A spec of each kind is planned for one aim, without data. Then its statistic is drawn 1,000 times with the events of
that plan, by the samplers that publish, in one cell of made-up rows. The aim is kept where the published value lies
no farther from the exact one than was asked: in 95 % of releases, as the aim says. A kind that keeps 95 % falls below
`FLOOR` with probability 1e-7, so that a false alarm of the whole table has one below 1e-6. At half the epsilon each
aim must fall below it: a row says what share is kept then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from benchmarks.results import Row, Setting, machine, write
from console.aimed_plan import aimed
from contracts.domains.lattice import ValueLattice
from flows.request import planned_request, read_request
from privacy.grant.sampled_noise import SampledNoise
from privacy.noise.random_bytes import RandomBytes, SecureBytes
from privacy.statistics.table import NoisyNumbers, table_values

RELEASES: Final = 1000
CONFIDENCE: Final = 0.95
ROWS: Final = 2000
"""People in the cell that is looked at."""
CONTRACT: Final = """\
id: city
version: 1.0.0
unit: {kind: row, scope: block}
adjacency: add_remove
defaults: {provenance: declared}
columns:
  place: {values: [a, b, c, d], nulls: {to: a}}
  sex: {values: [F, M], nulls: {to: F}}
  age: {range: 0..89 by 10, nulls: {to: 0}}
  hours: {range: 0..100 by 5, nulls: {to: 0}}
"""
PLACES: Final = "place,parent,level\nall,,city\nn,all,ward\ns,all,ward\na,n,block\nb,n,block\nc,s,block\nd,s,block\n"
TABLES: Final = "{kind: tables, mechanism: MECHANISM, tables: [[sex, age], [place]]}"
STATISTICS: Final = (
    "{kind: statistics, mechanism: MECHANISM, "
    "tables: [{by: [sex], name: work, of: [count, {sum: hours}, {mean: hours}]}]}"
)
SPINE: Final = (
    "{kind: spine, spine: {column: place, file: places.csv, levels: [city, ward, block]}, "
    "tables: [{columns: [sex, age], name: detail}, {columns: [sex]}]}"
)


@dataclass(frozen=True)
class PlannedAim:
    """An aim, and the product that it is asked of.

    Args:
        kind: what it stands for, in words.
        aim: as it is typed.
        product: in YAML.
    """

    kind: str
    aim: str
    product: str

    @property
    def delta(self) -> str:
        """Of the charge: Gaussian noise has one."""
        return "0" if "laplace" in self.product else "1e-9"


AIMS: Final = (
    PlannedAim("counts of a table, Laplace", "place: ±40", TABLES.replace("MECHANISM", "laplace")),
    PlannedAim("counts of a table, Gaussian", "place: ±40", TABLES.replace("MECHANISM", "gaussian")),
    PlannedAim("a share of counts", "±5% where count >= 1000", TABLES.replace("MECHANISM", "laplace")),
    PlannedAim("counts beside sums", "work.count: ±30", STATISTICS.replace("MECHANISM", "laplace")),
    PlannedAim("a sum, Laplace", "work.sum_hours: ±2000", STATISTICS.replace("MECHANISM", "laplace")),
    PlannedAim("a sum, Gaussian", "work.sum_hours: ±2000", STATISTICS.replace("MECHANISM", "gaussian")),
    PlannedAim("a mean", f"work.mean_hours: ±1 where count >= {ROWS}", STATISTICS.replace("MECHANISM", "laplace")),
    PlannedAim("counts by place", "detail.ward: ±25", SPINE),
)
FLOOR: Final = float(binom.ppf(1e-6 / (2 * len(AIMS)), RELEASES, CONFIDENCE)) / RELEASES


def kept(aim: PlannedAim, folder: Path, *, noise: RandomBytes, times: float = 1.0) -> tuple[str, float]:
    """Return the epsilon that the aim asks for, and in which share of releases it is kept.

    Args:
        aim: the aim.
        folder: where contract and spec are written.
        noise: draws.
        times: of the epsilon, at which releases are simulated.
    """
    request = read_request(_written(aim, folder))
    found = aimed(request, [aim.aim], None)
    (reached,), charge = found.reached, found.request.spec.charge
    asked = charge.model_copy(update={"epsilon": charge.epsilon * type(charge.epsilon)(str(times))})
    spec = found.request.spec.model_copy(update={"charge": asked})
    plan: Any = planned_request(spec, request.contract, None).plan
    sampled = SampledNoise(noise)
    if aim.product.startswith("{kind: statistics"):
        errors = _statistic_errors(request.spec.product, plan, reached.width.statistic, sampled)
    else:
        table = reached.width.table.replace(".", "/") if aim.product == SPINE else reached.width.table
        (event,) = [draw.event for draw in plan.draws if draw.key == f"table:{table}"]
        errors = sampled.integers(RELEASES, event=event)
    return f"{charge.epsilon}", float(np.mean(np.abs(errors) <= reached.aim.reach + 1e-9))


def _statistic_errors(product: Any, plan: Any, name: str, sampled: SampledNoise) -> NDArray[np.float64]:
    """Return how far a statistic is off in each release: a cell of made-up rows, drawn again and again."""
    (table,), hours = product.tables, np.random.default_rng(5).integers(0, 101, ROWS)
    exact: Mapping[str, float] = {"count": ROWS, "sum_hours": float(hours.sum()), "mean_hours": float(hours.mean())}
    drawn: dict[str | None, NoisyNumbers] = {}
    for draw in plan.of_table(table.name):
        lattice = draw.addends
        if isinstance(lattice, ValueLattice):
            above = int(hours.sum()) // int(lattice.step)
            true = np.array([above, lattice.width * ROWS - above])
        else:
            true = np.array(ROWS)
        numbers = np.tile(true, (RELEASES, 1)).reshape(RELEASES, *true.shape)
        numbers = numbers + sampled.integers(numbers.size, event=draw.event).reshape(numbers.shape)
        drawn[None if lattice is None else lattice.key] = NoisyNumbers(numbers, draw.event, lattice)
    found = table_values(table, drawn, np.zeros(RELEASES, dtype=np.bool_))
    return np.asarray(found[name] - exact[name], dtype=np.float64)


def _written(aim: PlannedAim, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "city.contract.yaml").write_text(CONTRACT)
    (folder / "places.csv").write_text(PLACES)
    (folder / "spec.yaml").write_text(
        "release: city\ncontract: city.contract.yaml\nsource: {path: rows.parquet}\n"
        f"charge: {{account: city, epsilon: 1, delta: {aim.delta}}}\nproduct: {aim.product}\n"
        "publish: {to: releases/}\n"
    )
    return folder / "spec.yaml"


def main() -> None:
    """Simulate, print and write the table."""
    base: dict[str, Setting] = {**machine("numpy", "scipy"), "releases": RELEASES, "floor": round(FLOOR, 4)}
    rows = []
    with TemporaryDirectory() as place:
        for number, aim in enumerate(AIMS):
            epsilon, share = kept(aim, Path(place) / str(number), noise=SecureBytes())
            _, halved = kept(aim, Path(place) / str(number), noise=SecureBytes(), times=0.5)
            settings: dict[str, Setting] = {**base, "aim": aim.aim, "epsilon": epsilon}
            settings["kept at half the epsilon"] = round(halved, 4)
            what = f"{aim.kind}: releases that keep the aim"
            rows.append(Row(what, round(share, 4), "share", CONFIDENCE, share >= FLOOR > halved, settings=settings))
    write("promised_accuracy", rows)


if __name__ == "__main__":
    main()
