"""Synthetic rows of two linked tables beside two independent releases of the tables, each with half of the charge.

20,000 households are made up, with their people. What people are like depends on the household's columns, and on its
stage of life, which no column tells: so people of one household have more in common than its columns say.
The two independent releases are by the same generator, `mst`: of households, and of people with the columns of their
household beside their own. Nothing says which of these people live together.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks._no_seed import no_seed
from benchmarks._synthetic_ours import KEY, Wanted, _grant
from benchmarks.results import Row, Setting, machine
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.release.linked_rows import LINKED_TABLES, table_pair
from contracts.release.spec import Source
from contracts.release.synthetic import SyntheticProduct
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.rows import LinkedCodes, LinkedErrors, linked_errors
from privacy.generators.calibration import generator, plan_synthetic
from privacy.generators.linked_tables import LinkedModel, LinkedRowPieces
from privacy.generators.rows import read_model
from privacy.marginals.portable import PostProcessingSeed
from privacy.snapshots.snapshot_source import SnapshotSource
from tasks.ingest import ingest

HOUSEHOLDS: Final = 20_000
AT_MOST: Final = 8
EPSILON: Final = Decimal(1)
DELTA: Final = Decimal("1e-9")
SEEDS: Final = (1, 2, 3, 4, 5)
PARENT: Final = {"region": 5, "type": 4, "tenure": 3, "heating": 6}
CHILD: Final = {"age": 10, "sex": 2, "work": 4, "education": 5, "wage": 7}
_DOMAIN: Final = (
    "{{kind: categories, values: [{values}], nulls: {{policy: map, to: c0}}, provenance: {{kind: declared}}}}"
)
_COLUMN: Final = (
    """\
      - name: {name}
        logicalType: string
        customProperties: [{{property: domain, value: """
    + _DOMAIN
    + """}}]
"""
)
_CONTRACT: Final = """\
apiVersion: v3.1.0
kind: DataContract
id: benchmark
name: Benchmark
version: 1.0.0
status: active
description: {{purpose: benchmark, limitations: none, usage: benchmark}}
customProperties:
  - property: privacy
    value:
      unit: {{kind: id, table: household, column: household_id, max_rows_per_unit: 1, scope: block}}
      adjacency: add_remove
      links: [{{from: person.household_id, to: household.household_id, at_most: {at_most}}}]
