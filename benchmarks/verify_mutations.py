"""Does `verify` notice every flipped byte of a published version, and how long does it take?

The shipped example is published into a temporary folder; then single bytes are flipped, one at a time: half of them
drawn uniformly over all bytes of the version, half over its files first, so that small files count too. In the two
signed files every byte is flipped once more, in the bit that tells small letters from capitals.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from benchmarks.results import Row, Setting, machine, write
from contracts.blocks import time_block
from contracts.odcs import load_contract
from contracts.spec import load_spec
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus, best_order
from privacy.ledger.ledger import Ledger
from privacy.ledger.signing import Signer
from privacy.ledger.terms import AccountTerms
from privacy.marginals.plan import plan_tables
from tasks.charge import charge, run_key
from tasks.facts import Made, gather
from tasks.ingest import ingest
from tasks.measure import measure
from tasks.publish import publish
from tasks.refine import refine
from tasks.report import report
from tasks.settings import Workspace
from tasks.verify import read_public_key, verify
from tasks.version.software import software

EXAMPLES: Final = Path(__file__).parents[1] / "examples" / "adult"
FLIPS: Final = 1500
SEED: Final = 1
REPEATS: Final = 7
EPSILON: Final = 3
DELTA: Final = Fraction(1, 10**9)
Flip = tuple[Path, int, int]


def main() -> None:
    """Flip, time, and write results/verify_mutations.json."""
    with TemporaryDirectory() as folder:
        workspace = Workspace.create(Path(folder) / "workspace")
        key = read_public_key(workspace.public_key_file)
        tables, wide = (_published(workspace, name) for name in ("tables.yaml", "wide.yaml"))
        rows = _flips(tables, key, _anywhere(tables), "random flips anywhere")
        rows += _flips(tables, key, _letter_case(tables), "case bit of every byte of MANIFEST.json and PROOF.json")
        rows += [_seconds(tables, key, "three tables"), _seconds(wide, key, "one wide table")]
    write("verify_mutations", rows)


def _published(workspace: Workspace, name: str) -> Path:
    """Publish one example, without an orchestrator, and return the version's folder."""
    spec = load_spec(EXAMPLES / name)
    contract = load_contract(spec.contract)
    plan = plan_tables(spec, contract)
    ledger = Ledger(workspace.ledger_url, draws=workspace.draws)
    calculus = RenyiCalculus(best_order(EPSILON, DELTA))
    delta = int(DELTA * ATTO)
    ledger.open_account(
        AccountTerms(
            spec.charge.account, "adults", "1994", "row", contract.adjacency, calculus, EPSILON * PICO, delta
        )
    )
    ledger.bind_source(spec.source.name, "adults", time_block("1994"))
    runs = workspace.runs / name
    table = ingest(spec.source, contract, folder=runs, key=workspace.snapshot_key(), memory_limit="1GB")
    measured = measure(charge(ledger, spec, contract, plan, table), plan, table, contract)
    key = run_key(spec, contract, table)
    refined = refine(spec.tables_product, plan, contract, measured)
    version = ledger.allocate_version(key)
    facts = gather(ledger, spec, contract, plan, version, Made(tuple(measured), refined), (), software())
    made = publish(
        ledger,
        Signer(workspace.signing_seed()),
        key,
        workspace.releases,
        lambda staging, _version: report(facts, folder=staging, private_folder=runs),
    )
    ledger.close()
    return made.folder


def _flips(folder: Path, key: str, places: Sequence[Flip], what: str) -> list[Row]:
    """Flip bytes and count how many were noticed, and how many with a finding that names the file."""
    caught = named = 0
    for path, place, mask in places:
        original = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(original[:place] + bytes([original[place] ^ mask]) + original[place + 1 :])
        found = verify(folder, public_key=key)
        path.write_bytes(original)
        caught += not found.ok
        named += path.relative_to(folder).as_posix() in {finding.where for finding in found.findings}
    settings = _settings(folder) | {"flips": len(places), "seed": SEED}
    return [
        Row(f"{what}: {outcome}", number, "flips", len(places), holds=number == len(places), settings=settings)
        for outcome, number in (("refused", caught), ("refused, naming the file", named))
    ]


def _anywhere(folder: Path) -> list[Flip]:
    """Choose bytes of the version at random, and what they are flipped by."""
    rng = random.Random(SEED)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sizes = [path.stat().st_size for path in files]
    flips = []
    for number in range(FLIPS):
        [place] = rng.choices(range(len(files)), sizes if number % 2 else None)
        flips.append((files[place], rng.randrange(sizes[place]), rng.randrange(1, 256)))
    return flips


def _letter_case(folder: Path) -> list[Flip]:
    """Choose every byte of the signed files."""
    paths = [folder / name for name in ("MANIFEST.json", "PROOF.json")]
    return [(path, place, 0x20) for path in paths for place in range(path.stat().st_size)]


def _seconds(folder: Path, key: str, what: str) -> Row:
    """Time the verification of an untouched version: the median of the repeats, after one to warm up."""
    seconds = []
    for _ in range(REPEATS + 1):
        start = perf_counter()
        holds = verify(folder, public_key=key).ok
        seconds.append(perf_counter() - start)
        if not holds:
            raise SystemExit(f"the untouched version of {what} does not verify")
    settings = _settings(folder) | {"repeats": REPEATS, "statistic": "median"}
    return Row(f"verify an untouched version: {what}", round(median(seconds[1:]), 4), "s", settings=settings)


def _settings(folder: Path) -> dict[str, Setting]:
    """Describe the version and the machine."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    version: dict[str, Setting] = {"release": folder.parent.name, "files": len(sizes), "bytes": sum(sizes)}
    return version | machine("numpy", "pyarrow", "cryptography", "pydantic")


if __name__ == "__main__":
    main()
