"""Changes of one place in a YAML text: the tree is what was wanted, and what a person wrote elsewhere stays."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.reading.yaml_lines import DEEPEST
from sudare_web.studio.choices import NoChoice, chosen
from sudare_web.studio.form import form_of
from sudare_web.studio.yaml_text import _FAST as FAST
from sudare_web.studio.yaml_text import NoPlace, flow, tree_of, with_value, without

SPEC = (Path(__file__).parents[4] / "examples" / "adult" / "tables.yaml").read_text()
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn")), max_size=8)
TREES = st.recursive(
    TEXTS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
LAYOUTS = ("block", "flow")


def test_a_choice_changes_its_own_line_alone():
    """All other lines, with their comments, are the same to the letter."""
    changed = with_value(SPEC, ("charge", "epsilon"), "0.25")
    before, after = SPEC.splitlines(), changed.splitlines()
    assert [(a, b) for a, b in zip(before, after, strict=True) if a != b] == [
        (
            "charge: {account: adult-1994, epsilon: 1.0, delta: 0}",
            "charge: {account: adult-1994, epsilon: 0.25, delta: 0}",
        )
    ]


def test_a_table_is_appended_below_the_others_and_taken_out_with_its_line():
    added = with_value(SPEC, ("product", "tables", 3), ["age", "sex"])
    assert "    - [marital-status, sex, income]\n    - [age, sex]\n  refine:" in added
    assert without(added, ("product", "tables", 3)) == SPEC


def test_missing_mappings_are_made():
    assert tree_of(with_value("a: 1\n", ("b", "c", "d"), ["x"])) == {"a": "1", "b": {"c": {"d": ["x"]}}}
    assert tree_of(with_value("", ("a", "b"), "1")) == {"a": {"b": "1"}}
    assert tree_of(with_value("a:\nb: 2\n", ("a",), "1, 2")) == {"a": "1, 2", "b": "2"}


def test_a_place_that_leads_through_a_text_is_refused():
    with pytest.raises(NoPlace):
        with_value("a: 1\n", ("a", "b"), "x")
    with pytest.raises(NoPlace):
        with_value("a: [1]\n", ("a", 5), "x")
    with pytest.raises(yaml.YAMLError):
        with_value("a: [1\n", ("a",), "x")


def test_an_anchor_is_written_out_where_one_of_its_places_changes():
    """The other place keeps what it said."""
    text = "a: &one [x, y]\nb: *one\n"
    assert tree_of(with_value(text, ("b", 0), "z")) == {"a": ["x", "y"], "b": ["z", "y"]}


def bomb() -> str:
    """Ten lines that stand for nine to the tenth values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    return "\n".join(lines)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "text",
    [
        bomb(),
        "a: &a [*a]\n",
        "a: &a {b: {c: *a}}\n",
        "[" * 3000 + "]" * 3000,
        "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 3000))]),
        "a: *b\n",
    ],
)
def test_what_has_no_end_is_no_yaml_here(text: str):
    """Aliases that multiply, stand in themselves or lie in one another, brackets without end: refused at once."""
    with pytest.raises(yaml.YAMLError):
        tree_of(text)
    assert form_of(text, text)["spec"] is None
    with pytest.raises(NoChoice):
        chosen(text, text, "epsilon", "", "1")


def test_what_a_contract_may_have_is_read():
    """As many levels as its reader takes, no more; an alias that is written again and again."""
    deep = "[" * DEEPEST + "]" * DEEPEST
    assert len(str(tree_of(deep))) == 2 * DEEPEST
    with pytest.raises(yaml.YAMLError):
        tree_of(f"[{deep}]")
    assert tree_of("a: &x [1]\nb: *x\nc: [*x, *x]\n") == {"a": ["1"], "b": ["1"], "c": [["1"], ["1"]]}


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[4] / "examples").rglob("*.yaml")), ids=lambda path: path.name
)
def test_the_fast_parser_marks_the_same_places(path: Path, line_end: str):
    """Changes are cut in at its marks, so they have to be those of Python's own parser: of ASCII it takes it."""
    text = path.read_text(encoding="utf-8").encode("ascii", "replace").decode().replace("\n", line_end)
    assert marks_of(text, FAST) == marks_of(text, yaml.SafeLoader)


def marks_of(text: str, loader: Any) -> list[tuple[int, int, int]]:
    waiting, found = [yaml.compose(text, Loader=loader)], []
    while waiting:
        node = waiting.pop()
        found.append((node.start_mark.index, node.start_mark.column, node.end_mark.index))
        if isinstance(node, yaml.CollectionNode):
            waiting += [inner for each in node.value for inner in (each if isinstance(each, tuple) else (each,))]
    return found


@settings(deadline=None)
@given(TREES)
def test_whatever_is_written_on_a_line_is_read_again(tree: Any):
    assert tree_of(f"a: {flow(tree)}\n") == {"a": tree}


def _layout(tree: Any, layout: str) -> str:
    """Write a tree as people do, in one of two layouts, with a comment behind it."""
    if layout == "flow":
        return f"{flow(tree)} # end\n"
    return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, default_style='"')) + "# end\n"


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        TEXTS, st.lists(TREES, max_size=3) | st.dictionaries(TEXTS, TREES, max_size=3), min_size=1, max_size=3
    ),
    TREES,
    st.data(),
)
def test_a_change_makes_the_wanted_tree(tree: dict[str, Any], value: Any, data: st.DataObject):
    """In both layouts: set, append and take out at any place of the second level."""
    text = _layout(tree, data.draw(st.sampled_from(LAYOUTS)))
    tree = tree_of(text)  # type: ignore[assignment]
    first = data.draw(st.sampled_from(sorted(tree)))
    inner = tree[first]
    places: list[Any] = [*range(len(inner)), len(inner)] if isinstance(inner, list) else [*inner, "new"]
    second = data.draw(st.sampled_from(places))
    wanted = deepcopy(tree)
    if isinstance(inner, list) and second == len(inner):
        wanted[first].append(value)
    else:
        wanted[first][second] = value
    changed = with_value(text, (first, second), value)
    assert tree_of(changed) == wanted
    del wanted[first][second]
    assert tree_of(without(changed, (first, second))) == wanted
