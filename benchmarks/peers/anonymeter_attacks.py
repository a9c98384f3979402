"""Anonymeter's three attacks on synthetic rows: singling out, linkability, inference.

Each is given rows that the generator saw, and control rows that it did not; its risk is how much better the attacker
does on the former, as a share of what is left to gain.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

CONFIDENCE = 0.95
SINGLED_OUT_BY = 3


def main() -> None:
    """Attack the rows in `--seen`, `--made` and `--control`, and write the risks to standard output."""
    parser = argparse.ArgumentParser()
    for name in ("seen", "made", "control"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--secret", required=True)
    parser.add_argument("--attacks", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    asked = parser.parse_args()
    np.random.seed(asked.seed)  # noqa: NPY002 (anonymeter draws from the global generator)
    warnings.simplefilter("ignore")
    frames = [pd.read_csv(path, dtype=str) for path in (asked.seen, asked.made, asked.control)]
    with redirect_stdout(sys.stderr):
        found = {name: _risk(attack, frames, asked) for name, attack in ATTACKS.items()}
    print(json.dumps({"attacks": found, "versions": {name: version(name) for name in ("anonymeter", "numpy")}}))


def _risk(attack: Callable[..., Any], frames: list[pd.DataFrame], asked: argparse.Namespace) -> dict[str, Any]:
    """Run an attack; return the risk with its interval, and how often guesses were right."""
    begun = time.perf_counter()
    evaluator = attack(*frames, asked)
    risk, rates = evaluator.risk(confidence_level=CONFIDENCE), evaluator.results(confidence_level=CONFIDENCE)
    return {
        "risk": round(float(risk.value), 4),
        "low": round(float(risk.ci[0]), 4),
        "high": round(float(risk.ci[1]), 4),
        "seen_rate": round(float(rates.attack_rate.value), 4),
        "control_rate": round(float(rates.control_rate.value), 4),
        "attacks": int(rates.n_attacks_ori),
        "seconds": round(time.perf_counter() - begun, 2),
    }


def _singling_out(seen: pd.DataFrame, made: pd.DataFrame, control: pd.DataFrame, asked: argparse.Namespace) -> Any:
    evaluator = SinglingOutEvaluator(seen, made, control=control, n_attacks=asked.attacks, n_cols=SINGLED_OUT_BY)
    evaluator.evaluate(mode="multivariate")
    return evaluator


def _linkability(seen: pd.DataFrame, made: pd.DataFrame, control: pd.DataFrame, asked: argparse.Namespace) -> Any:
    columns = list(seen.columns)
    halves = columns[::2], columns[1::2]
    evaluator = LinkabilityEvaluator(seen, made, aux_cols=halves, control=control, n_attacks=asked.attacks)
    evaluator.evaluate(n_jobs=1)
    return evaluator


def _inference(seen: pd.DataFrame, made: pd.DataFrame, control: pd.DataFrame, asked: argparse.Namespace) -> Any:
    known = [name for name in seen.columns if name != asked.secret]
    evaluator = InferenceEvaluator(
        seen, made, aux_cols=known, secret=asked.secret, control=control, n_attacks=asked.attacks
    )
    evaluator.evaluate(n_jobs=1)
    return evaluator


ATTACKS = {"singling_out": _singling_out, "linkability": _linkability, "inference": _inference}
main()
