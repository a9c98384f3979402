"""What the studio's page sends: fields of a form and texts of editors, each bounded; anything else is refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class SentBody(BaseModel):
    """What the page sends: these fields and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class EditorText(SentBody):
    """A text as an editor holds it."""

    name: str = Field(max_length=200)
    text: str = Field(max_length=1_000_000)
    digest: str = Field(default="", max_length=64)


class FormChoice(SentBody):
    """What was chosen on the form."""

    name: str = Field(max_length=40)
    at: str = Field(default="", max_length=2_000)
    value: str = Field(default="", max_length=100_000)


class Looked(SentBody):
    """Both texts, a choice to be made in them, and the tables whose part of the form is open."""

    spec: EditorText
    contract: EditorText | None = None
    rows: int | None = Field(default=None, ge=1, le=10**12)
    choice: FormChoice | None = None
    open: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=200)] = []


class Order(SentBody):
    """A run that is wanted."""

    spec: str = Field(max_length=200)
    supersede: bool = False
    accept_misfits: bool = False
