"""The grant: the one door through which noise is drawn, and what a crash at it leaves behind."""

import os
import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from contracts.release.tables.tables import MinimumFrequency
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import Calculus, RenyiCalculus
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.counting_engine import CountsUnavailable
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger import draw_files
from privacy.ledger.entries import GrantExceeded, LedgerCorrupt, LedgerRefusal
from privacy.ledger.ledger import Ledger, utc_now
from privacy.ledger.store.database import Store
from privacy.ledger.store.journal import Journal
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, Noise, marginal_moves, noise_event
from privacy.noise.random_bytes import SecureBytes, SeededBytes
from tests.privacy.conftest import NewPlace
from tests.privacy.grant.crashes import Killed, die, opened
from tests.privacy.ledger.ledgers import HALF, Counted, Place, bind, ledger_with_account, request, terms

RENYI = RenyiCalculus(Fraction(12))
ZEROS = np.zeros(12, dtype=np.int64)


@pytest.mark.parametrize(
    ("adjacency", "rows_per_unit", "l1", "l2_squared"),
    [("add_remove", 1, 1, 1), ("add_remove", 4, 4, 16), ("replace_one", 1, 2, 2), ("replace_one", 4, 8, 32)],
)
def test_the_sensitivity_comes_from_adjacency_and_contribution_bound(
    adjacency: str, rows_per_unit: int, l1: int, l2_squared: int
):
    """Law 4: L1 k and L2 k under add_remove; L1 2k and L2 √2·k under replace_one; the noise scales with them."""
    moves = marginal_moves(adjacency, rows_per_unit)  # type: ignore[arg-type]
    assert (sum(moves), sum(move**2 for move in moves)) == (l1, l2_squared)
    terms = {"adjacency": adjacency, "rows_per_unit": rows_per_unit}
    laplace = noise_event(LaplaceNoise(Fraction(1)), **terms)  # type: ignore[arg-type]
    gaussian = noise_event(GaussianNoise(Fraction(1, 2)), **terms)  # type: ignore[arg-type]
    assert isinstance(laplace, DiscreteLaplace)
    assert isinstance(gaussian, DiscreteGaussian)
    assert laplace.inverse_scale == pytest.approx(Fraction(1, l1))
    assert gaussian.sigma_squared == l2_squared


def test_nobody_can_look_into_a_handle():
    counted = Counted(np.array([41, 7]))
    assert "41" not in repr(counted.handle)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(counted.handle)


def test_the_grant_is_durable_before_the_first_count_is_read(place: Place):
    ledger, grant = opened(place)
    charge = ledger.charge("run-1")
    assert charge is not None
    assert (charge.status, charge.security) == ("opened", "csprng")
    counted = Counted(ZEROS)
    assert counted.opened == 0
    grant.draw(MarginalQuery(counted.handle, HALF), key="a")
    assert counted.opened == 1


def test_a_measurement_is_in_the_journal_with_its_event_and_the_hash_of_its_values(place: Place):
    ledger, grant = opened(place)
    measured = grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    drawn = ledger.entries_of("run-1")[-1].body
    assert drawn["event"] == measured.event.to_json()
    assert drawn["sha256"] == measured.sha256 == draw_files.values_digest(measured.values)
    assert measured.values.shape == ZEROS.shape
    assert measured.values.dtype == np.int64


def test_a_run_that_resumes_replays_and_never_reads_or_draws_again(place: Place):
    ledger, grant = opened(place)
    first = grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    again = Counted(ZEROS)
    second = open_grant(ledger, "run-1").draw(MarginalQuery(again.handle, HALF), key="a")
    np.testing.assert_array_equal(first.values, second.values)
    assert again.opened == 0
    assert [entry.kind for entry in ledger.entries_of("run-1")].count("noise_drawn") == 1


RULE = MinimumFrequency(k=5, t=2)


def test_what_the_minimum_frequency_rule_suppresses_never_leaves_the_grant(place: Place):
    """No value below k + t is in the measurement, in the draw's file or under the journalled digest. 60 cells of
    nobody: that noise of scale 2 lifts all of them to 7 has a probability below 0.02⁶⁰."""
    ledger, grant = opened(place)
    counts = np.concatenate([np.zeros(60, dtype=np.int64), np.arange(0, 60, 5)])
    measured = grant.draw(MarginalQuery(Counted(counts).handle, HALF, RULE), key="a")
    assert measured.threshold is not None
    assert measured.threshold.value == 7
    assert measured.values.min() == 6
    assert ledger.entries_of("run-1")[-1].body["sha256"] == draw_files.values_digest(measured.values)
    (written,) = (place.folder / "draws").rglob("*.draw")
    values = np.frombuffer(written.read_bytes().partition(b"\n")[2], dtype="<i8")
    np.testing.assert_array_equal(values, measured.values)
    again = Counted(counts)
    resumed = open_grant(ledger, "run-1").draw(MarginalQuery(again.handle, HALF, RULE), key="a")
    np.testing.assert_array_equal(resumed.values, measured.values)
    assert again.opened == 0


