"""Seven releases of the shipped examples, verified, with a picture of each record: `make gallery`.

It publishes each example into a workspace of its own, checks it as a stranger would, takes the picture in a real
Chromium, and writes docs/gallery.md. A second run finds everything published and takes the pictures again.

    python -m deploy.gallery [WORKSPACE]
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml
from playwright.sync_api import Browser, sync_playwright

from benchmarks.gallery import timed
from benchmarks.results import write

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURES: Final = ROOT / "docs" / "images" / "gallery"
TIMES: Final = ROOT / "benchmarks" / "results" / "gallery.json"
PAGE: Final = ROOT / "docs" / "gallery.md"
BROWSERS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The shell is the same Chromium without its windows; it shows a page for a third of the work."""
_SIZE: Final = {"width": 800, "height": 640}
_COMMAND: Final = (sys.executable, "-c", "from console.main import main; main()")


@dataclass(frozen=True)
class Account:
    """An account as `sudare budget open` takes it."""

    name: str
    population: str
    block: str
    unit: str
    calculus: str
    epsilon: str
    delta: str
    source: str

    @property
    def words(self) -> list[str]:
        """What is typed after `sudare`."""
        terms = [*("--population", self.population), *("--block", self.block), *("--unit", self.unit)]
        terms += [*("--calculus", self.calculus), *("--epsilon", self.epsilon), *("--delta", self.delta)]
        return ["budget", "open", self.name, *terms, "--adjacency", "add_remove", "--source", self.source]


@dataclass(frozen=True)
class Exhibit:
    """One release of the gallery.

    Args:
        spec: its spec, from the root of the repository; ε, δ and the kind of product are read from it.
        what: what it publishes, a phrase.
        people: about whom, and how many; the rows are public, so the number may be told.
        part: the element of its record with which the picture begins, as CSS selects it.
        script: what publishes and verifies it where that is more than a run, from the root; it takes a folder.
    """

    spec: str
    what: str
    people: str
    part: str
    script: str | None = None

    @property
    def terms(self) -> Mapping[str, Any]:
        """The spec as it is written."""
        read: dict[str, Any] = yaml.safe_load((ROOT / self.spec).read_text(encoding="utf-8"))
        return read

    @property
    def name(self) -> str:
        """The release."""
        return str(self.terms["release" if self.script is None else "federation"])

    @property
    def command(self) -> str:
        """What publishes it."""
        if self.script is None:
            return f"sudare run {self.spec} --workspace build/gallery"
        return f"sh {self.script} build/gallery/{self.name}"

    def version(self, workspace: Path) -> Path:
        """Where its latest version lies; a federation's in its coordinator's workspace."""
        own = workspace if self.script is None else workspace / self.name / "coordinator"
        return own / "releases" / self.name / "latest"

    @property
    def picture(self) -> Path:
        """Where its picture lies."""
        return PICTURES / f"{self.name}.png"


ACCOUNTS: Final = (
    Account(
        *("adult-1994", "people in the UCI Adult extract", "1994", "row"),
        *("renyi", "4", "1e-6", "examples/adult/adult.parquet"),
    ),
    Account(
        *("households-2026", "made-up households", "2026", "household_id"),
        *("pure", "3", "0", "examples/households/data"),
    ),
    Account(
        *("sado-2020", "inhabitants of Sado", "2020", "row"), *("pure", "2", "0", "examples/sado/people.parquet")
    ),
)
ADULTS: Final = "48,842 people of UCI Adult"
EXHIBITS: Final = (
    Exhibit("examples/adult/tables.yaml", "three tables of counts", ADULTS, "#table-1"),
    Exhibit("examples/sado/map.yaml", "a map of 8,192 squares", "51,492 inhabitants of Sado, Japan", "figure.map"),
    Exhibit("examples/adult/statistics.yaml", "counts, sums and means with intervals", ADULTS, "#table-1"),
    Exhibit("examples/households/size.yaml", "sizes over two linked tables", "1,000 made-up households", "#table-1"),
    Exhibit("examples/adult/synthetic.yaml", "synthetic rows of nine columns", ADULTS, "#errors"),
    Exhibit("examples/adult/model.yaml", "a classifier of income", ADULTS, "#tables"),
    Exhibit(
        *("examples/federation/federation.yaml", "a table over three registers that keep their rows"),
        *("46,000 people of UCI Adult", "#tables", "examples/federation/federation.sh"),
    ),
)


