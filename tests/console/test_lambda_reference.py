"""`sudare run` with a lambda that is chosen on an earlier version, the real thing on the Adult example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.orchestration import release_plainly
from tests.console.conftest import Place, Typed


@pytest.mark.long
@pytest.mark.usefixtures("served")
def test_a_release_chooses_lambda_on_an_earlier_one(shared: Place, typed: Typed) -> None:
    """A version that is not there is refused by plan and run, before a charge; one that is there serves for free."""
    half = ("epsilon: 1.0", "epsilon: 0.5")
    spec = shared.spec("later", half, ("{method: simplex,", "{method: negative_l2, lambda: {reference: before/1},"))
    for early in (typed("plan", str(spec), "--json", at=shared.workspace), shared.run("run", str(spec), "--json")):
        assert early.code == 2
        assert "product.refine.lambda.reference" in early.out
        assert "of before there is none here" in early.out
    assert release_plainly(shared.spec("before", half), shared.workspace.root) == 0
    assert "chosen on before/1, at no cost" in typed("plan", str(spec), at=shared.workspace).out
    made = shared.run("run", str(spec), "--json")
    assert made.code == 0, made.err
    assert made.json["epsilon"] == "0.5"
    folder, key = Path(made.json["folder"]), made.json["public_key_file"]
    reference = json.loads((folder / "record.json").read_bytes())["replay"]["reference"]
    assert (reference["release"], reference["version"]) == ("before", 1)
    verified = typed("verify", str(folder), "--key", key)
    assert verified.code == 0
    assert "whether lambda" not in verified.out
    (shared.workspace.releases / "before" / "v1").rename(shared.workspace.root / "elsewhere")
    typed("verify", str(folder), "--key", key).assert_printed("whether lambda is the one that before v1 leads to")
