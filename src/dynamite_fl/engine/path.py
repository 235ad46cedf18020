"""The path of a round: where the local steps led on average, first half and second."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamite_fl.client.path import head_steps
from dynamite_fl.client.sketch import sketch
from dynamite_fl.engine.engine import RoundOutcome
from dynamite_fl.reports import PathReport, RoundReport


def with_path(outcome: RoundOutcome, fine: NDArray[np.bool_], moved: Tensor) -> RoundReport:
    """The report with the mean path of those whose updates were averaged.

    Clients sketch their first half alone: all the way is known here, and so the rest of it.

    Args:
        outcome: What came of the round, with the path of each who was present.
        fine: Whose update was averaged, of those present.
        moved: All the way, from the new global model to the old one, (d,).
    """
    report, paths = outcome.report, outcome.paths
    averaged = [path for path, ok in zip(paths, fine, strict=True) if ok]
    data = report.samples[report.present][fine]
    share = torch.from_numpy(data / data.sum())
    head = share @ torch.stack([path.head for path in averaged]).double()
    first = head_steps(report.local_steps)
    second = report.local_steps - first
    tail = (sketch(moved).double() - head) / second if second else head
    variance = np.full(report.present.size, np.nan)
    variance[report.present] = [path.gradient_variance for path in paths]
    return replace(report, path=PathReport((head / first).numpy(), tail.numpy(), variance))
