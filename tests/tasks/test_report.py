"""The files of a version: tables that agree with what was drawn, a record, a page, and nothing private."""

import hashlib
import json
import re
import stat
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from console.accounts import fitting
from contracts.contract.contract import Contract
from contracts.release.tables.tables import Refine
from privacy.accounting.amounts import budget_used
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, event_from_json
from privacy.ledger.journal.signing import Signer
from privacy.refine.tables import estimate_total, kept_total, refine_table, table_sum
from tasks.records.facts import RunFacts
from tasks.records.files import part_names
from tasks.records.files import tidy_tables as tidy
from tasks.records.groups.terms import SCOPE_WORDS
from tasks.records.model.statement import FileStatement
from tasks.records.page.first_screen import brief, loss_unit
from tasks.records.private_record import AuditorRecords
from tasks.records.published_run import RunEvidence
from tasks.records.record import explained
from tasks.report import report
from tests.worlds.tables import Scenario, contract_yaml, first, property_yaml, second, spec_yaml, third
from tests.worlds.versions import SEED

SCENARIOS = {"town": first, "guild": second, "extract": third}
LARGEST_PAGE = 300_000


def stated(path: Path) -> FileStatement:
    return FileStatement(sha256=hashlib.sha256(path.read_bytes()).hexdigest(), bytes=path.stat().st_size)


class Reported:
    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.facts: RunFacts = scenario.run(folder / "run")
        self.folder, self.auditors = folder / "version", AuditorRecords(folder / "records", Signer(SEED))
        self.folder.mkdir()
        report(self.facts, folder=self.folder, auditors=self.auditors)
        self.record = json.loads((self.folder / "record.json").read_bytes())
        digests = {part["path"]: stated(self.folder / part["path"]) for part in self.record["files"]}
        accounts = (self.facts.account, *self.facts.other_accounts)
        self.told = explained(self.record, RunEvidence(self.facts.entries, accounts, digests))
        self.page = (self.folder / "record.html").read_text(encoding="utf-8")

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }


