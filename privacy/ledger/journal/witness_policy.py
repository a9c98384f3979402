"""Whose cosignatures a journal needs: a policy in the form of C2SP tlog-policy.

    log KEY                       whose journal; may be left out
    witness NAME KEY [URL]        a witness: its key of type 4, and where it is asked
    group NAME any|all|N MEMBER…  met where that many of its members are met
    quorum NAME|none              the group or witness that has to be met

Names stand before they are used. Lines that begin with # and empty lines are left aside. Below the quorum each name
stands once: a witness in two groups would count twice.
Source: C2SP tlog-policy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from privacy.ledger.journal.notes import COSIGNATURE, MalformedNote, VerifierKey, read_verifier_key

NONE: Final = "none"
CLOCK_SLACK: Final = 3600
"""How far a witness's clock may be ahead of a reader's [seconds]."""
_MOST_LINES: Final = 1_000


class PolicyUnmet(ValueError):
    """A policy of another form, or one that no set of witnesses can meet; the text names the line."""


@dataclass(frozen=True)
class PolicyWitness:
    """A witness of a policy.

    Args:
        name: as the policy calls it.
        key: its key, of type 4.
        url: where it is asked; empty where only its signature counts.
    """

    name: str
    key: VerifierKey
    url: str


@dataclass(frozen=True)
class WitnessPolicy:
    """Who has to have seen a journal.

    Args:
        logs: the keys of the journals that it is for; empty for any.
        witnesses: by name.
        groups: how many of which members, by name.
        quorum: the name of what has to be met, or `none`.
    """

    logs: tuple[VerifierKey, ...]
    witnesses: Mapping[str, PolicyWitness]
    groups: Mapping[str, tuple[int, tuple[str, ...]]]
    quorum: str

    def is_met(self, names: Collection[str]) -> bool:
        """Say whether these witnesses are enough."""
        return self.quorum == NONE or self._met(self.quorum, names)

    def _met(self, name: str, names: Collection[str]) -> bool:
        if name in self.witnesses:
            return name in names
        needed, members = self.groups[name]
        return sum(self._met(member, names) for member in members) >= needed

    @property
    def words(self) -> str:
        """The quorum in words."""
        if self.quorum in self.groups:
            needed, members = self.groups[self.quorum]
            return f"{needed} of {len(members)} ({', '.join(members)})"
        return self.quorum


def read_policy(text: str) -> WitnessPolicy:
    """Read a policy.

    Raises:
        PolicyUnmet: names the line, what was found and what is allowed.
    """
    logs: list[VerifierKey] = []
    witnesses: dict[str, PolicyWitness] = {}
    groups: dict[str, tuple[int, tuple[str, ...]]] = {}
    quorum = ""
    lines = text.splitlines()
    if len(lines) > _MOST_LINES:
        raise PolicyUnmet(f"{len(lines)} lines; allowed are {_MOST_LINES}")
    for number, line in enumerate(lines, 1):
        words, at = line.split(), f"line {number}"
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "log" and len(words) in (2, 3):
            logs.append(_key(words[1], at))
        elif words[0] == "witness" and len(words) in (3, 4):
            witnesses[_new(words[1], at, witnesses, groups)] = _witness(words, at, witnesses)
        elif words[0] == "group" and len(words) >= 4:
            groups[_new(words[1], at, witnesses, groups)] = _group(words, at, {*witnesses, *groups})
        elif words[0] == "quorum" and len(words) == 2 and not quorum:
            quorum = words[1]
            if quorum != NONE and quorum not in witnesses and quorum not in groups:
                raise PolicyUnmet(f"{at}: quorum {quorum[:60]!r}; allowed is a name above it, or none")
            _check_once(quorum, at, groups)
        else:
            allowed = "log KEY, witness NAME KEY [URL], group NAME any|all|N MEMBER..., and one quorum NAME"
            raise PolicyUnmet(f"{at}: {' '.join(words[:2])[:60]!r}; allowed are {allowed}")
    if not quorum:
        raise PolicyUnmet("no line quorum; write which group has to be met, or: quorum none")
    return WitnessPolicy(tuple(logs), witnesses, groups, quorum)


def _new(name: str, at: str, *known: Collection[str]) -> str:
    if name == NONE or any(name in each for each in known):
        raise PolicyUnmet(f"{at}: the name {name[:60]!r} again; each name stands for one thing, and none for nobody")
    return name


def _witness(words: list[str], at: str, known: Mapping[str, PolicyWitness]) -> PolicyWitness:
    key, url = _key(words[2], at), words[3].rstrip("/") if len(words) > 3 else ""
    if key.kind != COSIGNATURE:
        raise PolicyUnmet(f"{at}: a key of type {key.kind}; a witness signs with one of type 4 (cosignature)")
    if any(key.public == other.key.public for other in known.values()):
        raise PolicyUnmet(f"{at}: the key of a witness above; one witness counts once")
    if url and not url.startswith(("http://", "https://")):
        raise PolicyUnmet(f"{at}: {url[:60]!r}; allowed is an address that begins with https:// or http://")
    return PolicyWitness(words[1], key, url)


def _group(words: list[str], at: str, known: Collection[str]) -> tuple[int, tuple[str, ...]]:
    asked, members = words[2], tuple(words[3:])
    unknown = [member for member in members if member not in known]
    if unknown or len(set(members)) < len(members):
        raise PolicyUnmet(f"{at}: {(unknown or list(members))[0][:60]!r}; members are names above it, each once")
    needed = {"any": 1, "all": len(members)}.get(asked) or (int(asked) if asked.isascii() and asked.isdigit() else 0)
    if not 1 <= needed <= len(members):
        allowed = f"any, all, or 1 to {len(members)}, as many as it has members"
        raise PolicyUnmet(
            f"{at}: {asked[:20]!r} of {len(members)}, which no set of witnesses can meet; allowed is {allowed}"
        )
    return needed, members


def _check_once(quorum: str, at: str, groups: Mapping[str, tuple[int, tuple[str, ...]]]) -> None:
    """Refuse a quorum that one witness can meet twice over: below it a name stands in two groups."""
    reached, left = {quorum}, [quorum]
    while left:
        for member in groups.get(left.pop(), (0, ()))[1]:
            if member in reached:
                allowed = "each witness and group below the quorum in one group; take it out of the others"
                raise PolicyUnmet(
                    f"{at}: {member[:60]!r} would count twice for {quorum[:60]!r}; allowed is {allowed}"
                )
            reached.add(member)
            left.append(member)


def time_problem(time: int, *, now: float) -> str:
    """Say why no cosignature can be of this time; empty where one can.

    Args:
        time: of the cosignature [seconds since 1970].
        now: the reader's clock [seconds since 1970].
    """
    if time == 0:
        return "time 0, which says nothing of when"
    if time > now + CLOCK_SLACK:
        return f"time {time} (seconds since 1970), more than an hour ahead of this clock"
    return ""


def _key(text: str, at: str) -> VerifierKey:
    try:
        return read_verifier_key(text)
    except MalformedNote as error:
        raise PolicyUnmet(f"{at}: {error}") from None
