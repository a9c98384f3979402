"""A workspace whose releases an engine counts, driven by the command as a person drives it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from contracts.release.source import Source
from sudare_engines.spark_settings import SparkSettings
from tasks.storage.workspace.settings import Workspace
from tests.console.conftest import said
from tests.extensions.sudare_engines.engine_rows import people_contract

PRODUCTS: Final = {
    "tables": "{kind: tables, mechanism: laplace, tables: [[age, sex], [since]], total: noisy, "
    "refine: {method: simplex}}",
    "aim": "{kind: synthetic, generator: aim, options: {rounds: 3}}",
    "mst": "{kind: synthetic, generator: mst}",
    "privbayes": "{kind: synthetic, generator: privbayes}",
    "inside": "{kind: synthetic, generator: mst, inside_bins: {share: 0.2, columns: [wage]}}",
    "spine": "{kind: spine, spine: {column: sex, file: places.csv, levels: [all, sex]}, "
    "tables: [{columns: [age]}, []]}",
    "statistics": "{kind: statistics, tables: [{by: [sex], name: sexes, of: [count, units, {sum: wage, step: 0.5}, "
    "{mean: wage, step: 0.5}, {variance: wage, step: 0.5}, {quantiles: [0.5], of: wage, step: 0.5}, "
    "{distinct: since}]}, "
    "{by: [age], name: ages, of: [{sum: wage, step: 0.1, clip: private}]}]}",
}


@dataclass(frozen=True)
class Place:
    folder: Path
    source: Source

    @property
    def root(self) -> Path:
        return self.folder / "work"

    @property
    def written(self) -> str:
        """The source as a spec writes it, without an engine."""
        if self.source.files is not None:
            return f"path: '{self.source.path}', files: {self.source.files}"
        return f"path: '{self.source.path}', table: {self.source.table}, credentials: {self.source.credentials}"

    def engine(self, settings: SparkSettings | None) -> None:
        file = self.root / "sudare.toml"
        kept = file.read_text().partition("[spark]")[0]
        written = {} if settings is None else {name: str(value) for name, value in vars(settings).items() if value}
        if settings is not None and settings.kind != "cluster":
            written.pop("host")
        file.write_text(kept + "[spark]\n" + "".join(f'{name} = "{value}"\n' for name, value in written.items()))

    def run(self, product: str, *, name: str, engine: str | None = "spark") -> dict[str, Any]:
        """Make a release, or find it made."""
        spec, delta = self.folder / f"{name}.yaml", "0" if product == "tables" else "1e-9"
        spec.write_text(
            f"release: {name}\ncontract: people.odcs.yaml\n"
            f"source: {{{self.written}{f', engine: {engine}' if engine else ''}}}\n"
            f"charge: {{account: town, epsilon: 1, delta: {delta}}}\n"
            f"product: {PRODUCTS[product]}\npublish: {{to: releases}}\n"
        )
        told: dict[str, Any] = json.loads(
            self.sudare("run", str(spec), "--accept-misfits", "--json", "--workspace", str(self.root))
        )
        return told

    def verify(self, version: str) -> None:
        """Check a version as a stranger does."""
        self.sudare("verify", version, "--key", str(self.root / ".sudare/keys/signing.pub"))

    def left_behind(self) -> list[Path]:
        """Return what private parts of runs are still there."""
        runs = self.root / ".sudare" / "runs"
        return [*runs.glob("*/snapshot*"), *runs.glob("*/spill")]

    def sudare(self, *words: str, code: int = 0) -> str:
        """Type a command in this process, and return what it prints."""
        ended = said(*words)
        if ended.code != code:
            raise AssertionError(f"{words[0]} ended with {ended.code}: {ended.err}{ended.out}")
        return ended.out + (ended.err if code else "")


PLACES: Final = "place,parent,level\ntown,,all\nF,town,sex\nM,town,sex\n(null),town,sex\n"
"""The places of a spine: the labels of a column."""


def make_place(folder: Path, source: Source) -> Place:
    """Make the workspace, the contract and an account with room for some releases; they run on the tests' server."""
    place = Place(folder, source)
    people_contract(folder)
    (folder / "places.csv").write_text(PLACES)
    where = ("--workspace", str(place.root))
    opened = ("--population", "people", "--block", "2024", "--unit", "person", "--adjacency", "add_remove")
    cap = ("--calculus", "renyi", "--epsilon", "20", "--delta", "1e-6", "--source", source.name)
    Workspace.create(place.root)
    place.sudare("budget", "open", "town", *opened, *cap, *where)
    return place
