"""Forms in which offices exchange tables: `publish: {exchange: [sdmx, csvw, registry]}` in a release spec.

| form | what is written | of |
|---|---|---|
| `sdmx` | `exchange/sdmx/structures.json` (SDMX-JSON 2.0), and SDMX-CSV 2.0 of each table | tables, statistics |
| `csvw` | `exchange/csvw.json`: CSV on the Web metadata of the files in `data/*.csv` | whatever has CSV files |
| `registry` | `exchange/deployment.yaml`: the entry of OpenDP's registry in its newer form | everything |

All of it is made from the record and the data files, so that it tells nothing else and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from contracts.contract.contract import Contract
from contracts.reading.scalars import Problem
from contracts.release.product_spec import ProductSpec

ExchangeForm = Literal["sdmx", "csvw", "registry"]
EXCHANGE: Final = "exchange/"
"""The folder below a version in which all these files lie."""


def exchange_problems(
    forms: Sequence[ExchangeForm], formats: Sequence[str], product: ProductSpec, contract: Contract
) -> Iterator[Problem]:
    """Yield what keeps forms of exchange from a release.

    Args:
        forms: those that are asked for.
        formats: of the data files.
        product: which fits the contract.
        contract: its contract.
    """
    if "sdmx" in forms and not product.labelled(contract):
        remedy = "drop `sdmx`; its observations are the cells of tables and statistics"
        yield Problem(f"sdmx with kind {product.kind}", "kind tables or statistics", remedy)
    if "csvw" in forms and "csv" not in formats:
        remedy = "add csv to `formats:`, or drop `csvw`"
        yield Problem("csvw without CSV files", "csv among the formats, which csvw describes", remedy)
