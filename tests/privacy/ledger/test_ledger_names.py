"""One name, one cap: no other name, spelling or source is a second budget; on either store."""

from dataclasses import replace

import pytest

from contracts.periods.time_blocks import time_block
from privacy.ledger.entries import BudgetExceeded, LedgerRefusal
from tests.privacy.ledger.ledgers import SOURCE, Place, bind, laplace, opened, request, terms


@pytest.mark.parametrize("block", ["2026-Q4", "2026-10-01..2027-01-01"])
@pytest.mark.parametrize("changed", [{}, {"unit": "person_id"}, {"adjacency": "replace_one"}])
def test_a_second_account_of_the_same_days_is_refused_however_they_are_written(
    place: Place, block: str, changed: dict[str, str]
):
    ledger = opened(place, "2026-Q4")
    second = terms(block=block, name="another", **changed)
    with pytest.raises(LedgerRefusal, match=r"(?s)these have people-2026-Q4.*second cap on the same people"):
        ledger.open_account(second)
    ledger.close_account("people-2026-Q4")
    with pytest.raises(LedgerRefusal, match="second cap"):
        ledger.open_account(second)
    others = replace(terms(block=block, name="firms"), population="firms")
    assert ledger.open_account(others).spent == 0


@pytest.mark.parametrize("changed", [{"unit": "person_id"}, {"adjacency": "replace_one"}])
@pytest.mark.parametrize("block", ["2026", "2026-12", "2026-W01", "lifetime"])
def test_people_of_overlapping_days_have_one_unit_and_one_relation(place: Place, block: str, changed: dict[str, str]):
    ledger = opened(place, "2026-Q4", "2026-Q1")
    with pytest.raises(LedgerRefusal, match="do not add up") as refused:
        ledger.open_account(terms(block=block, **changed))
    assert "as account people-2026-Q" in str(refused.value)
    for between in ("2026-Q2", "2026-Q3"):
        assert ledger.open_account(terms(block=between, **changed)).spent == 0


@pytest.mark.parametrize("alike", ["People", "peo ple", "PEOPLE ", "ｐeople", "peo\u00adple", "people.", "(people)"])
def test_a_population_is_written_in_one_way(place: Place, alike: str):
    ledger = opened(place, "2026-Q4")
    with pytest.raises(LedgerRefusal, match=r"'people', as it is written elsewhere"):
        ledger.open_account(terms(block="2027", population=alike))
    with pytest.raises(LedgerRefusal, match="one name"):
        bind(ledger, "2027", population=alike)


@pytest.mark.parametrize(
    ("known", "alike"),
    [
        ("cocoa", "сосоа"),  # all of it Cyrillic
        ("cap", "сар"),
        ("ADULTS", "aduIts"),
        ("adults-1", "adults-l"),
        ("people", "𝓹𝓮𝓸𝓹𝓵𝓮"),
        ("modern", "modem"),
        ("НАСЕЛЕНИЕ", "население"),
        ("okov", "οκον"),  # all of it Greek
    ],
)
def test_a_population_that_looks_like_another_is_no_second_budget(place: Place, known: str, alike: str):
    """Compared by what the letters look like (UTS 39), whichever of the two is there first."""
    ledger = place.open()
    bind(ledger, "2026", population=known)
    with pytest.raises(LedgerRefusal, match="one name"):
        ledger.open_account(terms(block="2027", population=alike))
    assert ledger.open_account(terms(block="2027", population="others")).spent == 0


@pytest.mark.parametrize("name", ["реople", "peοple", "pеople-2", "ռatients"])
def test_a_population_of_mixed_scripts_is_refused(place: Place, name: str):
    """In a name without any other like it, too; Latin with Japanese is written every day."""
    ledger = place.open()
    with pytest.raises(LedgerRefusal, match="letters of"):
        ledger.open_account(terms(block="2026", population=name))
    with pytest.raises(LedgerRefusal, match="letters of"):
        bind(ledger, "2026", population=name)
    for honest in ("患者 A", "пациенты 2", "ασθενείς", "Patientinnen-Ω", "サンプルの人々"):
        if honest != "Patientinnen-Ω":
            bind(ledger, "2026", population=honest, source=f"file:{honest}")
        else:
            with pytest.raises(LedgerRefusal, match="Greek and Latin"):
                bind(ledger, "2026", population=honest, source=f"file:{honest}")


def test_an_underscore_makes_no_other_population(place: Place):
    ledger = place.open()
    bind(ledger, "2026", population="us-adults")
    with pytest.raises(LedgerRefusal, match="one name"):
        ledger.open_account(terms(block="2026", population="US_Adults"))


MARKED = "a control character or a direction mark"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((name, f"(?s){len(name)} characters.*1 to 200 characters") for name in ("", "  ", "\n", "p" * 201)),
        *((name, MARKED) for name in ("peo\tple", "people\n", "peo\u202eple", "\u200fpeople")),
    ],
)
def test_a_name_that_shows_nothing_fits_no_column_or_reads_otherwise_is_refused(place: Place, name: str, said: str):
    ledger = opened(place, "2026-Q4")
    entries = ledger.journal()
    for field in ("name", "population", "unit"):
        with pytest.raises(LedgerRefusal, match=said) as refused:
            ledger.open_account(replace(terms(block="2027"), **{field: name}))
        assert said != MARKED or not set("\t\u202e\u200f") & set(str(refused.value))
    with pytest.raises(LedgerRefusal, match=said):
        bind(ledger, "2027", population=name)
    assert ledger.journal() == entries


def test_a_name_may_have_two_hundred_characters_in_any_script(place: Place):
    long = "é" * 200
    ledger = place.open()
    account = replace(terms(block="2026"), name=long, population=long, unit=long)
    assert ledger.open_account(account).terms == account
    bind(ledger, "2026", population=long)
    ledger.reserve(request(account=long, unit=long))
    assert ledger.verify() == []


def test_a_bound_source_never_changes_its_people(place: Place):
    ledger = place.open()
    bind(ledger, "2026-Q4")
    entries = ledger.journal()
    bind(ledger, "2026-10-01..2027-01-01")
    assert ledger.journal() == entries
    assert ledger.sources() == {SOURCE: ("people", time_block("2026-Q4"))}
    for population, block in (("firms", "2026-Q4"), ("people", "2026"), ("people", "2026-Q3")):
        with pytest.raises(LedgerRefusal, match="never changes its people") as refused:
            bind(ledger, block, population=population)
        assert f"found: {population}, block {block}\n" in str(refused.value)
        assert "allowed: people, block 2026-Q4\n" in str(refused.value)


@pytest.mark.parametrize(
    "renamed", [{"release": "other"}, {"spec_digest": "f" * 64}, {"run_key": "other"}, {"contract_digest": "f" * 64}]
)
def test_another_spec_name_or_run_opens_no_new_budget_and_a_renamed_view_is_nobody_s(
    place: Place, renamed: dict[str, str]
):
    ledger = opened(place, "2026-Q4", epsilon=1)
    bind(ledger, "2026-Q4")
    ledger.reserve(request(account="people-2026-Q4"))
    again = replace(request("run-2", account="people-2026-Q4", noise=laplace(0.1)), **renamed)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(again)
    with pytest.raises(LedgerRefusal, match="bound to nobody"):
        ledger.reserve(replace(again, source="file:copy-of-people.parquet"))
