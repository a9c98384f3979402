"""Who must approve a release before it is charged: `approvals:` in a release spec.

    approvals:
      needed: 2
      by:
        - {name: Disclosure board, key: office.example/board+1d2c3b4a+AZ3h...}
        - {name: Data protection officer, key: office.example/officer+5e6f7a8b+AUkq...}
      folder: approvals          # beside the spec; each file in it is what `sudare approve` wrote

An approver signs release, spec, contract and plan. Another plan, and be it by one digit of epsilon, needs
another approval. The keys are part of the spec, so that an approver signs who else may approve, too.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, model_validator

from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import Label, Problem, as_tuple, refuse, show

_KEY: Final = re.compile(r"([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})")
_FORM: Final = "one line NAME+HASH+BASE64: the public half of an Ed25519 key, as `sudare keys new` writes it"
_REMEDY: Final = "the approver makes one and gives you FILE.pub: sudare keys new FILE"
_ED25519: Final = 1


class ApprovingKey(Frozen):
    """Somebody who may approve.

    Args:
        name: who it is, in public words.
        key: public Ed25519 key under its name, the verifier key of a signed note: NAME+HASH+BASE64.
    """

    name: Label
    key: Annotated[str, BeforeValidator(lambda key: _public(key))]


class Approvals(Frozen):
    """How many of whom must have signed the plan.

    Args:
        needed: how many of them, 1 at least.
        by: those who may.
        folder: where their signatures lie, from the spec's folder.
    """

    needed: Annotated[int, Field(ge=1, le=64)]
    by: Annotated[tuple[ApprovingKey, ...], BeforeValidator(as_tuple), Field(min_length=1, max_length=64)]
    folder: Label = "approvals"

    @model_validator(mode="after")
    def _reachable(self) -> Approvals:
        for what, values in (
            ("name", [each.name for each in self.by]),
            ("key", [public_part(each.key) for each in self.by]),
        ):
            twice = next((each for each in values if values.count(each) > 1), None)
            if twice is not None:
                refuse([Problem(f"the {what} {show(twice)} twice", f"each {what} once", "one person signs once")])
        if self.needed > len(self.by):
            found, allowed = (
                f"{self.needed} of {len(self.by)} approvers",
                f"at most {len(self.by)}, as many as there are",
            )
            refuse([Problem(found, allowed, "name more approvers, or need fewer", ("needed",))])
        return self


def _public(key: object) -> object:
    """Read a public key."""
    found = _KEY.fullmatch(key) if isinstance(key, str) else None
    if found is None or not _whole(*found.groups()):
        refuse([Problem(show(key), _FORM, _REMEDY)])
    return key


def _whole(name: str, short: str, encoded: str) -> bool:
    """Say whether a key has the hash that stands in it, so that no letter of it is another."""
    raw = b64decode(encoded)
    known = hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4].hex()
    return raw[0] == _ED25519 and len(raw) == 33 and short == known


def public_part(key: str) -> str:
    """Return a key without its name and hash: what makes it the same key under another name."""
    return key.split("+", 2)[-1]
