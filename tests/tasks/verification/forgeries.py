"""Forgeries by a publisher with the right key: what is changed consistently, and the rules that find it."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.tasks.verification.forgery import (
    Change,
    Forgery,
    Json,
    both,
    cell,
    digest_of,
    drawn,
    edit,
    edit_table,
    of_kind,
    replay,
    rewritten,
    set_cell,
)


def claim(epsilon: int) -> Change:
    return replay(lambda r: r["claim"].update(epsilon=epsilon))


def amounts(**changed: int) -> Change:
    return replay(lambda r: r.update(changed))


def in_charge(**changed: Any) -> Change:
    return lambda entries: of_kind(entries, "charge_reserved").update(changed)


def taken(**changed: Any) -> Change:
    """Change what the journal says that the charge took from its account."""
    return lambda entries: of_kind(entries, "charge_reserved")["parts"][0].update(changed)


def opened(**changed: Any) -> Change:
    return lambda entries: of_kind(entries, "account_opened").update(changed)


def cost_of_second(cost: int) -> Change:
    """Change what the journal says that the second draw cost."""

    def change(entries: list[Json]) -> None:
        costs = [each["body"] for each in entries if each["kind"] == "noise_drawn"][1]["costs"]
        costs.update(dict.fromkeys(costs, cost))

    return change


def without(kind: str) -> Change:
    return lambda entries: entries.remove(next(each for each in entries if each["kind"] == kind))


def event(number: int, change: Change | None = None, **changed: Any) -> tuple[Change, Change]:
    """Change an event wherever it stands: in the record, in the charge's plan, in the draw's entry."""
    change = change or (lambda event: event.update(changed))

    def in_journal(entries: list[Json]) -> None:
        change(of_kind(entries, "charge_reserved")["events"][number])
        change([e["body"] for e in entries if e["kind"] == "noise_drawn"][number]["event"])

    return replay(lambda r: change(r["draws"][number]["event"])), in_journal


def refined(row: int, by: int) -> Forgery:
    """Move `by` rows between two cells of a refined table; the record and all checksums agree with it."""

    def files(folder: Path) -> None:
        path = folder / "data" / "age.parquet"
        counts = pq.read_table(path).column("count").to_numpy()
        set_cell(path, "count", row, counts[row] + by)
        set_cell(path, "count", row + 1, counts[row + 1] - by)
        digest = digest_of(path, "count")
        edit(folder / "record.json", lambda record: record["replay"]["tables"][0].update(sha256=digest))

    return Forgery({9}, files=files, says=f"row {row + 1}", where={"data/age.parquet"})


def distance(draw: str, **changed: str) -> Change:
    """State another distance of published counts to noisy ones."""
    return replay(lambda r: r["distances"][draw].update(changed))


def table(**changed: Any) -> Change:
    """State something else of the first table."""
    return replay(lambda r: r["tables"][0].update(changed))


def product(change: Change | None = None, **changed: Any) -> Change:
    """State something else of what the spec asked for."""
    return replay(lambda r: change(r["product"]) if change else r["product"].update(changed))


def total(**changed: Any) -> Change:
    return replay(lambda r: r["total"].update(changed))


def contract(**changed: Any) -> Change:
    return replay(lambda r: r["contract"].update(changed))


def calculus(**stated: Any) -> tuple[Change, Change]:
    """State another calculus of the account, in the record and where it was opened."""
    return replay(lambda r: r.update(calculus=stated)), opened(calculus=stated)


def in_copy(before: str, after: str) -> Callable[[Path], object]:
    return rewritten("data/hired.csv", before.encode(), after.encode())


def of_terms(rational: str, factor: int) -> str:
    """Write the same rational number in other terms."""
    fraction = Fraction(rational)
    return f"{fraction.numerator * factor}/{fraction.denominator * factor}"


def table_file(name: str, change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], object]:
    return lambda folder: edit_table(folder / name, change)


MEASURED = "measurements/age.parquet"
FORGERIES = {
    "the public record holds values for auditors": Forgery(
        {5}, lambda r: r.update(auditor={"source.source_path": "people.csv"}), says="values for auditors only"
    ),
    "the record commits to no full record": Forgery({5}, lambda r: r.pop("auditor_commitment"), says="commitment"),
    "the record supersedes another version than the journal says": Forgery(
        {5}, lambda r: r.update(supersedes=7), says="supersedes"
    ),
    "the record leaves a data file out": Forgery({5}, lambda r: r["files"].pop(), says="listed nowhere"),
    "the record lists a data file twice": Forgery(
        {5}, lambda r: r["files"].append(r["files"][0]), says="listed twice"
    ),
    "the record states other rows of a data file than it has": Forgery(
        {9}, lambda r: r["files"][0].update(rows=3), says="rows"
    ),
    "the record states other columns of a Parquet file than it has": Forgery(
        {9}, lambda r: r["files"][0]["columns"][0].update(name="income"), says="columns"
    ),
    "the record states fewer columns of a CSV file than it has": Forgery(
        {9},
        lambda r: next(f for f in r["files"] if f["path"].endswith(".csv"))["columns"].pop(),
        of="guild",
        says="columns",
    ),
    "the record has a part that its schema does not know": Forgery(
        {5}, lambda r: r.update(summary="epsilon is 0.1"), says="summary"
    ),
    "the record declares what its schema does not know": Forgery(
        {5}, lambda r: r["declarations"].update(safe=True), says="declarations.safe"
    ),
    "the record has no declarations": Forgery({5}, lambda r: r.pop("declarations"), says="declarations"),
    "the stated mean distance to the noisy values is not theirs": Forgery(
        {9}, distance("table:age", mean_absolute="0.001"), says="replay.distances, table:age: mean_absolute"
    ),
    "the stated RMSE to the noisy values is not theirs, in consistent tables": Forgery(
        {9}, distance("table:pay", rmse="0.001"), of="guild", says="table:pay: rmse"
    ),
    "the record states no distance to the noisy values": Forgery(
        {9}, replay(lambda r: r["distances"].clear()), says="table:age"
    ),
    "a table is said to keep a total that it does not keep": Forgery({9}, table(total=3), says="age: total"),
    "a table has a note that its refinement did not leave": Forgery(
        {9}, table(notes=["all is well"]), says="age: notes"
    ),
    "cells are said to be suppressed, and are not": Forgery({9}, table(suppressed=4), says="age: suppressed"),
    "the standard error of the total is smaller than recomputed": Forgery(
        {9}, total(standard_error="0.1"), says="total.standard_error"
    ),
    "the claim is smaller than what the events cost": Forgery(
        {7}, claim(9 * 10**11), in_charge(epsilon=9 * 10**11), says="0.9"
    ),
    "the claim is smaller than what Gaussian events cost": Forgery(
        {7}, claim(2 * 10**12), in_charge(epsilon=2 * 10**12), of="guild", says="2"
    ),
    "the claim is not that of the charge in the journal": Forgery(
        {7}, claim(2 * 10**12), says="the charge in the journal"
    ),
    "the claim is larger than the spec's charge": Forgery(
        {7}, claim(2 * 10**12), in_charge(epsilon=2 * 10**12), says="spec's charge"
    ),
    "the claim's delta is smaller than that of the charge in the journal": Forgery(
        {7}, replay(lambda r: r["claim"].update(delta=1)), of="guild", says="claim.delta"
    ),
    "what an account had lost and the amount do not add up to what it has lost after": Forgery(
        {7}, amounts(after=5 * 10**11), taken(after=5 * 10**11), says="before and amount"
    ),
    "the account has lost more than its cap": Forgery(
        {7}, amounts(cap=5 * 10**11), opened(cap=5 * 10**11), says="the account is overspent"
    ),
    "the record states a larger cap than the journal": Forgery({7}, amounts(cap=9 * 10**12), says="replay.cap"),
    "the cap is larger than the epsilon with which the account was opened": Forgery(
        {7}, amounts(cap=9 * 10**12), opened(cap=9 * 10**12), says="with which the account was opened"
    ),
    "the Rényi cap is larger than the epsilon with which the account was opened": Forgery(
        {7}, journal=opened(epsilon=10**11), of="guild", says="with which the account was opened"
    ),
    "the account was opened for another relation of neighbours than the charge's": Forgery(
        {7}, journal=opened(adjacency="replace_one"), says="as the charge says"
    ),
    "the account was opened for another privacy unit than the charge's": Forgery(
        {7}, journal=opened(unit="household"), says="as the charge says"
    ),
    "the account was opened for other people than the charge's": Forgery(
        {7}, journal=opened(population="firms"), says="population"
    ),
    "the charge is for other people than the account's": Forgery(
        {7}, journal=in_charge(population="firms"), says="as the charge says"
    ),
    "the cap is smaller than the epsilon with which the account was opened": Forgery(
        {7}, journal=opened(epsilon=9 * 10**12), says="with which the account was opened"
    ),
    "the account was opened with more spent than its cap": Forgery({7}, journal=opened(spent=10**15), says="its cap"),
    "the record leaves out earlier charges of the account": Forgery(
        {7}, lambda r: r["declarations"].update(earlier_charges=[]), of="guild", says="had lost before"
    ),
    "a charge may give back more than was taken before": Forgery(
        {7}, journal=taken(returnable=10**9), says="all that was taken before"
    ),
    "the charge's public total is not the contract's": Forgery(
        {5}, journal=in_charge(public_total=17), of="extract", says="replay.contract, total"
    ),
    "the charge has a public total that the contract does not declare": Forgery(
        {5}, journal=in_charge(public_total=17), says="replay.contract, total"
    ),
    "the account's block is no time block": Forgery({7}, journal=opened(block="soon"), says="a time block"),
    "the charged account was never opened": Forgery(
        {4, 7}, journal=without("account_opened"), says="those of 'town-2024'"
    ),
    "another account was opened than the one that was charged": Forgery(
        {4, 7}, journal=opened(name="other"), says="openings of 'other'"
    ),
    "the charge is smaller than what its draws cost": Forgery(
        {7}, amounts(amount=10**11, after=10**11), taken(amount=10**11, after=10**11), says="what its draws cost"
    ),
    "a draw is entered for less than its event costs": Forgery(
        {7},
        both(drawn(1, cost=5), amounts(amount=525_000_000_005, after=525_000_000_005)),
        both(cost_of_second(5), taken(amount=525_000_000_005, after=525_000_000_005)),
        says="recomputed from the event",
    ),
    "the loss is infinite in the account's calculus": Forgery(
        {7}, *calculus(kind="pure"), of="guild", says="a finite loss"
    ),
    "the account's calculus is not a known one": Forgery({7}, *calculus(kind="free"), says="kind pure"),
    "the claim has no delta, and Gaussian noise needs one": Forgery(
        {7}, replay(lambda r: r["claim"].update(delta=0)), in_charge(delta=0), of="guild", says="an infinite loss"
    ),
    "the spec's charge is not a number": Forgery(
        {7}, replay(lambda r: r["charge"].update(epsilon="lots")), says="'lots'"
    ),
    "a draw's event is not that of noise": Forgery(
        {6}, drawn(1, event={"kind": "pure", "epsilon": "1"}), says="noise that was drawn"
    ),
    "a draw's event cannot be read": Forgery({6}, drawn(1, "event", moves=[0]), says="event of discrete Laplace"),
    "the product names another kind of noise than was drawn": Forgery(
        {6}, product(mechanism="gaussian"), says="gaussian, as the product says"
    ),
    "a table of the product has a column that the contract does not have": Forgery(
        {5}, product(lambda p: p["tables"][0].update(columns=["salary"])), says="salary"
    ),
    "the product is of no known kind": Forgery({5}, product(kind="report"), says="replay.product"),
    "the product is not written in its one form": Forgery(
        {5}, product(lambda p: p["refine"].pop("lambda_")), says="another form"
    ),
    "the spec charges another account than the journal": Forgery(
        {5, 6}, replay(lambda r: r["charge"].update(account="other")), says="charge.account"
    ),
    "an event understates how many cells a unit moves": Forgery(
        {6, 7, 10}, *event(0, moves=[1]), of="extract", says="[1, 1]"
    ),
    "a draw's event is not the one that was planned and entered": Forgery(
        {6, 8, 9}, drawn(1, "event", inverse_scale="1/100"), says="inverse_scale"
    ),
    "the record has fewer draws than were charged": Forgery(
        {6}, replay(lambda r: r["draws"].pop()), says="number of draws"
    ),
    "the journal lacks a draw of the record": Forgery(
        {6, 7}, journal=lambda entries: entries.pop(-2), says="number of draws"
    ),
    "the recorded contract is not the one with its digest": Forgery(
        {5, 10}, contract(adjacency="replace_one"), says="digest of the recorded contract"
    ),
    "the recorded contract cannot be read as one": Forgery({5}, contract(columns=[]), says="contract.columns"),
    "the record is of another version than the manifest": Forgery(
        {5}, lambda record: record.update(version=9), says="as the predicate in MANIFEST.json says"
    ),
    "the recorded contract's unit cannot be read as one": Forgery(
        {5}, contract(unit="row"), says="replay.contract.unit"
    ),
    "the record has a schema that is not known": Forgery(
        {5}, lambda r: r.update(schema="sudare-record/9"), says="sudare-record/9"
    ),
    "the product has fewer tables than were published": Forgery(
        {5, 6, 10}, product(lambda p: p["tables"].pop()), says="as the product says"
    ),
    "a table's method of refinement is not the product's": Forgery(
        {5}, table(method="none"), says="tables[0].method"
    ),
    "a table's lambda is not the product's": Forgery(
        {5}, table(**{"lambda": "0.25"}), of="guild", says="tables[0].lambda"
    ),
    "a table's lambda is not the one that its noisy values lead to": Forgery(
        {9}, table(**{"lambda": "0.25"}), of="chosen", says="lambda"
    ),
    "a lambda is said to be the product's, and was chosen by the noisy values": Forgery(
        {9}, table(chosen=None, estimated_rmse={}), of="chosen", says="lambda by auto"
    ),
    "a lambda is said to be chosen for a sparsity, and was not": Forgery(
        {9}, replay(lambda r: r["tables"][1]["chosen"].update(by="sparsity")), of="chosen", says="lambda by auto"
    ),
    "an estimated error is smaller than recomputed": Forgery(
        {9}, table(estimated_rmse={"negative_l2": "0.001"}), of="chosen", says="estimated_rmse of negative_l2"
    ),
    "a table's method is not the one that its noisy values pick": Forgery(
        {9}, table(method="none"), of="extract", says="method"
    ),
    "the estimated error of a candidate method is left out": Forgery(
        {9}, replay(lambda r: r["tables"][0]["estimated_rmse"].pop("simplex")), of="extract", says="simplex"
    ),
    "the product names a lambda, and the table has another": Forgery(
        {5}, product(lambda p: p["refine"].update(lambda_="0.25")), of="chosen", says="tables[0].lambda"
    ),
    "a data file is published that the record does not speak of": Forgery(
        {5, 10}, files=lambda f: (f / "data" / "more.csv").write_text("x"), says="more.csv"
    ),
    "refined values are far from those that the noisy values lead to": refined(2, 500),
    "refined values are one off those that the noisy values lead to": refined(0, 1),
    "a refined value is not the one whose digest is in the record": Forgery(
        {9}, files=cell("data/age.parquet", "count", 3, 10**6), says="SHA-256"
    ),
    "the stated total is not the noisy one": Forgery({9}, total(value=17), says="total.value"),
    "the stated total is not the declared one": Forgery({9}, total(value=17), of="extract", says="total.value"),
    "the record states no total, and the product has one": Forgery(
        {9}, total(kind="none", value=None), says="total.kind"
    ),
    "noisy values are not those that were entered when they were drawn": Forgery(
        {8, 9}, files=cell(MEASURED, "noisy", 2, 10**6), says="when it was drawn"
    ),
    "a measurement's variance is smaller than its event's": Forgery(
        {8}, files=cell(MEASURED, "variance", 3, 0.5), says="column variance, row 4"
    ),
    "a measurement's interval is not the one that its event gives": Forgery(
        {8}, files=cell(MEASURED, "upper", 0, 10**7), says="column upper, row 1"
    ),
    "the lower end of a refined count's interval is not the recomputed one": Forgery(
        {9}, files=cell("data/age.parquet", "lower", 1, 10**7), says="column lower, row 2"
    ),
    "the upper end of a refined count's interval is not the recomputed one": Forgery(
        {9}, files=cell("data/age.parquet", "upper", 1, 10**7), says="column upper, row 2"
    ),
    "an interval in a CSV copy is not that of its table": Forgery(
        {9}, files=in_copy("\n2020-Q3,", "9\n2020-Q3,"), of="guild", says="data/hired.csv: column upper, row 2"
    ),
    "a cell is marked impossible that the contract allows": Forgery(
        {8}, files=cell(MEASURED, "structural_zero", 9, True), says="column structural_zero, row 10"
    ),
    "a count in a CSV copy is not that of its table": Forgery(
        {9}, files=in_copy("\n2020-Q2,", "\n2020-Q2,9"), of="guild", says="data/hired.csv: column count, row 2"
    ),
    "a CSV copy cannot be read as CSV": Forgery(
        {9}, files=lambda f: (f / "data/hired.csv").write_bytes(b"\xff\x00,\n"), of="guild", where={"data/hired.csv"}
    ),
    "the rows of a table are in another order than the contract's": Forgery(
        {9}, files=table_file("data/age.parquet", lambda t: t.take(list(range(9, -1, -1)))), says="row-major"
    ),
    "a table of measurements lacks rows": Forgery(
        {8}, files=table_file(MEASURED, lambda t: t.slice(0, 5)), says="one for each cell"
    ),
    "a table of measurements has a column more": Forgery(
        {8}, files=table_file(MEASURED, lambda t: t.append_column("exact", t.column("noisy"))), says="exact"
    ),
    "a column of a table has another type": Forgery(
        {9},
        files=table_file("data/age.parquet", lambda t: t.set_column(1, "count", t.column(1).cast(pa.float64()))),
        says="double",
    ),
    "the labels of a table are numbers": Forgery(
        {9}, files=table_file("data/age.parquet", lambda t: t.set_column(0, "age", t.column(1))), says="string"
    ),
    "a measurement's variance is missing": Forgery(
        {8},
        files=table_file(
            MEASURED, lambda t: t.set_column(2, "variance", pa.array([None, *np.ones(9)], pa.float64()))
        ),
        says="a value in every row",
    ),
    "a table of measurements cannot be read as Parquet": Forgery(
        {8}, files=lambda f: (f / MEASURED).write_bytes(b"PAR1" + bytes(50) + b"PAR1"), where={MEASURED}
    ),
    "a table's Parquet file is cut off": Forgery(
        {9},
        files=lambda f: (f / "data/age.parquet").write_bytes((f / "data/age.parquet").read_bytes()[:-9]),
        where={"data/age.parquet"},
    ),
    "the noise was drawn from a seeded generator": Forgery(
        {4}, journal=lambda e: of_kind(e, "grant_opened").update(security="seeded"), says="csprng"
    ),
    "the entries are of two runs": Forgery({4}, journal=in_charge(run_key="other"), says="the charge's"),
    "the journal published another release than the manifest's": Forgery(
        {4}, journal=lambda e: of_kind(e, "version_published").update(release="other"), says="as in MANIFEST.json"
    ),
    "the journal published another version number than the manifest's": Forgery(
        {4}, journal=lambda e: of_kind(e, "version_published").update(number=7), says="as in MANIFEST.json"
    ),
    "a stated error has more digits than its one form": Forgery(
        {5},
        record=replay(lambda r: next(iter(r["distances"].values())).update(rmse="12.2459000000000482130017")),
        says="one form: 12.2459",
        where={"record.json"},
    ),
    "the spec's epsilon is not written in its one form": Forgery(
        {7}, record=replay(lambda r: r["charge"].update(epsilon=f"0{r['charge']['epsilon']}")), says="the one form"
    ),
    "the spec's delta of zero is not written in its one form": Forgery(
        {7}, record=replay(lambda r: r["charge"].update(delta="0e-1")), says="0, the one form"
    ),
    "a rational number of an event is not in lowest terms": Forgery(
        {7, 10}, *event(0, lambda e: e.update(inverse_scale=of_terms(e["inverse_scale"], 48213))), says="lowest terms"
    ),
    "the record lists the data files in another order than that of their paths": Forgery(
        {5}, record=lambda r: r["files"].reverse(), says="in the order of their paths", where={"record.json"}
    ),
    "a key without a value is left out of the record": Forgery(
        {5}, record=replay(lambda r: r["draws"][0].pop("listed")), says="listed", where={"record.json"}
    ),
    "an entry's time is not a full hour": Forgery(
        {4}, journal=lambda e: e[-1].update(at=f"{e[-1]['at'][:14]}12:34Z"), says="12:34Z", where={"PROOF.json"}
    ),
    "an entry's time has a text after it": Forgery(
        {4}, journal=lambda e: e[0].update(at=f"{e[0]['at']} rows=48213"), says="rows=48213", where={"PROOF.json"}
    ),
    "an entry's day is not in the calendar": Forgery(
        {4}, journal=lambda e: e[0].update(at="0021-17-48T21:00:00Z"), says="0021-17-48", where={"PROOF.json"}
    ),
    "the times of the entries run backwards": Forgery(
        {4},
        journal=lambda e: [x.update(at=f"2026-03-04T{20 - place:02}:00:00Z") for place, x in enumerate(e)],
        says="in the order of the entries",
        where={"PROOF.json"},
    ),
    "the journal has no opening of the grant": Forgery({4}, journal=without("grant_opened"), says="grant_opened"),
    "the journal has the charge twice": Forgery({4}, journal=lambda e: e.insert(1, {**e[1]}), says="in this order"),
    "the numbers of the draws have a gap": Forgery(
        {4, 6},
        journal=lambda e: [x["body"] for x in e if x["kind"] == "noise_drawn"][1].update(number=2),
        says="without gap",
    ),
    "two draws are entered under one key": Forgery(
        {4, 6},
        journal=lambda e: [x["body"] for x in e if x["kind"] == "noise_drawn"][1].update(key="table:age"),
        says="twice",
    ),
    "an entry is of an unknown kind": Forgery(
        {4}, journal=lambda e: e[2].update(kind="noise_lost"), says="noise_lost"
    ),
    "an entry's body lacks a field": Forgery({4}, journal=lambda e: e[1]["body"].pop("parts"), says="parts"),
    "an entry's body has a field more": Forgery({4}, journal=in_charge(remark="all is well"), says="remark"),
    "a part of an entry's body has a field more": Forgery(
        {4}, journal=taken(remark="all is well"), says="parts[0].remark"
    ),
}
