"""smartnoise-synth's MST and AIM, with its defaults; its columns and categories are declared, not learned."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd
import running
from snsynth import Synthesizer
from snsynth.transform import LabelTransformer, TableTransformer


def _made(name: str, rows: pd.DataFrame, domain: dict[str, int], **options: Any) -> pd.DataFrame:
    labels = []
    for size in domain.values():
        transformer = LabelTransformer(nullable=False)
        transformer.fit(np.arange(size))
        labels.append(transformer)
    synthesizer = Synthesizer.create(name, **options)
    synthesizer.fit(rows, transformer=TableTransformer(labels), preprocessor_eps=0.0)
    made = synthesizer.sample(len(rows))
    return pd.DataFrame(np.asarray(made), columns=list(domain))


def mst(rows: pd.DataFrame, domain: dict[str, int], asked: argparse.Namespace) -> pd.DataFrame:
    """MST."""
    return _made("mst", rows, domain, epsilon=asked.epsilon, delta=asked.delta)


def aim(rows: pd.DataFrame, domain: dict[str, int], asked: argparse.Namespace) -> pd.DataFrame:
    """AIM of degree 2, its default."""
    return _made("aim", rows, domain, epsilon=asked.epsilon, delta=asked.delta)


running.main({"mst": mst, "aim": aim}, "smartnoise-synth", "mbi", "jax", "numpy")
