"""Who must approve a release before it is charged: `approvals:` in a release spec.

    approvals:
      needed: 2
      by:
        - {name: Disclosure board, key: 3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29}
        - {name: Data protection officer, key: 8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c}
      folder: approvals          # beside the spec; each file in it is what `sudare approve` wrote

An approver signs release, spec, contract, plan and memo. Another plan, and be it by one digit of epsilon, needs
another approval. The keys are part of the spec, so that an approver signs who else may approve, too.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, model_validator

from contracts.domains.domain_terms import Frozen
from contracts.reading.scalars import Label, Problem, as_tuple, refuse, show

_KEY: Final = re.compile(r"[0-9a-f]{64}")
_FORM: Final = "64 lower-case hex digits: the public half of an Ed25519 key"
_REMEDY: Final = "the approver makes one and gives you its public half: sudare key new FILE"


class ApprovingKey(Frozen):
    """Somebody who may approve.

    Args:
        name: who it is, in public words.
        key: public Ed25519 key (hex).
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
        for what, values in (("name", [each.name for each in self.by]), ("key", [each.key for each in self.by])):
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
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        refuse([Problem(show(key), _FORM, _REMEDY)])
    return key
