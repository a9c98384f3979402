"""Packages that are imported and not loaded: nothing of them is missing for whoever uses them."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.services

USES = [
    ("scipy.stats", "scipy.stats._stats_py", "from scipy.stats import norm; norm.ppf(0.5)"),
    ("scipy.stats", "scipy.stats._stats_py", "import scipy; scipy.stats.norm.ppf(0.5)"),
    ("altair", "altair.vegalite", "import altair; altair.Chart"),
    ("altair", "altair.vegalite", "import altair.expr; altair.Chart"),
]
IN_FORKS = f"""
import os, sys
import tasks.validation.expectations

for package, inner, use in {USES!r}:
    child = os.fork()
    if not child:
        assert inner not in sys.modules, inner
        exec(use)
        assert inner in sys.modules, use
        assert type(sys.modules[package]).__name__ == "module", use
        print(use, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
"""Each use in a process where nothing was used before: a copy of one that has loaded Great Expectations."""


def test_a_deferred_package_is_loaded_by_its_first_use():
    """Great Expectations loads neither; in whatever way one is used, the whole package is there."""
    done = subprocess.run([sys.executable, "-c", IN_FORKS], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [use for _, _, use in USES], done.stderr


def test_a_package_that_is_loaded_already_is_left_alone():
    """What another part of the process uses is not taken away."""
    code = "import scipy.stats as before; import tasks.validation.expectations; import scipy.stats as after"
    subprocess.run([sys.executable, "-c", f"{code}; assert before is after"], check=True)


def test_a_federation_of_a_table_is_run_and_joined_without_torch():
    """Coordinator and site load it where networks are trained, so that counting needs no package for that."""
    modules = "flows.federation.federated_run, flows.federation.site, privacy.coordination.coordinator"
    subprocess.run([sys.executable, "-c", f"import {modules}, sys; assert 'torch' not in sys.modules"], check=True)
