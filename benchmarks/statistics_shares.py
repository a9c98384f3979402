"""What `split: optimal` takes off the errors of statistics, beside shares by weight: from public facts, no data.

    python -m benchmarks.statistics_shares

The error is the root of the mean of squared errors over all statistics of all cells, each counted in rows
(`privacy.statistics.shares`). Both specs fit the contract of `examples/adult`: that of the example, and one with a
fine table, a table of all rows, variances and quantiles.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.results import Row, Setting, machine, write
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.release.spec import load_spec
from contracts.release.statistics import StatisticsProduct, statistics_product
from privacy.statistics.shares import draw_shares, squared_error

ADULT: Final = Path(__file__).parents[1] / "examples" / "adult"
MIXED: Final = {
    "kind": "statistics",
    "tables": [
        {"by": [], "of": ["count", {"mean": "age"}]},
        {"by": ["occupation", "education"], "of": ["count"]},
        {"by": ["sex"], "of": [{"variance": "age"}, {"quantiles": ["0.1", "0.5", "0.9"], "of": "hours-per-week"}]},
        {"by": ["education", "sex"], "of": [{"sum": "capital-gain"}, {"mean": "hours-per-week"}]},
    ],
}


def main() -> None:
    """Compare the two splits for each spec and noise, and write results/statistics_shares.json."""
    contract = load_contract(ADULT / "adult.odcs.yaml")
    example = statistics_product(load_spec(ADULT / "statistics.yaml").product)
    products = {"the example of Adult": example, "fine and coarse tables": StatisticsProduct.model_validate(MIXED)}
    rows = [
        _row(f"{name}, {mechanism}", product.model_copy(update={"mechanism": mechanism}), contract)
        for name, product in products.items()
        for mechanism in ("laplace", "gaussian")
    ]
    write("statistics_shares", rows)


def _row(what: str, product: StatisticsProduct, contract: Contract) -> Row:
    """Return the error of optimal shares over that of shares by weight."""
    optimal = product.model_copy(update={"split": "optimal"})
    ratio = (squared_error(optimal, contract) / squared_error(product, contract)) ** 0.5
    shares: dict[str, Setting] = {key: f"{float(share):.4g}" for key, share in draw_shares(optimal, contract).items()}
    settings: dict[str, Setting] = {"shares": shares, **machine()}
    return Row(
        f"error of optimal shares over that of shares by weight, {what}",
        float(f"{ratio:.4g}"),
        "ratio",
        "at most 1",
        ratio <= 1,
        settings=settings,
    )


if __name__ == "__main__":
    main()
