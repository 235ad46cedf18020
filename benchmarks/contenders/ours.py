"""A training of ours by FedAvg, with the number of workers in the second argument."""

import sys
from functools import partial

import numpy as np
from torch import nn

from contenders.rounds import (
    BATCH_SIZE,
    CLIENTS,
    COHORT,
    LOCAL_STEPS,
    RATE,
    Data,
    make_model,
    start,
)
from dynamite_fl._allocator import keep_freed_memory
from dynamite_fl.control.registry import make_controller
from dynamite_fl.partitions import wang
from dynamite_fl.records import Limits
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.task.task import Task
from dynamite_fl.training.cohort import Selection
from dynamite_fl.training.loop import begin, run_round
from dynamite_fl.training.progress import Progress
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.training import Schedule, Training


def make_training(data: Data, workers: int) -> Training:
    """Return a training without an end and without evaluations."""
    task = Task(
        name="cifar10",
        model=make_model,
        loss=nn.CrossEntropyLoss(),
        train_data=(data.inputs, data.targets),
        test_data=(data.test_inputs, data.test_targets),
    )
    engine = SimulatedEngine(
        task=task,
        partition=wang(case=1).split(data.targets.numpy(), CLIENTS),  # client i has i, i + 1000 ...
        devices=Devices(samples_per_second=np.full(CLIENTS, 1000.0)),
        workers=workers,
    )
    return Training(
        engine=engine,
        controller=make_controller(
            "fedavg", learning_rate=RATE, local_steps=LOCAL_STEPS, batch_size=BATCH_SIZE
        ),
        limits=Limits(
            deadline=1e9, budget=1e9, cost_per_sample=1e-3, cost_per_round=1, rounds=10**6
        ),
        schedule=Schedule(selection=Selection(COHORT), evaluate_every=10**9),
        fleet=engine.enroll(),
        learning_rate=RateSchedule(RATE),
    )


def trained(training: Training, progress: Progress) -> nn.Module:
    """Return the global model."""
    model = make_model()
    model.load_state_dict(training.engine.state_dict(progress.weights))
    return model


def main() -> None:
    data, clock = start()
    keep_freed_memory()  # as every session of ours does
    training = make_training(data, workers=int(sys.argv[2]))
    progress = begin(training)
    while True:
        clock.wait_for_round(partial(trained, training, progress))
        progress, _ = run_round(training, progress)
        clock.end_round()
