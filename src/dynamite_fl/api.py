"""Training from Python: ``train`` begins a training on simulated devices, ``resume`` continues one.

What is given in Python is first written as a job (``describe_job``), the same that a job file
holds, so that run folders made from Python and by commands are the same.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from dynamite_fl._progress import open_progress
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.control.controller import Controller
from dynamite_fl.job.build import Given, build_training
from dynamite_fl.job.controller import controller_table
from dynamite_fl.job.devices import devices_table
from dynamite_fl.job.from_python import as_devices, as_task, check_learning_rate, describe_job
from dynamite_fl.job.runs import load_run, open_run
from dynamite_fl.job.settings import Settings
from dynamite_fl.job.training import (
    DEFAULT_CONTROLLER,
    DEFAULT_DEVICES,
    DEFAULT_OPTIMIZER,
    TrainingJob,
)
from dynamite_fl.partitions import PartitionRecipe
from dynamite_fl.records import Fleet, Limits
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.stream.stream import Stream
from dynamite_fl.task.fingerprint import fingerprint
from dynamite_fl.task.task import Task
from dynamite_fl.tracking.track import check_installed
from dynamite_fl.training.averaging import Averaging
from dynamite_fl.training.evaluate import evaluate as measure
from dynamite_fl.training.history import History, rounds_so_far
from dynamite_fl.training.privacy import Privacy
from dynamite_fl.training.result import Result, result_of
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.server_optimizer import ServerOptimizer
from dynamite_fl.training.session import Session, Tracking


def train(
    task: Task | str,
    *,
    limits: Limits,
    learning_rate: float | None = None,
    devices: Devices | Fleet | str = DEFAULT_DEVICES,
    partition: PartitionRecipe | None = None,
    stream: Stream | None = None,
    controller: Controller[Any] | str = DEFAULT_CONTROLLER,
    server: ServerOptimizer | str | None = None,
    averaging: Averaging | str | None = None,
    privacy: Privacy | None = None,
    schedule: str = "constant",
    warmup: float = 0.0,
    final_rate: float = 0.01,
    seed: int = 0,
    cohort: int | None = None,
    select_by: str = "uniform",
    evaluate_every: int = 1,
    probe_every: int = 1,
    probe_gradient: str = "whole",
    free_probes: bool = False,
    variance_samples: int = Settings.variance_samples,
    loss_rise: float = Settings.loss_rise,
    optimizer: Optimizer | str = DEFAULT_OPTIMIZER,
    device: str = "cpu",
    precision: str = "float32",
    buffers: str = "average",
    workers: int = 1,
    track: Sequence[str] = (),
    folder: Path | str | None = None,
    on_round: Callable[[RoundRecord], None] | None = None,
    progress: bool | None = None,
) -> Result:
    """Train a model on simulated devices until the rounds, the deadline or the budget are used up.

    The arguments have the same names as the tables and keys of a job file. The same job gives the
    same run folder, whether it is started from Python or by ``dynamite run``.

    Args:
        task: The model, the loss and the data, or a ``module:function`` that returns them.
        limits: The deadline, the budget, the prices and the rounds of the training.
        learning_rate: The step size of local steps, the largest one if it changes. Default: it is
            chosen during the training.
        devices: The name of an embedded fleet, a CSV file, ``Devices``, or a ``Fleet``, of which
            the names and speeds are used.
        partition: How the data is split among the devices. Default: every device gets the same
            amount and the same kind of data.
        stream: When samples arrive at a device and which ones it stores. Default: every device
            has all its samples from the start.
        controller: The controller that chooses local steps and batch sizes: its name, its
            ``module:Class``, or an object.
        server: What the server makes of the average of a round: ``average``, ``fedavgm``,
            ``fedadam``, ``fedyogi``, ``fedexp``, ``extrapolation``, or an object of
            ``dynamite_fl.server``. Default: ``extrapolation`` if the default controller chooses the
            learning rate, otherwise ``average``.
        averaging: How the local models of a round are averaged: ``mean``, ``clipped-mean``,
            ``median``, ``trimmed-mean``, ``geometric-median``, or an object of
            ``dynamite_fl.server``. All but ``mean``, the default, resist devices that send bad
            models.
        privacy: Protects what each device contributes, by clipping and noise. ``limits`` then has a
            ``delta``, and an ``epsilon`` that ends the training. Default: no protection.
        schedule: How the learning rate changes as the limits are used up: ``constant``, ``linear``
            or ``cosine``.
        warmup: The share of the limits during which the learning rate rises to ``learning_rate``.
        final_rate: The learning rate when the limits are used up, as a share of ``learning_rate``.
            It has no effect if the schedule is ``constant``.
        seed: The seed of everything that is drawn at random. The same seed gives the same result,
            to the bit on the same kind of processor and version of PyTorch.
        cohort: The number of devices that take part in a round. With ``privacy``, the expected
            number. Default: all.
        select_by: How a cohort is drawn: ``uniform`` for equal chances, or ``data`` for chances in
            proportion to the devices' samples.
        evaluate_every: The number of rounds from one evaluation to the next.
        probe_every: The number of rounds from one probe to the next. In a probe, devices measure
            the loss. Only some controllers use probes, such as ``dynamite``.
        probe_gradient: What devices send of a probe's gradient: the ``whole`` gradient, or a
            ``sketch`` of it, which is much smaller.
        free_probes: Whether probes cost neither money nor time, as in the paper's experiments.
        variance_samples: The largest number of samples that a device measures the variance of its
            gradients on in a probe.
        loss_rise: A device measures that variance again if the loss of a new batch exceeds that of
            the last batch by more than this.
        optimizer: The optimiser of local steps: a name of ``torch.optim``, or an ``Optimizer`` with
            options, clipping and FedProx's term.
        device: Where models are computed: ``cpu``, ``cuda``, ``mps``, or ``auto`` for the best
            there is.
        precision: ``float32``, or ``bfloat16`` to compute with mixed precision.
        buffers: What happens to a model's buffers, such as the statistics of batch normalisation:
            ``average`` them as weights are, or leave them ``local`` on each device.
        workers: The number of processes that compute for the devices. Results do not depend on it.
        track: The trackers that each round is reported to: ``tensorboard``, ``mlflow``.
        folder: The folder for the job, the history, the model and the checkpoint. If it holds a
            run of the same job, the training continues from there.
        on_round: A function that is called with the record of each round.
        progress: Whether to show the progress: below the cell in a notebook, else on standard
            error. Default: only in a notebook and on a terminal.

    Raises:
        Infeasible: The limits do not allow a single round.
        InvalidInput: An argument cannot be used; the message says what to change.
        RunFolderError: The folder holds a run of another job; the message says what differs.
        KeyboardInterrupt: Ctrl-C was pressed. The folder holds the rounds up to then.

    Example:
        >>> import torch
        >>> import dynamite_fl as fl
        >>> inputs = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
        >>> labels = (inputs.sum(dim=1) > 0).long()
        >>> task = fl.Task(
        ...     model=lambda: nn.Linear(4, 2),
        ...     loss=nn.CrossEntropyLoss(),
        ...     train_data=(inputs[:200], labels[:200]),
        ...     test_data=(inputs[200:], labels[200:]),
        ... )
        >>> result = fl.train(
        ...     task,
        ...     devices=fl.Devices(samples_per_second=[100, 200, 400], latency=0.1),
        ...     limits=fl.Limits(deadline=30, budget=60, cost_per_sample=0.002, cost_per_round=1),
        ... )
        >>> result.metrics["accuracy"] > 0.9, result.stopped_by
        (True, 'budget')
        >>> result.model(inputs[:1]).shape
        torch.Size([1, 2])
    """
    task = as_task(task)
    settings = Settings(
        learning_rate=learning_rate,
        schedule=schedule,
        warmup=warmup,
        final_rate=final_rate,
        seed=seed,
        cohort=cohort,
        select_by=select_by,
        evaluate_every=evaluate_every,
        probe_every=probe_every,
        probe_gradient=probe_gradient,
        free_probes=free_probes,
        variance_samples=variance_samples,
        loss_rise=loss_rise,
        workers=workers,
        track=track,
        device=device,
        precision=precision,
        buffers=buffers,
    )
    device_entry = devices if isinstance(devices, str) else devices_table(as_devices(devices))
    job = describe_job(
        task,
        limits,
        settings,
        controller,
        device_entry,
        partition,
        stream,
        optimizer,
        server,
        averaging,
        privacy,
    )
    given = Given(
        task,
        partition,
        None if isinstance(controller, str) else controller,
        None if isinstance(optimizer, str) else optimizer,
    )
    return _run(job, given, folder, on_round, progress)


def resume(
    folder: Path | str,
    *,
    task: Task | str | None = None,
    controller: Controller[Any] | None = None,
    optimizer: Optimizer | None = None,
    data_dir: Path | str | None = None,
    on_round: Callable[[RoundRecord], None] | None = None,
    progress: bool | None = None,
) -> Result:
    """Continue the training in a run folder. The result is the same as without an interruption.

    Args:
        folder: The run folder, made by ``train`` or by the command ``dynamite run``.
        task: The task, or the ``module:function`` that makes it. It is needed only if the run was
            begun with a task made in Python.
        controller: The controller. It is needed only if the run was begun with an object whose
            class cannot be imported.
        optimizer: The optimiser. It is needed only if the run was begun with a function of your
            own.
        data_dir: The folder that holds datasets. Default: ``$DYNAMITE_DATA``.
        on_round: A function that is called with the record of each further round.
        progress: Whether to show the progress: below the cell in a notebook, else on standard
            error. Default: only in a notebook and on a terminal.

    Raises:
        RunFolderError: The folder holds no run, or its run was begun with another task or
            controller.
        KeyboardInterrupt: Ctrl-C was pressed. The folder holds the rounds up to then.
    """
    job = load_run(RunFolder(Path(folder)))
    if controller is not None:
        check_learning_rate(controller, job.settings.learning_rate)
        job = job.with_tables(controller=controller_table(controller))
    if optimizer is not None:
        job = job.with_tables(optimizer=optimizer.to_table())
    given = Given(
        task=None if task is None else as_task(task), controller=controller, optimizer=optimizer
    )
    where = None if data_dir is None else Path(data_dir)
    return _run(job, given, folder, on_round, progress, where)


def evaluate(task: Task, model: nn.Module) -> dict[str, float]:
    """Return the metrics and the loss of a model on a task's test data.

    They are computed exactly as during a training, so a saved model gives the reported numbers.

    Args:
        task: The task, with test data.
        model: The model; it is left in evaluation mode.

    Example:
        >>> import dynamite_fl as fl
        >>> task = fl.make_task("softmax", "digits")
        >>> sorted(fl.evaluate(task, task.new_model(seed=0)))
        ['accuracy', 'loss']
    """
    flat = FlatModel(replace(task, model=lambda: model), seed=0)
    evaluation = measure(flat, flat.first_weights)
    return {**evaluation.metrics, "loss": evaluation.loss}


def _run(
    job: TrainingJob,
    given: Given,
    folder: Path | str | None,
    on_round: Callable[[RoundRecord], None] | None,
    progress: bool | None,
    data_dir: Path | None = None,
) -> Result:
    """Build the training that a job describes, and run it to its end."""
    check_installed(job.trackers)
    run_folder = None if folder is None else RunFolder(Path(folder))
    on_rounds = [] if on_round is None else [on_round]
    with open_progress(progress, "Training" if folder is None else str(folder)) as view:
        training = build_training(job, data_dir, given)
        task = training.engine.task

        def open_folder() -> None:
            if run_folder is not None:
                open_run(run_folder, job, fingerprint(task), task.leading_metric)

        if view is not None:
            title = f"{job.controller_name} on {len(training.fleet)} devices"
            before = () if run_folder is None else rounds_so_far(run_folder)
            view.begin(title, training.planned_limits, History(before, task.leading_metric))
            on_rounds.append(view.show)
        outcome = Session(
            training,
            run_folder,
            on_round=on_rounds,
            tracking=Tracking(job.trackers, job.tables, _warn),
            open_folder=open_folder,
        ).run()
    return result_of(training, task, job.settings.seed, outcome, run_folder)


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=2)
