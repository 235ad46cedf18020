"""A loop over clients that is written by hand, in one process."""

from collections.abc import Sequence

import torch
from torch import Tensor

from contenders.rounds import CLIENTS, COHORT, make_model, start, train_epoch


def main() -> None:
    data, clock = start()
    model = make_model()
    weights = list(model.parameters())
    start_weights = [torch.empty_like(weight) for weight in weights]
    average = [torch.empty_like(weight) for weight in weights]
    while True:
        clock.wait_for_round(lambda: model)
        assign(start_weights, weights)
        for total in average:
            total.zero_()
        for client in torch.randperm(CLIENTS)[:COHORT].tolist():
            assign(weights, start_weights)
            train_epoch(model, *data.of_client(client))
            for total, weight in zip(average, weights, strict=True):
                total.add_(weight.detach(), alpha=1 / COHORT)  # clients have as many samples
        assign(weights, average)
        clock.end_round()


@torch.no_grad()
def assign(weights: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for weight, value in zip(weights, values, strict=True):
        weight.copy_(value)
