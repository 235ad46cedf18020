"""Training from Python: any model, loss and data, on any devices, within limits."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dynamite_fl.control.controller import Controller
from dynamite_fl.errors import InvalidInput
from dynamite_fl.job.build import Given, build_training
from dynamite_fl.job.controller import controller_table
from dynamite_fl.job.devices import devices_table
from dynamite_fl.job.runs import load_run, open_run
from dynamite_fl.job.training import (
    DEFAULT_CONTROLLER,
    DEFAULT_DEVICES,
    Settings,
    TrainingJob,
    resolve_tables,
)
from dynamite_fl.partitions import PartitionRecipe
from dynamite_fl.records import Fleet, Limits
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.stream.stream import Stream
from dynamite_fl.task.fingerprint import fingerprint
from dynamite_fl.task.registry import load_task
from dynamite_fl.task.task import Task
from dynamite_fl.tracking.track import check_installed
from dynamite_fl.training.history import History
from dynamite_fl.training.loop import Training
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Outcome, Session, Tracking


@dataclass(frozen=True, eq=False)
class Result:
    """What a training came to.

    Attributes:
        model: The trained model, in evaluation mode.
        history: One record per round.
        stopped_by: What ended the training: ``rounds``, ``deadline`` or ``budget``.
        folder: The run's folder; None if nothing was kept.
    """

    model: nn.Module
    history: History
    stopped_by: str
    folder: Path | None

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """The trained weights by their names."""
        return self.model.state_dict()

    @property
    def metrics(self) -> dict[str, float]:
        """The last evaluation on the test data."""
        return {
            name: float(value)
            for name in ("accuracy", "loss")
            if (value := self.history.last(name)) is not None
        }


def train(
    task: Task | str,
    *,
    limits: Limits,
    learning_rate: float,
    devices: Devices | Fleet | str = DEFAULT_DEVICES,
    partition: PartitionRecipe | None = None,
    stream: Stream | None = None,
    controller: Controller[Any] | str = DEFAULT_CONTROLLER,
    seed: int = 0,
    cohort: int | None = None,
    select_by: str = "uniform",
    evaluate_every: int = 1,
    probe_every: int = 1,
    probe_gradient: str = "whole",
    free_probes: bool = False,
    workers: int = 1,
    track: Sequence[str] = (),
    folder: Path | str | None = None,
    on_round: Callable[[RoundRecord], None] | None = None,
) -> Result:
    """Train a model across simulated devices until the rounds or a limit end it.

    A job file says the same with the same names; the two make the same run folders.

    Args:
        task: The model, the loss and the data; or the ``module:function`` that makes them.
        limits: What training may use.
        learning_rate: The step size of local steps.
        devices: The devices: the name of an embedded fleet, a CSV file, ``Devices``, or a ``Fleet``
            of nominal speeds.
        partition: How the data is split among the devices. Default: at random, alike for all.
        stream: When samples arrive at a device and what it keeps of them. Default: all are there
            from the start.
        controller: What chooses local steps and batch sizes: a name, ``module:Class`` or an object.
        seed: The seed of everything that is drawn at random. The same seed gives the same bits.
        cohort: The number of devices in a round. Default: all.
        select_by: How a cohort is drawn: ``uniform``, or ``data`` for chances in proportion to
            devices' samples.
        evaluate_every: The number of rounds from one evaluation to the next.
        probe_every: The number of rounds from one measurement of the loss to the next.
        probe_gradient: What devices send of the gradient when the loss is measured: ``whole``, or
            a ``sketch``.
        free_probes: Whether measurements are free of charge, as in the paper's experiments.
        workers: The number of processes that compute for the devices. Results do not depend on it.
        track: The trackers that are told of each round: ``tensorboard``, ``mlflow``.
        folder: Where to keep job, history, model and checkpoint. If it holds a run of the same
            job, training goes on from there; a run of another job is refused.
        on_round: A function that is called with the record of each round.

    Raises:
        Infeasible: Not one round fits the limits.
        InvalidInput: Something cannot be used; the message says what to change.
        RunFolderError: The folder holds another run; the message says what differs.
        KeyboardInterrupt: Ctrl-C was pressed. What was done is in the folder.

    Example:
        >>> import torch
        >>> import dynamite_fl as fl
        >>> inputs = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
        >>> labels = (inputs.sum(dim=1) > 0).long()
        >>> task = fl.Task(
        ...     name="signs",
        ...     make_model=lambda: nn.Linear(4, 2),
        ...     loss=nn.CrossEntropyLoss(reduction="none"),
        ...     correct=lambda outputs, targets: outputs.argmax(dim=1) == targets,
        ...     train_inputs=inputs[:200],
        ...     train_targets=labels[:200],
        ...     test_inputs=inputs[200:],
        ...     test_targets=labels[200:],
        ... )
        >>> result = fl.train(
        ...     task,
        ...     devices=fl.Devices(samples_per_second=[100, 200, 400], latency=0.1),
        ...     limits=fl.Limits(deadline=30, budget=60, cost_per_sample=0.002, cost_per_round=1),
        ...     learning_rate=0.1,
        ... )
        >>> result.metrics["accuracy"] > 0.9, result.stopped_by
        (True, 'budget')
        >>> result.model(inputs[:1]).shape
        torch.Size([1, 2])
    """
    if isinstance(task, str):
        task = load_task(task)
    settings = Settings(
        learning_rate=learning_rate,
        seed=seed,
        cohort=cohort,
        select_by=select_by,
        evaluate_every=evaluate_every,
        probe_every=probe_every,
        probe_gradient=probe_gradient,
        free_probes=free_probes,
        workers=workers,
        track=tuple(track),
    )
    entry = devices if isinstance(devices, str) else devices_table(_as_devices(devices))
    job = describe_job(task, limits, settings, controller, entry, partition, stream)
    given = Given(task, partition, None if isinstance(controller, str) else controller)
    return _run(job, given, folder, on_round)


def resume(
    folder: Path | str,
    *,
    task: Task | None = None,
    controller: Controller[Any] | None = None,
    data_dir: Path | str | None = None,
    on_round: Callable[[RoundRecord], None] | None = None,
) -> Result:
    """Go on with the training in a folder, to the result it would have had without interruption.

    Args:
        folder: The run's folder, made by ``train`` or by the command ``dynamite run``.
        task: The task, if the run was begun with one made in Python.
        controller: The controller, if the run was begun with an object of a class that cannot be
            imported.
        data_dir: The folder that holds datasets. Default: ``$DYNAMITE_DATA``.
        on_round: A function that is called with the record of each further round.

    Raises:
        RunFolderError: There is no run, or what is given differs from what it began with.
    """
    job = load_run(RunFolder(Path(folder)))
    given = Given(task=task, controller=controller)
    return _run(job, given, folder, on_round, None if data_dir is None else Path(data_dir))


def _run(
    job: TrainingJob,
    given: Given,
    folder: Path | str | None,
    on_round: Callable[[RoundRecord], None] | None,
    data_dir: Path | None = None,
) -> Result:
    check_installed(job.trackers)
    training = build_training(job, data_dir, given)
    task = training.engine.task
    kept = None if folder is None else RunFolder(Path(folder))
    outcome = Session(
        training,
        kept,
        on_round=[] if on_round is None else [on_round],
        tracking=Tracking(job.trackers, job.tables, _warn),
        open_folder=lambda: None if kept is None else open_run(kept, job, fingerprint(task)),
    ).run()
    return result_of(training, task, job.settings.seed, outcome, kept)


def result_of(
    training: Training, task: Task, seed: int, outcome: Outcome, folder: RunFolder | None
) -> Result:
    """Turn the outcome of a session into a result.

    Raises:
        KeyboardInterrupt: The session was interrupted.
    """
    if outcome.stopped_by is None:
        raise KeyboardInterrupt
    model = task.new_model(seed)
    model.load_state_dict(training.engine.named_weights(outcome.weights))
    path = None if folder is None else folder.path
    return Result(model.eval(), outcome.history, outcome.stopped_by, path)


def describe_job(
    task: Task,
    limits: Limits,
    settings: Settings,
    controller: Controller[Any] | str,
    devices: str | dict[str, Any],
    partition: PartitionRecipe | None = None,
    stream: Stream | None = None,
) -> TrainingJob:
    """Write what was given in Python as a job, which a run folder keeps.

    Args:
        task: The model, the loss and the data.
        limits: What training may use.
        settings: The table ``training``.
        controller: The controller or its name.
        devices: The entry ``devices``: a name, a CSV file or a table.
        partition: How the data is split; None for the default.
        stream: When samples arrive; None if all are there from the start.
    """
    tables = {
        "task": _task_table(task),
        "partition": None if partition is None else partition.to_table(),
        "stream": None if stream is None else stream.to_table(),
        "devices": devices,
        "limits": asdict(limits),
        "controller": controller if isinstance(controller, str) else controller_table(controller),
        "training": asdict(settings),
    }
    return TrainingJob(resolve_tables(tables, Path()), (Path.cwd(),))


def _task_table(task: Task) -> dict[str, Any]:
    """Say how the task can be made again; one made by hand has a name only."""
    if task.source is None:
        return {"made_in_python": task.name}
    return {"use": task.source} if isinstance(task.source, str) else dict(task.source)


def _as_devices(given: Devices | Fleet) -> Devices:
    if isinstance(given, Devices):
        return given
    if not isinstance(given, Fleet):
        raise InvalidInput(
            f"devices is a {type(given).__name__}: give the name of a fleet, a CSV file, "
            "Devices or a Fleet"
        )
    return Devices(
        samples_per_second=given.samples_per_second,
        step_overhead=given.step_overhead,
        latency=given.comm_seconds,
        name=given.name,
    )


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=2)
