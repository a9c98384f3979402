"""What a synthetic release is asked for: the generator's options are read, and the generator plans without data."""

from __future__ import annotations

from typing import Any

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec, SyntheticProduct
from privacy.generators.generator import SynthesisTask
from privacy.generators.registry import generator
from privacy.generators.release_plan import FittedPlan, plan_synthetic
from tasks.products.planning import planned


def read_synthetic(
    spec: ReleaseSpec, product: SyntheticProduct, contract: Contract, **noise: Any
) -> tuple[ReleaseSpec, FittedPlan[SynthesisTask]]:
    """Read the options by the generator's own model, and plan.

    Args:
        spec: the release spec, held against its contract already.
        product: its product.
        contract: its contract.
        noise: what it is calibrated to, as of `plan_fit`.
    Returns:
        tuple: the spec with the options as they were understood, so that their spelling does not count, and the plan.
    Raises:
        SpecRefused: an option is unknown or out of its range, or the generator sees already that it must fail.
    Privacy: reads no data.
    """
    return planned(spec, product, contract, lambda: generator(product.generator).options, plan_synthetic, **noise)
