"""What the AIM evaluation printed (Miura et al. 2025, tables 2 and 3): accuracies, mean and standard deviation."""

from __future__ import annotations

from typing import Final

EPSILON: Final = "1"
DELTA: Final = "1e-9"
TRIALS: Final = (0, 1, 2)
LEARNERS: Final = ("decision tree", "support vector machine", "xgboost")
Accuracies = dict[str, tuple[tuple[float, float], ...]]

ACCURACY: Final[dict[str, Accuracies]] = {
    "adult": {
        "aim-k2": ((0.8190, 0.0005), (0.8183, 0.0025), (0.8208, 0.0021)),
        "aim-k3": ((0.8188, 0.0013), (0.8166, 0.0010), (0.8173, 0.0025)),
        "aim-lap": ((0.8048, 0.0224), (0.8040, 0.0251), (0.8036, 0.0231)),
        "aim-noinit": ((0.8157, 0.0026), (0.8160, 0.0004), (0.8176, 0.0017)),
        "privbayes": ((0.8021, 0.0224), (0.8034, 0.0233), (0.8029, 0.0214)),
    },
    "bank": {
        "aim-k2": ((0.8841, 0.0008), (0.8847, 0.0002), (0.8841, 0.0004)),
        "aim-k3": ((0.8821, 0.0008), (0.8821, 0.0009), (0.8819, 0.0006)),
        "aim-lap": ((0.8787, 0.0062), (0.8784, 0.0064), (0.8782, 0.0058)),
        "aim-noinit": ((0.8833, 0.0016), (0.8846, 0.0011), (0.8841, 0.0011)),
        "privbayes": ((0.8811, 0.0079), (0.8811, 0.0077), (0.8808, 0.0072)),
    },
}
"""By table, by method, by learner: decision tree, support vector machine, XGBoost."""

METHODS: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "aim-k2": ("aim", {"degree": 2}),
    "aim-k3": ("aim", {"degree": 3}),
    "aim-lap": ("aim", {"degree": 2, "noise": "laplace"}),
    "aim-noinit": ("aim", {"degree": 2, "init": False}),
    "privbayes": ("privbayes", {}),
    "mst": ("mst", {}),
    "independent": ("independent", {}),
}
"""Ours: by the paper's name, the generator and its options."""
