"""The average movement of a round's local steps, in its first and in its second half."""

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.client.sketch import sketch
from dynamite_fl.client.step_path import steps_in_first_half
from dynamite_fl.records import BoolArray, FloatArray
from dynamite_fl.reports import PathReport, RoundReport
from dynamite_fl.training.engine import RoundOutcome


def with_path(
    outcome: RoundOutcome, averaged: BoolArray, shares: FloatArray, movement: Tensor
) -> RoundReport:
    """Return the report with the mean movement of the clients whose updates were averaged.

    Clients send a sketch of their first half only. The server knows the whole movement, so it
    computes the second half as the difference.

    Args:
        outcome: The result of the round, with the path of every present client.
        averaged: Whether the update was averaged, for each present client.
        shares: The weight of each averaged update in the movement.
        movement: The trained weights of the old global model minus those of the new one,
            (trained,).
    """
    report, paths = outcome.report, outcome.paths
    share = torch.from_numpy(shares)
    sketches = [path.first_half for path, used in zip(paths, averaged, strict=True) if used]
    first_movement = share @ torch.stack(sketches).double()
    first_steps = steps_in_first_half(report.local_steps)
    second_steps = report.local_steps - first_steps
    first_half = first_movement / first_steps
    second_half = first_half
    if second_steps:
        second_half = (sketch(movement).double() - first_movement) / second_steps
    gradient = None
    if all(path.gradient_sum is not None for path in paths):
        sums = [path.gradient_sum for path, used in zip(paths, averaged, strict=True) if used]
        mean_sum = share @ torch.stack([total for total in sums if total is not None]).double()
        gradient = (mean_sum / first_steps).numpy()
    variance = np.full(report.present.size, np.nan)
    variance[report.present] = [path.gradient_variance for path in paths]
    shares_sent = [path.early_share for path, used in zip(paths, averaged, strict=True) if used]
    early_shares = [early for early in shares_sent if math.isfinite(early)]
    return replace(
        report,
        path=PathReport(
            first_half=first_half.numpy(),
            second_half=second_half.numpy(),
            gradient_variance=variance,
            gradient=gradient,
            early_share=float(np.median(early_shares)) if early_shares else math.nan,
        ),
    )
