"""Make the objects that a training job describes.

``build_training`` makes all of them, for simulated devices. The other functions make one object
each: on real devices, the server needs only the task and the controller. ``build_data.py`` makes
the task and its data, which is all that a node needs.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dynamite_fl._load import load_object
from dynamite_fl.client.flat_model import Compute
from dynamite_fl.client.optimizer import MADE_IN_PYTHON, Optimizer
from dynamite_fl.control.controller import Controller
from dynamite_fl.control.registry import make_controller
from dynamite_fl.errors import InvalidInput, JobError, RunFolderError
from dynamite_fl.job.build_data import (
    build_streams,
    build_task,
    check_test_data,
    number_of_devices,
    split_data,
)
from dynamite_fl.job.devices import build_devices
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.partitions import PartitionRecipe, partition_from_table
from dynamite_fl.records import OptimizerWarning
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.task.task import Task
from dynamite_fl.task.trial import try_task
from dynamite_fl.training.averaging import Mean
from dynamite_fl.training.cohort import Selection
from dynamite_fl.training.pilot import pilot
from dynamite_fl.training.private_mechanism import Mechanism, build_mechanism
from dynamite_fl.training.training import Schedule, Training

# A function that runs a trial of so many rounds and returns what it measured, which is given to
# the controller as settings.
Pilot = Callable[[int], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Given:
    """Objects made in Python, which are used instead of what the job's tables describe.

    Attributes:
        task: The task; None to make it from the table ``task``.
        partition: The partition; None to make it from the table ``partition``.
        controller: The controller; None to make it from the table ``controller``.
        optimizer: The optimiser of local steps; None to make it from the table ``optimizer``.
    """

    task: Task | None = None
    partition: PartitionRecipe | None = None
    controller: Controller[Any] | None = None
    optimizer: Optimizer | None = None


def build_training(
    job: TrainingJob, data_dir: Path | None = None, given: Given | None = None
) -> Training:
    """Make the training that a job describes, on simulated devices.

    Args:
        job: The job.
        data_dir: The folder that holds datasets. Default: ``$DYNAMITE_DATA``.
        given: Objects to use instead of what the job describes.

    Raises:
        JobError: Something in the job cannot be used; the message says what to change.
    """
    given = given or Given()
    settings, limits = job.settings, job.limits
    privacy = build_privacy(job, number_of_devices(job), is_real=False)
    engine = build_engine(job, data_dir, given)
    run_pilot = partial(pilot, engine, limits, settings.learning_rate)
    controller = given.controller or build_controller(
        job, run_pilot if privacy is None else _refuse_pilot
    )
    warn_of_optimizer(controller, engine.optimizer)
    schedule, rate, fleet = schedule_of(job), settings.rate_schedule, engine.enroll()
    return Training(
        engine,
        controller,
        limits,
        schedule,
        fleet,
        rate,
        job.server,
        job.averaging or Mean(),
        privacy,
    )


def build_privacy(job: TrainingJob, clients: int, *, is_real: bool) -> Mechanism | None:
    """Return the mechanism of the job's table ``privacy``; None if the job has no such table.

    Args:
        job: The job.
        clients: The number of all clients.
        is_real: Whether clients are real machines, whose noise must be secret.

    Raises:
        JobError: The table does not fit the limits; the message says what to change.
    """
    try:
        return build_mechanism(
            job.privacy,
            job.limits,
            clients=clients,
            cohort=job.settings.cohort,
            seed=job.settings.seed,
            is_real=is_real,
        )
    except InvalidInput as error:
        text = str(error).replace("Limits.", "limits.").replace("Privacy.", "privacy.")
        raise JobError(text) from None


def _refuse_pilot(_: int) -> dict[str, Any]:
    """Refuse a controller that learns from clients' data before training begins.

    Raises:
        JobError: Always.
    """
    raise JobError(
        "the controller cooptfl plans by a pilot run, which the table privacy does not protect: "
        "use the controller dynamite-feedback, fedavg, uniform, no-straggler or dbfl"
    )


def build_engine(
    job: TrainingJob, data_dir: Path | None = None, given: Given | None = None
) -> SimulatedEngine:
    """Make the simulated devices that a job describes, with their data.

    The arguments and errors are those of ``build_training``.
    """
    given, settings = given or Given(), job.settings
    devices = build_devices(job.tables["devices"], settings.seed)
    check_cohort(settings.cohort, len(devices))
    task = given.task or build_task(job, data_dir)
    try_task(task)
    check_test_data(task, len(devices))
    privacy = build_privacy(job, len(devices), is_real=False)
    recipe = given.partition or partition_from_table(job.tables["partition"])
    partition = split_data(task, recipe, len(devices), settings.seed)
    return SimulatedEngine(
        task,
        partition,
        devices,
        settings.seed,
        settings.probe_settings,
        given.optimizer or build_optimizer(job),
        compute_of(job),
        streams=build_streams(job, task, partition),
        privacy=None if privacy is None else privacy.for_nodes(),
        workers=settings.workers,
    )


def warn_of_optimizer(controller: Controller[Any], optimizer: Optimizer) -> None:
    """Warn if a controller plans by a theory that does not hold for the optimiser.

    Controllers that measure the loss estimate the constants of the paper's bound, which is proven
    for steps of plain SGD: the learning rate times the gradient.
    """
    if controller.measures == "loss" and not optimizer.is_plain:
        warnings.warn(
            f"{type(controller).__name__} plans by a bound that holds for plain SGD only. With "
            "another optimizer, clipping or a proximal term it takes the learning rate for that of "
            "SGD, so its local steps and batch sizes are no longer the best of the bound: "
            "dynamite-feedback measures what steps gain, whatever the optimizer does",
            OptimizerWarning,
            stacklevel=2,
        )


def build_optimizer(job: TrainingJob) -> Optimizer:
    """Make the optimiser of local steps: one of torch's by name, or by the user's function."""
    table = dict(job.tables["optimizer"])
    name = table["name"]
    if name.startswith(MADE_IN_PYTHON):
        raise RunFolderError(
            "the optimizer was made in Python: go on with dynamite_fl.resume(folder, optimizer=...)"
        )
    if ":" in name:
        table["name"] = load_object(name, "optimizer", job.folders)
    return Optimizer.from_table(table)


def compute_of(job: TrainingJob) -> Compute:
    """Return where and how precisely the job's model is computed."""
    settings = job.settings
    return Compute(settings.device, settings.precision, settings.buffers == "local")


