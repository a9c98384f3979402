"""Time blocks: names of half-open ranges of days."""

from collections.abc import Callable
from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.periods.time_blocks import GRAMMAR, BlockRefused, TimeBlock, gap, time_block

DAYS = [date(2023, 1, 1) + timedelta(days=day) for day in range(5 * 366)]


def span(text: str) -> tuple[date, date]:
    """First and last day of a block."""
    block = time_block(text)
    return date.fromordinal(block.begins), date.fromordinal(block.ends - 1)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("2024", lambda day: day.year == 2024),
        ("2025-H1", lambda day: day.year == 2025 and day.month <= 6),
        ("2025-H2", lambda day: day.year == 2025 and day.month > 6),
        *(
            (f"2025-Q{q}", lambda day, q=q: (day.year, (day.month + 2) // 3) == (2025, q))  # type: ignore[misc]
            for q in range(1, 5)
        ),
        *(
            (f"2024-{m:02d}", lambda day, m=m: (day.year, day.month) == (2024, m))  # type: ignore[misc]
            for m in range(1, 13)
        ),
        ("2026-W01", lambda day: day.isocalendar()[:2] == (2026, 1)),
        ("2026-W53", lambda day: day.isocalendar()[:2] == (2026, 53)),
        ("2024-02-29", lambda day: day == date(2024, 2, 29)),
        ("2025-04-01..2026-04-01", lambda day: date(2025, 4, 1) <= day < date(2026, 4, 1)),
        ("lifetime", lambda day: True),
    ],
)
def test_a_block_holds_exactly_the_days_of_its_name(text: str, holds: Callable[[date], bool]):
    """The second derivation asks each day of five years."""
    block = time_block(text)
    assert [day for day in DAYS if block.begins <= day.toordinal() < block.ends] == [
        day for day in DAYS if holds(day)
    ]
    assert str(block) == block.text == text
    assert block.is_lifetime == (text == "lifetime")


def test_the_first_and_the_last_day_that_there_is():
    assert span("lifetime") == (date.min, date.max)
    assert span("0001")[0] == date.min
    for last in ("9999", "9999-H2", "9999-Q4", "9999-12", "9999-12-31"):
        assert span(last)[1] == date.max
    assert time_block("9999-12-31").ends == time_block("lifetime").ends


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "2026 ",
            " 2026",
            "2026\n",
            "26",
            "02026",
            "20260",
            "２０２６",
            "year 2026",
            "Lifetime",
            "LIFETIME",
        ),
        *("0000", "2026-H0", "2026-H3", "2026-h1", "2026-Q0", "2026-Q5", "2026-q4", "2026Q4", "2026-Q04"),
        *("2026-00", "2026-13", "2026-1", "2026-W00", "2026-W54", "2025-W53", "2026-W5", "2026-w05"),
        *("2025-02-29", "2026-04-31", "2026-1-05", "20260105", "2026-W05-1"),
        *("2026-01-01..2026-01-01", "2026-01-02..2026-01-01", "2026..2027", "2026-01-01...2026-02-01"),
        *("2026-01-01..", "..2026-01-01", "..", "2026-01-01..2026-02-01..2026-03-01", "2026-W01-1..2026-W02-1"),
        *(
            "20260101..20260201",
            "2026-01-01 .. 2026-02-01",
            "lifetime..lifetime",
            "-2026",
            "2026-01-01T00:00..2027-01-01",
        ),
        "9" * 1000,
    ],
)
def test_what_names_no_block_is_refused_with_what_does(text: str):
    with pytest.raises(BlockRefused) as refused:
        time_block(text)
    (finding,) = refused.value.findings
    assert finding.allowed == GRAMMAR
    assert len(finding.found) <= 62
    assert refused.value.exit_code == 2


def test_everything_that_the_grammar_shows_can_be_read():
    shown = [word.strip("(),") for word in GRAMMAR.split() if word.strip("(),")[:2] == "20" or "lifetime" in word]
    assert len(shown) == 8
    assert [time_block(text).text for text in shown] == shown


def test_blocks_are_equal_if_they_are_the_same_days():
    assert time_block("2026-Q4") == time_block("2026-10-01..2027-01-01") != time_block("2026-10")
    assert time_block("2026-10-05") == time_block("2026-10-05..2026-10-06")
    assert len({time_block("2026"), time_block("2026-01-01..2027-01-01")}) == 1


def test_neighbours_share_no_day_and_leave_none_out():
    for names in (
        [f"2026-{m:02d}" for m in range(1, 13)],
        [f"2026-Q{q}" for q in range(1, 5)],
        ["2026-H1", "2026-H2"],
        [f"{y:04d}" for y in range(1900, 2100)],
    ):
        blocks = [time_block(name) for name in names]
        for before, after in pairwise(blocks):
            assert before.ends == after.begins
            assert not before.overlaps(after)
            assert not after.overlaps(before)


BLOCKS = st.tuples(st.integers(0, 12), st.integers(1, 6)).map(
    lambda made: TimeBlock("", 738_000 + made[0], 738_000 + sum(made))
)


def days_of(block: TimeBlock) -> set[int]:
    return set(range(block.begins, block.ends))


@given(BLOCKS, BLOCKS)
def test_blocks_overlap_if_some_day_lies_in_both(one: TimeBlock, other: TimeBlock):
    assert one.overlaps(other) == other.overlaps(one) == bool(days_of(one) & days_of(other))


@given(BLOCKS, st.lists(BLOCKS, max_size=6))
def test_a_gap_is_the_first_run_of_days_that_no_part_covers(block: TimeBlock, parts: list[TimeBlock]):
    uncovered = sorted(days_of(block) - set().union(*map(days_of, parts)))
    found = gap(block, parts)
    if not uncovered:
        assert found is None
        return
    assert found is not None
    first, after = found[0].toordinal(), found[1].toordinal()
    assert first == uncovered[0]
    assert set(range(first, after)) <= set(uncovered)
    assert after not in uncovered


def test_a_gap_of_one_day_is_one():
    parts = [time_block("2026-01"), time_block("2026-02-02..2027-01-01")]
    assert (
        gap(time_block("2026"), parts) == gap(time_block("2026"), parts[::-1]) == (date(2026, 2, 1), date(2026, 2, 2))
    )


def test_a_gap_up_to_the_end_of_time_is_told_with_the_last_day_there_is():
    lifetime = time_block("lifetime")
    assert gap(lifetime, [time_block("2026")]) == (date.min, date(2026, 1, 1))
    assert gap(lifetime, [TimeBlock("", date.min.toordinal(), time_block("2026").ends)]) == (
        date(2027, 1, 1),
        date.max,
    )
    assert gap(lifetime, [lifetime]) is None
    assert gap(time_block("2026"), [lifetime]) is None
