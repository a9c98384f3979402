"""Forgeries by a publisher with the right key: what is changed consistently, and the rules that find it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.tasks.verification.forgery import (
    Change,
    Json,
    both,
    digest_of,
    edit,
    edit_table,
    nothing,
    of_kind,
    replay,
    set_cell,
)


@dataclass
class Forgery:
    """One consistent forgery, and the rules that must find it."""

    rules: set[int]
    record: Change = nothing
    journal: Change = nothing
    manifest: Change = nothing
    files: Callable[[Path], object] = nothing
    of: str = "town"
    says: str = ""
    where: set[str] = field(default_factory=set)


def claim(epsilon: int) -> Change:
    """Claim another epsilon."""
    return replay(lambda r: r["claim"].update(epsilon=epsilon))


def amounts(**changed: int) -> Change:
    """State other amounts."""
    return replay(lambda r: r.update(changed))


def in_charge(**changed: Any) -> Change:
    return lambda entries: of_kind(entries, "charge_reserved").update(changed)


def taken(**changed: Any) -> Change:
    """Change what the journal says that the charge took from its account."""
    return lambda entries: of_kind(entries, "charge_reserved")["parts"][0].update(changed)


def opened(**changed: Any) -> Change:
    """Change what the journal says that the account was opened with."""
    return lambda entries: of_kind(entries, "account_opened").update(changed)


def cost_of_second(cost: int) -> Change:
    """Change what the journal says that the second draw cost."""

    def change(entries: list[Json]) -> None:
        costs = [each["body"] for each in entries if each["kind"] == "noise_drawn"][1]["costs"]
        costs.update(dict.fromkeys(costs, cost))

    return change


def without(kind: str) -> Change:
    return lambda entries: entries.remove(next(each for each in entries if each["kind"] == kind))


def event(number: int, change: Change) -> tuple[Change, Change]:
    """Change an event wherever it stands: in the record, in the charge's plan, in the draw's entry."""

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


def of_terms(rational: str, factor: int) -> str:
    """Write the same rational number in other terms."""
    fraction = Fraction(rational)
    return f"{fraction.numerator * factor}/{fraction.denominator * factor}"


def set_moves(entry: Json) -> None:
    entry["moves"] = [1]


def table_file(name: str, change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], object]:
    return lambda folder: edit_table(folder / name, change)


def cell(name: str, column: str, row: int, value: Any) -> Callable[[Path], object]:
    return lambda folder: set_cell(folder / name, column, row, value)


MEASURED = "measurements/age.parquet"
FORGERIES = {
    "values for auditors in the public record": Forgery(
        {5}, lambda r: r.update(auditor={"source.source_path": "people.csv"}), says="values for auditors only"
    ),
    "no commitment to the full record": Forgery({5}, lambda r: r.pop("auditor_commitment"), says="commitment"),
    "another version that was superseded": Forgery({5}, lambda r: r.update(supersedes=7), says="supersedes"),
    "a data file that the record leaves out": Forgery({5}, lambda r: r["files"].pop(), says="listed nowhere"),
    "a data file twice": Forgery({5}, lambda r: r["files"].append(r["files"][0]), says="listed twice"),
    "other rows of a data file": Forgery({9}, lambda r: r["files"][0].update(rows=3), says="rows"),
    "other columns of a data file": Forgery(
        {9}, lambda r: r["files"][0]["columns"][0].update(name="income"), says="columns"
    ),
    "other columns of a CSV file": Forgery(
        {9},
        lambda r: next(f for f in r["files"] if f["path"].endswith(".csv"))["columns"].pop(),
        of="guild",
        says="columns",
    ),
    "a part of the record that nobody knows": Forgery(
        {5}, lambda r: r.update(summary="epsilon is 0.1"), says="summary"
    ),
    "declarations that nobody knows": Forgery(
        {5}, lambda r: r["declarations"].update(safe=True), says="declarations.safe"
    ),
    "no declarations": Forgery({5}, lambda r: r.pop("declarations"), says="declarations"),
    "another distance to the noisy values": Forgery(
        {9}, distance("table:age", mean_absolute="0.001"), says="replay.distances, table:age: mean_absolute"
    ),
    "another distance to the noisy values (consistent)": Forgery(
        {9}, distance("table:pay", rmse="0.001"), of="guild", says="table:pay: rmse"
    ),
    "no distance to the noisy values": Forgery({9}, replay(lambda r: r["distances"].clear()), says="table:age"),
    "another total that a table keeps": Forgery({9}, table(total=3), says="age: total"),
    "a note that the refinement did not leave": Forgery({9}, table(notes=["all is well"]), says="age: notes"),
    "cells that were suppressed, they say": Forgery({9}, table(suppressed=4), says="age: suppressed"),
    "a smaller error of the total": Forgery(
        {9}, replay(lambda r: r["total"].update(standard_error="0.1")), says="total.standard_error"
    ),
    "a claim below what the events cost": Forgery({7}, claim(9 * 10**11), in_charge(epsilon=9 * 10**11), says="0.9"),
    "a claim below what the events cost (Gaussian)": Forgery(
        {7}, claim(2 * 10**12), in_charge(epsilon=2 * 10**12), of="guild", says="2"
    ),
    "a claim that the journal does not know": Forgery({7}, claim(2 * 10**12), says="the charge in the journal"),
    "a claim above the spec's charge": Forgery(
        {7}, claim(2 * 10**12), in_charge(epsilon=2 * 10**12), says="spec's charge"
    ),
    "a smaller delta": Forgery({7}, replay(lambda r: r["claim"].update(delta=1)), of="guild", says="claim.delta"),
    "before + amount is not after": Forgery(
        {7}, amounts(after=5 * 10**11), taken(after=5 * 10**11), says="before and amount"
    ),
    "the account is overspent": Forgery(
        {7}, amounts(cap=5 * 10**11), opened(cap=5 * 10**11), says="the account is overspent"
    ),
    "a larger cap in the record": Forgery({7}, amounts(cap=9 * 10**12), says="replay.cap"),
    "a cap above its epsilon": Forgery(
        {7}, amounts(cap=9 * 10**12), opened(cap=9 * 10**12), says="with which the account was opened"
    ),
    "a cap above its epsilon (Rényi)": Forgery(
        {7}, journal=opened(epsilon=10**11), of="guild", says="with which the account was opened"
    ),
    "an account for another relation": Forgery(
        {7}, journal=opened(adjacency="replace_one"), says="as the charge says"
    ),
    "an account for another unit": Forgery({7}, journal=opened(unit="household"), says="as the charge says"),
    "an account of other people": Forgery({7}, journal=opened(population="firms"), says="population"),
    "a charge for other people": Forgery({7}, journal=in_charge(population="firms"), says="as the charge says"),
    "a cap below its epsilon": Forgery(
        {7}, journal=opened(epsilon=9 * 10**12), says="with which the account was opened"
    ),
    "an account that took over more than its cap": Forgery({7}, journal=opened(spent=10**15), says="its cap"),
    "earlier charges that are left out": Forgery(
        {7}, lambda r: r["declarations"].update(earlier_charges=[]), of="guild", says="had lost before"
    ),
    "more to give back than was taken before": Forgery(
        {7}, journal=taken(returnable=10**9), says="all that was taken before"
    ),
    "a charge with another public total": Forgery(
        {5}, journal=in_charge(public_total=17), of="extract", says="replay.contract, total"
    ),
    "a charge with a public total that no contract declares": Forgery(
        {5}, journal=in_charge(public_total=17), says="replay.contract, total"
    ),
    "an account of no days": Forgery({7}, journal=opened(block="soon"), says="a time block"),
    "an account that was never opened": Forgery(
        {4, 7}, journal=without("account_opened"), says="those of 'town-2024'"
    ),
    "another account that was opened": Forgery({4, 7}, journal=opened(name="other"), says="openings of 'other'"),
    "a charge below the costs": Forgery(
        {7}, amounts(amount=10**11, after=10**11), taken(amount=10**11, after=10**11), says="what its draws cost"
    ),
    "a draw for less than it costs": Forgery(
        {7},
        both(replay(lambda r: r["draws"][1].update(cost=5)), amounts(amount=525_000_000_005, after=525_000_000_005)),
        both(
            cost_of_second(5),
            taken(amount=525_000_000_005, after=525_000_000_005),
        ),
        says="recomputed from the event",
    ),
    "a calculus in which the loss is infinite": Forgery(
        {7},
        replay(lambda r: r.update(calculus={"kind": "pure"})),
        opened(calculus={"kind": "pure"}),
        of="guild",
        says="a finite loss",
    ),
    "a calculus that is none": Forgery(
        {7},
        replay(lambda r: r.update(calculus={"kind": "free"})),
        opened(calculus={"kind": "free"}),
        says="kind pure",
    ),
    "no delta for Gaussian noise": Forgery(
        {7},
        replay(lambda r: r["claim"].update(delta=0)),
        in_charge(delta=0),
        of="guild",
        says="an infinite loss",
    ),
    "a charge without a number": Forgery({7}, replay(lambda r: r["charge"].update(epsilon="lots")), says="'lots'"),
    "an event without noise": Forgery(
        {6},
        replay(lambda r: r["draws"][1].update(event={"kind": "pure", "epsilon": "1"})),
        says="noise that was drawn",
    ),
    "an event that is none": Forgery(
        {6}, replay(lambda r: r["draws"][1]["event"].update(moves=[0])), says="event of discrete Laplace"
    ),
    "noise of another kind": Forgery(
        {6}, replay(lambda r: r["product"].update(mechanism="gaussian")), says="gaussian, as the product says"
    ),
    "a table of unknown columns": Forgery(
        {5}, replay(lambda r: r["product"]["tables"][0].update(columns=["salary"])), says="salary"
    ),
    "a product that is none": Forgery(
        {5}, replay(lambda r: r["product"].update(kind="report")), says="replay.product"
    ),
    "the product in another form": Forgery(
        {5}, replay(lambda r: r["product"]["refine"].pop("lambda_")), says="another form"
    ),
    "other people's account": Forgery(
        {5, 6}, replay(lambda r: r["charge"].update(account="other")), says="charge.account"
    ),
    "sensitivity 1 where a unit moves two cells": Forgery(
        {6, 7, 10}, *event(0, set_moves), of="extract", says="[1, 1]"
    ),
    "an event that was not planned": Forgery(
        {6, 8, 9}, replay(lambda r: r["draws"][1]["event"].update(inverse_scale="1/100")), says="inverse_scale"
    ),
    "fewer draws than were charged": Forgery({6}, replay(lambda r: r["draws"].pop()), says="number of draws"),
    "a draw that the journal does not have": Forgery(
        {6, 7}, journal=lambda entries: entries.pop(-2), says="number of draws"
    ),
    "another contract": Forgery(
        {5, 10},
        replay(lambda r: r["contract"].update(adjacency="replace_one")),
        says="digest of the recorded contract",
    ),
    "a contract that is none": Forgery(
        {5}, replay(lambda r: r["contract"].update(columns=[])), says="contract.columns"
    ),
    "another version": Forgery(
        {5}, lambda record: record.update(version=9), says="as the predicate in MANIFEST.json says"
    ),
    "a contract whose unit is none": Forgery(
        {5}, replay(lambda r: r["contract"].update(unit="row")), says="replay.contract.unit"
    ),
    "a schema of the future, in words": Forgery(
        {5}, lambda r: r.update(schema="sudare-record/9"), says="sudare-record/9"
    ),
    "a table less": Forgery({5, 6, 10}, replay(lambda r: r["product"]["tables"].pop()), says="as the product says"),
    "another method": Forgery(
        {5},
        replay(lambda r: r["tables"][0].update(method="none")),
        says="tables[0].method",
    ),
    "another lambda than the product's": Forgery(
        {5},
        replay(lambda r: r["tables"][0].update({"lambda": "0.25"})),
        of="guild",
        says="tables[0].lambda",
    ),
    "another lambda than the noisy values lead to": Forgery(
        {9},
        replay(lambda r: r["tables"][0].update({"lambda": "0.25"})),
        of="chosen",
        says="lambda",
    ),
    "a lambda that was written, they say": Forgery(
        {9},
        replay(lambda r: r["tables"][0].update(chosen=None, estimated_rmse={})),
        of="chosen",
        says="lambda by auto",
    ),
    "a lambda for a sparsity, they say": Forgery(
        {9}, replay(lambda r: r["tables"][1]["chosen"].update(by="sparsity")), of="chosen", says="lambda by auto"
    ),
    "a smaller estimated error": Forgery(
        {9},
        replay(lambda r: r["tables"][0].update(estimated_rmse={"negative_l2": "0.001"})),
        of="chosen",
        says="estimated_rmse of negative_l2",
    ),
    "another method than was picked": Forgery(
        {9},
        replay(lambda r: r["tables"][0].update(method="none")),
        of="extract",
        says="method",
    ),
    "a candidate that was not judged": Forgery(
        {9},
        replay(lambda r: r["tables"][0]["estimated_rmse"].pop("simplex")),
        of="extract",
        says="simplex",
    ),
    "a lambda picked beforehand, in the product": Forgery(
        {5}, replay(lambda r: r["product"]["refine"].update(lambda_="0.25")), of="chosen", says="tables[0].lambda"
    ),
    "a file that the record does not speak of": Forgery(
        {5, 10}, files=lambda f: (f / "data" / "more.csv").write_text("x"), says="more.csv"
    ),
    "a refined value changed by a lot": refined(2, 500),
    "a refined value changed by one": refined(0, 1),
    "a refined value, not in the record": Forgery(
        {9}, files=cell("data/age.parquet", "count", 3, 10**6), says="SHA-256"
    ),
    "another total": Forgery({9}, replay(lambda r: r["total"].update(value=17)), says="total.value"),
    "another declared total": Forgery(
        {9}, replay(lambda r: r["total"].update(value=17)), of="extract", says="total.value"
    ),
    "no total": Forgery({9}, replay(lambda r: r["total"].update(kind="none", value=None)), says="total.kind"),
    "other noisy values": Forgery({8, 9}, files=cell(MEASURED, "noisy", 2, 10**6), says="when it was drawn"),
    "less variance": Forgery({8}, files=cell(MEASURED, "variance", 3, 0.5), says="column variance, row 4"),
    "a narrower interval": Forgery({8}, files=cell(MEASURED, "upper", 0, 10**7), says="column upper, row 1"),
    "a shorter interval of a refined count": Forgery(
        {9}, files=cell("data/age.parquet", "lower", 1, 10**7), says="column lower, row 2"
    ),
    "a longer interval of a refined count": Forgery(
        {9}, files=cell("data/age.parquet", "upper", 1, 10**7), says="column upper, row 2"
    ),
    "another interval in CSV": Forgery(
        {9},
        files=lambda f: (f / "data/hired.csv").write_text(
            (f / "data/hired.csv").read_text().replace("\n2020-Q3,", "9\n2020-Q3,")
        ),
        of="guild",
        says="data/hired.csv: column upper, row 2",
    ),
    "another structural zero": Forgery(
        {8}, files=cell(MEASURED, "structural_zero", 9, True), says="column structural_zero, row 10"
    ),
    "another CSV": Forgery(
        {9},
        files=lambda f: (f / "data/hired.csv").write_text(
            (f / "data/hired.csv").read_text().replace("\n2020-Q2,", "\n2020-Q2,9")
        ),
        of="guild",
        says="data/hired.csv: column count, row 2",
    ),
    "CSV that is none": Forgery(
        {9}, files=lambda f: (f / "data/hired.csv").write_bytes(b"\xff\x00,\n"), of="guild", where={"data/hired.csv"}
    ),
    "rows in another order": Forgery(
        {9}, files=table_file("data/age.parquet", lambda t: t.take(list(range(9, -1, -1)))), says="row-major"
    ),
    "rows missing": Forgery({8}, files=table_file(MEASURED, lambda t: t.slice(0, 5)), says="one for each cell"),
    "a column more": Forgery(
        {8}, files=table_file(MEASURED, lambda t: t.append_column("exact", t.column("noisy"))), says="exact"
    ),
    "a column of another type": Forgery(
        {9},
        files=table_file("data/age.parquet", lambda t: t.set_column(1, "count", t.column(1).cast(pa.float64()))),
        says="double",
    ),
    "labels that are numbers": Forgery(
        {9}, files=table_file("data/age.parquet", lambda t: t.set_column(0, "age", t.column(1))), says="string"
    ),
    "a missing value": Forgery(
        {8},
        files=table_file(
            MEASURED, lambda t: t.set_column(2, "variance", pa.array([None, *np.ones(9)], pa.float64()))
        ),
        says="a value in every row",
    ),
    "Parquet that is none": Forgery(
        {8}, files=lambda f: (f / MEASURED).write_bytes(b"PAR1" + bytes(50) + b"PAR1"), where={MEASURED}
    ),
    "Parquet cut off": Forgery(
        {9},
        files=lambda f: (f / "data/age.parquet").write_bytes((f / "data/age.parquet").read_bytes()[:-9]),
        where={"data/age.parquet"},
    ),
    "seeded noise": Forgery(
        {4}, journal=lambda e: of_kind(e, "grant_opened").update(security="seeded"), says="csprng"
    ),
    "two runs in one": Forgery({4}, journal=in_charge(run_key="other"), says="the charge's"),
    "another release published": Forgery(
        {4}, journal=lambda e: of_kind(e, "version_published").update(release="other"), says="as in MANIFEST.json"
    ),
    "another number published": Forgery(
        {4}, journal=lambda e: of_kind(e, "version_published").update(number=7), says="as in MANIFEST.json"
    ),
    "digits behind an error": Forgery(
        {5},
        record=replay(lambda r: next(iter(r["distances"].values())).update(rmse="12.2459000000000482130017")),
        says="one form: 12.2459",
        where={"record.json"},
    ),
    "a spec's epsilon written otherwise": Forgery(
        {7}, record=replay(lambda r: r["charge"].update(epsilon=f"0{r['charge']['epsilon']}")), says="the one form"
    ),
    "a delta of zero written otherwise": Forgery(
        {7}, record=replay(lambda r: r["charge"].update(delta="0e-1")), says="0, the one form"
    ),
    "a rational of other terms": Forgery(
        {7, 10}, *event(0, lambda e: e.update(inverse_scale=of_terms(e["inverse_scale"], 48213))), says="lowest terms"
    ),
    "data files in another order": Forgery(
        {5}, record=lambda r: r["files"].reverse(), says="in the order of their paths", where={"record.json"}
    ),
    "a key left out that has no value": Forgery(
        {5}, record=replay(lambda r: r["draws"][0].pop("listed")), says="listed", where={"record.json"}
    ),
    "a time to the second": Forgery(
        {4}, journal=lambda e: e[-1].update(at=f"{e[-1]['at'][:14]}12:34Z"), says="12:34Z", where={"PROOF.json"}
    ),
    "a text after the time of an account's opening": Forgery(
        {4}, journal=lambda e: e[0].update(at=f"{e[0]['at']} rows=48213"), says="rows=48213", where={"PROOF.json"}
    ),
    "a day that is none": Forgery(
        {4}, journal=lambda e: e[0].update(at="0021-17-48T21:00:00Z"), says="0021-17-48", where={"PROOF.json"}
    ),
    "times that run backwards": Forgery(
        {4},
        journal=lambda e: [x.update(at=f"2026-03-04T{20 - place:02}:00:00Z") for place, x in enumerate(e)],
        says="in the order of the entries",
        where={"PROOF.json"},
    ),
    "no opening": Forgery({4}, journal=without("grant_opened"), says="grant_opened"),
    "two charges": Forgery({4}, journal=lambda e: e.insert(1, {**e[1]}), says="in this order"),
    "a draw number left out": Forgery(
        {4, 6},
        journal=lambda e: [x["body"] for x in e if x["kind"] == "noise_drawn"][1].update(number=2),
        says="without gap",
    ),
    "a draw under the same key": Forgery(
        {4, 6},
        journal=lambda e: [x["body"] for x in e if x["kind"] == "noise_drawn"][1].update(key="table:age"),
        says="twice",
    ),
    "an entry of an unknown kind": Forgery({4}, journal=lambda e: e[2].update(kind="noise_lost"), says="noise_lost"),
    "a body without its fields": Forgery({4}, journal=lambda e: e[1]["body"].pop("parts"), says="parts"),
    "a body with a field more": Forgery({4}, journal=in_charge(remark="all is well"), says="remark"),
    "a part with a field more": Forgery({4}, journal=taken(remark="all is well"), says="parts[0].remark"),
}