def find_browser() -> str:
    """Return the Chromium of this machine; without one nothing begins."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        sys.exit(f"make gallery: no browser here ({', '.join(BROWSERS)}): apt-get install chromium-headless-shell")
    return found


def main(workspace: Path) -> None:
    """Publish, verify and picture all."""
    chromium = find_browser()
    publish_all(workspace)
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for exhibit in EXHIBITS:
            take_picture(browser, exhibit, workspace)
        browser.close()
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}\n")


def publish_all(workspace: Path) -> None:
    """Publish and verify all; in a new workspace the seconds of each are written down too."""
    if not (workspace / "sudare.toml").exists():
        _sudare(["init", str(workspace)])
        for account in ACCOUNTS:
            _sudare([*account.words, "--workspace", str(workspace)])
        write("gallery", [timed(each.name, partial(publish, each, workspace)) for each in EXHIBITS])
    else:
        for exhibit in EXHIBITS:
            publish(exhibit, workspace)


def publish(exhibit: Exhibit, workspace: Path) -> None:
    """Publish and verify one release; one that is published already is found."""
    if exhibit.script is not None:
        _typed(["sh", exhibit.script, str(workspace / exhibit.name)])
    else:
        _sudare(["run", exhibit.spec, "--workspace", str(workspace)])
        key = workspace / ".sudare" / "keys" / "signing.pub"
        _sudare(["verify", str(exhibit.version(workspace)), "--key", str(key)])


def take_picture(browser: Browser, exhibit: Exhibit, workspace: Path) -> None:
    """Take the picture of a record, from the top of its part downwards."""
    tab = browser.new_page(viewport=_SIZE, color_scheme="light")  # type: ignore[arg-type]
    tab.goto((exhibit.version(workspace) / "record.html").resolve().as_uri())
    tab.evaluate("part => document.querySelector(part).scrollIntoView()", exhibit.part)
    tab.screenshot(path=exhibit.picture)
    tab.close()


def page() -> str:
    """Return docs/gallery.md: a line each with its seconds, the commands, and the pictures."""
    taken = [row["measured"] for row in json.loads(TIMES.read_text(encoding="utf-8"))]
    rows = "".join(
        f"| [{each.name}](#{each.name}) | {each.what} | {each.people} | {each.terms['charge']['epsilon']:g} "
        f"| {each.terms['charge']['delta']} | {seconds:.0f} |\n"
        for each, seconds in zip(EXHIBITS, taken, strict=True)
    )
    return _HEAD.format(rows=rows) + "".join(map(_shown, EXHIBITS))


def _shown(exhibit: Exhibit) -> str:
    picture = exhibit.picture.relative_to(PAGE.parent).as_posix()
    alt = f"Part of the record of {exhibit.name}: {exhibit.what}"
    return f"\n## {exhibit.name}\n\n    {exhibit.command}\n\n![{alt}]({picture})\n"


def _sudare(words: list[str]) -> None:
    """Type a command of `sudare` at the root of the repository."""
    _typed([*_COMMAND, *words])


def _typed(words: list[str]) -> None:
    """Type a command at the root of the repository; a failure ends the build with what it said."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


_HEAD: Final = """\
# Gallery

Seven releases of public or made-up rows, each with a part of its record. `make gallery` publishes all of them into
`build/gallery`, verifies each, and takes the pictures again. A new workspace draws new noise, so its numbers differ.
The federation needs Flower (`make federation`).

| release | what | about | ε | δ | seconds |
|---|---|---|---|---|---|
{rows}
The seconds are those until it is verified; `benchmarks/results/gallery.json` says on which machine and under
which load. The first four of Adult are charged to one account of ε = 4 at δ = 1e-6. A record is the page
`record.html` beside the data.
"""


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/gallery").resolve())