@pytest.mark.parametrize("other", [None, MinimumFrequency(k=5, t=1), MinimumFrequency(k=50, t=2)])
def test_a_resumed_run_cannot_ask_for_another_threshold(place: Place, other: MinimumFrequency | None):
    ledger, grant = opened(place)
    grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF, RULE), key="a")
    with pytest.raises(LedgerRefusal, match="as it was drawn before"):
        open_grant(ledger, "run-1").draw(MarginalQuery(Counted(ZEROS).handle, HALF, other), key="a")


def test_a_resumed_run_cannot_ask_for_something_else_under_a_known_key(place: Place):
    _, grant = opened(place)
    grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    with pytest.raises(LedgerRefusal, match="as it was drawn before"):
        grant.draw(MarginalQuery(Counted(ZEROS, ("sex",)).handle, HALF), key="a")
    with pytest.raises(LedgerRefusal, match="as it was drawn before"):
        grant.draw(MarginalQuery(Counted(ZEROS).handle, LaplaceNoise(Fraction(1, 4))), key="a")


def test_a_draw_beyond_the_grant_is_refused_before_the_counts_are_read(place: Place, calculus: Calculus):
    ledger = ledger_with_account(place, calculus)
    ledger.reserve(request())
    grant = open_grant(ledger, "run-1")
    for key in ("a", "b"):
        grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key=key)
    for noise in (HALF, LaplaceNoise(Fraction(1, 10**9))):
        counted = Counted(ZEROS)
        with pytest.raises(GrantExceeded, match="nothing was drawn"):
            grant.draw(MarginalQuery(counted.handle, noise), key="c")
        assert counted.opened == 0
    assert [entry.kind for entry in ledger.entries_of("run-1")].count("noise_drawn") == 2


@pytest.mark.parametrize("noise", [LaplaceNoise(Fraction(1, 4)), GaussianNoise(Fraction(1, 10**6))])
def test_noise_that_was_not_planned_is_refused_before_the_counts_are_read_however_little_it_costs(
    place: Place, calculus: Calculus, noise: Noise
):
    """The journal says what was planned before a count was read; a run cannot choose otherwise after it."""
    ledger = ledger_with_account(place, calculus)
    ledger.reserve(request())
    grant = open_grant(ledger, "run-1")
    grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    counted = Counted(ZEROS)
    with pytest.raises(GrantExceeded, match="not planned") as refused:
        grant.draw(MarginalQuery(counted.handle, noise), key="b")
    assert [finding.field for finding in refused.value.findings] == ["plan"]
    assert counted.opened == 0
    assert [path.name for path in (place.folder / "draws" / "run-1").glob("*.draw")] == ["000000.draw"]
    grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="b")
    assert ledger.verify() == []


def test_each_planned_event_is_drawn_as_often_as_it_was_planned(place: Place):
    """One of 1/2 and two of 1/4: what is left of the sum does not matter, what is left of the plan does."""
    quarter = LaplaceNoise(Fraction(1, 4))
    ledger, grant = opened(place, noise=(HALF, quarter, quarter))
    for key, noise in (("a", quarter), ("b", HALF)):
        grant.draw(MarginalQuery(Counted(ZEROS).handle, noise), key=key)
    with pytest.raises(GrantExceeded, match="as often as planned"):
        grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="c")
    grant.draw(MarginalQuery(Counted(ZEROS).handle, quarter), key="c")
    assert ledger.verify() == []


def charged_twice(place: Place) -> tuple[Ledger, Grant]:
    """A grant on two accounts: an epsilon is one Laplace draw of 1 to the first, another amount to the second."""
    ledger = place.open()
    ledger.open_account(terms(block="2024"))
    ledger.open_account(terms(RENYI, block="lifetime"))
    bind(ledger, "2024")
    ledger.reserve(request())
    return ledger, open_grant(ledger, "run-1")


