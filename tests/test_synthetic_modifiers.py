"""Modifiers of synthetic rows are rooms: the core asks their table, and names none of them."""

import ast
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from pydantic import ValidationError

from console.products.synthetic import ModifierView, with_lines
from contracts.plug_ins import load_place
from contracts.reading.scalars import Problem
from contracts.release.product import SyntheticModifier
from contracts.release.synthetic import (
    EXCLUSIONS,
    MODIFIERS,
    UNUSABLE,
    Exclusion,
    ModifierPart,
    ModifierParts,
    SyntheticProduct,
    asked_modifiers,
    modifier_parts,
    modifier_problems,
    spec_modifiers,
)
from privacy.generators.calibration import FitModifier, whole_fitter
from privacy.generators.generator import SynthesisTask
from privacy.marginals.graph import CellDomain
from tasks.verification.fitted.modifier_checks import ModelModifierChecks

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("contracts", "privacy", "tasks", "flows", "console", "sudare")
PLACES: Final = ("spec", *get_args(ModifierPart))
"""The parts of a modifier that stand in modules of their own; views share one."""
SEAM: Final = frozenset(
    {
        "contracts.release.synthetic",  # the table
        "privacy.generators.generator",  # the fields of a task
        "tasks.records.model.version_statements",  # the keys of the replay block
        "console.products.synthetic",
    }
)
"""The files that a new modifier is added to."""
ROOMS: Final = {
    "inside_bins": {"contracts.release.joined_cells"},
    "linked_tables": {*("privacy.generators.linked_tables",), "tasks.records.descriptions.key_columns"},
    "copies": {"privacy.generators.copied_model", "privacy.inference.combining"},
}
"""The modules of a modifier beside those that the table names."""
WORDS: Final = {
    "inside_bins": {
        "inside_bins",
        "measured_inside",
        "inside_error",
        "privacy.generators.generator.InsideTask",
        "joins_bins",
    },
    "linked_tables": {"linked_tables", "counts_parents", "parent_marginals"},
    "copies": {"takes_copies", "copies"},
}
"""Names and texts of code that mean a modifier, beside the names of its modules."""
OUTSIDE: Final = {
    "inside_bins": {
        "privacy.generators.bin_weights",
        "tasks.records.draws.marginal",  # marginals over joined bins
        "tasks.verification.draws.sensitivity_counts",
    },
    "linked_tables": {
        "privacy.grant.grant",  # rows of parents have their own bound
        "tasks.evaluation.linked_scores",
        "tasks.records.descriptions.descriptions",  # keys of tables
        "flows.prepare",
    },
    "copies": {
        "sudare.inference",  # the interface in Python
        "sudare.release",
        "tasks.inference",
    },
}
"""Who names a modifier all the same. A file may leave this list, and none may come."""


def modules() -> dict[str, set[str]]:
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[module] = said(path.read_text(encoding="utf-8"))
    return found


def said(text: str) -> set[str]:
    """The modules that a file imports, and the attributes, arguments and texts in it."""
    words: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            words |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.keyword) and node.arg:
            words.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)
    return words


SHARED: Final = frozenset(
    {"contracts.release.synthetic", "flows.evaluation.evaluate", "tasks.records.modifiers.linked_record"}
)
"""Modules with a part of a modifier and much else: to import something else from them names no modifier."""


def room(modifier: str) -> set[str]:
    """The modules of a modifier; joined bins live with counts inside bins."""
    parts = MODIFIERS[modifier]
    own = {getattr(parts, name) for name in PLACES if name != "view"}
    return {place.partition(":")[0] for place in own if place is not None} | ROOMS[modifier]


def outside(modifier: str, found: dict[str, set[str]]) -> set[str]:
    own = room(modifier)
    generators = {name for name in found if name.startswith("privacy.generators.")}
    meant = WORDS[modifier] | (own - SHARED)
    naming = {name for name, words in found.items() if name not in SEAM | own and meant & words}
    # A generator says of itself by a word which modifiers it takes.
    return {
        name
        for name in naming
        if name not in generators or (meant - {f"takes_{modifier}", "joins_bins"}) & found[name]
    }


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    return modules()


@pytest.mark.parametrize("modifier", ROOMS)
def test_no_further_file_names_a_modifier(modifier: str, found: dict[str, set[str]]):
    """What a new modifier touches is counted by who names those of today; the list can only become shorter."""
    assert outside(modifier, found) == OUTSIDE[modifier]