def check_cohort(cohort: int | None, devices: int) -> None:
    """Refuse a cohort that is larger than the fleet."""
    if cohort is not None and cohort > devices:
        raise JobError(f"training.cohort is {cohort}, but there are {devices} devices: use fewer")


def build_controller(job: TrainingJob, run_pilot: Pilot) -> Controller[Any]:
    """Make the job's controller.

    Args:
        job: The job.
        run_pilot: Runs a trial that measures the loss. Only the controller ``cooptfl`` needs it,
            because it plans the whole training before the first round.
    """
    settings = {key: value for key, value in job.tables["controller"].items() if key != "name"}
    name = job.controller_name
    if "made_in_python" in settings:
        raise RunFolderError(
            f"the controller {name} was made in Python with the settings "
            f"{', '.join(settings['made_in_python'])}: go on with "
            "dynamite_fl.resume(folder, controller=...)"
        )
    for key in ("learning_rate", "folders"):
        if key in settings:
            raise JobError(f"controller has no key {key!r}: set training.learning_rate instead")
    if name == "cooptfl":
        settings |= run_pilot(settings.pop("pilot_rounds", 5))
    rate = job.settings.learning_rate
    return make_controller(name, learning_rate=rate, folders=job.folders, **settings)


def schedule_of(job: TrainingJob) -> Schedule:
    """Return the job's schedule of cohorts, evaluations and probes."""
    settings = job.settings
    return Schedule(
        selection=Selection(settings.cohort, settings.select_by),
        evaluate_every=settings.evaluate_every,
        probe_every=settings.probe_every,
        free_probes=settings.free_probes,
        sketches=settings.sends_sketches,
        seed=settings.seed,
    )
