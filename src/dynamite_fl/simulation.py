"""Training from Python: any model, loss and data, on any devices, within limits."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from dynamite_fl.control.controller import Controller
from dynamite_fl.control.controllers import make_controller
from dynamite_fl.engine.cohort import Selection
from dynamite_fl.engine.devices import Devices
from dynamite_fl.engine.engine import Engine
from dynamite_fl.engine.fleets import embedded_fleet
from dynamite_fl.engine.loop import Schedule, Training
from dynamite_fl.engine.run import RunFolder, run
from dynamite_fl.engine.simulated import SimulatedEngine
from dynamite_fl.records import Fleet, Limits
from dynamite_fl.report.history import History, Line, read_history, to_line
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.partition import Partition
from dynamite_fl.task.task import Task


def simulate(
    task: Task,
    devices: Devices | Fleet | str,
    limits: Limits,
    controller: Controller | str = "dynamite-feedback",
    *,
    partition: Partition,
    learning_rate: float,
    streams: Streams | None = None,
    seed: int = 0,
    cohort: int | None = None,
    evaluate_every: int = 1,
    probe_every: int = 1,
    folder: Path | str | None = None,
    on_round: Callable[[Line], None] | None = None,
) -> History:
    """Train a model across simulated devices until the rounds or a limit end it.

    Args:
        task: Model, loss and data.
        devices: How fast they are, a fleet of nominal speeds, or an embedded fleet's name.
        limits: What training may use.
        controller: Who decides on local steps and batch sizes, or its name.
        partition: Which samples each device has.
        learning_rate: eta.
        streams: When they reach it, and what it keeps of them; without it, it has them all
            from the start.
        seed: Of all that is drawn; the same seed gives the same history.
        cohort: How many devices a round has; all without it.
        evaluate_every: Rounds from one evaluation to the next.
        probe_every: Rounds from one measurement of the loss to the next.
        folder: Where to keep history, model and checkpoint. If it holds those of the same
            training, this goes on from there.
        on_round: Called with each line of the history.

    Returns:
        The rounds; ``pandas.DataFrame(history.columns())`` is a table of them.

    Raises:
        Infeasible: Not one round fits the limits.
        ValueError: Something does not fit together; the message says what.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from dynamite_fl.engine.devices import Devices
        >>> from dynamite_fl.records import Limits
        >>> from dynamite_fl.task.partition import wang
        >>> from dynamite_fl.task.task import Task
        >>> inputs = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
        >>> labels = (inputs.sum(dim=1) > 0).long()
        >>> task = Task(
        ...     name="signs",
        ...     make_model=lambda: nn.Linear(4, 2),
        ...     loss=nn.CrossEntropyLoss(reduction="none"),
        ...     correct=lambda outputs, targets: outputs.argmax(dim=1) == targets,
        ...     train_inputs=inputs[:200],
        ...     train_targets=labels[:200],
        ...     test_inputs=inputs[200:],
        ...     test_targets=labels[200:],
        ... )
        >>> history = simulate(
        ...     task,
        ...     Devices(samples_per_second=[100, 200, 400], latency=0.1),
        ...     Limits(deadline=30, budget=60, cost_per_sample=0.002, cost_per_round=1),
        ...     "dynamite",
        ...     partition=wang(task.train_targets.numpy(), clients=3, case=1),
        ...     learning_rate=0.1,
        ... )
        >>> history.final_accuracy > 0.9, history.lines[-1]["cost"] <= 60
        (True, True)
        >>> sorted(history.columns())[:3]
        ['absent', 'accuracy', 'arrived']
    """
    engine = SimulatedEngine(
        task, partition, _devices(devices, seed), learning_rate, seed, streams=streams
    )
    schedule = Schedule(
        selection=Selection(cohort),
        evaluate_every=evaluate_every,
        probe_every=probe_every,
        seed=seed,
    )
    kept = None if folder is None else RunFolder(Path(folder))
    if isinstance(controller, str):
        controller = make_controller(controller, learning_rate=learning_rate)
    return history_of(engine, controller, limits, schedule, kept, on_round)


def history_of(
    engine: Engine,
    controller: Controller,
    limits: Limits,
    schedule: Schedule,
    folder: RunFolder | None,
    on_round: Callable[[Line], None] | None,
    *,
    seconds_between_checkpoints: float = 30.0,
) -> History:
    """Train to the end; the rounds as they were, those before a resume included."""
    training = Training(engine, controller, limits, schedule, engine.enroll())
    lines: list[Line] = []
    with one_thread():
        for _, line in run(
            training, folder, seconds_between_checkpoints=seconds_between_checkpoints
        ):
            if line is not None:
                lines.append(json.loads(to_line(line)))  # as a file would have it
                if on_round is not None:
                    on_round(lines[-1])
    return History(tuple(lines)) if folder is None else read_history(folder.history)


def _devices(given: Devices | Fleet | str, seed: int) -> Devices:
    if isinstance(given, str):
        return embedded_fleet(given, seed)
    if isinstance(given, Devices):
        return given
    return Devices(
        samples_per_second=given.samples_per_second,
        step_overhead=given.step_overhead,
        latency=given.comm_seconds,
        name=given.name,
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread: two on busy cores can be many times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
