"""Does `verify` notice every mutation of a published version, and how long does it take?

The shipped example is published into a temporary folder. Then it is mutated, one change at a time, each undone before
the next (benchmarks/mutations.py): single bytes flipped, files dropped, swapped, cut, added or replaced by links,
numbers of the record edited, everything signed again with another key, the journal truncated, values of any JSON
rewritten, files of another version put in, forks signed by another key under the publisher's name. In the two signed
files every byte is flipped once more, in the bit that tells small letters from capitals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from benchmarks._mutation import Mutation, Pristine
from benchmarks.mutations import mutations
from benchmarks.results import Row, Setting, machine, write
from contracts.contract.odcs import load_contract
from contracts.periods.time_blocks import time_block
from contracts.release.spec import load_spec
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus, best_order
from privacy.ledger.terms import AccountTerms
from privacy.table_plans.plan import plan_tables
from tasks.charge import charge
from tasks.ingest import ingest
from tasks.products.charge_request import run_key
from tasks.products.tables.table_measurement import measure
from tasks.products.tables.table_refinement import refine
from tasks.publish import publish
from tasks.records.facts import Outputs
from tasks.records.ledger_facts import gather
from tasks.records.private_record import AuditorRecords
from tasks.records.software import software
from tasks.report import report
from tasks.storage.workspace.settings import Workspace
from tasks.verify import check_staged, read_public_key, verify

EXAMPLES: Final = Path(__file__).parents[1] / "examples" / "adult"
FLIPS: Final = 1500
EDITS: Final = 350
SEED: Final = 1
REPEATS: Final = 7
EPSILON: Final = 3
DELTA: Final = Fraction(1, 10**9)


def main() -> None:
    """Flip, time, and write results/verify_mutations.json."""
    with TemporaryDirectory() as folder:
        workspace = Workspace.create(Path(folder) / "workspace")
        key = read_public_key(workspace.public_key_file)
        tables, wide = (_published(workspace, name) for name in ("tables.yaml", "wide.yaml"))
        version = Pristine(tables)
        others = {"the wide table": Pristine(wide).files}
        rows = _caught(version, key, mutations(version, flips=FLIPS, edits=EDITS, seed=SEED, others=others))
        rows += _caught(version, key, _letter_case(version))
        rows += [_seconds(tables, key, "three tables"), _seconds(wide, key, "one wide table")]
    write("verify_mutations", rows)


def _published(workspace: Workspace, name: str) -> Path:
    """Publish one example, without an orchestrator, and return the version's folder."""
    spec = load_spec(EXAMPLES / name)
    contract = load_contract(spec.contract)
    plan = plan_tables(spec, contract)
    ledger = workspace.open_ledger()
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
    facts = gather(ledger, spec, contract, plan, version, Outputs(tuple(measured), refined), (), software())
    signer = workspace.signer()
    auditors = AuditorRecords(workspace.records, signer)
    made = publish(
        ledger,
        signer,
        key,
        workspace.releases,
        lambda staging, _version: report(facts, folder=staging, auditors=auditors),
        check=check_staged,
    )
    ledger.close()
    return made.folder


def _caught(version: Pristine, key: str, changes: Iterable[Mutation]) -> list[Row]:
    """Make each change; count by kind how many were refused, and how many with a finding that names a file of it."""
    tried, caught, named = Counter[str](), Counter[str](), Counter[str]()
    for change in changes:
        change.apply(version.folder)
        found = verify(version.folder, public_key=key)
        version.restore()
        tried[change.kind] += 1
        caught[change.kind] += not found.ok
        named[change.kind] += bool(change.names & {finding.where for finding in found.findings})
        if found.ok:
            print(f"not noticed: {change.kind}: {change.told}")
    rows = []
    for kind, number in tried.items():
        settings = _settings(version.folder) | {"mutations": number, "seed": SEED}
        for outcome, counted in (("refused", caught), ("refused, naming the file", named)):
            done = counted[kind]
            row = Row(f"{kind}: {outcome}", done, "mutations", number, holds=done == number, settings=settings)
            rows.append(row)
    return rows


def _letter_case(version: Pristine) -> Iterable[Mutation]:
    """Flip one bit of every byte of the signed files."""
    for name in ("MANIFEST.json", "PROOF.json"):
        content = version.files[name]
        for place, byte in enumerate(content):
            changed = content[:place] + bytes([byte ^ 0x20]) + content[place + 1 :]
            yield Mutation(
                "case bit of every byte of MANIFEST.json and PROOF.json",
                f"byte {place} of {name}",
                lambda folder, name=name, changed=changed: (folder / name).write_bytes(changed),
                frozenset({name}),
            )


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
