"""Forgeries by a publisher with the right key: what is changed consistently, and the rules that find it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privacy.accounting.amounts import pico_to_text
from privacy.refine.intervals import told_interval
from tasks.records.groups.guarantee import odds_factor
from tasks.records.groups.posterior_words import beliefs
from tasks.records.sentences import meaning
from tests.tasks.verification.forgery import Json, digest_of, edit, edit_table, of_kind, set_cell, told

Change = Callable[[Any], object]


def nothing(_: Any) -> None:
    return None


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


def replay(change: Change) -> Change:
    return lambda record: change(record["replay"])


def both(*changes: Change) -> Change:
    def change(value: Any) -> None:
        for one in changes:
            one(value)

    return change


def claim(epsilon: int) -> Change:
    """Claim another epsilon, for people too."""

    def change(record: Json) -> None:
        record["replay"]["claim"].update(epsilon=epsilon)
        told(record, "guarantee.epsilon", pico_to_text(epsilon))
        told(record, "guarantee.odds_factor", odds_factor(epsilon))
        delta = record["replay"]["claim"]["delta"]
        record["groups"]["guarantee"]["fields"]["largest_posterior"]["value"]["at_most"] = beliefs(epsilon, delta)

    return change


def without_delta(record: Json) -> None:
    """Claim a delta of 0, for people too."""
    record["replay"]["claim"].update(delta=0)
    told(record, "guarantee.delta", "0")
    whole = record["groups"]["guarantee"]["fields"]["largest_posterior"]["value"]
    whole.update(at_most=beliefs(record["replay"]["claim"]["epsilon"], 0), except_with_probability="0")
    record["groups"]["guarantee"]["fields"]["largest_attribute"]["value"].update(delta="0")


def amounts(**changed: int) -> Change:
    """State other amounts, for people too."""

    def change(record: Json) -> None:
        record["replay"].update(changed)
        r = record["replay"]
        for name, value in (
            ("before", r["before"]),
            ("charged", r["amount"]),
            ("after", r["after"]),
            ("cap", r["cap"]),
        ):
            told(record, f"ledger.{name}", pico_to_text(value))
        told(record, "ledger.left", pico_to_text(r["cap"] - r["after"]))

    return change


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


def processed(record: Json, table: str) -> Json:
    """Find what people are told of one table's refinement."""
    entries: list[Json] = record["groups"]["product"]["fields"]["tables"]["value"]
    return next(entry for entry in entries if entry["table"] == table)


def refinement(table: str, **changed: Any) -> Change:
    """Tell people something else of one table's refinement."""
    return lambda record: processed(record, table).update(changed)


def belief(field: str, before: str, after: str) -> Change:
    """Tell people of another belief after the release."""
    return lambda record: record["groups"]["guarantee"]["fields"][field]["value"]["at_most"].update({before: after})


def attribute(column: str, **changed: Any) -> Change:
    """Tell people something else of what is learned about a column."""

    def change(record: Json) -> None:
        listed = record["groups"]["guarantee"]["fields"]["per_attribute"]["value"]
        next(entry for entry in listed if entry["column"] == column).update(changed)

    return change


def error(field: str, draw: str, **changed: Any) -> Change:
    """Tell people of another error of a draw."""

    def change(record: Json) -> None:
        listed = record["groups"]["utility"]["fields"][field]["value"]
        next(entry for entry in listed if entry["of"] == draw).update(changed)

    return change


def twice(record: Json) -> None:
    listed = record["groups"]["guarantee"]["fields"]["per_attribute"]["value"]
    listed.append(dict(listed[0]))


def set_moves(entry: Json) -> None:
    entry["moves"] = [1]


def table_file(name: str, change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], object]:
    return lambda folder: edit_table(folder / name, change)


def cell(name: str, column: str, row: int, value: Any) -> Callable[[Path], object]:
    return lambda folder: set_cell(folder / name, column, row, value)


