"""A small regression task: lower is better, and clients may have test data of their own."""

import torch
from torch import nn

from dynamite_fl._leading_metric import LeadingMetric
from dynamite_fl.task.task import Task

RMSE = LeadingMetric("rmse", higher_is_better=False)
# What a job needs for the task that the function below makes.
_PARTITION = 'partition={kind="unequal", spread=0.5}'
REGRESSION = ('task={use="tests.regressions:make_task"}', _PARTITION)
TWO_CLIENTS = (
    'task={use="tests.regressions:make_task", clients=2}',
    _PARTITION,
    'devices={samples_per_second=[100, 200], name=["near", "far"]}',
)


def make_task(clients: int = 0) -> Task:
    """Return a linear regression with noise of deviation 0.1.

    Args:
        clients: The number of clients with test data of their own. The targets of the last one
            are larger by 5, so that its error is the largest.
    """
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(300, 3, generator=random)
    noise = 0.1 * torch.randn(300, 1, generator=random)
    targets = inputs @ torch.tensor([[1.0], [-2.0], [0.5]]) + 3 + noise
    test = (inputs[200:], targets[200:])
    own = list(zip(*(tensor.chunk(max(clients, 1)) for tensor in test), strict=True))
    own[-1] = (own[-1][0], own[-1][1] + 5)
    return Task(
        name="regression",
        model=lambda: nn.Linear(3, 1),
        loss=nn.MSELoss(),
        train_data=(inputs[:200], targets[:200]),
        test_data=own if clients else test,
        metrics=["rmse", "mae"],
    )
