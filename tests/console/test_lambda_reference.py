"""`sudare run` with a lambda that is chosen on an earlier version, the real thing on the Adult example."""

from __future__ import annotations

import json
from pathlib import Path

from tests.console.conftest import Place, Typed


def test_a_release_chooses_lambda_on_an_earlier_one(shared: Place, typed: Typed) -> None:
    """A version that is not there is refused by plan and run, before a charge; one that is there serves for free."""
    half = ("epsilon: 1.0", "epsilon: 0.5")
    spec = shared.spec("later", half, ("{method: simplex,", "{method: negative_l2, lambda: {reference: before/1},"))
    for command in ("plan", "run"):
        early = shared.run(command, str(spec), "--json")
        assert early.code == 2
        assert "product.refine.lambda.reference" in early.out
        assert "of before there is none here" in early.out
    before = shared.run("run", str(shared.spec("before", half)), "--json")
    assert before.code == 0, before.err
    assert "chosen on before/1, at no cost" in shared.run("plan", str(spec)).out
    made = shared.run("run", str(spec), "--json")
    assert made.code == 0, made.err
    assert made.json["epsilon"] == before.json["epsilon"] == "0.5"
    folder, key = Path(made.json["folder"]), made.json["public_key_file"]
    reference = json.loads((folder / "record.json").read_bytes())["replay"]["reference"]
    assert (reference["release"], reference["version"]) == ("before", 1)
    verified = typed("verify", str(folder), "--key", key)
    assert verified.code == 0
    assert "whether lambda" not in verified.out
    Path(before.json["folder"]).rename(shared.workspace.root / "elsewhere")
    alone = typed("verify", str(folder), "--key", key)
    assert alone.code == 0
    assert "whether lambda is the one that before v1 leads to" in alone.out
