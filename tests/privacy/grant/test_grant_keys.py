"""Selections of keys through the grant: a derived event, exact coins, replay, nothing of what was not selected."""

import pickle
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from privacy.accounting.amounts import ATTO
from privacy.accounting.calculus import RenyiCalculus
from privacy.accounting.events import Pure, key_selection
from privacy.accounting.key_law import ONE, keep_chances
from privacy.grant.grant import Grant, open_grant
from privacy.grant.measurement import KeyMeasurement
from privacy.grant.queries.keys import KeyQuery, packed, unpacked
from privacy.grant.queries.query import Relation
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.marginals.key_units import KeyLabels, PrivateKeys
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, bind, request, terms

NANO = ATTO // 10**9
FAILURE = 5 * NANO
EVENT = key_selection(Fraction(1), FAILURE, 2)
KEYS: tuple[KeyLabels, ...] = (("baker",), ("",), ("=1+1",), ("\x00\n",), ("ä" * 5000,), ("rare",))
UNITS = np.array([10**6, 10**6, 10**6, 10**6, 10**6, 1])


def handle(
    keys: tuple[KeyLabels, ...] = KEYS, units: NDArray[np.int64] | None = UNITS, groups: int = 2
) -> PrivateKeys:
    def read(clique: Any, bound: int) -> Any:
        assert units is not None, "keys were read"
        assert (clique, bound) == (("job",), groups)
        return keys, units

    return PrivateKeys(("job",), groups, KEYED_HASH, "b" * 64, read)


def opened(place: Place, *events: Any, adjacency: str = "add_remove") -> tuple[Ledger, Grant]:
    made = request(events=events or (EVENT,), delta=FAILURE, adjacency=adjacency)
    ledger = place.open()
    calculus = RenyiCalculus(Fraction(12), 2 * FAILURE)
    account = replace(terms(calculus, epsilon=20, adjacency=adjacency), delta=4 * FAILURE)
    ledger.open_account(account)
    bind(ledger, "2024")
    ledger.reserve(made)
    return ledger, open_grant(ledger, "run-1")


def drawn(grant: Grant, keys: PrivateKeys | None = None, key: str = "jobs", **changed: Any) -> KeyMeasurement:
    asked = KeyQuery(keys or handle(), Fraction(1), FAILURE)
    return grant.draw(replace(asked, **changed), key=key)


def test_keys_that_many_units_have_are_selected_whatever_they_say(place: Place):
    """An empty one, a formula, control characters and 10,000 bytes come back as they were; the event is entered."""
    ledger, grant = opened(place)
    selected = drawn(grant)
    # The key of one unit is selected with probability 2.5e-9: the only false alarm.
    assert selected.keys == tuple(sorted(KEYS[:5]))
    assert (selected.event, selected.clique, selected.number) == (EVENT, ("job",), 0)
    [entered] = [entry.body for entry in ledger.journal() if entry.kind == "noise_drawn"]
    assert (entered["event"], entered["sha256"]) == (EVENT.to_json(), selected.sha256)
    assert ledger.verify() == []


def test_a_run_that_resumes_replays_its_keys(sqlite_place: Place):
    """Without a look at the rows; and refuses another bound of keys per unit, or another columns' selection."""
    ledger, grant = opened(sqlite_place)
    first = drawn(grant)
    again = open_grant(ledger, "run-1")
    assert drawn(again, handle(units=None)) == first
    with pytest.raises(LedgerRefusal):
        drawn(again, handle(units=None, groups=3))
    with pytest.raises(LedgerRefusal):
        drawn(again, replace(handle(units=None), clique=("town",)))


def test_what_was_not_selected_is_written_nowhere(sqlite_place: Place):
    """Not the key, nor its place among the others: the file holds what a table without it would have."""
    _, grant = opened(sqlite_place)
    selected = drawn(grant)
    files = b"".join(path.read_bytes() for path in sqlite_place.folder.rglob("*") if path.is_file())
    assert b"rare" not in files
    assert b"baker" in files
    alone = packed(tuple(sorted(KEYS[:5])))
    assert unpacked(alone) == selected.keys
    assert alone.tobytes() in files


@pytest.mark.parametrize(
    ("event", "changed"),
    [
        (EVENT, {"failure": FAILURE + 1}),
        (EVENT, {"epsilon": Fraction(2)}),
        (key_selection(Fraction(1), FAILURE, 1), {}),
        (Pure(Fraction(5)), {}),
    ],
    ids=["more failure", "more epsilon", "planned for fewer groups", "from a budget"],
)
def test_what_was_not_planned_is_not_drawn(sqlite_place: Place, event: Any, changed: dict[str, Any]):
    """Nor read: a selection is planned by itself, and no budget for draws on the way holds it."""
    _, grant = opened(sqlite_place, event)
    with pytest.raises(GrantExceeded):
        drawn(grant, handle(units=None), **changed)


def test_it_is_refused_where_two_units_move(sqlite_place: Place):
    """Under replace_one the ledger refuses the charge, and the query itself the relation."""
    with pytest.raises(LedgerRefusal, match="replace_one"):
        opened(sqlite_place, adjacency="replace_one")
    with pytest.raises(ValueError, match="add_remove"):
        KeyQuery(handle(), Fraction(1), FAILURE).check(Relation("replace_one", 1))
    for wrong in (replace(handle(), clique=()), handle(groups=0), handle(groups=5000)):
        with pytest.raises(ValueError, match="column"):
            KeyQuery(wrong, Fraction(1), FAILURE).check(Relation("add_remove", 1))


def test_handles_show_nothing():
    """No key, no number, no pickle."""
    assert repr(handle()) == "PrivateKeys(job)"
    with pytest.raises(TypeError):
        pickle.dumps(handle())


def test_words_that_are_no_keys_are_refused():
    """Another spacing, numbers for labels, or no list."""
    for text in (b'[["a"], ["b"]]  ', b"[[1]]   ", b'"keys"  ', b"nonsense"):
        with pytest.raises((ValueError, TypeError)):
            unpacked(np.frombuffer(text, dtype="<i8").astype(np.int64))
    for keys in ((), (("a", "b"), ("a", "")), KEYS):
        assert unpacked(packed(keys)) == keys


def test_keys_are_selected_as_often_as_the_rule_says(sqlite_place: Place):
    """stat: 40,000 keys of as many units each, secure coins; a two-sided binomial test of false alarm 1e-9. Of the
    chance at one unit more it would be no plausible number."""
    _, grant = opened(sqlite_place)
    chances = keep_chances(EVENT.epsilon, EVENT.delta)
    units = next(n for n, chance in enumerate(chances) if chance > ONE // 3)
    keys = tuple((f"{number:06d}",) for number in range(40_000))
    kept = len(drawn(grant, handle(keys, np.full(40_000, units))).keys)

    def plausible(chance: int) -> bool:
        p = chance / ONE
        return bool(min(binom.cdf(kept, 40_000, p), binom.sf(kept - 1, 40_000, p)) >= 0.5e-9)

    assert plausible(chances[units])
    assert not plausible(chances[units + 1])
