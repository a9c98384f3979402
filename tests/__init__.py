"""The tests. What this says holds before numpy, or any other library that has threads of its own, is loaded."""

import os

# Several processes of tests share the cores: threads of their own in each would wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
