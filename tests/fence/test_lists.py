"""Today's verification refuses what the fence lists: nothing disappears unnoticed."""

import json

import pytest

from tests.fence import findings, recipes


@pytest.mark.long
def test_the_code_refuses_exactly_the_findings_that_the_file_lists():
    """What is new is added by `python -m tests.fence.findings`; what is gone has to be said in the commit."""
    listed = {each["id"]: each for each in json.loads(findings.FILE.read_text("utf-8"))}
    now = {each["id"]: each for each in findings.Source().listed()}
    assert listed.keys() - now.keys() == set(), "no longer refused"
    assert now.keys() - listed.keys() == set(), "not listed"
    told = ("check", "where", "field", "found", "allowed")
    assert [name for name, each in now.items() if any(listed[name][key] != each[key] for key in told)] == []
    assert len(now) > 600


def test_every_recipe_in_code_is_in_the_file_and_the_other_way_round():
    """The parametrised tests of the worlds apply the same dicts, so what is listed is refused."""
    assert recipes.listed() == json.loads(recipes.FILE.read_text("utf-8"))


def test_every_recipe_says_what_is_false_where_and_which_rules_refuse_it():
    """A fact stands once in a world."""
    listed = recipes.listed()
    assert all(each["fact"] and each["rules"] and all(each["rules"]) for each in listed)
    assert len({(each["world"], each["fact"]) for each in listed}) == len(listed)
