"""dpmm's AIM, MST and PrivBayes, with their defaults but for one process and the same degree of the workload."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import running
from dpmm.models.aim import AIMGM
from dpmm.models.mst import MSTGM
from dpmm.models.priv_bayes import PrivBayesGM

MODELS = {"aim": partial(AIMGM, degree=2), "mst": MSTGM, "privbayes": PrivBayesGM}


def _made(model: Any, rows: pd.DataFrame, domain: dict[str, int], asked: argparse.Namespace) -> pd.DataFrame:
    random = np.random.RandomState(asked.seed)
    fitted = model(epsilon=asked.epsilon, delta=asked.delta, domain=domain, random_state=random, n_jobs=1)
    fitted.fit(rows.astype("int64"))
    made: pd.DataFrame = fitted.generate(n_records=len(rows))
    return made


running.main({name: partial(_made, model) for name, model in MODELS.items()}, "dpmm", "opendp", "numpy")