def test_a_file_that_names_a_modifier_is_found(found: dict[str, set[str]]):
    """The wrong case: an import, an attribute, a key."""
    for text in ("from contracts.release.copies import copy_path", "x = product.copies", "y = replay['copies']"):
        assert "tasks.added" in outside("copies", {**found, "tasks.added": said(text)})


@pytest.mark.parametrize("parts", MODIFIERS.values(), ids=MODIFIERS)
def test_every_part_stands_where_the_table_says(parts: ModifierParts):
    for place in (getattr(parts, name) for name in PLACES):
        assert place is None or isinstance(load_place(place), type)
    if parts.model is not None:
        kind, reader = parts.model
        assert callable(load_place(reader))
        assert kind
        assert parts.checks is not None
        assert issubclass(load_place(parts.checks), ModelModifierChecks)


def test_exclusions_and_uses_are_of_modifiers_and_each_stands_once():
    pairs = [frozenset({each.modifier, each.beside}) for each in EXCLUSIONS]
    assert len(set(pairs)) == len(pairs)
    assert set().union(*pairs) <= set(MODIFIERS)
    uses = [(each.modifier, each.use) for each in UNUSABLE]
    assert len(set(uses)) == len(uses)
    assert {modifier for modifier, _ in uses} <= set(MODIFIERS)


class NotedModifier(SyntheticModifier):
    """A modifier from outside of the tree: its generator says so in a note."""

    def asked(self, product: Any) -> bool:
        return bool(product.options.get("noted"))

    def contradiction(self, product: Any) -> Problem | None:
        return Problem("noted beside 7 rows", "other rows") if product.rows == 7 else None


class NotedFit(FitModifier):
    def stage(self, generator: Any, task: SynthesisTask) -> Any:
        return ("noted", generator)


class PlainFit(FitModifier):
    draws = False

    def stage(self, generator: Any, task: SynthesisTask) -> Any:
        return ("plain", generator)


class NotedView(ModifierView):
    def version_lines(self, replay: dict[str, Any]) -> list[tuple[str, str]]:
        return [("noted", "yes")]


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[SyntheticProduct]:
    """A product that asks for two modifiers beside those of the tree."""
    here = f"{__name__}:"
    parts = {"fit": f"{here}NotedFit", "view": f"{here}NotedView"}
    monkeypatch.setitem(MODIFIERS, "noted", ModifierParts(f"{here}NotedModifier", **parts))
    monkeypatch.setitem(MODIFIERS, "plain", ModifierParts(f"{here}NotedModifier", fit=f"{here}PlainFit"))
    spec_modifiers.cache_clear()
    yield SyntheticProduct(kind="synthetic", generator="mst", options={"noted": True})
    spec_modifiers.cache_clear()


def test_a_modifier_is_asked_for_by_its_row_alone(noted: SyntheticProduct, monkeypatch: pytest.MonkeyPatch):
    """No other file knows of it: it is read, refused, excluded, put around the generator, and shown."""
    assert asked_modifiers(noted) == ("noted", "plain")
    with pytest.raises(ValidationError, match="noted beside 7 rows"):
        SyntheticProduct(kind="synthetic", generator="mst", options={"noted": True}, rows=7)
    task = SynthesisTask(
        CellDomain(("a",), (2,)),
        {},
        "add_remove",
        1,
        Fraction(1),
        Fraction(0),
        None,
        modifiers=asked_modifiers(noted),
    )
    generator: Any = "mst"
    assert whole_fitter(generator, task) == ("plain", ("noted", "mst"))
    assert whole_fitter(generator, task, draws_only=True) == ("noted", "mst")
    views = [view for _, view in modifier_parts(noted, "view")]
    lines = with_lines([("rows", "10"), ("model", "m")], [(view, view.version_lines({})) for view in views])
    assert lines == [("rows", "10"), ("noted", "yes"), ("model", "m")]
    further = Exclusion("noted", "copies", "{product.copies} copies beside noted", "one", "drop it", at=("copies",))
    monkeypatch.setattr("contracts.release.synthetic.EXCLUSIONS", (further,))
    both = noted.model_copy(update={"copies": 3})
    assert [problem.found for _, problem in modifier_problems(both, (), contract=None)] == ["3 copies beside noted"]  # type: ignore[arg-type]
    assert list(modifier_problems(noted, (), contract=None)) == []  # type: ignore[arg-type]
