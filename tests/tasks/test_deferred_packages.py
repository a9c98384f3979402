"""Packages that are imported and not loaded: nothing of them is missing for whoever uses them."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADS = "import tasks.validation.expectations, sys; loaded = lambda name: name in sys.modules; "


@pytest.mark.parametrize(
    ("package", "inner", "use"),
    [
        ("scipy.stats", "scipy.stats._stats_py", "from scipy.stats import norm; norm.ppf(0.5)"),
        ("scipy.stats", "scipy.stats._stats_py", "import scipy; scipy.stats.norm.ppf(0.5)"),
        ("altair", "altair.vegalite", "import altair; altair.Chart"),
        ("altair", "altair.vegalite", "import altair.expr; altair.Chart"),
    ],
)
def test_a_deferred_package_is_loaded_by_its_first_use(package: str, inner: str, use: str) -> None:
    """Great Expectations loads neither; in whatever way one is used, the whole package is there."""
    claim = f"assert not loaded({inner!r}); {use}; assert loaded({inner!r})"
    whole = f"assert type(sys.modules[{package!r}]).__name__ == 'module'"
    subprocess.run([sys.executable, "-c", f"{LOADS}{claim}; {whole}"], check=True)


def test_a_package_that_is_loaded_already_is_left_alone() -> None:
    """What another part of the process uses is not taken away."""
    code = "import scipy.stats as before; import tasks.validation.expectations; import scipy.stats as after"
    subprocess.run([sys.executable, "-c", f"{code}; assert before is after"], check=True)
