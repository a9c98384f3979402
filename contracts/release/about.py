"""What only people know about a release: who answers for it, on what ground, who approved it. Declared, not guessed.

A release spec may have an `about:`; a workspace's sudare.toml may have a `[publisher]` with what is the same for all
its releases. Each entry is a public declaration of the publisher: the record marks it as declared, and nothing can
check it. It says nothing about what is computed, so it is no part of the spec's digest: a corrected contact costs no
new release.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from contracts.domains.domain_terms import Frozen
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
