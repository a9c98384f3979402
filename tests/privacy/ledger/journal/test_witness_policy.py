"""Policies of witnesses: which sets meet them, and how each wrong line reads."""

from __future__ import annotations

from itertools import combinations

import pytest

from privacy.ledger.journal.notes import COSIGNATURE, VerifierKey
from privacy.ledger.journal.witness_policy import PolicyUnmet, read_policy, time_problem

NAMES = ("a", "b", "c")
LINES = [
    f"witness {name} {VerifierKey(f'witness.example/{name}', bytes([place]) * 32, COSIGNATURE).text} https://w.example/{name}/"
    for place, name in enumerate(NAMES)
]
LOG = VerifierKey("statistics.example/journal", bytes([9]) * 32).text
TEXT = "\n".join(["# mine", f"log {LOG}", "", *LINES, "group two 2 a b c", "quorum two", ""])


def test_two_of_three_is_met_by_every_pair_and_by_no_single_one() -> None:
    policy = read_policy(TEXT)
    met = [set(names) for size in range(4) for names in combinations(NAMES, size) if policy.is_met(names)]
    assert met == [{"a", "b"}, {"a", "c"}, {"b", "c"}, {"a", "b", "c"}]
    assert policy.witnesses["a"].url == "https://w.example/a"
    assert (policy.words, policy.logs[0].name) == ("2 of 3 (a, b, c)", "statistics.example/journal")


def test_groups_of_groups_and_none() -> None:
    nested = read_policy(TEXT.replace("quorum two", "group one any a b\ngroup both all one c\nquorum both"))
    assert [nested.is_met(names) for names in (("a", "c"), ("b", "c"), ("a", "b"), ("c",))] == [
        True,
        True,
        False,
        False,
    ]
    assert read_policy(TEXT.replace("quorum two", "quorum none")).is_met(())
    assert not read_policy(TEXT.replace("quorum two", "quorum c")).is_met(("a", "b"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("group two 2", "group two 4", "line 7: '4' of 3, which no set of witnesses can meet"),
        ("group two 2", "group two 0", "which no set of witnesses can meet"),
        ("group two 2", "group two most", "which no set of witnesses can meet"),
        ("a b c", "a b d", "line 7: 'd'; members are names above it"),
        ("a b c", "a a b", "members are names above it, each once"),
        ("quorum two", "quorum three", "line 8: quorum 'three'"),
        ("quorum two\n", "", "no line quorum"),
        ("quorum two", "quorum two\nquorum two", "line 9: 'quorum two'; allowed are"),
        ("witness b", "witness a", "line 5: the name 'a' again"),
        (LINES[1].split()[2], LINES[0].split()[2], "line 5: the key of a witness above"),
        (LINES[0].split()[2], LOG, "line 4: a key of type 1"),
        ("https://w.example/b", "ftp://w.example/b", "line 5: 'ftp://w.example/b'"),
        (LOG, LOG[:-1], "line 2: verifier key"),
        (
            "quorum two",
            "group x any a b\ngroup y any a c\ngroup z all x y\nquorum z",
            "line 11: 'a' would count twice for 'z'",
        ),
        ("quorum two", "group x 2 a two\nquorum x", "line 9: 'a' would count twice"),
        ("quorum two", "group x any two\ngroup y all two x\nquorum y", "line 10: 'two' would count twice"),
        ("# mine", "quota 2", "line 1: 'quota 2'; allowed are log KEY"),
    ],
)
def test_a_wrong_line_is_named(old: str, new: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises(PolicyUnmet) as told:
        read_policy(TEXT.replace(old, new, 1))
    assert words in str(told.value)


def test_a_cosignature_is_of_a_time_that_has_been() -> None:
    """An hour is allowed, for clocks differ; no number is too large to be refused by name."""
    now = 1_800_000_000
    assert [time_problem(time, now=now) for time in (1, now, now + 3600)] == ["", "", ""]
    assert "says nothing of when" in time_problem(0, now=now)
    for time in (now + 3601, 2**62, 2**63 - 1):
        assert f"time {time} (seconds since 1970), more than an hour ahead" in time_problem(time, now=now)
