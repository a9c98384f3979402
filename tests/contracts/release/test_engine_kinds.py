"""The engine of a source is what an installed package registers; a missing extension is named."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from contracts import plug_ins
from contracts.release.source import Source


def test_an_engine_of_an_extension_that_is_not_installed_is_refused_with_its_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plug_ins, "registered", lambda group: ())
    with pytest.raises(ValidationError, match="needs the extension sudare_engines"):
        Source(path=Path("people.parquet"), engine="spark")


def test_an_unknown_engine_is_refused_with_those_there_are():
    with pytest.raises(ValidationError, match="one of spark"):
        Source(path=Path("people.parquet"), engine="oracle")