schema:
  - name: household
    properties:
      - {{name: household_id, logicalType: integer}}
{parents}
      - name: size
        logicalType: integer
        customProperties:
          - property: domain
            value:
              kind: integer
              bounds: [0, {at_most}]
              bins: {{width: 1}}
              nulls: {{policy: map, to: 0}}
              provenance: {{kind: declared}}
          - {{property: derived, value: {{count: person}}}}
  - name: person
    properties:
      - {{name: household_id, logicalType: integer}}
{children}
"""
Codes = NDArray[np.int64]


def households(seed: int = 24) -> tuple[Codes, Codes, Codes]:
    """Make up households and people.

    Returns:
        tuple: codes of the households, shape (households, columns of PARENT), the household of each person, and codes
            of people, shape (people, columns of CHILD); always the same ones.
    """
    chance = np.random.default_rng(seed)
    region = chance.integers(0, 5, HOUSEHOLDS)
    kind = chance.choice(4, HOUSEHOLDS, p=[0.36, 0.28, 0.31, 0.05])
    stage = np.clip(np.rint(chance.normal(np.array([5.5, 5.0, 3.5, 2.5])[kind], 1.6)), 2, 9).astype(int)
    tenure = np.where(chance.random(HOUSEHOLDS) < 0.15 + 0.08 * stage, 0, chance.integers(1, 3, HOUSEHOLDS))
    heating = np.where(chance.random(HOUSEHOLDS) < 0.6, region, chance.integers(0, 6, HOUSEHOLDS))
    sizes = np.array([chance.integers(*each) for each in np.array([(1, 2), (2, 3), (3, 7), (2, 9)])[kind]])
    owner = np.repeat(np.arange(HOUSEHOLDS), sizes)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    place = np.arange(owner.size) - first[owner]
    child = (kind[owner] == 2) & (place >= 2)
    people = owner.size
    grown = np.clip(stage[owner] + chance.integers(-1, 2, people), 2, 9)
    age = np.where(child, chance.integers(0, 2, people), grown)
    sex = np.where(
        (place < 2) & (sizes[owner] > 1), (place + (chance.random(people) < 0.06)) % 2, chance.integers(0, 2, people)
    )
    works = (age >= 2) & (age < 7) & (chance.random(people) < 0.8)
    work = np.where(child, 0, np.where(works, 1 + (chance.random(people) < 0.15), 3))
    education = np.where(child, 0, np.clip(np.rint(chance.normal(2.2 + 0.4 * (tenure[owner] == 0), 1)), 1, 4)).astype(
        int
    )
    pay = 1 + education + (age > 4) + chance.integers(-1, 2, people)
    wage = np.where(works, np.clip(pay, 1, 6), 0)
    return np.stack([region, kind, tenure, heating], 1), owner, np.stack([age, sex, work, education, wage], 1)


def linked_rows() -> list[Row]:
    """Measure both ways at the same charge."""
    with TemporaryDirectory() as name:
        place = _Place(Path(name))
        found = {way: [make(seed) for seed in SEEDS] for way, make in (("one", place.together), ("two", place.apart))}
    rows = []
    for what, read in _FIGURES.items():
        values = {way: np.array([read(each) for each in errors], dtype=float) for way, errors in found.items()}
        settings: dict[str, Setting] = {
            "epsilon": str(EPSILON),
            "delta": str(DELTA),
            "households": HOUSEHOLDS,
            "seeds": len(SEEDS),
            "standard_error": round(float(values["one"].std(ddof=1) / np.sqrt(len(SEEDS))), 5),
            **machine("sudare", "numpy", "duckdb"),
        }
        two = float(values["two"].mean())
        peer = None if np.isnan(two) else round(two, 4)
        one = round(float(values["one"].mean()), 4)
        settings["two_releases"] = peer
        target = None if peer is None else peer
        holds = None if target is None else one <= target
        rows.append(
            Row(f"linked tables: error of {what}", one, "L1 over rows", target=target, holds=holds, settings=settings)
        )
    return rows


_FIGURES: Final[dict[str, Any]] = {
    "sizes": lambda found: found.sizes,
    "pairs of a household's columns": lambda found: found.parents[2].mean,
    "pairs of a household's and a person's column": lambda found: found.across.mean,
    "pairs of a person's columns": lambda found: found.children.mean,
    "pairs of two people of a household": lambda found: np.nan if found.siblings is None else found.sibling_error,
}


class _Place:
    """The made-up tables, taken in once for both bases."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        above, owner, below = households()
        data = folder / "data"
        data.mkdir()
        _write(data / "household.parquet", PARENT, above, np.arange(len(above)))
        _write(data / "person.parquet", CHILD, below, owner)
        path = folder / "contract.odcs.yaml"
        columns = ["\n".join(_column(*each) for each in own.items()) for own in (PARENT, CHILD)]
        path.write_text(_CONTRACT.format(at_most=AT_MOST, parents=columns[0], children=columns[1]))
        contract = load_contract(path)
        self.person, self.household = contract.over("person"), contract.over("household")
        tables = {"household": "household.parquet", "person": "person.parquet"}
        self._source = Source.model_validate(
            {"path": str(data), "tables": tables, "base": "person"}, context={"folder": folder}
        )
        self._tables = {
            contract.table: ingest(
                self._source.model_copy(update={"base": contract.table}),
                contract,
                folder=folder / contract.table,
                key=KEY,
                memory_limit="1GB",
                parents=contract is self.person,
            )
            for contract in (self.person, self.household)
        }
        sizes = np.bincount(owner, minlength=len(above))
        whole = np.column_stack([above, sizes])
        self._real = LinkedCodes(
            EncodedRows((*PARENT, "size"), (*PARENT.values(), AT_MOST + 1), whole),
            self._flat(below, whole[owner]),
            owner,
        )

    def together(self, seed: int) -> LinkedErrors:
        """Make both tables at once."""
        model = self._fit(self.person, LINKED_TABLES, EPSILON, seed)
        if not isinstance(model, LinkedModel):
            raise TypeError("no model of two tables")
        made = LinkedRowPieces(model, self.person, PostProcessingSeed(seed), model.rows)
        pair = table_pair(model.domain.columns, self.person)
        above, below = made.parent_codes.astype(np.int64), made.child_codes.astype(np.int64)
        if pair.parent_columns != (*PARENT, "size"):
            raise ValueError("the columns stand in another order")
        parents = EncodedRows(pair.parent_columns, model.parents.domain.shape, above)
        return self._compared(LinkedCodes(parents, self._flat(below, above[made.owner]), made.owner))

    def apart(self, seed: int) -> LinkedErrors:
        """Make each table by itself, with half of the charge."""
        half = EPSILON / 2
        upper = self._fit(self.household, "mst", half, seed)
        lower = self._fit(self.person, "mst", half, seed + 100)
        parents = EncodedRows(
            upper.domain.columns, upper.domain.shape, upper.sample(upper.rows, seed=seed).astype(np.int64)
        )
        people = lower.sample(lower.rows, seed=seed).astype(np.int64)
        return self._compared(
            LinkedCodes(parents, EncodedRows(lower.domain.columns, lower.domain.shape, people), None)
        )

    def _compared(self, made: LinkedCodes) -> LinkedErrors:
        return linked_errors(self._real, made, size="size")

    def _flat(self, below: Codes, above: Codes) -> EncodedRows:
        names, shape = (*CHILD, *PARENT, "size"), (*CHILD.values(), *PARENT.values(), AT_MOST + 1)
        return EncodedRows(names, shape, np.column_stack([below, above]))

    def _fit(self, contract: Contract, method: str, epsilon: Decimal, seed: int) -> Any:
        """Plan, charge and fit."""
        product = SyntheticProduct.model_validate({"kind": "synthetic", "generator": method})
        made, table = generator(method), self._tables[contract.table]
        plan = plan_synthetic(product, contract, made.options(), epsilon=epsilon, delta=DELTA)
        wanted = replace(_WANTED, method=method, epsilon=epsilon, seed=seed)
        with TemporaryDirectory(dir=self._folder) as own:
            grant = _grant(Path(own), contract, table, plan.events, wanted)
            source = SnapshotSource(table, contract)
            fitted = made.fit(plan.task, plan.options, plan.plan, source, grant, lambda done, what: None, no_seed)
        return read_model(fitted.model.kind, *fitted.model.to_arrays())


_WANTED: Final = Wanted("", {}, EPSILON, DELTA, "add_remove", 0)


def _column(name: str, size: int) -> str:
    return _COLUMN.format(name=name, values=", ".join(f"c{code}" for code in range(size)))


def _write(path: Path, columns: dict[str, int], codes: Codes, keys: Codes) -> None:
    texts = {name: [f"c{code}" for code in codes[:, place]] for place, name in enumerate(columns)}
    pl.DataFrame({"household_id": keys, **texts}).write_parquet(path)
