"""Two neighbouring tables publish the same bytes where their draws are answered alike, whatever is published.

Every registered kind of product, generator, trainer, query and source has a case here, or a reason why it has none.
"""

import sqlite3
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, get_args

import duckdb
import polars as pl
import pytest
import yaml

from contracts.contract.contract import Adjacency
from contracts.contract.odcs import load_contract
from contracts.release.product import SUFFIXES, Files
from contracts.release.product_kinds import BUILT_IN as PRODUCTS
from privacy.accounting.amounts import ATTO, PICO
from privacy.accounting.calculus import RenyiCalculus
from privacy.generators.calibration import GENERATORS, TRAINERS
from privacy.grant.queries.across_sites import SiteShare, SumOverSites
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.choice import ChoiceQuery
from privacy.grant.queries.keys import KeyCountQuery, KeyQuery
from privacy.grant.queries.kinds import BUILT_IN as QUERIES
from privacy.grant.queries.marginal import MarginalQuery
from privacy.grant.queries.parameters import ParameterQuery
from privacy.grant.queries.place_counts import PlaceCountQuery
from privacy.grant.queries.quantile_choice import QuantileChoiceQuery
from privacy.grant.queries.query import Query, Relation
from privacy.grant.queries.residuals import ResidualQuery
from privacy.grant.queries.sparse_marginal import SparseMarginalQuery
from privacy.grant.queries.sums import SumQuery
from privacy.grant.queries.training import TrainingQuery
from privacy.grant.queries.votes import VoteQuery
from tasks.records import record
from tasks.storage.sources.source import _BUILT_IN as ADDRESSES
from tests.worlds.linked_tables import CATEGORIES, COUNT, contract_text
from tests.worlds.neighbours import Published, differing, moves, published
from tests.worlds.pictures import HEIGHT, PICTURE, SHAPE, SHAPES, WIDTH
from tests.worlds.private_keys import NOTE
from tests.worlds.synthetic_rows import STAY
from tests.worlds.tables import SPEC, contract_yaml

