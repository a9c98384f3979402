"""Codebooks in JSON: Table Schema (Frictionless), the schemas of SDNist, and data dictionaries.

| form | how it is known | what is read of a column |
|---|---|---|
| `table-schema` | `fields`, or `resources` with a `schema` | type, title, description, `constraints` (enum, minimum, maximum), `categories`, `missingValues`, `trueValues`, `falseValues`, `format` |
| `sdnist` | `schema` with `dtype` | `dtype`, `values`, `min`, `max`, `null_value` |
| `data-dictionary` | columns by name, or a list under `columns`, `variables` or `fields` | `type`, `description` or `label`, `values` (codes with labels, a list, `min` and `max`) |

Source: https://specs.frictionlessdata.io/table-schema/ (version 1) and https://datapackage.org/standard/table-schema/
(version 2); https://github.com/usnistgov/SDNist for the third.
"""  # noqa: E501

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from contracts.domains.notation import FORMATS
from contracts.drafting.codebooks.codebook import CodebookReader, read_text
from contracts.drafting.codebooks.entries import Codebook, CodebookEntry
from contracts.drafting.sketch import logical_type_of, refuse_draft
from contracts.reading.yaml_lines import shown

_LISTS: Final = ("columns", "variables", "fields")
_NAMES: Final = ("name", "column", "variable", "field")
_WORDS: Final = ("description", "label", "title", "meaning")
_VALUES: Final = ("values", "codes", "categories", "enum", "levels", "value_labels")
_TYPES: Final = ("type", "dtype", "data_type", "datatype")
_NULL_WORDS: Final = frozenset({"", ".", "na", "n/a", "null", "none"})
_TABLE_SCHEMA_TYPES: Final = {
    "string": "string", "number": "number", "integer": "integer", "boolean": "boolean", "date": "date",
    "datetime": "date", "year": "integer",
}  # fmt: skip
_FROM_ROWS: Final = "The schema may have been made from the rows; what was seen there must not be taken over."


@dataclass(frozen=True)
class JsonText:
    """A JSON file: its tree, and where names stand in it."""

    path: Path
    text: str
    tree: Any

    def where(self, name: str) -> str:
        """Name the line on which a name first stands."""
        place = self.text.find(json.dumps(name, ensure_ascii=False))
        line = 1 if place < 0 else self.text.count("\n", 0, place) + 1
        return f"{shown(self.path)}:{line}"


def read_json(path: Path, text: str) -> JsonText:
    """Read the tree.

    Raises:
        DraftRefused: it is no JSON, is nested too deeply, or has a key twice.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            names = [name for name, _ in pairs]
            again = next(name for place, name in enumerate(names) if name in names[:place])
            refuse_draft(shown(path), "codebook", f"the key {again!r} twice", "each key once", "drop one of the two")
        return entries

    try:
        return JsonText(path, text, json.loads(text, object_pairs_hook=once, parse_float=str, parse_constant=str))
    except json.JSONDecodeError as error:
        where, found = f"{shown(path)}:{error.lineno}", error.msg
    except RecursionError:
        where, found = shown(path), "JSON that is nested too deeply"
    refuse_draft(where, "codebook", found, "well-formed JSON", "look at this line and the one before")


def json_form(tree: Any) -> str | None:
    """Say which of the forms a tree is in; None for none of them."""
    if isinstance(tree, dict):
        if _resource(tree) is not None:
            return "table-schema"
        columns = tree.get("schema")
        if isinstance(columns, dict) and columns and all(isinstance(each, dict) for each in columns.values()):
            return "sdnist" if any("dtype" in each for each in columns.values()) else "data-dictionary"
    return "data-dictionary" if list(_listed(tree)) else None


def read_json_codebook(path: Path) -> Codebook | None:
    """Read a codebook in JSON; None where it is in none of the forms."""
    source = read_json(path, read_text(path))
    form = json_form(source.tree)
    if form is None:
        return None
    readers: dict[str, Callable[[JsonText], Iterator[CodebookEntry]]] = {
        "table-schema": _table_schema,
        "sdnist": _sdnist,
        "data-dictionary": _data_dictionary,
    }
    hints = (_FROM_ROWS,) if form == "sdnist" else ()
    return Codebook(source.path.name, form, tuple(readers[form](source)), hints)


def _resource(tree: dict[str, Any]) -> dict[str, Any] | None:
    """The Table Schema of a file: its own, or that of the only resource of a data package."""
    resources = tree.get("resources")
    schemas = [tree, tree.get("schema")]
    if isinstance(resources, list) and len(resources) == 1 and isinstance(resources[0], dict):
        schemas.append(resources[0].get("schema"))
    for schema in schemas:
        fields = schema.get("fields") if isinstance(schema, dict) else None
        if isinstance(fields, list) and fields and all(isinstance(each, dict) and "name" in each for each in fields):
            typed = any({"constraints", "format"} & set(each) or "type" in each for each in fields)
            return schema if typed or set(schema or ()) <= {"fields", "missingValues", "primaryKey"} else None
    return None


def _table_schema(source: JsonText) -> Iterator[CodebookEntry]:
    schema = _resource(source.tree) or {}
    absent = schema.get("missingValues", [])
    keys = schema.get("primaryKey", [])
    keys = keys if isinstance(keys, list) else [keys]
    for each in schema["fields"]:
        name, given = str(each["name"]), each.get("constraints") or {}
        stated = str(each.get("type", "any"))
        logical = _TABLE_SCHEMA_TYPES.get(stated)
        listed = each.get("categories") or given.get("enum") or []
        flags = logical == "boolean" and bool({"trueValues", "falseValues"} & set(each))
        codes = tuple(_flags(each) if flags else _codes(listed))
        unique = given.get("unique") is True or name in keys
        yield CodebookEntry(
            name,
            source.where(name),
            None if flags else logical,  # type: ignore[arg-type]
            _first(each, _WORDS),
            codes,
            _text(given.get("minimum")),
            _text(given.get("maximum")),
            tuple(code for code, _ in _codes(each.get("missingValues", absent))),
            _form(each, stated),
            ("It is unique: the id of a row or a person, which no table counts.",) if unique else (),
        )


def _flags(each: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts of a boolean column, false first."""
    for text in texts_of(each.get("falseValues") or ["false"]):
        yield text, "false"
    for text in texts_of(each.get("trueValues") or ["true"]):
        yield text, "true"


