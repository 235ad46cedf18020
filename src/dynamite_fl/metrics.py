"""The metrics, for use from Python; the first metric of a task leads.

Example:
    >>> import dynamite_fl as fl
    >>> import torch
    >>> fl.metrics.rmse.compute([torch.tensor([1.0, 3.0])], [torch.tensor([1.0, 1.0])])
    1.4142135623730951
"""

from dynamite_fl._leading_metric import LeadingMetric
from dynamite_fl.task.metrics import (
    Metric,
    accuracy,
    accuracy_of,
    binary_accuracy,
    mae,
    perplexity,
    rmse,
)

__all__ = [
    "LeadingMetric",
    "Metric",
    "accuracy",
    "accuracy_of",
    "binary_accuracy",
    "mae",
    "perplexity",
    "rmse",
]
