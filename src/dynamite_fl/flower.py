"""DYNAMITE inside an app of one's own: ``train`` in a ServerApp, ``client_app`` for a ClientApp.

``examples/flower`` is such an app.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from dynamite_fl.client.client import Client, ProbeSettings
from dynamite_fl.client.flat import FlatModel
from dynamite_fl.control.controller import Controller
from dynamite_fl.control.controllers import make_controller
from dynamite_fl.engine.cohort import Selection
from dynamite_fl.engine.flower.app import client_app as client_app
from dynamite_fl.engine.flower.engine import FlowerEngine, Patience
from dynamite_fl.engine.flower.post import Grid
from dynamite_fl.engine.loop import Schedule
from dynamite_fl.engine.run import RunFolder
from dynamite_fl.records import Limits
from dynamite_fl.report.history import History, Line
from dynamite_fl.simulation import history_of
from dynamite_fl.task.task import Task

__all__ = ["Patience", "client_app", "local_client", "train"]


def train(
    grid: Grid,
    task: Task,
    limits: Limits,
    controller: Controller | str = "dynamite",
    *,
    clients: int,
    learning_rate: float,
    seed: int = 0,
    cohort: int | None = None,
    evaluate_every: int = 1,
    probe_every: int = 1,
    only_sketches: bool = False,
    patience: Patience | None = None,
    folder: Path | str | None = None,
    on_round: Callable[[Line], None] | None = None,
) -> History:
    """Train a model on the nodes of a Grid until the rounds or a limit end it.

    The nodes run ``client_app``. What is not said here is as in ``simulate``; seconds are real.

    Args:
        grid: What a ServerApp's main function is given.
        task: Model, loss and test data; the training data are the nodes' own.
        limits: What training may use.
        controller: Who decides on local steps and batch sizes, or its name.
        clients: How many nodes there are, at most.
        learning_rate: eta.
        seed: Of all that is drawn.
        cohort: How many nodes a round has; all without it.
        evaluate_every: Rounds from one evaluation to the next.
        probe_every: Rounds from one measurement of the loss to the next.
        only_sketches: Whether nodes send sketches of gradients in their place.
        patience: How long to wait for whom.
        folder: Where to keep history, model and checkpoint. If it holds those of the same
            training, this goes on from there.
        on_round: Called with each line of the history.

    Raises:
        Infeasible: Not one round fits the limits.
        TooFewNodes: Fewer nodes came than a round needs.
    """
    kept = None if folder is None else RunFolder(Path(folder))
    if kept is not None:
        kept.path.mkdir(parents=True, exist_ok=True)
    engine = FlowerEngine(
        grid,
        task,
        clients,
        learning_rate,
        seed,
        names_file=None if kept is None else kept.nodes,
        patience=patience or Patience(),
    )
    schedule = Schedule(
        selection=Selection(cohort),
        evaluate_every=evaluate_every,
        probe_every=probe_every,
        sketches=only_sketches,
        seed=seed,
    )
    if isinstance(controller, str):
        controller = make_controller(controller, learning_rate=learning_rate)
    return history_of(
        engine, controller, limits, schedule, kept, on_round, seconds_between_checkpoints=0.0
    )


def local_client(task: Task, seed: int = 0, *, only_sketches: bool = False) -> Client:
    """A client with all training data of a task, for a device that loads only its own.

    With ``only_sketches`` it refuses to send a gradient whole, whoever asks.
    """
    return Client(
        model=FlatModel(task, seed),
        inputs=task.train_inputs,
        targets=task.train_targets,
        indices=np.arange(len(task.train_targets)),
        seed=seed,
        settings=ProbeSettings(only_sketches=only_sketches),
    )