def _form(each: dict[str, Any], stated: str) -> str | None:
    form = str(each.get("format"))
    return form if stated == "date" and form in FORMATS and form != "%Y-%m-%d" else None


def _sdnist(source: JsonText) -> Iterator[CodebookEntry]:
    for name, each in source.tree["schema"].items():
        null = _text(each.get("null_value"))
        codes = tuple(_codes(each.get("values") or []))
        logical = logical_type_of(str(each.get("dtype")))
        yield CodebookEntry(
            name,
            source.where(name),
            logical if logical != "string" or not codes else None,
            _first(each, _WORDS),
            codes,
            _text(each.get("min")),
            _text(each.get("max")),
            () if null is None else (null,),
        )


def _listed(tree: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The columns of a data dictionary: by name, or in a list."""
    if isinstance(tree, dict):
        inner = next((tree[key] for key in (*_LISTS, "schema") if isinstance(tree.get(key), list | dict)), tree)
        if isinstance(inner, dict):
            for name, each in inner.items():
                if isinstance(each, str):
                    yield name, {"description": each}
                elif isinstance(each, dict):
                    yield name, each
            return
        tree = inner
    for each in tree if isinstance(tree, list) else ():
        named = _first(each, _NAMES) if isinstance(each, dict) else None
        if named is not None:
            yield named, each


def _data_dictionary(source: JsonText) -> Iterator[CodebookEntry]:
    for name, each in _listed(source.tree):
        values = next((each[key] for key in _VALUES if key in each), None)
        inside = dict(values) if isinstance(values, dict) else {}
        low, high = (_text(inside.pop(key, each.get(key))) for key in ("min", "max"))
        stated = _first(each, _TYPES)
        codes = tuple(_codes(inside or (values if isinstance(values, list) else [])))
        yield CodebookEntry(
            name,
            source.where(name),
            logical_type_of(stated),
            _first(each, _WORDS),
            codes,
            low,
            high,
            tuple(text for text in texts_of(_items(each.get("missing"))) if text),
        )


def _codes(listed: Any) -> Iterator[tuple[str, str]]:
    """Codes with their labels, from a list of values, a list of {value, label}, or a mapping."""
    if isinstance(listed, Mapping):
        yield from ((str(code), "" if label is None else str(label)) for code, label in listed.items())
        return
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict):
            code = next((each[key] for key in ("value", "code", "key") if key in each), None)
            yield from ((text, _first(each, _WORDS) or "") for text in texts_of([code]))
        else:
            yield from ((text, "") for text in texts_of([each]))


def _first(each: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((each[key] for key in keys if isinstance(each.get(key), str) and not _is_null_word(each[key])), None)


def _text(value: Any) -> str | None:
    return next(iter(texts_of([value])), None)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_null_word(text: str) -> bool:
    """Say whether a text is one of the usual words for no value."""
    return text.strip().casefold() in _NULL_WORDS


def texts_of(values: Iterable[object]) -> Iterator[str]:
    """Write values of JSON as texts: flags as true and false, whole numbers without a point; nulls go."""
    for value in values:
        if value is None or isinstance(value, dict | list):
            continue
        if isinstance(value, bool):
            yield str(value).lower()
        elif isinstance(value, float) and value.is_integer():
            yield str(int(value))
        else:
            yield str(value)


READER: Final = CodebookReader(
    read_json_codebook,
    "a Table Schema, an SDNist schema, or columns with description and values",
    "write {COLUMN: {description: ..., values: {CODE: LABEL}}}",
)
