"""Regression on a table: NumPy arrays, a mean squared error, and metrics of which lower is better.

The first metric leads: reports, comparisons and targets use it.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from torch import nn

import dynamite_fl as fl


def make_task(samples: int = 442) -> fl.Task:
    """Predict the progression of diabetes within a year from ten measurements."""
    inputs, targets = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(inputs))[:samples]
    inputs, targets = inputs[order] / inputs.std(axis=0), targets[order, None]  # (n, 10), (n, 1)
    cut = samples * 4 // 5
    mean, deviation = targets[:cut].mean(), targets[:cut].std()
    targets = (targets - mean) / deviation
    return fl.Task(
        name="diabetes",
        model=lambda: nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1)),
        loss=nn.MSELoss(),
        train_data=(inputs[:cut], targets[:cut]),
        test_data=(inputs[cut:], targets[cut:]),
        metrics=["rmse", "mae"],
    )


if __name__ == "__main__":
    result = fl.train(
        make_task(),
        devices="testbed5",
        limits=fl.Limits(deadline=60, budget=40, cost_per_sample=0.001, cost_per_round=1),
        learning_rate=0.05,
    )
    print(result)
