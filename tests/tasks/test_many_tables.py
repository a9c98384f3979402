"""Many tables under one charge, from the short form to a version that verify replays, and its forgeries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.verify import verify
from tests.tasks.forgeries import Forgery, replay
from tests.tasks.forgery import Json, forge, load, told
from tests.tasks.runs import Scenario, second
from tests.tasks.version_fixture import Version, broken, publish_version

TABLES = "[all 2-way, {columns: [hired], name: hirings, weight: 5}]"


def many_tables() -> Scenario:
    """All two-way tables of the guild and one of its one-way tables; the noise is chosen by its error."""
    base = second()
    written = base.spec[base.spec.index("{kind: tables") : base.spec.index("publish:")]
    product = f"{{kind: tables, mechanism: auto, tables: {TABLES}, split: optimal, refine: {{method: simplex}}}}\n"
    return replace(base, spec=base.spec.replace(written, product), before=0)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Version:
    return publish_version(many_tables(), tmp_path_factory.mktemp("many"))


def test_every_table_of_the_short_form_is_published_and_verified(many: Version) -> None:
    assert verify(many.folder, public_key=many.key).ok
    record = load(many.folder / "record.json")
    assert record["replay"]["product"]["tables"][0] == {"ways": 2, "weight": "1"}
    names = [table["name"] for table in record["replay"]["tables"]]
    assert names == ["wage_x_hired", "wage_x_trade", "hired_x_trade", "hirings"]
    assert {f"data/{name}.parquet" for name in names} <= set(many.files)


def test_the_record_says_which_noise_was_chosen_and_what_each_would_err(many: Version) -> None:
    fields = load(many.folder / "record.json")["groups"]["J"]["fields"]
    errors = {noise: float(error) for noise, error in fields["mechanism_choice"]["value"]["expected_rmse"].items()}
    assert set(errors) == {"laplace", "gaussian"}
    assert fields["mechanism"]["value"] == f"{min(errors, key=lambda noise: errors[noise])} mechanism on marginals"
    assert "public parameters alone" in fields["mechanism_choice"]["value"]["by"]


def choice(record: Json) -> Json:
    value: Json = record["groups"]["J"]["fields"]["mechanism_choice"]["value"]
    return value


FORGED = {
    "another mechanism for people": Forgery({6}, lambda r: told(r, "J.mechanism", "geometric"), says="J.mechanism"),
    "a chosen mechanism that was named, they say": Forgery(
        {6}, lambda r: choice(r).update(by="the spec"), says="J.mechanism_choice"
    ),
    "a smaller expected error": Forgery(
        {6}, lambda r: choice(r)["expected_rmse"].update(laplace="0.5"), says="J.mechanism_choice"
    ),
    "an expected error that is none": Forgery(
        {6}, lambda r: choice(r)["expected_rmse"].update(laplace="little"), says="J.mechanism_choice"
    ),
    "a choice that is none": Forgery(
        {6}, lambda r: told(r, "J.mechanism_choice", "gaussian"), says="J.mechanism_choice"
    ),
    "a choice under another delta": Forgery(
        {6}, replay(lambda r: r["charge"].update(delta="1e-5")), says="J.mechanism_choice"
    ),
    "a choice without a delta": Forgery(
        {6}, replay(lambda r: r["charge"].update(delta="0")), says="J.mechanism_choice"
    ),
    "noise that errs more than the other": Forgery(
        {6}, replay(lambda r: r["charge"].update(delta="0.5")), says="discrete_gaussian, of which the error is least"
    ),
    "more ways": Forgery(
        {5, 6}, replay(lambda r: r["product"]["tables"][0].update(ways=1)), says="as the product says"
    ),
    "too many ways": Forgery({5}, replay(lambda r: r["product"]["tables"][0].update(ways=7)), says="at most 3"),
    "fewer columns": Forgery(
        {5, 6}, replay(lambda r: r["product"]["tables"][0].update(of=["wage", "trade"])), says="as the product says"
    ),
    "another split": Forgery({6}, replay(lambda r: r["product"].pop("split")), says="J.mechanism_choice"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_consistent_forgery_of_many_tables_is_caught(many: Version, tmp_path: Path, name: str) -> None:
    forgery = FORGED[name]
    version = many.copy(tmp_path / "v")
    forge(version, record=forgery.record)
    report = verify(version.folder, public_key=version.key)
    assert broken(report) == forgery.rules, report.findings
    assert forgery.says in "\n".join(map(str, report.findings))