MEASURED = "measurements/age.parquet"
UNREFINED = {"method": "none", "interval": told_interval("none")}
FORGERIES = {
    "a claim below what the events cost": Forgery({7}, claim(9 * 10**11), in_charge(epsilon=9 * 10**11), says="0.9"),
    "a claim below what the events cost (Gaussian)": Forgery(
        {7}, claim(2 * 10**12), in_charge(epsilon=2 * 10**12), of="guild", says="2"
    ),
    "a claim that the journal does not know": Forgery({7}, claim(2 * 10**12), says="the charge in the journal"),
    "a claim above the spec's charge": Forgery(
        {7}, claim(2 * 10**12), in_charge(epsilon=2 * 10**12), says="spec's charge"
    ),
    "a smaller delta": Forgery({5, 7}, replay(lambda r: r["claim"].update(delta=1)), of="guild", says="claim.delta"),
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
    "an account of no days": Forgery({5, 7}, journal=opened(block="soon"), says="a time block"),
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
        without_delta,
        in_charge(delta=0),
        of="guild",
        says="an infinite loss",
    ),
    "a charge without a number": Forgery({7}, replay(lambda r: r["charge"].update(epsilon="lots")), says="'lots'"),
    "an event without noise": Forgery(
        {5, 6},
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
    "sensitivity 1 where a unit moves two cells": Forgery({6, 7}, *event(0, set_moves), of="extract", says="[1, 1]"),
    "an event that was not planned": Forgery(
        {5, 6, 8, 9}, replay(lambda r: r["draws"][1]["event"].update(inverse_scale="1/100")), says="inverse_scale"
    ),
    "fewer draws than were charged": Forgery({5, 6}, replay(lambda r: r["draws"].pop()), says="number of draws"),
    "a draw that the journal does not have": Forgery(
        {6, 7}, journal=lambda entries: entries.pop(-2), says="number of draws"
    ),
    "another contract": Forgery(
        {5}, replay(lambda r: r["contract"].update(adjacency="replace_one")), says="digest of the recorded contract"
    ),
    "a contract that is none": Forgery(
        {5}, replay(lambda r: r["contract"].update(columns=[])), says="contract.columns"
    ),
    "another version": Forgery({5}, lambda record: record.update(version=9), says="as the manifest says"),
    "a prettier epsilon for people": Forgery(
        {5}, lambda r: told(r, "guarantee.epsilon", "0.1"), says="groups.guarantee.epsilon"
    ),
    "a prettier balance for people": Forgery({5}, lambda r: told(r, "ledger.left", "99"), says="groups.ledger.left"),
    "a wider scope for people": Forgery({5}, lambda r: told(r, "unit.scope", "lifetime"), says="groups.unit.scope"),
    "a contract whose unit is none": Forgery(
        {5}, replay(lambda r: r["contract"].update(unit="row")), says="groups.unit.scope"
    ),
    "other digests for people": Forgery(
        {5}, lambda r: r["groups"]["output"]["fields"]["files"]["value"].pop(), says="groups.output.files"
    ),
    "a private value in the public record": Forgery(
        {5}, lambda r: told(r, "source.source_path", "people.csv"), says="withheld"
    ),
    "a declaration that is not marked": Forgery(
        {5}, lambda r: r["declared"].remove("accountability.curator"), says="'accountability.curator' not listed"
    ),
    "a computed value that is a declaration, they say": Forgery(
        {5}, lambda r: r["declared"].append("guarantee.epsilon"), says="'guarantee.epsilon' listed"
    ),
    "declarations that are not listed at all": Forgery({5}, lambda r: r.pop("declared"), says="declared"),
    "a gap without a reason": Forgery(
        {5},
        lambda r: r["groups"]["identity"]["fields"]["superseded_by"].pop("reason"),
        says="groups.identity.superseded_by.reason",
    ),
    "a schema of the future, in words": Forgery(
        {5}, lambda r: r.update(schema="sudare-record/9"), says="sudare-record/9"
    ),
    "smaller odds for people": Forgery(
        {5}, lambda r: told(r, "guarantee.odds_factor", "1.1"), says="groups.guarantee.odds_factor"
    ),
    "a smaller belief for people": Forgery(
        {5}, belief("largest_posterior", "50 %", "60 %"), says="groups.guarantee.largest_posterior: 50 %"
    ),
    "a belief that is none": Forgery(
        {5}, belief("largest_posterior", "1 %", "little"), says="groups.guarantee.largest_posterior: 1 %"
    ),
    "no exceptions for people": Forgery(
        {5},
        lambda r: r["groups"]["guarantee"]["fields"]["largest_posterior"]["value"].update(
            except_with_probability="0"
        ),
        of="guild",
        says="exceptions",
    ),
    "a hypothesis that is easier to protect": Forgery(
        {5},
        lambda r: r["groups"]["guarantee"]["fields"]["largest_posterior"]["value"].update(
            hypothesis="a unit is in the table"
        ),
        of="guild",
        says="largest_posterior.hypothesis",
    ),
    "a smaller loss about the column told of most": Forgery(
        {5},
        lambda r: r["groups"]["guarantee"]["fields"]["largest_attribute"]["value"]["at_most"].update(
            {"50 %": "60 %"}
        ),
        says="groups.guarantee.largest_attribute",
    ),
    "another column told of most": Forgery(
        {5},
        lambda r: r["groups"]["guarantee"]["fields"]["largest_attribute"]["value"].update(column="nobody's"),
        of="guild",
        says="groups.guarantee.largest_attribute",
    ),
    "a smaller loss about a column": Forgery(
        {5}, attribute("age", epsilon="0.95"), says="groups.guarantee.per_attribute, age"
    ),
    "a smaller loss about a column (Gaussian)": Forgery(
        {5}, attribute("wage", epsilon="1.2"), of="guild", says="groups.guarantee.per_attribute, wage"
    ),
    "fewer draws that count a column": Forgery({5}, attribute("age", draws=1), says="1 draws"),
    "smaller odds about a column": Forgery({5}, attribute("age", odds_factor="2"), says="age.odds_factor"),
    "a smaller expected error for people": Forgery(
        {5}, error("expected_error", "table:age", rmse="0.1"), says="groups.utility.expected_error, table:age: rmse"
    ),
    "a smaller expected error for people (Gaussian)": Forgery(
        {5}, error("expected_error", "table:pay", mean_absolute="0.1"), of="guild", says="mean_absolute"
    ),
    "a measurement without an error": Forgery(
        {5}, lambda r: r["groups"]["utility"]["fields"]["expected_error"]["value"].pop(), says="noisy marginals"
    ),
    "another distance to the noisy values": Forgery(
        {9},
        error("error_against_noisy", "table:age", mean_absolute="0.001"),
        says="groups.utility.error_against_noisy",
    ),
    "another distance to the noisy values (consistent)": Forgery(
        {9}, error("error_against_noisy", "table:pay", rmse="0.001"), of="guild", says="table:pay: rmse"
    ),
    "what a bound about one column is about is told as under another relation": Forgery(
        {5},
        lambda r: r["groups"]["guarantee"]["fields"]["per_attribute_means"].update(
            value=meaning(
                "replace_one" if r["replay"]["adjacency"] == "add_remove" else "add_remove",
                r["replay"]["rows_per_unit"],
                synthetic=False,
            )
        ),
        says="groups.guarantee.per_attribute_means",
    ),
    "a column untold": Forgery(
        {5},
        lambda r: r["groups"]["guarantee"]["fields"]["per_attribute"]["value"].pop(),
        says="the columns of the contract",
    ),
    "a column twice": Forgery({5}, twice, says="the columns of the contract"),
    "a gap that is not listed": Forgery(
        {5}, lambda r: r["not_available"].remove("identity.superseded_by"), says="identity.superseded_by"
    ),
    "a table less": Forgery({5, 6}, replay(lambda r: r["product"]["tables"].pop()), says="as the product says"),
    "another method": Forgery(
        {5},
        both(replay(lambda r: r["tables"][0].update(method="none")), refinement("age", **UNREFINED)),
        says="tables[0].method",
    ),
    "another lambda than the product's": Forgery(
        {5},
        both(replay(lambda r: r["tables"][0].update({"lambda": "0.25"})), refinement("pay", **{"lambda": "0.25"})),
        of="guild",
        says="tables[0].lambda",
    ),
    "another lambda than the noisy values lead to": Forgery(
        {9},
        both(replay(lambda r: r["tables"][0].update({"lambda": "0.25"})), refinement("pay", **{"lambda": "0.25"})),
        of="chosen",
        says="lambda",
    ),
    "a lambda that was written, they say": Forgery(
        {9},
        both(
            replay(lambda r: r["tables"][0].update(chosen=None, estimated_rmse={})),
            refinement("pay", chosen="none", estimated_rmse="none"),
        ),
        of="chosen",
        says="lambda by auto",
    ),
    "a lambda for a sparsity, they say": Forgery(
        {9}, replay(lambda r: r["tables"][1]["chosen"].update(by="sparsity")), of="chosen", says="lambda by auto"
    ),
    "a smaller estimated error": Forgery(
        {9},
        both(
            replay(lambda r: r["tables"][0].update(estimated_rmse={"negative_l2": "0.001"})),
            refinement("pay", estimated_rmse={"negative_l2": "0.001"}),
        ),
        of="chosen",
        says="estimated_rmse of negative_l2",
    ),
    "another method than was picked": Forgery(
        {9},
        both(replay(lambda r: r["tables"][0].update(method="none")), refinement("sex_x_age", **UNREFINED)),
        of="extract",
        says="method",
    ),
    "a candidate that was not judged": Forgery(
        {9},
        both(
            replay(lambda r: r["tables"][0]["estimated_rmse"].pop("simplex")),
            lambda r: processed(r, "sex_x_age")["estimated_rmse"].pop("simplex"),
        ),
        of="extract",
        says="simplex",
    ),
    "a lambda picked beforehand, in the product": Forgery(
        {5}, replay(lambda r: r["product"]["refine"].update(lambda_="0.25")), of="chosen", says="tables[0].lambda"
    ),
    "another lambda for people": Forgery(
        {5}, refinement("pay", **{"lambda": "0.5"}), of="guild", says="groups.product.tables, pay"
    ),
    "another method for people": Forgery(
        {5}, refinement("sex_x_age", method="none"), of="extract", says="groups.product.tables"
    ),
    "no choice for people": Forgery(
        {5}, refinement("pay", chosen="none"), of="chosen", says="groups.product.tables, pay"
    ),
    "a smaller error for people": Forgery(
        {5}, refinement("pay", estimated_rmse={"negative_l2": "0.001"}), of="chosen", says="0.001"
    ),
    "a table untold for people": Forgery(
        {5}, lambda r: r["groups"]["product"]["fields"]["tables"]["value"].clear(), says="groups.product.tables, age"
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
    "better intervals for people": Forgery(
        {5}, refinement("age", interval="99 %"), says="groups.product.tables, age"
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
    "two runs in one": Forgery({4, 5}, journal=in_charge(run_key="other"), says="the charge's"),
    "another release published": Forgery(
        {4}, journal=lambda e: of_kind(e, "version_published").update(release="other"), says="as in MANIFEST.json"
    ),
    "another number published": Forgery(
        {4}, journal=lambda e: of_kind(e, "version_published").update(number=7), says="as in MANIFEST.json"
    ),
    "a time to the second": Forgery(
        {5}, journal=lambda e: e[-1].update(at=f"{e[-1]['at'][:14]}12:34Z"), says="12:34Z", where={"PROOF.json"}
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
}
