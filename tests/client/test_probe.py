"""``test_client.py`` tests the measurements of a probe by hand."""

import pytest
import torch

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.probe import gradient_variance
from dynamite_fl.task.registry import make_task


def test_gradient_variance_is_that_of_single_gradients() -> None:
    task = make_task("perceptron", "digits")
    model = FlatModel(task, seed=0)
    x, y = task.train_inputs[:20], task.train_targets[:20]
    single = [model.gradient(model.first_weights, x[i : i + 1], y[i : i + 1])[1] for i in range(20)]
    expected = torch.stack(single).var(dim=0).sum()
    found = gradient_variance(model, model.first_weights, x, y)
    assert found == pytest.approx(float(expected), rel=1e-4)
