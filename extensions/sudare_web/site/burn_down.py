"""What is left of an account over time, and which release took what: as numbers and as two pictures with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Final, TypeVar

from console.published_folders import Kept
from privacy.ledger.terms import AccountState
from privacy.ledger.view import Claimed, LedgerView
from tasks.records.charts import charts as svg

_POINTS: Final = 300
_KEPT: Final = 64
_PICO: Final = 10**12
_NAMED_STEP: Final = 70  # thousandths of the height
_LONGEST_NAME: Final = 18  # of a step, so that it fits on a narrow screen
_NAMED_SEGMENT: Final = 5.0  # percent
_BOX: Final = (14, 4, 84, 82)  # of the picture, in percent: left, top, width, height


BurntStep = tuple[str, int, str]
_Step = TypeVar("_Step")


@dataclass(frozen=True)
class Burnt:
    """What an account has lost, and to whom.

    Args:
        steps: when something was charged (ISO 8601, UTC), what was left after it [10⁻¹² units], and for which
            release, in order; of many charges at most 300, the first and the last among them.
        by_release: what each release took [same units], those that took most first.
        claimed: what the runs of each release claim, each by itself.
    """

    steps: tuple[BurntStep, ...]
    by_release: tuple[tuple[str, int], ...]
    claimed: tuple[Claimed, ...]


class BurnDowns:
    """Works out what became of each account, once for each state of the ledger."""

    def __init__(self) -> None:
        self._known: Kept[Burnt] = Kept(_KEPT)

    def of(self, view: LedgerView, state: AccountState) -> Burnt:
        """Return what became of an account; charges that were given back are left out.

        Args:
            view: the ledger.
            state: the account as it stands.
        """
        key = (state.terms.name, state.spent, view.size())
        known = self._known.get(key)
        if known is None:
            known = _burnt(view, state)
            self._known.keep(key, known)
        return known


def _burnt(view: LedgerView, state: AccountState) -> Burnt:
    spent = view.spent(state.terms.name)
    taken: dict[str, int] = {}
    for each in spent:
        taken[each.release] = taken.get(each.release, 0) + each.amount
    left = list(accumulate((each.amount for each in spent), lambda left, amount: left - amount, initial=state.cap))[
        1:
    ]
    steps = thinned([(each.entry, after, each.release) for each, after in zip(spent, left, strict=True)])
    times = view.times([entry for entry, _, _ in steps])
    ranked = sorted(taken.items(), key=lambda item: (-item[1], item[0]))
    timed = tuple((times[entry], after, release) for entry, after, release in steps)
    return Burnt(timed, tuple(ranked), view.claimed(state.terms.name))


def thinned(steps: Sequence[_Step]) -> list[_Step]:
    """Keep at most 300 steps, the first and the last among them."""
    if len(steps) <= _POINTS:
        return list(steps)
    return [steps[round(place * (len(steps) - 1) / (_POINTS - 1))] for place in range(_POINTS)]


def burn_down(
    state: AccountState, steps: Sequence[BurntStep], runs_out: str | None, words: Mapping[str, str], now: datetime
) -> svg.Drawing | None:
    """Draw what is left of an account, from its first charge to now, and on to the run that will be refused.

    Args:
        state: the account.
        steps: from `BurnDowns.of`.
        runs_out: when the schedule will be refused (ISO 8601), if it is known to be.
        words: "label", "now" and "out": what the picture says.
        now: the time.
    Returns:
        Drawing: an SVG; None while nothing was charged.
    """
    if not steps:
        return None
    began, end = _time(steps[0][0]), _time(runs_out) if runs_out is not None else now
    across = (began.timestamp(), max(end, now, began).timestamp() + 1.0)
    up = (0.0, state.cap / _PICO)
    left = state.cap / _PICO
    points, names, named = [(across[0], left)], list[str](), ""
    for at, after, release in steps:
        when = _time(at).timestamp()
        points += [(when, left), (when, after / _PICO)]
        high, low = svg.place(left, up), svg.place(after / _PICO, up)
        if high - low >= _NAMED_STEP:
            names.append(release if len(release) <= _LONGEST_NAME else f"{release[: _LONGEST_NAME - 1]}…")
            named += _beside_step(len(names), svg.place(when, across), (high + low) / 2)
        left = after / _PICO
    points.append((max(now.timestamp(), points[-1][0]), left))
    path = svg.line(points, across, up)
    right = svg.place(points[-1][0], across)
    content = f'<path class="grid" d="M0 0H1000M0 500H1000M0 1000H1000"/><path class="area" d="{path}V1000H0Z"/>'
    content += f'<path class="curve" d="{path}"/>'
    if runs_out is not None:
        content += f'<path class="ahead" d="M{right} {1000 - svg.place(left, up)}L1000 1000"/>'
    drawn = svg.plot(content, _BOX) + named + _ticks((began, end, now), across, words)
    return svg.figure("burn", words["label"], drawn, *names)


def segments(burnt: Burnt, state: AccountState, label: str) -> svg.Drawing:
    """Draw the cap: a segment for each release that took of it, the largest first, and what is left; with names.

    Args:
        burnt: what each took.
        state: the account.
        label: what the picture shows, in words.
    """
    amounts = [*(amount for _, amount in burnt.by_release), state.remaining]
    ends = [0.0, *accumulate(100 * amount / (sum(amounts) or 1) for amount in amounts)]
    kinds = [*("before" if place % 2 == 0 else "other" for place in range(len(burnt.by_release))), "left"]
    drawn = "".join(
        f'<rect class="{kind}" x="{10 * start:.1f}" y="0" width="{10 * (end - start):.1f}" height="1000"/>'
        for kind, (start, end) in zip(kinds, pairwise(ends), strict=True)
    )
    names = (
        f'<foreignObject x="{start:.1f}%" y="58%" width="{end - start:.1f}%" height="42%">'
        f"<p>{{{place}}}</p></foreignObject>"
        for place, (start, end) in enumerate(pairwise(ends[:-1]), 1)
        if end - start >= _NAMED_SEGMENT
    )
    words = [name for name, _ in burnt.by_release]
    return svg.figure("segments", label, svg.plot(drawn, (0, 0, 100, 56)) + "".join(names), *words)


def _beside_step(slot: int, at: int, middle: float) -> str:
    """Leave a place for a name beside a step, on the side that has room."""
    x, y, width, height = _BOX
    right = at < 600
    across = x + at * width / 1000 + (0.8 if right else -0.8)
    down = y + (1000 - middle) * height / 1000 + 1.2
    return svg.text(across, down, f"{{{slot}}}", "start" if right else "end")


def _ticks(times: tuple[datetime, datetime, datetime], across: tuple[float, float], words: Mapping[str, str]) -> str:
    """Write the ends of both axes, and where now is."""
    x, y, width, height = _BOX
    began, end, now = times
    shares = ((0.0, "100 %"), (0.5, "50 %"), (1.0, "0 %"))
    drawn = [svg.text(x - 1, y + share * height + 1.2, told, "end") for share, told in shares]
    drawn.append(svg.text(x, 97, f"{began:%Y-%m-%d}", "start"))
    if end > now:
        place = svg.place(now.timestamp(), across) / 1000
        if 0.2 < place < 0.75:
            drawn.append(svg.text(x + place * width, 97, words["now"], "middle"))
        drawn.append(svg.text(x + width, 97, f"{words['out']} {end:%Y-%m-%d}", "end"))
    else:
        drawn.append(svg.text(x + width, 97, f"{words['now']} {now:%Y-%m-%d}", "end"))
    return "".join(drawn)


def _time(written: str) -> datetime:
    read = datetime.fromisoformat(written)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)
