"""What only people know about a release: who answers for it, on what ground, who approved it. Declared, not guessed.

A release spec may have an `about:`; a workspace's sudare.toml may have a `[publisher]` with what is the same for all
its releases. Each entry is a public declaration of the publisher: the record marks it as declared, and nothing can
check it. It says nothing about what is computed, so it is no part of the spec's digest: a corrected contact costs no
new release.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from contracts.domains.domain import Frozen
from contracts.reading.scalars import Label, Problem, as_tuple, refuse, show

LONGEST = 2000
_TIME = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])(T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?Z)?"
)


def _short(text: str) -> str:
    if len(text) > LONGEST:
        refuse(
            [Problem(f"{len(text)} characters", f"at most {LONGEST}", "put the rest where a link can point to it")]
        )
    return text


def _moment(value: Any) -> str:
    if not _TIME.fullmatch(str(value)):
        refuse([Problem(show(value), "a day, 2026-03-01, or a time in UTC, 2026-03-01T14:30Z")])
    return str(value)


ShortSentence = Annotated[Label, AfterValidator(_short)]
Moment = Annotated[str, BeforeValidator(_moment)]


class Approver(Frozen):
    """Who approved the release, and when."""

    name: ShortSentence
    at: Moment
    role: ShortSentence | None = None


class Handling(Frozen):
    """Something that was done with the data, or decided, before the release; and how its privacy loss was treated.

    Args:
        what: in a sentence.
        accounted: `accounted` by an account of the ledger, done on `public data`, or `unaccounted`.
    """

    what: ShortSentence
    accounted: Literal["accounted", "public data", "unaccounted"]
    union_tag: ClassVar[str] = "handling"


Handled = Annotated[
    Annotated[Handling, Tag("handling")] | Annotated[Literal["none"], Tag("none")],
    Discriminator(lambda value: "none" if value == "none" else "handling"),
]


class Publisher(Frozen):
    """What is the same for all releases of a publisher."""

    curator: ShortSentence | None = Field(default=None, description="Who is responsible for the data.")
    operator: ShortSentence | None = Field(default=None, description="Who runs the releases.")
    sector: ShortSentence | None = Field(default=None, description="Sector of the publisher.")
    region: ShortSentence | None = Field(default=None, description="Region that the data are about.")
    audience: ShortSentence | None = Field(default=None, description="For whom the release is made.")
    legal_basis: ShortSentence | None = Field(
        default=None, description="Legal basis, or the impact assessment's reference."
    )
    policy_version: ShortSentence | None = Field(default=None, description="Privacy policy that the release follows.")
    contact: ShortSentence | None = Field(default=None, description="Whom to write to about errors.")
    trust_model: ShortSentence | None = Field(
        default=None, description="Who sees the confidential rows, who is trusted."
    )
    retention: ShortSentence | None = Field(default=None, description="When snapshot and source are deleted.")
    witness: ShortSentence | None = Field(default=None, description="Who else keeps the journal's head.")
    permitted_uses: Annotated[tuple[ShortSentence, ...], BeforeValidator(as_tuple)] = Field(
        default=(), description="What the release may be used for."
    )


class About(Publisher):
    """What is known of one release; what it leaves out is taken from the publisher."""

    approvers: Annotated[tuple[Approver, ...], BeforeValidator(as_tuple)] = Field(
        default=(), description="Who approved the release, and when."
    )
    rationale: ShortSentence | None = Field(default=None, description="Why this epsilon, and why this cap.")
    delta_rationale: ShortSentence | None = Field(default=None, description="Why this delta.")
    registry_id: ShortSentence | None = Field(default=None, description="Entry in a public registry of deployments.")
    lineage: ShortSentence | None = Field(default=None, description="From which systems the table came.")
    tuned_on_data: Handled | None = Field(default=None, description="Settings chosen by looking at the data.")
    exploratory_access: Handled | None = Field(default=None, description="Who looked at the rows beforehand.")
    hyperparameter_search: Handled | None = Field(default=None, description="How options were chosen.")
    feature_selection: Handled | None = Field(default=None, description="How the published columns were chosen.")


def declared(about: About, publisher: Publisher) -> About:
    """Return what is declared about a release: what its spec says, and else what its publisher says of all.

    Args:
        about: of the spec.
        publisher: of the workspace.
    """
    own = {name: value for name in About.model_fields if (value := getattr(about, name))}
    common = {name: value for name in Publisher.model_fields if (value := getattr(publisher, name))}
    return About(**{**common, **own})


# --- Who must approve a release before it is charged.


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
