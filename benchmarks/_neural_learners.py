"""Classifiers that are trained on made-up rows and tested on real ones.

Tables: logistic regression (on standardised features), AdaBoost, gradient boosting and XGBoost, with the libraries'
settings. Gradient boosting is scikit-learn's histogram version: the plain one takes minutes on 178 columns.
Pictures: a small convolutional network and one with a hidden layer, fixed seed and epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks._neural_tables import Features

SEED: Final = 0
EPOCHS: Final = 3
BATCH: Final = 256
SIDE: Final = 28
Labels = NDArray[np.int64]


def logistic_regression() -> Any:
    """Logistic regression of standardised features."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def adaboost() -> Any:
    """AdaBoost of 50 stumps."""
    from sklearn.ensemble import AdaBoostClassifier

    return AdaBoostClassifier(random_state=SEED)


def gradient_boosting() -> Any:
    """Gradient boosting of 100 trees on histograms."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=SEED)


def xgboost() -> Any:
    """XGBoost of 100 trees."""
    from xgboost import XGBClassifier

    return XGBClassifier(random_state=SEED, n_jobs=2)


LEARNERS: Final[Mapping[str, Callable[[], Any]]] = {
    "logistic regression": logistic_regression,
    "AdaBoost": adaboost,
    "gradient boosting": gradient_boosting,
    "XGBoost": xgboost,
}


def ranked(
    train: tuple[Features, Labels], test: tuple[Features, Labels], *, learners: Sequence[str] = tuple(LEARNERS)
) -> dict[str, dict[str, float]]:
    """Return AUROC and AUPRC of learners, and their means.

    Args:
        train: features and labels (0, 1) to learn from.
        test: real ones.
        learners: their names.
    Returns:
        learner, and "mean", -> {"auroc", "auprc"}. Training labels that are all equal give what chance gives.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    found = {}
    for name in learners:
        if len(np.unique(train[1])) < 2:
            scores = np.zeros(len(test[1]))
        else:
            scores = LEARNERS[name]().fit(*train).predict_proba(test[0])[:, 1]
        found[name] = {
            "auroc": float(roc_auc_score(test[1], scores)),
            "auprc": float(average_precision_score(test[1], scores)),
        }
    means = {score: fmean(each[score] for each in found.values()) for score in ("auroc", "auprc")}
    return {**found, "mean": means}


def accuracies(train: tuple[Features, Labels], test: tuple[Features, Labels]) -> dict[str, float]:
    """Return the share of real pictures that networks recognise which were trained on made-up ones."""
    return {name: accuracy(name, train, test) for name in NETWORKS}


def _convolutional(classes: int) -> Any:
    from torch import nn

    inner = SIDE // 4
    return nn.Sequential(
        nn.Unflatten(1, (1, SIDE, SIDE)),
        *(nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 5, 2, 2), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(32 * inner * inner, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, classes)),
    )


def _hidden_layer(classes: int) -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(SIDE * SIDE, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, classes))


NETWORKS: Final[Mapping[str, Callable[[int], Any]]] = {"CNN": _convolutional, "MLP": _hidden_layer}


def accuracy(name: str, train: tuple[Features, Labels], test: tuple[Features, Labels]) -> float:
    """Train for a fixed number of epochs with Adam at 0.001 and batches of 256."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        network = NETWORKS[name](int(max(train[1].max(), test[1].max())) + 1)
        optimizer = torch.optim.Adam(network.parameters(), 1e-3)
        pictures, labels = torch.from_numpy(train[0]), torch.from_numpy(train[1])
        for _ in range(EPOCHS):
            for rows in torch.split(torch.randperm(len(pictures)), BATCH):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(network(pictures[rows]), labels[rows])
                torch.autograd.backward(loss)
                optimizer.step()
        network.eval()
        with torch.no_grad():
            predicted = network(torch.from_numpy(test[0])).argmax(1).numpy()
    return float(np.mean(predicted == test[1]))
