"""The domain of pictures: what a contract may declare, and what it is told where it may not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from contracts.contract.column import Column
from contracts.contract.contract import Contract, checks
from contracts.contract.terms import PrivacyTerms, check_names, contradictions
from contracts.domains.image import ImageDomain
from contracts.domains.kinds import Domain

DECLARED: dict[str, Any] = {
    "kind": "image",
    "height": 3,
    "width": "2",
    "levels": 4,
    "nulls": {"policy": "map", "to": "1"},
    "provenance": {"kind": "declared"},
}
TERMS: dict[str, Any] = {"unit": {"kind": "row", "scope": "block"}, "adjacency": "add_remove"}


def column(**changed: Any) -> Column:
    return Column.model_validate({"name": "scan", "logical_type": "array", "domain": {**DECLARED, **changed}})


def label() -> Column:
    domain = {"kind": "categories", "values": ["a", "b"], "nulls": {"policy": "map", "to": "a"}}
    provenance = {"provenance": {"kind": "declared"}}
    return Column.model_validate({"name": "label", "logical_type": "string", "domain": {**domain, **provenance}})


def test_a_picture_has_a_code_a_place_and_a_label_a_level() -> None:
    scan = column()
    assert isinstance(scan.domain, ImageDomain)
    assert (scan.length, scan.size, scan.labels, scan.null_code) == (6, 4, ("0", "1", "2", "3"), 1)
    assert not scan.ordered
    assert label().length == 1


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"height": 0}, "from 1 to"),
        ({"levels": 1}, "from 2 to 256"),
        ({"levels": 257}, "from 2 to 256"),
        ({"height": 1, "width": 1}, "2 to 16384"),
        ({"height": 1000, "width": 1000}, "2 to 16384"),
        ({"height": 2.5}, "whole number"),
        ({"nulls": {"policy": "category"}}, "policy: map"),
        ({"nulls": {"policy": "map", "to": "4"}}, "a level from 0 to 3"),
        ({"nulls": {"policy": "map", "to": "dark"}}, "a level from 0 to 3"),
        ({"missing": ["?"]}, "no texts"),
        ({"bins": 3}, "Extra inputs"),
    ],
)
def test_what_a_picture_cannot_be_is_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        TypeAdapter(Domain).validate_python({**DECLARED, **changed})


@pytest.mark.parametrize("logical_type", ["integer", "number", "string", "date", "boolean"])
def test_a_picture_is_an_array_and_an_array_a_picture(logical_type: str) -> None:
    with pytest.raises(ValidationError, match="kind image on logicalType"):
        Column.model_validate({"name": "scan", "logical_type": logical_type, "domain": DECLARED})
    with pytest.raises(ValidationError, match="on logicalType array"):
        Column.model_validate({**label().model_dump(), "logical_type": "array"})


def test_zeros_and_constraints_are_not_about_pictures() -> None:
    """A picture has no cells that could be impossible, and no order."""
    for terms in (
        {"structural_zeros": [{"scan": ["3"], "label": ["a"]}]},
        {"constraints": [{"less_or_equal": ["label", "scan"]}]},
        {"constraints": [{"determines": {"by": "label", "column": "scan", "mapping": {"a": "1", "b": "2"}}}]},
    ):
        read = PrivacyTerms.model_validate({**TERMS, **terms})
        problems = contradictions(read, [column(), label()], ["scan", "label"])
        assert any("a column of pictures" in problem.found for problem in problems), terms


def test_the_checks_of_a_picture_have_the_names_that_gates_may_use() -> None:
    fields = {"apiVersion": "v3.1.0", "id": "i", "version": "1", "name": "n", "table": "t"}
    contract = Contract.model_validate({**fields, **TERMS, "columns": (column(), label())})
    named = {check.name: check for check in checks(contract)}
    assert set(named) == set(check_names(contract.columns, contract.unit))
    assert named["type:scan"].parameters["places"] == 6
    assert (named["domain:scan"].parameters["low"], named["domain:scan"].parameters["high"]) == ("0", "3")
    assert contract.pictures() == ("scan",)
    assert contract.pictures(["label"]) == ()