@pytest.fixture(scope="module", params=SCENARIOS)
def reported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    return Reported(SCENARIOS[request.param](), tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def guild(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    return Reported(second(), tmp_path_factory.mktemp("guild"))


def wide(sizes: list[int], cliques: str) -> Scenario:
    columns = "".join(
        property_yaml(
            f"c{place}",
            "integer",
            f"{{kind: integer, bounds: [1, {size}], bins: {{width: 1}}, nulls: {{policy: map, to: 1}}, "
            "provenance: {kind: declared}}",
        )
        for place, size in enumerate(sizes)
    )
    scenario = first()
    scenario.contract = contract_yaml(
        "w", "{unit: {kind: row, scope: block}, adjacency: add_remove}", columns, title="Wide"
    )
    product = f"{{kind: tables, mechanism: laplace, tables: {cliques}, refine: {{method: simplex}}, total: noisy}}"
    scenario.spec = spec_yaml("wide", "{path: w.csv}", product, account="w", epsilon="1", store="r")
    return scenario


@pytest.mark.long
def test_the_data_are_the_refined_tables_in_row_major_order(reported: Reported):
    """Every cell of the declared domain has a row with its labels and its refined count."""
    for table in reported.facts.tables:
        read = pq.read_table(reported.folder / f"data/{table.name}.parquet")
        assert read.column_names == [*table.columns, "count", "lower", "upper"]
        refined = table.refined
        for name, values in (("count", refined.values), ("lower", refined.intervals.lower)):
            assert np.array_equal(read[name].to_numpy(), values.reshape(-1))
        assert np.array_equal(read["upper"].to_numpy(), refined.intervals.upper.reshape(-1))
        labels = [reported.facts.contract.column(name).labels for name in table.columns]
        places = np.indices(table.refined.values.shape).reshape(len(labels), -1)
        for name, known, codes in zip(table.columns, labels, places, strict=True):
            assert read[name].to_pylist() == [known[code] for code in codes]


def test_the_measurements_are_the_draws_with_their_noise(reported: Reported):
    """Noisy counts as drawn; variance and interval are those of the declared noise."""
    facts = reported.facts
    drawn = [(table.name, table.measurement) for table in facts.tables]
    for name, measurement in drawn + ([("total", facts.total)] if facts.total else []):
        planned = facts.plan.draw(measurement.key)
        read = pl.read_parquet(reported.folder / f"measurements/{name}.parquet")
        values = measurement.values.reshape(-1)
        assert (read["noisy"].to_numpy() == values).all()
        assert (read["lower"].to_numpy() == values - planned.half_width).all()
        assert (read["upper"].to_numpy() == values + planned.half_width).all()
        assert set(read["variance"]) == {planned.variance}
        impossible = facts.contract.impossible(measurement.clique).reshape(-1)
        assert (read["structural_zero"].to_numpy() == impossible).all()


def test_the_total_is_one_row_where_one_was_drawn(reported: Reported):
    path = reported.folder / "measurements" / "total.parquet"
    assert path.exists() == (reported.facts.total is not None)
    if path.exists():
        assert pq.read_table(path).num_rows == 1


def test_parquet_says_where_it_comes_from_and_keeps_labels_as_dictionaries(reported: Reported):
    """Label columns are dictionary-encoded strings, zstd-compressed; the file names release, version and digests."""
    for path in reported.folder.rglob("*.parquet"):
        file = pq.ParquetFile(path)
        marks = {key.decode(): value.decode() for key, value in file.schema_arrow.metadata.items()}
        assert marks["sudare_release"] == reported.facts.spec.release
        assert marks["sudare_version"] == str(reported.facts.version.number)
        assert marks["sudare_contract_digest"] == reported.facts.contract.digest
        assert marks["sudare_spec_digest"] == reported.facts.spec.digest
        for field in file.schema_arrow:
            if field.name not in tidy.VALUE_COLUMNS:
                assert pa.types.is_dictionary(field.type)
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_csv_has_the_same_rows(guild: Reported):
    for table in guild.facts.tables:
        parquet = pl.read_parquet(guild.folder / f"data/{table.name}.parquet")
        csv = pl.read_csv(
            guild.folder / f"data/{table.name}.csv", schema_overrides=dict.fromkeys(table.columns, pl.String)
        )
        assert csv.rows() == parquet.rows()
    assert not list((guild.folder / "measurements").glob("*.csv"))


def test_tables_written_in_pieces_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where one piece ends and the next begins makes no difference, in Parquet and in CSV."""
    facts = second().run(tmp_path / "run")
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    for folder in (whole, pieces):
        if folder is pieces:
            monkeypatch.setattr(part_names, "PIECE", 7)
        for table in facts.tables:
            tidy.write_data(table, facts.contract, folder, marks={}, publish=facts.spec.publish)
    for table in facts.tables:
        for suffix in ("parquet", "csv"):
            name = f"data/{table.name}.{suffix}"
            read = pl.read_parquet if suffix == "parquet" else pl.read_csv
            assert read(whole / name).equals(read(pieces / name))


def test_a_column_named_like_a_value_is_refused(tmp_path: Path):
    scenario = wide([3], "[[c0]]")
    scenario.contract = scenario.contract.replace("name: c0", "name: count")
    scenario.spec = scenario.spec.replace("c0", "count")
    facts = scenario.run(tmp_path)
    with pytest.raises(ValueError, match="'count' is named like a column of values"):
        tidy.write_data(facts.tables[0], facts.contract, tmp_path, marks={}, publish=facts.spec.publish)


def test_the_release_can_be_made_again_from_what_is_public(reported: Reported):
    """Contract, totals and λ in the record, and the published noisy counts, give the published tables."""
    replay = reported.record["replay"]
    contract = Contract.model_validate(replay["contract"])
    assert contract.digest == replay["contract_digest"]
    measured = {}
    for table in replay["tables"]:
        shape = contract.shape(table["columns"])
        noisy = pq.read_table(reported.folder / table["measurements"])["noisy"].to_numpy().reshape(shape)
        event = event_from_json(next(d["event"] for d in replay["draws"] if d["key"] == f"table:{table['name']}"))
        assert isinstance(event, DiscreteLaplace | DiscreteGaussian)
        measured[table["name"]] = (noisy, contract.impossible(table["columns"]), event)
    total = replay["total"]["value"]
    for table in replay["tables"]:
        noisy, impossible, event = measured[table["name"]]
        shape = noisy.shape
        given = {"lambda": table["lambda"]} if table["lambda"] is not None else {}
        kept = total
        if replay["total"]["kept"] == "where_it_gains" and table["integers"]:
            shared = estimate_total(table_sum(*each) for each in measured.values())
            assert shared.value == total
            kept = kept_total(noisy, impossible, event, shared=shared)
        again = refine_table(
            noisy,
            Refine(method=table["method"], integers=table["integers"], **given),
            impossible=impossible,
            total=kept,
            event=event,
            ordered=contract.ordered_axes(table["columns"]),
        )
        published = pq.read_table(reported.folder / table["data"])["count"].to_numpy().reshape(shape)
        assert np.array_equal(again.values, published)
        form = "<i8" if table["integers"] else "<f8"
        assert hashlib.sha256(again.values.astype(form).tobytes()).hexdigest() == table["sha256"]
    digests = {draw["key"]: draw["sha256"] for draw in replay["draws"]}
    for table in reported.facts.tables:
        noisy = pq.read_table(reported.folder / f"measurements/{table.name}.parquet")["noisy"].to_numpy()
        assert hashlib.sha256(noisy.astype("<i8").tobytes()).hexdigest() == digests[f"table:{table.name}"]


def test_croissant_describes_every_data_file(reported: Reported):
    """Digest and size of each file, and a record set with its columns for each Parquet file."""
    described = json.loads((reported.folder / "croissant.json").read_bytes())
    assert described["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert f"bounded {SCOPE_WORDS[reported.facts.contract.unit.scope]}" in described["description"]
    data = {name: content for name, content in reported.files().items() if "/" in name}
    listed = {file["contentUrl"]: file for file in described["distribution"]}
    assert set(listed) == set(data)
    for name, content in data.items():
        assert listed[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert listed[name]["contentSize"] == f"{len(content)} B"
    paths = {file["@id"]: file["contentUrl"] for file in described["distribution"]}
    for records in described["recordSet"]:
        sources = {field["source"]["fileObject"]["@id"] for field in records["field"]}
        assert len(sources) == 1
        columns = pq.read_schema(reported.folder / paths[sources.pop()]).names
        assert [field["source"]["extract"]["column"] for field in records["field"]] == columns
    ids = [part["@id"] for part in described["distribution"] + described["recordSet"]]
    assert len(set(ids)) == len(ids)


def test_names_that_are_no_addresses_are_kept_out_of_links_and_ids(tmp_path: Path):
    """A table's name with spaces and signs: the files have it, Croissant numbers it, the page escapes it."""
    scenario = wide([3, 4], "[{columns: [c0, c1], name: 'my table, é=1'}]")
    scenario.contract = scenario.contract.replace("name: c0", "name: first column")
    scenario.spec = scenario.spec.replace("c0", "first column")
    reported = Reported(scenario, tmp_path)
    assert "data/my table, é=1.parquet" in reported.files()
    described = json.loads((reported.folder / "croissant.json").read_bytes())
    ids = [part["@id"] for records in described["recordSet"] for part in [records, *records["field"]]]
    ids += [file["@id"] for file in described["distribution"]]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[A-Za-z0-9._/-]+", part) for part in ids)
    links = {unquote(value or "") for name, value in read_page(reported.page).attributes if name == "href"}
    assert {"data/my table, é=1.parquet", "measurements/my table, é=1.parquet"} <= links


def test_only_the_owner_reads_the_auditors_record(reported: Reported):
    """record.auditor.json has mode 0600, also when it is written again, and lies outside of the version."""
    release = reported.record["release"]
    path = reported.auditors.folder / release / f"v{reported.record['version']}" / "record.auditor.json"
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parents[:3]} == {0o700}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    path.chmod(0o644)
    again = reported.folder.parent / "again"
    again.mkdir()
    report(reported.facts, folder=again, auditors=reported.auditors)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == before
    assert json.loads(before)["record"]["auditor"]["identity.finished"] == reported.facts.finished
    assert "record.auditor.json" not in reported.files()


def test_nothing_private_is_published(reported: Reported):
    """No path of the source or the spec, no exact time, no outcome of a check that is no gate, in any file."""
    facts = reported.facts
    secrets = [str(facts.spec.source.path), str(facts.spec.path.parent), facts.started, facts.finished, '"passed"']
    for name, content in reported.files().items():
        for secret in secrets:
            assert secret.encode() not in content, f"{secret} in {name}"


def test_the_same_run_gives_the_same_files(reported: Reported, tmp_path: Path):
    """A run that resumes writes the same bytes again."""
    report(reported.facts, folder=tmp_path, auditors=reported.auditors)
    for name, content in reported.files().items():
        assert (tmp_path / name).read_bytes() == content


class Tags(HTMLParser):
    """Collects tags, attributes and text; void elements need no end, all others must be closed in order."""

    VOID = frozenset({"meta", "br", "link", "img", "input", "hr"})
    SHAPES = frozenset({"rect", "path"})

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag


def read_page(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert tags.open == []
    return tags


def test_the_page_is_one_file_without_script_or_request(reported: Reported):
    """No script, no event handler, no address outside of the folder, well nested, and small."""
    tags = read_page(reported.page)
    assert not tags.tags & {"script", "iframe", "object", "embed", "link", "form", "base"}
    assert not [name for name, _ in tags.attributes if name.startswith("on") or name in ("srcset", "action")]
    pictures = [value or "" for name, value in tags.attributes if name == "src"]
    assert all(picture.startswith("data:image/png;base64,") for picture in pictures)
    links = {value or "" for name, value in tags.attributes if name == "href"}
    names = set(reported.files())
    assert all(link[1:] in tags.ids if link.startswith("#") else link in names for link in links)
    assert "url(" not in reported.page
    assert "@import" not in reported.page
    assert "default-src 'none'" in reported.page
    assert len(reported.page.encode()) < LARGEST_PAGE


def test_the_page_can_be_read_by_everybody(reported: Reported):
    """Language, viewport, headings, captions, scopes, labelled charts, and both colour schemes."""
    page, tags = reported.page, read_page(reported.page)
    assert '<html lang="en">' in page
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert len(tags.ids) == len(set(tags.ids))
    assert page.count("<h1") == 1
    assert page.count("<caption>") == page.count("</caption>") >= 2
    for chart in page.split("<svg")[1:]:
        opening = chart.partition(">")[0]
        labelled = 'aria-hidden="true"' in opening or ('role="img"' in opening and "aria-label=" in opening)
        assert labelled or 'x="' in opening


def test_the_page_tells_the_guarantee_the_cost_and_what_is_not_protected(guild: Reported):
    """The page says in words what the record says in fields."""
    told = guild.told.values
    assert f"{told['guarantee.odds_factor']}&nbsp;:&nbsp;1" in guild.page
    assert "one worker (at most 3 rows), over all time blocks" in guild.page
    assert "allowance of δ = 1e-8" in guild.page
    for quantity in told["unprotected.quantities"]:
        assert quantity.replace(">", "&gt;") in guild.page
    assert "sudare verify guild/v2 --key FILE" in guild.page
    for draw in told["ledger.draws"][1:]:
        assert f"<b>±{draw['half_width_95']}</b>" in guild.page
    gaps = guild.told.not_available
    assert guild.page.count("not available") > len(gaps) > 0


def test_the_first_screens_say_one_loss_and_the_share_of_the_budget_that_is_used(reported: Reported):
    """The claim is the only ε; what still fits and the units of the account's calculus are folded, or come last."""
    fits, values = fitting(reported.facts.account), reported.told.values
    unit = loss_unit(values)
    budget = budget_used(reported.facts.account.spent, reported.facts.account.cap)
    said = [f"ε\xa0{fits['laplace']}", *([f"ε {fits['gaussian']}"] if fits.get("gaussian") else [])]
    page = unescape(reported.page).replace("&nbsp;", "\xa0")
    first_screen = page[page.index('<dl class="glance">') : page.index("</header>")]
    assert not any(each in first_screen for each in said)
    assert budget in first_screen
    cost = page[page.index('id="cost"') : page.index('id="tables"')]
    before, folded = cost.split('<details class="annex">')
    assert brief(values["ledger.left"], up=False) in folded
    assert all(each.replace("\xa0", " ") in folded for each in said)
    claim = brief(values["guarantee.epsilon"], up=True)
    assert f"claims ε = {claim}" in before
    above, _, below = unescape(reported.page).partition('id="cost"')
    assert unit not in above + below.partition("<details")[0]
    assert unit in below
    entry = (reported.folder / "deployment.yaml").read_text(encoding="utf-8")
    claim = entry.index(f"claims epsilon {values['guarantee.epsilon']} at delta {values['guarantee.delta']}")
    assert claim < entry.index(f"epsilon {fits['laplace']} with Laplace noise") < entry.index("own units")
    label = (reported.folder / "label.html").read_text(encoding="utf-8")
    assert f"{budget}." in label
    assert "with Laplace noise" not in label


def test_text_of_contract_and_spec_is_escaped(tmp_path: Path):
    """Markup in names, labels, descriptions and references stays text."""
    attack = "<script>alert(1)</script>"
    scenario = first()
    scenario.contract = scenario.contract.replace("name: People of the town", f"name: '{attack}'")
    scenario.contract = scenario.contract.replace("Town planning.", attack).replace("Nothing of visitors.", attack)
    scenario.contract = scenario.contract.replace("Age in years.", f"'{attack}'").replace(
        "Cite us.", """'"><b x=y>'"""
    )
    scenario.contract = scenario.contract.replace(
        "[female, male]", f"['{attack}', '\"><img src=x onerror=alert(1)>']"
    )
    scenario.contract = scenario.contract.replace("census questionnaire, item 2", attack)
    scenario.place = (attack, "2024")
    scenario.spec = scenario.spec.replace("account: town-2024", f"account: '{attack}'")
    scenario.spec = scenario.spec.replace("[age, sex]", "{columns: [age, sex], name: 'x=y'}")
    reported = Reported(scenario, tmp_path)
    tags = read_page(reported.page)
    assert not tags.tags & {"script", "img"}
    assert not [name for name, _ in tags.attributes if name in ("onerror", "x=y")]
    assert reported.page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 6


@pytest.mark.parametrize("sizes", [[500, 400], [100, 50, 40]])
def test_the_page_of_a_large_table_is_small(tmp_path: Path, sizes: list[int]):
    """200,000 cells: the page shows the largest, all by rank, and how many have which size."""
    cliques = "[[" + ", ".join(f"c{place}" for place in range(len(sizes))) + "]]"
    reported = Reported(wide(sizes, cliques), tmp_path)
    assert len(reported.page.encode()) < LARGEST_PAGE
    assert "200,000 cells" in reported.page
    assert "15 largest cells" in reported.page
    assert 'class="rank"' in reported.page
    assert ('<figure class="map">' in reported.page) == (len(sizes) == 2)
    assert 'class="errors"' in reported.page


@pytest.mark.long
def test_the_page_of_many_tables_stays_readable(tmp_path: Path):
    """40 tables: each is there, by its numbers alone."""
    cliques = ", ".join(f"[c{a}, c{b}]" for a in range(10) for b in range(a))[:-1] + "]"
    reported = Reported(wide([9] * 10, f"[{cliques}]"), tmp_path)
    assert len(reported.facts.tables) == 45
    assert len(reported.page.encode()) < 1.8 * LARGEST_PAGE
    assert reported.page.count('<article class="table annex"') == 45


def test_the_page_shows_the_other_accounts_that_were_charged(guild: Reported):
    """The account for the people's lifetime stands beside the one that the spec names, with what it has left."""
    assert "guild-2020/lifetime" in guild.page
    assert "charged to them too" in guild.page
