"""What ``run``, ``resume`` and ``serve`` share: a session with a live view, then a summary."""

from functools import partial
from pathlib import Path

from rich.console import Console

from dynamite_fl._cli.errors import INTERRUPTED
from dynamite_fl._cli.show import show_run
from dynamite_fl._cli.views.run import RunView
from dynamite_fl.errors import MissingExtra
from dynamite_fl.job.build import Given, build_training
from dynamite_fl.job.runs import open_run
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.task.fingerprint import fingerprint
from dynamite_fl.task.registry import load_task
from dynamite_fl.tracking.track import check_installed
from dynamite_fl.training.loop import Training
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session, Tracking


def train_simulated(
    job: TrainingJob,
    folder: RunFolder,
    data_dir: Path | None,
    as_json: bool,
    *,
    on_ray: bool = False,
    task: str | None = None,
) -> None:
    """Begin or continue a training on simulated devices, and show its result.

    Args:
        job: The job.
        folder: The run folder, which may hold a part of this training.
        data_dir: The folder that holds datasets.
        as_json: Whether to print the history's last line instead of a summary.
        on_ray: Whether Ray computes for the clients.
        task: The ``module:function`` that returns the task, if the job's tables do not say how to
            make it.
    """
    check_installed(job.trackers)  # reports a missing extra before anything else is done
    given = Given(task=None if task is None else load_task(task, job.folders))
    training = build_training(job, data_dir, given)
    if on_ray:
        _put_on_ray(training)
    how_to_go_on = f"dynamite resume {folder.path}" + (f" --task {task}" if task else "")
    train_and_show(job, training, folder, as_json, how_to_go_on=how_to_go_on)


def train_and_show(
    job: TrainingJob,
    training: Training,
    folder: RunFolder,
    as_json: bool,
    *,
    seconds_between_checkpoints: float = 30.0,
    how_to_go_on: str,
) -> None:
    """Run a session with a live view, then show the run's summary.

    Raises:
        SystemExit: Ctrl-C stopped the session. The folder holds the rounds up to then.
    """
    console = Console(stderr=as_json, highlight=False)
    warn = partial(console.print, markup=False, soft_wrap=True)
    title = f"{job.controller_name} on {len(training.fleet)} devices, {folder.path}"
    task = training.engine.task
    open_folder = partial(open_run, folder, job, fingerprint(task), task.leading_metric)
    with RunView(console, title, training.limits, task.leading_metric) as view:
        outcome = Session(
            training,
            folder,
            on_round=[view.show],
            tracking=Tracking(job.trackers, job.tables, warn),
            open_folder=open_folder,
            seconds_between_checkpoints=seconds_between_checkpoints,
        ).run()
    if outcome.stopped_by is None:
        console.print(f"Interrupted. To go on: {how_to_go_on}", markup=False, soft_wrap=True)
        raise SystemExit(INTERRUPTED)
    show_run(folder, as_json)


def _put_on_ray(training: Training) -> None:
    """Have Ray compute the clients' rounds."""
    from typing import cast

    from dynamite_fl.simulation.engine import SimulatedEngine

    try:
        from dynamite_fl.simulation.ray import RayExecutor
    except ModuleNotFoundError:
        raise MissingExtra("--engine ray", "ray") from None

    engine = cast(SimulatedEngine, training.engine)
    engine.close()  # ends the workers of a pilot run, if there was one
    with Console(stderr=True).status("Starting Ray"):
        engine.executor = RayExecutor(engine.clients.make, len(engine.devices))
