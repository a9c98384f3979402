"""Reading JSON that a stranger wrote."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.canonical import readable_json
from tasks.records import strict_json as readable
from tasks.records.strict_json import DEEPEST, printable, read_json, shown

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
# Half a surrogate has no UTF-8 and so no canonical form.
PLAIN = LEAVES.filter(lambda value: not isinstance(value, str) or value.isascii())
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text("abcé"), inner), max_leaves=12)


@given(VALUES.filter(lambda value: value is not None))
def test_canonical_json_is_read_without_a_finding(value: Any):
    read, findings = read_json(readable_json(value), where="x.json")
    assert (read, findings) == (value, [])


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_exception(data: bytes):
    value, findings = read_json(data, where="x.json")
    assert value is not None or findings
    assert all(part.isprintable() for finding in findings for part in vars(finding).values())


@given(VALUES.filter(lambda value: isinstance(value, dict | list)), st.data())
def test_one_changed_byte_is_no_longer_the_same_canonical_value(value: Any, data: st.DataObject):
    content = bytearray(readable_json(value))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    read, findings = read_json(bytes(content), where="x.json")
    assert findings or json.dumps(read, sort_keys=True) != json.dumps(value, sort_keys=True)


def test_a_finding_names_line_and_byte():
    content = readable_json({"a": 1, "b": [1, 2]}).replace(b'"b":', b'"b" :')
    _, [finding] = read_json(content, where="x.json")
    assert (finding.where, finding.field) == ("x.json", "line 3, byte 18")
    _, [finding] = read_json(b'{\n  "a": \xff}\n', where="x.json")
    assert finding.field == "line 2, byte 10"
    assert "0xff" in finding.found


@pytest.mark.parametrize("mark", "\u061c\u200e\u200f\u202a\u202e\u2066\u2069")
def test_text_that_reads_otherwise_than_it_is_written_is_a_finding(mark: str):
    """Of a publisher who signs it: as a value and as a key, after letters of more than one byte."""
    for value in ({"é": f"epsilon {mark}01"}, {"é": 1, f"epsilon{mark}": 1}):
        _, [finding] = read_json(readable_json(value), where="x.json")
        assert f"U+{ord(mark):04X}" in finding.found
        line, byte = map(int, re.findall("[0-9]+", finding.field))
        written = readable_json(value)
        assert written[byte - 1 :].decode().startswith(mark)
        assert written.count(b"\n", 0, byte - 1) + 1 == line


def test_depth_and_size_are_limited(monkeypatch: pytest.MonkeyPatch):
    nested: Any = 1
    for _ in range(DEEPEST - 1):
        nested = [nested]
    assert read_json(readable_json(nested), where="x.json") == (nested, [])
    assert read_json(readable_json([nested]), where="x.json")[0] is None
    monkeypatch.setattr(readable, "LARGEST_JSON", 10)
    value, [finding] = read_json(b"[" + b" " * 20 + b"]", where="x.json")
    assert value is None
    assert finding.field == "size"


def test_values_are_shown_on_one_short_line():
    assert shown({"a": 1}) == "an object of 1"
    assert shown([]) == "a list without entries"
    assert shown(None) == "null"
    assert shown("a\n\x1b[2J") == "'a\\n\\x1b[2J'"
    assert len(shown("x" * 10_000)) == len(printable("x" * 10_000)) == 100
    assert printable("data/é.parquet") == "data/é.parquet"
    assert printable("\u202e\x00") == "\\u202e\\x00"
