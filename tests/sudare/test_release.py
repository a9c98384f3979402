"""What was published, in Python: tables, record, further rows, the check; and how each shows itself."""

import pickle
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import polars.selectors as cs
import pytest

import sudare
from sudare import html
from tests.sudare.conftest import House

MARKUP = "<b>&\"'"


class Balanced(HTMLParser):
    """Counts tags that are open, and remembers every name of one."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in ("br", "rect", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in ("rect", "path") or self.open.pop() == tag


def checked(drawn: str) -> set[str]:
    """Return the tags of a drawing that is well formed and brings nothing from elsewhere."""
    parser = Balanced()
    parser.feed(drawn)
    assert parser.open == []
    assert not re.search(r"<script|src=|href=|url\(|on\w+=", drawn)
    return parser.seen


def test_a_table_is_the_published_file_in_every_library(released: sudare.Release):
    table = released.tables["sex"]
    arrow, polars, pandas = table.to_arrow(), table.to_polars(), table.to_pandas()
    assert list(table.columns) == arrow.schema.names == polars.columns == list(pandas.columns)
    assert len(table) == arrow.num_rows == polars.height == len(pandas) == 2
    assert table.file == released.folder / "data" / "sex.parquet"
    assert arrow.column("count").to_pylist() == polars["count"].to_list() == pandas["count"].tolist()


def test_everything_shows_itself_in_words_and_in_a_notebook(
    house: House, released: sudare.Release, monkeypatch: pytest.MonkeyPatch
):
    """A table with whiskers, the account as a bar; nothing else than what is published or planned."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a kernel has it
    table = released.tables["sex"]
    shown = [house.ws, house.account, house.ws.plan(house.keys("shown")), released, released.record, table]
    for each in (*shown, released.verify(), house.contract):
        assert checked(each._repr_html_())  # type: ignore[attr-defined]
        assert "object at 0x" not in repr(each)
        assert "\x1b" not in repr(each)
    assert table._repr_html_().count("<svg") == 2 * 2
    assert house.account._repr_html_().count("<svg") == 1
    assert "of the budget is used" in house.account._repr_html_()


def test_no_object_has_a_row_or_an_exact_number(house: House, released: sudare.Release):
    """The exact counts of the example are known here: none stands anywhere, nor the number of rows."""
    exact = {f"{count:,}" for count in house.rows["sex"].value_counts()["count"]} | {f"{house.rows.height:,}"}
    table = released.tables["sex"].to_polars()
    # An exact count may be a published one, or the end of an interval, by chance.
    noisy = {f"{number:,}" for column in table.select(cs.integer()).iter_columns() for number in column}
    told = " ".join(
        repr(each) + each._repr_html_()  # type: ignore[attr-defined]
        for each in (house.ws, house.account, released, released.record, house.ws.plan(house.keys("shown")))
    )
    assert not {each for each in exact - noisy if each in told}


def test_labels_are_escaped():
    for drawn in (html.table([MARKUP], [[MARKUP]]), html.facts(MARKUP, [(MARKUP, MARKUP)]), html.plain(MARKUP)):
        assert "<b>" not in drawn
        assert "&lt;b&gt;&amp;" in drawn
    assert "<b>" not in html.shares([0.5, 0.25], MARKUP)


def test_an_account_tells_what_is_left_and_is_never_pickled(house: House, released: sudare.Release):
    """`left` is what one more release may have: a plan of it fits, and one of a little more does not."""
    left = house.account.left
    for epsilon, fits in ((left, True), (left + 1, False)):
        keys = house.keys("all", charge={"account": "adults", "epsilon": epsilon, "delta": 0})
        assert house.ws.plan(keys).fits is fits
    assert house.account.cap == 8
    assert "by-sex" in house.account.releases
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(house.account)


def test_the_record_says_what_is_not_protected(released: sudare.Release):
    record = released.record
    assert record["release"] == "by-sex"
    assert record.page.is_file()
    assert any("operator" in each for each in record.unprotected)
    assert set(record) == set(dict(record))


def test_a_changed_byte_is_found_and_another_key_too(released: sudare.Release, house: House, tmp_path: Path):
    """The check never returns for what does not hold."""
    changed = tmp_path / "v1"
    shutil.copytree(released.folder, changed)
    (changed / "label.html").chmod(0o644)
    (changed / "label.html").write_text("")
    with pytest.raises(sudare.VerificationFailed, match=r"label\.html"):
        sudare.verify(changed, house.ws.public_key)
    other = sudare.Workspace.init(tmp_path / "other").public_key
    with pytest.raises(sudare.VerificationFailed):
        released.verify(other)
    with pytest.raises(sudare.SpecRefused, match="public key"):
        sudare.Release(released.folder).verify()
    with pytest.raises(sudare.Refused):
        sudare.verify(tmp_path, house.ws.public_key)


def test_rows_are_sampled_from_a_model_alone(released: sudare.Release):
    """The same seed gives the same rows (docs/python.md samples for real); other kinds are refused."""
    with pytest.raises(sudare.SpecRefused, match="synthetic"):
        released.sample(3)
    with pytest.raises(sudare.SpecRefused, match="hex digits"):
        released.sample(3, seed="no")


def test_a_folder_that_is_no_version_is_refused(tmp_path: Path, released: sudare.Release):
    with pytest.raises(sudare.SourceUnreadable, match=r"record\.json"):
        sudare.Release(tmp_path)
    copied = tmp_path / "v1"
    shutil.copytree(released.folder, copied)
    (copied / "data" / "sex.parquet").chmod(0o644)
    (copied / "data" / "sex.parquet").write_bytes(b"PAR1")
    with pytest.raises(sudare.SourceUnreadable, match="no Parquet file"):
        sudare.Release(copied).tables["sex"].to_polars()
