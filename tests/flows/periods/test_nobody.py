"""A release whose `select:` or period keeps nobody: made of noise, like any other (law 3)."""

from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks._periodic_place import CONTRACT
from benchmarks.orchestration import release_plainly
from contracts.periods.time_blocks import time_block
from privacy.accounting.amounts import PICO
from privacy.accounting.calculus import RenyiCalculus
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountTerms
from tasks.storage.workspace.settings import Workspace

pytestmark = pytest.mark.long

SPEC = """\
release: nobody
contract: visits.odcs.yaml
source: {{path: visits.csv, select: "SELECT * FROM source WHERE ward = 'a' AND day = '2024-05-05'"}}
charge: {{account: visits, epsilon: 1, delta: {delta}}}
product: {product}
publish: {{to: releases/}}
"""
PRODUCTS = {
    "laplace": "{kind: tables, mechanism: laplace, tables: [[ward]], refine: {method: simplex}, total: noisy}",
    "gaussian": "{kind: tables, mechanism: gaussian, tables: [[ward, day]]}",
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_release_of_nobody_is_made_of_noise(tmp_path: Path, name: str):
    """It is charged and published; its numbers say no more than their noise."""
    (tmp_path / "visits.odcs.yaml").write_text(CONTRACT)
    (tmp_path / "visits.csv").write_text("ward,day\na,2024-05-06\nb,2024-05-05\n")
    pure = name == "laplace"
    (tmp_path / "visits.yaml").write_text(SPEC.format(product=PRODUCTS[name], delta="0" if pure else "1e-6"))
    workspace = Workspace.create(tmp_path / "w")
    with closing(Ledger(workspace.ledger_url, draws=workspace.draws)) as ledger:
        terms = ("visits", "patients", "2024", "row", "add_remove", RenyiCalculus(Fraction(12)), 6 * PICO, 10**13)
        ledger.open_account(AccountTerms(*terms))
        ledger.bind_source(str((tmp_path / "visits.csv").resolve()), "patients", time_block("2024"))
    release_plainly(tmp_path / "visits.yaml", workspace.root)
    assert len(list(tmp_path.rglob("MANIFEST.json"))) == 1
