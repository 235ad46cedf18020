"""Five devices with the digits of ``tests.trainings``, and orders of rounds for them."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.flower.clientapp import client_app
from dynamite_fl.records import Plan
from dynamite_fl.task.partition import Partition
from dynamite_fl.training.engine import RoundOrder
from tests.flower.local_grid import App, LocalGrid
from tests.trainings import RATE, digits, training

CLIENTS = 5

torch.set_num_threads(1)  # like devices: results are equal to the bit only then


@cache
def split() -> Partition:
    engine: Any = training(model="perceptron").engine
    partition: Partition = engine.partition
    return partition


def client(index: int) -> Client:
    """Return the client that the simulated engine has at an index."""
    task = digits("perceptron")
    return Client(
        model=FlatModel(task, 0),
        samples=task.train,
        indices=split().indices(index),
        seed=0,
    )


def app(index: int, folder: Path) -> App:
    made: App = client_app(lambda _: client(index), folder / str(index))
    return made


def grid(folder: Path) -> LocalGrid:
    """Return a Grid whose nodes 1 to 5 are the clients 0 to 4."""
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
    """Return the order of a round whose steps, batches and rate differ from other rounds'."""
    sizes = np.array([20, 30, 10, 15, 25])[:clients] - index
    plan = Plan(5, 2 + index % 3, sizes, seconds=5.0, cost=1.0, bound=1.0, binding=())
    return RoundOrder(
        round_index=index,
        weights=weights,
        plan=plan,
        cohort=np.arange(clients),
        learning_rate=RATE / index,
        probe=probe,
        remember=True,
        path=path,
        begins=0.0,
        seconds_left=seconds_left,
    )
