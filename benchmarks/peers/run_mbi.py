"""mbi's AIM and MST: the package from PyPI, and its scripts, which PyPI does not carry.

The folder `mechanisms` of a checkout of github.com/ryan112358/mbi must stand beside `bin` of the environment. Where a
script is older than the package, its calls are put into the package's words here; nothing else is changed, but for
`aim-numpy`, which computes some marginals in another way (`mbi_projection`).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mbi
import mbi_projection
import pandas as pd
import running
from mbi import estimation

sys.path.insert(0, str(Path(sys.prefix) / "mechanisms"))

_estimate = estimation.MirrorDescent.estimate


def _estimate_from_potentials(self: Any, *arguments: Any, potentials: Any = None, **named: Any) -> Any:
    """Call it `warm_start`, as mbi 2.0 does."""
    return _estimate(self, *arguments, **({"warm_start": potentials} if potentials is not None else {}), **named)


estimation.MirrorDescent.estimate = _estimate_from_potentials
estimation.mirror_descent = lambda *arguments, **named: estimation.MirrorDescent().estimate(*arguments, **named)
mbi.Domain.attrs = property(lambda domain: domain.attributes)


def _dataset(values: Any, domain: mbi.Domain) -> mbi.Dataset:
    return mbi.Dataset(
        {name: values[:, place].astype("int64") for place, name in enumerate(domain.attributes)}, domain
    )


def aim(rows: pd.DataFrame, domain: dict[str, int], asked: argparse.Namespace) -> pd.DataFrame:
    """AIM of degree 2 with its defaults."""
    from aim import AIM

    return _aim(AIM, rows, domain, asked, degree=2)


def aim_degree_3(rows: pd.DataFrame, domain: dict[str, int], asked: argparse.Namespace) -> pd.DataFrame:
    """AIM of degree 3 with its defaults."""
    from aim import AIM

    return _aim(AIM, rows, domain, asked, degree=3)


def _aim(
    mechanism: Any, rows: pd.DataFrame, domain: dict[str, int], asked: argparse.Namespace, degree: int
) -> pd.DataFrame:
    data = _dataset(rows.to_numpy(), mbi.Domain.fromdict(domain))
    workload = [(clique, 1.0) for clique in itertools.combinations(domain, degree)]
    _, made = mechanism(asked.epsilon, asked.delta).run(data, workload)
    return pd.DataFrame(made.to_dict())


def mst(rows: pd.DataFrame, domain: dict[str, int], asked: argparse.Namespace) -> pd.DataFrame:
    """MST with its defaults."""
    import mst as script

    script.Dataset = _dataset
    made = script.MST(_dataset(rows.to_numpy(), mbi.Domain.fromdict(domain)), asked.epsilon, asked.delta)
    return pd.DataFrame(made.to_dict())


def in_numpy(method: Callable[[pd.DataFrame, dict[str, int], argparse.Namespace], pd.DataFrame]) -> Any:
    """Return a method whose models project in numpy, without a compilation for each: the same in less time."""

    def run(rows: pd.DataFrame, domain: dict[str, int], asked: argparse.Namespace) -> pd.DataFrame:
        mbi_projection.use()
        return method(rows, domain, asked)

    return run


METHODS = {"aim": aim, "aim-k3": aim_degree_3, "mst": mst}
running.main(METHODS | {"aim-numpy": in_numpy(aim)}, "mbi", "jax", "numpy")
