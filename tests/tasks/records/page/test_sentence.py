"""A sentence with slots: it matches as the regular expression of its slots would, in far less time."""

from __future__ import annotations

import re
import time

from hypothesis import example, given
from hypothesis import strategies as st

from tasks.records.page.sentence import NUMBER, SLOT, sentence

_TAKES = {"": ".+?", "#": f"{NUMBER.pattern}?", "+": ".+", "!": ".+?"}
SIGNS = st.sampled_from(["", "#", "+", "!"])
INNER = st.text("a1, ", min_size=1, max_size=3)


def by_expression(source: str, text: str) -> dict[str, str] | None:
    """Match by a regular expression, which may take very long."""
    parts = SLOT.split(source)
    pattern = re.escape(parts[0])
    for name, sign, after in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        pattern += f"(?P<{name}>{_TAKES[sign]}){re.escape(after)}"
    found = re.fullmatch(pattern, text, re.DOTALL)
    return None if found is None else found.groupdict()


@given(
    st.lists(st.tuples(SIGNS, INNER), min_size=1, max_size=4),
    st.text("a1, ", max_size=3),
    st.text("a1, ", max_size=14),
)
@example([("", "a"), ("#", " ")], "", "1a1a1 ")
@example([("+", ","), ("", ",")], "", "a,a,a,a,")
def test_it_finds_what_a_regular_expression_finds(slots: list[tuple[str, str]], start: str, text: str) -> None:
    source = start + "".join(f"{{s{place}{sign}}}{inner}" for place, (sign, inner) in enumerate(slots))
    assert sentence(source, "").match(text) == by_expression(source, text)


def test_a_text_that_almost_matches_takes_no_longer_than_its_length_for_each_slot() -> None:
    """Six slots and 4,000 letters: a regular expression with lazy slots would try about 10^18 places."""
    hard = sentence("".join(f"{{s{place}}}a" for place in range(6)) + "{last#}.", "")
    started = time.monotonic()
    assert hard.match("a" * 4000 + ".") is None
    assert hard.match("a" * 4000 + "1.") is not None
    assert time.monotonic() - started < 5
