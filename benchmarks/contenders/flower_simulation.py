"""Federated averaging of Flower with its simulation on Ray, in two processes for clients.

D. J. Beutel et al.: Flower: A Friendly Federated Learning Framework. arXiv:2007.14390, 2020.
"""

import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

from contenders.rounds import CLIENTS, COHORT, Clock, Data, make_model, start, train_epoch

client_app = ClientApp()


@cache
def in_process(folder: str) -> tuple[nn.Module, Data]:
    """Return a model and the data, once in each process; Flower's examples make them each time."""
    torch.set_num_threads(1)
    return make_model(), Data.load(Path(folder))


@client_app.train()
def train(message: Message, context: Context) -> Message:
    model, data = in_process(str(message.content.config_records["config"]["data"]))
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    inputs, targets = data.of_client(int(context.node_config["partition-id"]))
    train_epoch(model, inputs, targets)
    content = RecordDict()
    content["arrays"] = ArrayRecord(model.state_dict())
    content["metrics"] = MetricRecord({"num-examples": len(targets)})
    return Message(content, reply_to=message)


class Timed(FedAvg):
    """Flower's FedAvg, which notes the end of each round on the clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(fraction_train=COHORT / CLIENTS, fraction_evaluate=0.0)
        self._clock = clock

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Wait for the round, and send the model to its clients."""
        self._clock.wait_for_round(lambda: trained(arrays))
        return list(super().configure_train(server_round, arrays, config, grid))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the models and report the round."""
        replies = list(replies)
        for reply in replies:
            if reply.has_error():
                raise RuntimeError(reply.error.reason)
        averaged: tuple[Any, Any] = super().aggregate_train(server_round, replies)
        self._clock.end_round()
        return averaged


def trained(arrays: ArrayRecord) -> nn.Module:
    model = make_model()
    model.load_state_dict(arrays.to_torch_state_dict())
    return model


def main() -> None:
    _, clock = start()
    folder = sys.argv[1]
    server_app = ServerApp()

    @server_app.main()
    def run(grid: Grid, _: Context) -> None:
        Timed(clock).start(
            grid=grid,
            initial_arrays=ArrayRecord(make_model().state_dict()),
            num_rounds=10**6,
            train_config=ConfigRecord({"data": folder}),
        )

    backend: Any = {
        "init_args": {"num_cpus": 2, "_temp_dir": folder, "log_to_driver": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    run_simulation(server_app, client_app, CLIENTS, backend_config=backend)