ACCOUNT = (RenyiCalculus(Fraction(12), ATTO // 10**5), 400 * PICO, 2 * ATTO // 10**5)
Row = dict[str, Any]
BOTH: tuple[Adjacency, ...] = ("add_remove", "replace_one")


@dataclass(frozen=True)
class Case:
    """A release of the hospital's stays."""

    product: str
    epsilon: str = "8"
    adjacencies: tuple[Adjacency, ...] = BOTH
    rows_per_unit: tuple[int, ...] = (1, 3)
    total: bool = False
    properties: str = STAY
    formats: str = "[parquet, csv], formulas: neutralised"
    source: str = ".parquet"
    asks: type[Query[Any]] = MarginalQuery


COLUMNS = "columns: [ward, floor, age, bill, insured]"
PLACES = """place,parent,level
hospital,,hospital
north,hospital,wing
south,hospital,wing
surgery,north,ward
children,north,ward
"x, ""y""\",south,ward
(null),south,ward
"""
SPINE = "spine: {column: ward, file: places.csv, levels: [hospital, wing, ward]}"
NETWORK = "rows_about: 300, epochs: 1, checkpoints: 1, batch: 60"


def tables(rest: str, **changed: Any) -> Case:
    return Case(f"{{kind: tables, {rest}}}", **changed)


def statistics(asked: str, mechanism: str = "laplace", **changed: Any) -> Case:
    changed = {"properties": STAY + NOTE if "note" in asked else STAY, **changed}
    return Case(f"{{kind: statistics, mechanism: {mechanism}, tables: [{asked}]}}", **changed)


def synthetic(generator: str, options: str = "", more: str = "", **changed: Any) -> Case:
    options = f", options: {{{options}}}" if options else ""
    return Case(f"{{kind: synthetic, generator: {generator}, {COLUMNS}{options}{more}}}", **changed)


def classifier(trainer: str, options: str, **changed: Any) -> Case:
    product = f"{{kind: classifier, trainer: {trainer}, label: ward, {COLUMNS}, options: {{{options}}}}}"
    return Case(product, formats="[parquet]", **changed)


QUANTILES = "quantiles: [0.25, 0.5], of: age"
KEYS = "{by: [note], keys: private, of:"
ADDED: tuple[Adjacency, ...] = ("add_remove",)
ONE_ROW: dict[str, Any] = {"adjacencies": ADDED, "rows_per_unit": (1,)}
TOTAL: dict[str, Any] = {"adjacencies": ("replace_one",), "rows_per_unit": (1,), "total": True}
CASES = {
    "tables": tables("mechanism: laplace, tables: [[ward, floor], [age]], refine: {method: simplex}"),
    "tables total": tables("mechanism: gaussian, tables: [[ward], [age]], total: invariant", **TOTAL),
    "residuals": tables(
        "mechanism: gaussian, split: residuals, tables: [[ward, floor], [floor, insured]]", asks=ResidualQuery
    ),
    "sparse": tables(
        "mechanism: laplace, tables: [{columns: [ward, floor, age], form: sparse}]", asks=SparseMarginalQuery
    ),
    "suppressed": tables("mechanism: laplace, tables: [[ward]], minimum_frequency: {k: 10, t: 5}"),
    "statistics": statistics(
        "{by: [ward], of: [count, {mean: age}, {variance: bill}, {sum: age}]}, {by: [], of: [{mean: bill}]}",
        asks=CellSumQuery,
    ),
    "quantiles": statistics(f"{{by: [ward], of: [{{{QUANTILES}, method: tree}}]}}", asks=CellSumQuery),
    "chosen quantiles": statistics(
        f"{{by: [floor], of: [{{{QUANTILES}, method: exponential}}]}}", asks=QuantileChoiceQuery
    ),
    "distinct": statistics(
        "{by: [ward], of: [units, {distinct: age}, {distinct: note}]}", rows_per_unit=(3,), asks=CellSumQuery
    ),
    "keys": statistics(f"{KEYS} [count, {{mean: bill}}]}}", adjacencies=ADDED, asks=KeyQuery),
    "key counts": statistics(f"{KEYS} [count]}}", adjacencies=ADDED, asks=KeyCountQuery),
    "few keys": statistics(
        "{by: [note], keys: private, at_most_groups: 1, of: [count, units, {mean: bill}]}",
        "gaussian",
        adjacencies=ADDED,
        rows_per_unit=(3,),
        asks=KeyQuery,
    ),
    "spine": Case(f"{{kind: spine, {SPINE}, tables: [{{columns: [floor, insured]}}, []]}}", asks=PlaceCountQuery),
    "aim": synthetic("aim", "rounds: 4", epsilon="16", asks=ChoiceQuery),
    "auto": synthetic("auto", "rows_about: 150"),
    "fixed": synthetic("fixed", "cliques: [[ward, floor], [age]]"),
    "independent": synthetic("independent", more=", inside_bins: measured"),
    "joined bins": synthetic("mst", more=", bins: private"),
    "gaussian_copula": synthetic("gaussian_copula", asks=SumQuery),
    "latent_factors": synthetic("latent_factors", asks=ResidualQuery),
    "mst": synthetic("mst"),
    "privbayes": synthetic("privbayes"),
    "privbayes total": synthetic("privbayes", **TOTAL),
    "p3gm linear": synthetic(
        "p3gm", "label: ward, dimensions: 3, labels: components, decoder: linear, rows_about: 300", asks=SumQuery
    ),
    "private_evolution": synthetic("private_evolution", "label: ward, members: 40, rounds: 3", asks=VoteQuery),
    "class_pictures": Case(
        "{kind: synthetic, generator: class_pictures, options: {label: shape, dimensions: 4, frequencies: 6}}",
        properties=PICTURE + SHAPE,
        formats="[parquet]",
        asks=SumQuery,
    ),
    "linked_tables": Case(
        "{kind: synthetic, generator: linked_tables, columns: [region, size, age, work]}",
        rows_per_unit=(1,),
        properties="",
    ),
    "p3gm": synthetic("p3gm", f"label: ward, {NETWORK}", epsilon="20", **ONE_ROW, asks=SumQuery),
    "ae": synthetic("ae", f"label: ward, {NETWORK}", epsilon="20", **ONE_ROW, asks=TrainingQuery),
    "vae": synthetic("vae", f"label: ward, latent: 2, {NETWORK}", epsilon="20", **ONE_ROW, asks=TrainingQuery),
    "dp_gm": synthetic("dp_gm", f"clusters: 3, latent: 2, {NETWORK}", epsilon="20", **ONE_ROW, asks=TrainingQuery),
    "dp_sgd": classifier("dp_sgd", NETWORK, epsilon="20", **ONE_ROW, asks=TrainingQuery),
    "anonymizing_first": classifier("anonymizing_first", "generator: mst, hidden: [4], epochs: 1, batch: 50"),
    "learning_first": classifier(
        "learning_first",
        "hidden: [4], epochs: 1, batch: 50, parameter_epsilon: 0.3, publish_noise: true",
        epsilon="40",
        asks=ParameterQuery,
    ),
    "anonymized_learning": classifier(
        "anonymized_learning",
        "hidden: [4], epochs: 1, batch: 100, checkpoints: 1, rows_about: 300, publish_noise: true",
        epsilon="20",
        asks=ParameterQuery,
    ),
}
SOURCES = {
    kind: Case("{kind: tables, mechanism: laplace, tables: [[ward], [age]]}", source=kind, formats="[parquet]")
    for kind in (*SUFFIXES, *get_args(Files))
}
LIKE_ANOTHER = {
    *("quantiles", "suppressed", "auto", "fixed", "joined bins", "gaussian_copula", "latent_factors", "mst"),
    *("class_pictures", "anonymizing_first", "anonymized_learning"),
}
"""Cases that ask what another one asks, too. Sources have one combination: their rows are in the same snapshot."""
ELSEWHERE = dict.fromkeys(ADDRESSES, "needs a server or a catalogue: its rows come into the same snapshot")
"""Kinds of addresses without a case."""
ACROSS = dict.fromkeys((SiteShare, SumOverSites), "a site's share, or a sum of shares: only in a federation")
"""Kinds of queries without a case."""


def rows(random: Random, unit: str, number: int) -> list[Row]:
    """Make up rows of a unit: values at the ends, outside and missing, in cells that differ."""
    return [
        {
            "patient": unit,
            "age": random.choice([None, 0, 99, 150, -3, 41]),
            "arrived": random.choice(["2024-01-01", "2024-06-01", "2019-01-01", None]),
            "left": random.choice(["2024-12-31", "2025-03-31", None]),
            "ward": random.choice(["surgery", "children", 'x, "y"', "nowhere", None]),
            "floor": random.choice([1, 2, 3, None]),
            "bill": random.choice([0.0, 900.0, 1e9, -1.0, 11.3, 61.25, None]),
            "insured": random.choice([True, False, None]),
            "one": "only",
            "note": random.choice(["broken arm", "café", "bell\x07", None, unit]),
            "picture": [random.choice([0, 13, 15]) for _ in range(HEIGHT * WIDTH)],
            "shape": random.choice([*SHAPES, None]),
        }
        for _ in range(number)
    ]


def neighbours(adjacency: Adjacency, bound: int) -> tuple[list[Row], list[Row]]:
    """Make up a table, and one without a unit or with another in its place, which has more rows than are kept."""
    random, most = Random(f"{adjacency} {bound}"), bound + 2 if bound > 1 else 1
    table = [row for unit in range(120 // bound) for row in rows(random, f"p{unit}", random.randint(1, most))]
    mine = rows(random, "mine", most)
    other = rows(random, "mine", most) if adjacency == "replace_one" else []
    return [*table[:90], *mine, *table[90:]], [*table[:90], *other, *table[90:]]


HOUSEHOLD = "{kind: id, table: household, column: household_id, max_rows_per_unit: 1, scope: block}"
LINKED = {
    "household": [
        ("household_id", "string", "", ""),
        ("region", "string", CATEGORIES % "north, south", ""),
        ("size", "integer", COUNT % 3, "{count: person}"),
    ],
    "person": [
        ("household_id", "string", "", ""),
        ("age", "integer", COUNT % 99, ""),
        ("work", "string", CATEGORIES % "yes, no", ""),
    ],
}


def write_linked(folder: Path, adjacency: Adjacency, table: list[Row]) -> str:
    """Write households, which the stays' patients are, and their people: up to five, of which three are kept."""
    links = "[{from: person.household_id, to: household.household_id, at_most: 3}]"
    text = contract_text(HOUSEHOLD, links, LINKED, adjacency=adjacency)
    (folder / "contract.odcs.yaml").write_text(text)
    homes = [(row["patient"], ("north", "south", None)[len(str(row["ward"])) % 3]) for row in table]
    people = [
        (row["patient"], row["age"], "yes" if (row["floor"] or 0) > place else None)
        for row in table
        for place in range(5 if row["patient"] == "mine" else row["floor"] or 0)
    ]
    (folder / "data").mkdir()
    for name, columns, found in (("household", ["household_id", "region"], homes), ("person", None, people)):
        names = columns or ["household_id", "age", "work"]
        pl.DataFrame(found, schema=names, orient="row").write_csv(folder / "data" / f"{name}.csv")
    return "{path: data/, tables: {household: household.csv, person: person.csv}, base: person}"


def write_rows(folder: Path, kind: str, frame: pl.DataFrame) -> str:
    """Write rows as a source of a kind; in a folder, the unit that is in one table alone has a file of its own."""
    path = folder / f"stays{kind}"
    match SUFFIXES.get(kind, kind), kind.startswith("."):
        case ("csv" | "parquet") as form, False:
            path.mkdir()
            mine = pl.col("patient") == "mine" if "patient" in frame.columns else pl.lit(value=False)
            for name, part in (("a", frame.filter(~mine)), ("b", frame.filter(mine))):
                part.write_csv(path / f"{name}.csv") if form == "csv" else part.write_parquet(
                    path / f"{name}.parquet"
                )
            return f"{{path: {path.name}, files: {form}}}"
        case "parquet", _:
            frame.write_parquet(path)
        case "csv", _:
            frame.write_csv(folder / "plain.csv")
            compression = {".gz": "gzip", ".zst": "zstd"}.get(Path(kind).suffix, "uncompressed")
            duckdb.sql(f"COPY (FROM read_csv('{folder}/plain.csv', all_varchar = true)) TO '{path}' "
                       f"(FORMAT csv, HEADER, COMPRESSION '{compression}')")  # fmt: skip
        case "duckdb", _:
            with duckdb.connect(str(path)) as connection:
                connection.register("given", frame.to_arrow())
                connection.execute("CREATE TABLE stays AS FROM given")
        case _:
            with sqlite3.connect(path) as database:
                database.execute(f"CREATE TABLE stays ({', '.join(frame.columns)})")
                marks = ", ".join("?" * frame.width)
                database.executemany(f"INSERT INTO stays VALUES ({marks})", frame.rows())
            database.close()
    named = ", table: stays" if SUFFIXES[kind] in ("duckdb", "sqlite") else ""
    return f"{{path: stays{kind}{named}}}"


def write(folder: Path, case: Case, adjacency: Adjacency, bound: int, table: list[Row]) -> None:
    unit, own = "{kind: row, scope: block}", ""
    if bound > 1:
        unit = f"{{kind: id, scope: block, column: patient, max_rows_per_unit: {bound}}}"
        own = "      - name: patient\n        logicalType: string\n"
    invariants = f'[{{kind: total, value: {len(table)}, reference: "yearbook"}}]' if case.total else "[]"
    if case.properties:
        contract = contract_yaml(
            "stays",
            f"{{unit: {unit}, adjacency: {adjacency}, invariants: {invariants}}}",
            own + case.properties,
            description="description: {purpose: Tests.}",
        )
        (folder / "contract.odcs.yaml").write_text(contract)
        declared = load_contract(folder / "contract.odcs.yaml").source_columns
        frame = pl.DataFrame(table, infer_schema_length=None, schema_overrides={"picture": pl.List(pl.UInt8)})
        source = write_rows(folder, case.source, frame.select(declared))
    else:
        source = write_linked(folder, adjacency, table)
    (folder / "places.csv").write_text(PLACES)
    terms = {"account": "stays-2024", "delta": "1e-12", "store": "releases", "release": "r"}
    spec = SPEC.format(source=source, epsilon=case.epsilon, product=case.product, formats=case.formats, **terms)
    (folder / "spec.yaml").write_text(spec)


def combinations(named: dict[str, Case]) -> list[Any]:
    """List relations and rows per unit of each case: all, or each of them once for what another case asks, too."""
    found, turns = [], {name: turn % 4 for turn, name in enumerate(named)}
    for name, case in named.items():
        pairs = [(adjacency, bound) for adjacency in case.adjacencies for bound in case.rows_per_unit]
        if len(pairs) == 4 and name in SOURCES:
            pairs = [pairs[turns[name]]]
        elif len(pairs) == 4 and name in LIKE_ANOTHER:
            pairs = [pairs[turns[name] % 2], pairs[3 - turns[name] % 2]]
        found += [pytest.param(case, *pair, id=f"{name}-{pair[0]}-{pair[1]}") for pair in pairs]
    return found


def both(folder: Path, case: Case, adjacency: Adjacency, bound: int) -> tuple[Published, Published]:
    table, beside = neighbours(adjacency, bound)
    one = published(folder, lambda place: write(place, case, adjacency, bound, table), ACCOUNT, {})
    answers = {key: each.answer for key, each in one.questions.items()}
    return one, published(folder, lambda place: write(place, case, adjacency, bound, beside), ACCOUNT, answers)


@pytest.mark.long
@pytest.mark.parametrize(("case", "adjacency", "bound"), combinations({**CASES, **SOURCES}))
def test_neighbours_publish_the_same_bytes(tmp_path: Path, case: Case, adjacency: Adjacency, bound: int):
    """The same questions in the same order, no number moved beyond its event, and no other way into the folder."""
    one, other = both(tmp_path, case, adjacency, bound)
    assert [each.asked for each in other.questions.values()] == [each.asked for each in one.questions.values()]
    found = [
        (key, *move) for key, question in one.questions.items() for move in moves(question, other.questions[key])
    ]
    assert [each for each in found if each[2] > each[3]] == []
    assert case.asks in {type(question.query) for question in one.questions.values()}
    assert differing(one, other) == []


def test_every_registered_kind_has_a_case_or_a_reason():
    """A kind of product, generator, trainer, query, file or address that is registered tomorrow fails here."""
    products = [yaml.safe_load(case.product) for case in CASES.values()]
    assert {each["kind"] for each in products} == {*PRODUCTS}
    assert {each["generator"] for each in products if "generator" in each} == {*GENERATORS.built_in}
    assert {each["trainer"] for each in products if "trainer" in each} == {*TRAINERS.built_in}
    assert {case.asks for case in CASES.values()} | {*ACROSS} == {*QUERIES}
    assert {*SOURCES} == {*SUFFIXES, *get_args(Files)}
    assert {*ELSEWHERE} == {*ADDRESSES}
    assert {each for case in CASES.values() for each in case.rows_per_unit} == {1, 3}


@pytest.mark.long
def test_a_fact_that_goes_around_the_draws_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The wrong twin of the bytes: the size of the source's file in the record."""
    stated = record._source

    def leaking(run: Any) -> dict[str, Any]:
        return {**stated(run), "by": str(run.facts.spec.source.path.stat().st_size)}

    monkeypatch.setattr(record, "_source", leaking)
    one, other = both(tmp_path, CASES["tables"], "add_remove", 1)
    assert {"record.json", "record.html", "MANIFEST.json"} <= {*differing(one, other)}


@pytest.mark.long
def test_a_number_that_moves_further_than_its_event_is_found(tmp_path: Path):
    """The wrong twin of the moves: a unit has three rows, and the event says one."""
    one, other = both(tmp_path, CASES["tables"], "add_remove", 3)
    for key, question in one.questions.items():
        fewer = replace(question, stage=replace(question.stage, relation=Relation("add_remove", 1)))
        ((_, moved, allowed),) = moves(fewer, other.questions[key])
        assert moved > allowed
