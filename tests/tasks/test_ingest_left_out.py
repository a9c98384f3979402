"""Columns that a contract leaves out, and lattices beside a sum: what enters a snapshot, and what does not."""

import gzip
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.domains.lattice import ValueLattice
from contracts.errors import Finding, GateBroken, SpecRefused
from contracts.release.spec import Source
from privacy.private_table import PrivateTable
from tasks.ingest import ingest
from tasks.storage.snapshot.fingerprint import fingerprint
from tasks.storage.sources.gate_words import PARTLY_READ, READABLE, readable
from tests.tasks.intake import KEY, ROWS, SECRET, make_contract, take_in, write_csv

LEFT = ("name", "remark, or note")
UTF_8 = "save the file as UTF-8, for example: iconv -f LATIN1 -t UTF-8 FILE > NEW_FILE"


def _contract(folder: Path, left_out: tuple[str, ...] = LEFT, **options: int) -> Contract:
    return make_contract(folder, **options).model_copy(update={"left_out": left_out})  # type: ignore[arg-type]


@pytest.mark.parametrize("rows_per_unit", [None, 1])
def test_the_snapshot_does_not_depend_on_what_is_left_out(tmp_path: Path, rows_per_unit: int | None):
    """The same rows with other names and remarks: the same keyed hash as without these columns at all."""
    options = {} if rows_per_unit is None else {"rows_per_unit": rows_per_unit}
    contract, hashes = _contract(tmp_path, **options), []
    rows = [f"p{n},{row}" for n, row in enumerate(ROWS)] if rows_per_unit else list(ROWS)
    head = "person,age,sex,wage,since" if rows_per_unit else "age,sex,wage,since"
    for place, text in enumerate(("", SECRET, "ö", None)):
        folder = tmp_path / str(place)
        folder.mkdir()
        lines = rows if text is None else [f"{text},{row},{text}" for row in rows]
        header = head if text is None else f'name,{head},"remark, or note"'
        hashes.append(take_in(write_csv(folder, *lines, header=header), contract, folder).keyed_hash)
        assert not any(SECRET.encode() in file.read_bytes() for file in (folder / "run").rglob("*") if file.is_file())
    assert len(set(hashes)) == 1


def test_other_columns_are_refused_as_ever(tmp_path: Path):
    """Only what is named is left out; a name in another case is another name."""
    source = write_csv(tmp_path, *(f"x,{row}" for row in ROWS), header="Name,age,sex,wage,since")
    with pytest.raises(GateBroken, match="'Name'"):
        take_in(source, _contract(tmp_path), tmp_path)


