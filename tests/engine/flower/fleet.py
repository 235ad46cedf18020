"""Five devices with the digits of ``tests.engine.trainings``, and rounds for them."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat import FlatModel
from dynamite_fl.engine.engine import RoundOrder
from dynamite_fl.engine.flower.app import client_app
from dynamite_fl.records import Plan
from dynamite_fl.task.partition import Partition
from tests.engine.flower.local import App, LocalGrid
from tests.engine.trainings import digits, training

CLIENTS = 5

torch.set_num_threads(1)  # as devices have it: equal to the bit only then


@cache
def split() -> Partition:
    engine: Any = training(model="perceptron").engine
    partition: Partition = engine.partition
    return partition


def client(place: int) -> Client:
    """The client that the simulated engine has at a place."""
    task = digits("perceptron")
    return Client(
        model=FlatModel(task, 0),
        inputs=task.train_inputs,
        targets=task.train_targets,
        indices=split().indices(place),
        seed=0,
    )


def app(place: int, folder: Path) -> App:
    made: App = client_app(lambda _: client(place), folder / str(place))
    return made


def grid(folder: Path) -> LocalGrid:
    """Nodes 1 to 5 are the devices of places 0 to 4."""
    nodes = range(1, CLIENTS + 1)
    return LocalGrid(
        {node: app(node - 1, folder) for node in nodes},
        {node: {"name": f"device {node}"} for node in nodes},
    )


def order(
    index: int,
    weights: Tensor,
    *,
    clients: int = CLIENTS,
    probe: bool = True,
    path: bool = False,
    seconds_left: float = 1e9,
) -> RoundOrder:
    """Round ``index``, whose steps and batches differ from the one before."""
    sizes = np.array([20, 30, 10, 15, 25])[:clients] - index
    plan = Plan(5, 2 + index % 3, sizes, seconds=5.0, cost=1.0, bound=1.0, binding=())
    return RoundOrder(
        index, weights, plan, np.arange(clients), probe, True, path, 0.0, seconds_left
    )
