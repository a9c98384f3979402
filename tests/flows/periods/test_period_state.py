"""The table of a period's states: what a run may begin from, and that no state is a dead end."""

from __future__ import annotations

from flows.periods.state import TRANSITIONS, WORDS, PeriodChange, PeriodState, may_run

S, C = PeriodState, PeriodChange


def test_a_run_begins_where_something_is_missing() -> None:
    """Unasked it does nothing to a period that is published, withdrawn, going on or not over."""
    assert {state for state in S if may_run(state)} == {S.MISSING, S.REFUSED, S.CHARGED}
    assert {state for state in S if may_run(state, supersede=True)} - {state for state in S if may_run(state)} == {
        S.PUBLISHED,
        S.WITHDRAWN,
    }


def test_every_state_leads_to_a_publication_and_only_a_run_publishes() -> None:
    reached = {S.PUBLISHED}
    for _ in S:
        reached |= {before for (before, _), after in TRANSITIONS.items() if after in reached}
    assert reached == set(S)
    assert {before for (before, change), after in TRANSITIONS.items() if after is S.PUBLISHED} == {S.RUNNING}
    assert {change for (_, change), after in TRANSITIONS.items() if after is S.CHARGED} == {C.CHARGE}
    assert {change for _, change in TRANSITIONS} == set(C)


def test_a_period_that_is_not_over_runs_only_where_that_was_asked_for() -> None:
    assert {change for before, change in TRANSITIONS if before is S.NOT_OVER} == {C.ENDS, C.EARLY}


def test_every_state_has_words() -> None:
    assert set(WORDS) == set(S)
