"""`sudare plan SPEC --for AIM`, as people type it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from contracts.release.spec import load_spec
from flows.request import planned_request, read_request
from tests.console.conftest import Place, Typed


def half_widths(place: Place, spec: str, epsilon: str) -> dict[str, int]:
    """Plan the tables of a spec at an epsilon, and return how far 95 % of the noises of each reach."""
    request = read_request(place.adult / spec)
    charge = request.spec.charge.model_copy(update={"epsilon": Decimal(epsilon)})
    plan: Any = planned_request(request.spec.model_copy(update={"charge": charge}), request.contract).plan
    return {draw.key: draw.half_width for draw in plan.draws}


@pytest.mark.parametrize("noise", ["mechanism: laplace", "mechanism: gaussian"])
def test_the_least_epsilon_reaches_the_aim_and_no_less_does(shared: Place, typed: Typed, noise: str) -> None:
    charge = "delta: 0" if "laplace" in noise else "delta: 1e-9"
    spec = shared.spec(f"aimed-{noise[-7:]}", ("mechanism: laplace", noise), ("delta: 0", charge))
    aims = ("--for", "±5% where count >= 1000", "--for", "age: ±20")
    said = typed("plan", str(spec), *aims, "--json", at=shared.workspace).json
    epsilon = said["aims"]["epsilon"]
    assert float(said["epsilon"]) == pytest.approx(float(epsilon), rel=1e-6)
    assert said["aims"]["binding"] == "age: ±20"
    assert half_widths(shared, spec.name, epsilon)["table:age"] == 20
    less = Decimal(epsilon) * Decimal("0.99")
    assert half_widths(shared, spec.name, str(less))["table:age"] > 20
    assert [draw["interval_95"] for draw in said["draws"]] == [*half_widths(shared, spec.name, epsilon).values()]


@pytest.mark.parametrize("noise", ["mechanism: laplace", "mechanism: gaussian"])
def test_weights_that_cost_less_reach_the_aims(shared: Place, typed: Typed, noise: str) -> None:
    """With the weights that are named and written into the spec, the epsilon that is named is found again."""
    name = f"weighed-{noise[-7:]}"
    charge = "delta: 0" if "laplace" in noise else "delta: 1e-9"
    changes = (("mechanism: laplace", noise), ("delta: 0", charge))
    tables = ("[education, income]", "[age]", "[marital-status, sex, income]")
    names = ("education_x_income", "age", "marital-status_x_sex_x_income")
    aims = [f"{table}: ±{reach}" for table, reach in zip(names, (40, 10, 100), strict=True)]
    words = [word for aim in aims for word in ("--for", aim)]
    said = typed("plan", str(shared.spec(name, *changes)), *words, "--json", at=shared.workspace).json
    weights, epsilon = said["aims"]["weights"]["of"], said["aims"]["weights"]["epsilon"]
    assert Decimal(epsilon) < Decimal("0.7") * Decimal(said["epsilon"])
    assert weights[names[1]] == max(weights.values(), key=Decimal)
    written = [
        (f"    - {old}\n", f"    - {{columns: {old}, weight: {weights[table]}}}\n")
        for old, table in zip(tables, names, strict=True)
    ]
    again = typed("plan", str(shared.spec(f"{name}-2", *changes, *written)), *words, "--json", at=shared.workspace)
    assert again.json["aims"]["epsilon"] == epsilon
    assert all(each["half_width_95"] >= 0.9 * each["at_most"] for each in again.json["aims"]["aims"])


def test_statistics_have_aims_too(shared: Place, typed: Typed) -> None:
    """Ten times the rows, a tenth of the half width."""
    spec = str(shared.adult / "statistics.yaml")
    found = [
        typed("plan", spec, "--for", f"sex_x_race.mean_hours-per-week: ±0.5 where count >= {rows}", "--json").json
        for rows in (100, 1000)
    ]
    small, large = (Decimal(each["epsilon"]) for each in found)
    assert float(small / large) == pytest.approx(10, rel=0.02)
    assert "weights" not in found[0]["aims"]


def test_a_person_sees_what_decides_and_what_to_write(shared: Place, typed: Typed) -> None:
    spec = str(shared.adult / "tables.yaml")
    said = typed("plan", spec, "--for", "±20", at=shared.workspace)
    assert "cost ε = 0.439 at δ = 0" in " ".join(said.out.split())
    assert "±20 decides: with less than ε = 0.439 it is not reached" in said.out
    assert "write epsilon: 0.439 into the spec to release it so" in said.out
    assert load_spec(shared.adult / "tables.yaml").charge.epsilon == 1


def test_what_the_account_cannot_pay_ends_with_what_fits(shared: Place, typed: Typed) -> None:
    said = typed("plan", str(shared.adult / "tables.yaml"), "--for", "±1", at=shared.workspace)
    assert said.code == 4
    assert "it does not fit: ask for epsilon" in said.out


def test_rows_and_models_have_no_aims(shared: Place, typed: Typed) -> None:
    said = typed("plan", str(shared.adult / "model.yaml"), "--for", "±1", at=shared.workspace)
    said.assert_ended(2, "how far off rows and models are depends on the data")