def test_the_place_of_another_column_is_that_of_the_file(tmp_path: Path):
    """Columns that are left out count: who opens the file finds the sixth column, not the fifth."""
    source = write_csv(tmp_path, *(f"x,{row},1" for row in ROWS), header="name,age,sex,wage,since,extra")
    with pytest.raises(GateBroken) as refused:
        take_in(source, _contract(tmp_path), tmp_path)
    [finding] = refused.value.findings
    assert (finding.field, "left_out" in finding.remedy) == ("column 6", True)
    empty = write_csv(tmp_path, *(f"{row},x,1" for row in ROWS), header="age,sex,wage,since,name,")
    with pytest.raises(GateBroken, match="column 6"):
        take_in(empty, _contract(tmp_path), tmp_path)


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz"])
def test_only_what_is_read_has_to_be_utf8(tmp_path: Path, name: str):
    """As the record says it. A byte of Latin-1 is named by its line in a column that is read, and nowhere else."""
    read = "a,34,F,10.5,2021-03-01\n" * 2
    for place, (row, refused) in enumerate(((b"caf\xe9,34,F,10.5,2021-03-01\n", False), (b"a,3,\xe9,1,2\n", True))):
        content = b"name,age,sex,wage,since\n" + read.encode() + row
        folder = tmp_path / str(place)
        folder.mkdir()
        (folder / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        source, contract = Source(path=folder / name), _contract(folder)
        assert any("in UTF-8 in the columns that are read" in gate for gate in readable(source, contract))
        if not refused:
            take_in(source, contract, folder)
            continue
        with pytest.raises(GateBroken) as raised:
            take_in(source, contract, folder)
        [finding] = raised.value.findings
        assert (finding.where, finding.found) == (f"{folder / name}:4", "bytes that are not UTF-8 text")
    plain = make_contract(tmp_path)
    assert readable(Source(path=tmp_path / name), plain)[0] == READABLE["csv"]


@pytest.mark.parametrize(
    ("sex", "types"), [("sex", None), ("upper(sex) AS sex", {"sex": "text"}), ("sex", {"name": "text"})]
)
def test_behind_a_select_a_byte_of_latin_1_is_named_in_the_same_words(
    tmp_path: Path, sex: str, types: dict[str, str] | None
):
    """As without one, by its line; and the gate says that only what the select uses has to be UTF-8."""
    where = " WHERE length(name) > 0" if types and "name" in types else ""
    select = f"SELECT age, {sex}, wage, since FROM source{where}"
    contract, found = make_contract(tmp_path), []
    for place, row in enumerate((b"a,3,\xe9,1,2\n", b"caf\xe9,34,F,10.5,2021-03-01\n")):
        folder = tmp_path / str(place)
        folder.mkdir()
        (folder / "people.csv").write_bytes(b"name,age,sex,wage,since\na,34,F,10.5,2021-03-01\n" + row)
        source = Source.model_validate({"path": folder / "people.csv", "select": select, "types": types})
        assert readable(source, contract)[0] == PARTLY_READ["csv"]
        try:
            take_in(source, contract, folder)
        except GateBroken as broken:
            found += [(place, str(each).replace(str(folder), "")) for each in broken.findings]
    words = Finding("/people.csv:3", "encoding", "bytes that are not UTF-8 text", "UTF-8", UTF_8)
    assert found == [(place, str(words)) for place in range(2 if where else 1)]


def test_a_select_says_itself_what_is_read(tmp_path: Path):
    """It may use a column that is left out, and may not hand one on."""
    source = write_csv(tmp_path, *(f"x,{row}" for row in ROWS), header="name,age,sex,wage,since")
    chosen = "SELECT * EXCLUDE (name) FROM source"
    (tmp_path / "one").mkdir()
    take_in(source.model_copy(update={"select": chosen}), _contract(tmp_path), tmp_path / "one")
    with pytest.raises(SpecRefused, match="'name'"):
        take_in(source.model_copy(update={"select": "SELECT * FROM source"}), _contract(tmp_path), tmp_path)


def test_one_column_can_be_read_in_two_groupings(tmp_path: Path):
    """Single years for one table, groups for another: declared both, and handed on twice by the select."""
    text = "id: x\nversion: 1.0.0\nunit: {kind: row, scope: block}\nadjacency: add_remove\n"
    text += "defaults: {nulls: category, provenance: declared}\n"
    text += "columns: {age: 0..99 by 1, age_group: '0..99 at 18, 40', sex: [F, M]}\n"
    (tmp_path / "two.yaml").write_text(text)
    contract = load_contract(tmp_path / "two.yaml")
    select = "SELECT age, age AS age_group, sex FROM source"
    source = write_csv(tmp_path, *ROWS).model_copy(update={"select": select})
    table = take_in(source, contract, tmp_path)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        codes = connection.execute("SELECT * FROM codes ORDER BY ALL").fetchall()
    assert codes == [(17, 0, 1), (34, 1, 0), (99, 2, 2), (100, 3, 0)]


def test_a_table_of_a_database_too(tmp_path: Path):
    """The columns stay where they are."""
    csv = write_csv(tmp_path, *(f"x,{row}" for row in ROWS), header="name,age,sex,wage,since")
    with duckdb.connect(str(tmp_path / "people.duckdb")) as session:
        session.execute(f"CREATE TABLE people AS SELECT * FROM read_csv('{csv.path}', all_varchar = true)")
    take_in(Source(path=tmp_path / "people.duckdb", table="people"), _contract(tmp_path), tmp_path)


AGE = ValueLattice("age", Decimal(0), Decimal(99), Decimal(1), counts_missing=True)
WAGE = ValueLattice("wage", Decimal(0), Decimal(100), Decimal("0.5"), counts_missing=True)


def taken(source: Source, contract: Contract, folder: Path, *lattices: ValueLattice) -> PrivateTable:
    return ingest(source, contract, folder=folder / "run", key=KEY, memory_limit="256MB", lattices=lattices)


def codes(table: PrivateTable) -> tuple[list[str], list[tuple[int, ...]]]:
    with duckdb.connect(str(table.path), read_only=True) as connection:
        found = connection.execute("SELECT * FROM codes")
        return [each[0] for each in found.description or ()], found.fetchall()


def test_lattices_stand_behind_the_codes_row_by_row(tmp_path: Path):
    """34, 17, "?" and 120 years; wages of 10.5, 700, none and 12.5: clipped, in steps, plus one; 0 is missing."""
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    names, rows = codes(taken(source, contract, tmp_path, AGE, WAGE))
    assert names == ["age", "sex", "wage", "since", AGE.name, WAGE.name]
    assert [row[4:] for row in rows] == [(35, 22), (18, 201), (0, 0), (100, 26)]
    plain = codes(taken(source, contract, tmp_path / "plain"))
    assert ([*plain[0]], [row[:4] for row in rows]) == (names[:4], plain[1])


OTHERS: dict[str, tuple[ValueLattice, ...]] = {
    "none": (),
    "one less": (AGE,),
    "one more": (AGE, WAGE, replace(WAGE, step=Decimal(1))),
    "another order": (WAGE, AGE),
    "another step": (AGE, replace(WAGE, step=Decimal(1))),
    "a wider clip": (AGE, replace(WAGE, high=Decimal(200))),
    "a clip that no row tells apart": (AGE, replace(WAGE, low=Decimal("-0.5"), high=Decimal("99.5"))),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_snapshot_of_other_lattices_is_not_taken_up_and_has_another_hash(tmp_path: Path, what: str):
    """Of the same source under the same contract; the snapshot is made again in its place."""
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    first = taken(source, contract, tmp_path, AGE, WAGE)
    other = taken(source, contract, tmp_path, *OTHERS[what])
    assert other.path == first.path
    assert other.keyed_hash != first.keyed_hash
    assert codes(other)[0][4:] == [each.name for each in OTHERS[what]]
    assert taken(source, contract, tmp_path, AGE, WAGE).keyed_hash == first.keyed_hash


def test_a_snapshot_of_the_same_lattices_is_taken_up(tmp_path: Path):
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    first = taken(source, contract, tmp_path, AGE, WAGE)
    before = first.path.stat().st_mtime_ns
    again = taken(source, contract, tmp_path, AGE, WAGE)
    assert (again.keyed_hash, again.path.stat().st_mtime_ns) == (first.keyed_hash, before)


def test_a_value_that_moves_within_its_cell_changes_the_hash(tmp_path: Path):
    """Codes alone would be the same: a release of sums of other values is another run."""
    contract = make_contract(tmp_path)
    hashes = []
    for place, wage in enumerate(("10.5", "11.5")):
        source = write_csv(tmp_path, ROWS[0].replace("10.5", wage), name=f"{place}.csv")
        plain, summed = (taken(source, contract, tmp_path / f"{place}{n}", *a) for n, a in enumerate(((), (WAGE,))))
        hashes.append((plain.keyed_hash, summed.keyed_hash))
    assert hashes[0][0] == hashes[1][0]
    assert hashes[0][1] != hashes[1][1]


def test_a_fingerprint_tells_lattices_apart_and_is_as_before_without_them(tmp_path: Path):
    source = write_csv(tmp_path, *ROWS)
    found = {what: fingerprint(source, [1], KEY, lattices) for what, lattices in OTHERS.items()}
    assert len(set(found.values())) == len(OTHERS)
    assert found["none"] == fingerprint(source, [1], KEY)