def grant_on(place: Place, ledger: Ledger) -> Grant:
    """A grant on the charge as its rows stand, whatever the journal says of it."""
    charge = ledger.charge("run-1")
    assert charge is not None
    calculi = {part.account: ledger.account(part.account).terms.calculus for part in charge.parts}
    files = draw_files.DrawFiles(place.folder / "draws", ledger.journal()[0].hash)
    return Grant(Store(place.url), files, Journal(utc_now), charge, calculi, SecureBytes())


def test_a_charge_that_was_opened_for_secure_noise_takes_no_seeded_bytes(place: Place):
    """The charge's own word decides: a grant on it refuses a source of another type, and so cannot publish a seed."""
    ledger, _ = charged_twice(place)
    opened = ledger.open_charge("run-1", security="csprng")
    books = opened.database, opened.files, opened.journal, opened.charge, opened.calculi
    with pytest.raises(TypeError, match="SeededBytes is no csprng source"):
        Grant(*books, SeededBytes(1))
    with pytest.raises(LedgerRefusal, match="randomness"):
        ledger.open_charge("run-1", security="seeded")


def test_a_draw_is_in_the_journal_with_what_it_costs_each_account(place: Place):
    ledger, grant = charged_twice(place)
    event = grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a").event
    costs = ledger.entries_of("run-1")[-1].body["costs"]
    assert costs == {"people-2024": PICO // 2, "people-lifetime": RENYI.cost((event,))}
    assert costs["people-2024"] != costs["people-lifetime"]
    assert ledger.verify() == []


@pytest.mark.parametrize("poor", ["people-2024", "people-lifetime"])
def test_a_draw_that_one_account_s_part_does_not_hold_is_refused_whatever_the_others_hold(place: Place, poor: str):
    """A grant whose part of one account is one unit short of two draws; both accounts' parts are checked."""
    ledger, _ = charged_twice(place)
    place.execute(f"UPDATE charge_parts SET amount = amount - 1 WHERE account = '{poor}'")
    with pytest.raises(LedgerCorrupt, match=f"account {poor} in the database"):
        open_grant(ledger, "run-1")
    grant = grant_on(place, ledger)
    grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    counted = Counted(ZEROS)
    with pytest.raises(GrantExceeded, match=rf"costs [0-9.]+ of account {poor}\n"):
        grant.draw(MarginalQuery(counted.handle, HALF), key="b")
    assert counted.opened == 0
    assert [entry.kind for entry in ledger.entries_of("run-1")].count("noise_drawn") == 1


def test_a_grant_ends_when_its_charge_was_changed_behind_it(place: Place):
    ledger, grant = charged_twice(place)
    place.execute("UPDATE charge_parts SET amount = amount * 2")
    counted = Counted(ZEROS)
    with pytest.raises(LedgerCorrupt, match="not the one that was granted"):
        grant.draw(MarginalQuery(counted.handle, HALF), key="a")
    assert counted.opened == 0
    assert {finding.field for finding in ledger.verify()} == {"amounts"}


def test_a_grant_measures_only_the_snapshot_that_was_charged(place: Place):
    _, grant = opened(place)
    other = Counted(ZEROS, keyed_hash="d" * 64)
    with pytest.raises(LedgerRefusal, match="another snapshot"):
        grant.draw(MarginalQuery(other.handle, HALF), key="a")
    assert other.opened == 0


def test_two_holders_of_one_grant_get_one_draw(place: Place):
    """The second one has read the counts before it finds that the first has drawn: it gets the first one's values."""
    ledger, grant = opened(place)
    second = open_grant(ledger, "run-1")
    first: list[np.ndarray] = []

    class Slow(Counted):
        def _count(self) -> np.ndarray:
            first.append(grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a").values)
            return super()._count()

    np.testing.assert_array_equal(second.draw(MarginalQuery(Slow(ZEROS).handle, HALF), key="a").values, first[0])
    assert [entry.kind for entry in ledger.entries_of("run-1")].count("noise_drawn") == 1


def test_a_draw_of_another_ledger_is_not_adopted(new_place: NewPlace):
    """Two ledgers that share a folder of draws do not share draws, seeded ones least of all."""
    places = new_place(), new_place()
    one, two = (ledger_with_account(Place(place.url, places[0].folder, place.opened)) for place in places)
    one.reserve(request())
    open_grant(one, "run-1", seeded=SeededBytes(3)).draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    two.reserve(request())
    with pytest.raises(LedgerCorrupt, match="is of something else"):
        open_grant(two, "run-1").draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")


CRASHES: dict[str, tuple[object, str]] = {
    "before the noise is drawn": (draw_files, "values_digest"),
    "before the file is written": (draw_files.DrawFiles, "write"),
    "before the file gets its name": (os, "link"),
    "before the file's name is durable": (draw_files, "sync_folder"),
    "before the event is entered": (Journal, "append"),
}


@pytest.mark.parametrize("instant", CRASHES)
def test_a_crash_at_any_instant_of_a_draw_neither_loses_nor_repeats_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, instant: str
):
    ledger, grant = opened(place)
    where, name = CRASHES[instant]
    target: object = "privacy.grant.durable_draws.values_digest" if name == "values_digest" else where
    with monkeypatch.context() as patch:
        patch.setattr(target, die) if isinstance(target, str) else patch.setattr(target, name, die)
        with pytest.raises(Killed):
            grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    written = list((place.folder / "draws" / "run-1").glob("*.draw")) if (place.folder / "draws").exists() else []
    counted = Counted(ZEROS)
    grant = open_grant(ledger, "run-1")
    measured = grant.draw(MarginalQuery(counted.handle, HALF), key="a")
    assert counted.opened == (0 if written else 1)
    drawn = [entry for entry in ledger.entries_of("run-1") if entry.kind == "noise_drawn"]
    assert [entry.body["sha256"] for entry in drawn] == [measured.sha256]
    replayed = open_grant(ledger, "run-1").draw(MarginalQuery(counted.handle, HALF), key="a")
    np.testing.assert_array_equal(replayed.values, measured.values)
    assert ledger.verify() == []


def flip(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("damage", [flip, lambda content: content[:-8], lambda content: b"{}" + content])
def test_a_damaged_draw_is_corruption_and_is_not_drawn_again(place: Place, damage: Callable[[bytes], bytes]):
    ledger, grant = opened(place)
    grant.draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    file = next((place.folder / "draws").rglob("*.draw"))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(LedgerCorrupt):
        open_grant(ledger, "run-1").draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")
    file.unlink()
    with pytest.raises(LedgerCorrupt, match="its file is gone"):
        open_grant(ledger, "run-1").draw(MarginalQuery(Counted(ZEROS).handle, HALF), key="a")


@pytest.mark.stat
@pytest.mark.parametrize("wrong", [False, True])
def test_the_grant_adds_noise_of_exactly_the_scale_that_its_event_states(place: Place, wrong: bool):
    """DKW with n = 200,000 and α = 1e-9 (threshold 0.00732): the stated scale passes, one 10 % larger must fail."""
    ledger = ledger_with_account(place)
    ledger.reserve(request(noise=(HALF,), adjacency="add_remove", rows_per_unit=1))
    exact = np.arange(200_000)
    grant = open_grant(ledger, "run-1", seeded=SeededBytes(7))
    measured = grant.draw(MarginalQuery(Counted(exact).handle, HALF), key="a")
    noise = measured.values - exact
    t = float(measured.event.inverse_scale) / (1.1 if wrong else 1)  # type: ignore[union-attr]
    support = np.arange(-200, 201)
    mass = np.exp(-t * np.abs(support))
    expected = np.cumsum(mass / mass.sum())
    observed = np.searchsorted(np.sort(noise), support, side="right") / noise.size
    assert (np.abs(observed - expected).max() > 0.00732) == wrong


def test_an_engine_that_does_not_answer_spoils_no_draw(place: Place):
    """Counts are fetched before noise: nothing is entered, the charge stays open, and the next run makes the draw.
    Any other failure may depend on the counts: that draw is spoiled for good."""

    class Away(Counted):
        down = True

        def _count(self) -> object:  # type: ignore[override]
            if self.down:
                raise CountsUnavailable("Spark, query: the process ended")
            return super()._count()

    ledger, grant = opened(place)
    counted = Away(ZEROS)
    for _ in range(3):
        with pytest.raises(CountsUnavailable):
            grant.draw(MarginalQuery(counted.handle, HALF, None), key="a")
    assert "noise_drawn" not in [entry.kind for entry in ledger.entries_of("run-1")]
    counted.down = False
    again = open_grant(ledger, "run-1").draw(MarginalQuery(counted.handle, HALF, None), key="a")
    assert again.values.shape == ZEROS.shape
    assert [entry.kind for entry in ledger.entries_of("run-1")].count("noise_drawn") == 1
