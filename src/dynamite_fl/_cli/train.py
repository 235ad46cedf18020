"""What ``run``, ``resume`` and ``serve`` share: a session with a live view, then a summary.

The view is shown before PyTorch is loaded, which takes seconds.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from dynamite_fl._cli.errors import INTERRUPTED
from dynamite_fl._cli.show import show_run
from dynamite_fl._progress import RunView
from dynamite_fl.errors import MissingExtra
from dynamite_fl.job.runs import open_run
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.tracking.track import check_installed
from dynamite_fl.training.history import History, rounds_so_far
from dynamite_fl.training.run_folder import RunFolder

if TYPE_CHECKING:
    from dynamite_fl.training.training import Training


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
    with open_view(folder, as_json) as view:
        from dynamite_fl.job.build import Given, build_training
        from dynamite_fl.task.registry import load_task

        view.say("Loading the model and the data")
        given = Given(task=None if task is None else load_task(task, job.folders))
        training = build_training(job, data_dir, given)
        if on_ray:
            view.say("Starting Ray")
            _put_on_ray(training)
        how_to_go_on = f"dynamite resume {folder.path}" + (f" --task {task}" if task else "")
        run_session(job, training, folder, view, how_to_go_on=how_to_go_on)
    show_run(folder, as_json)


def open_view(folder: RunFolder, as_json: bool) -> RunView:
    """Return the view of a training, for a ``with`` statement; it shows that PyTorch is loaded."""
    view = RunView(messages_console(as_json), str(folder.path))
    view.say("Loading PyTorch")
    return view


def messages_console(as_json: bool) -> Console:
    """Return the console for messages: standard error if the output is JSON."""
    return Console(stderr=as_json, highlight=False)


def run_session(
    job: TrainingJob,
    training: "Training",
    folder: RunFolder,
    view: RunView,
    *,
    seconds_between_checkpoints: float = 30.0,
    how_to_go_on: str,
    on_end: Callable[[str], None] = lambda _: None,
    is_real: bool = False,
) -> None:
    """Run a session and show its rounds.

    Args:
        job: The job.
        training: The training.
        folder: The run folder.
        view: The view that shows the training.
        seconds_between_checkpoints: The least time between two checkpoints.
        how_to_go_on: The command or advice to go on after an interruption.
        on_end: Called with the limit that ended the training.
        is_real: Whether the devices are real machines.

    Raises:
        SystemExit: Ctrl-C stopped the session. The folder holds the rounds up to then.
    """
    from dynamite_fl.task.fingerprint import fingerprint
    from dynamite_fl.training.session import Session, Tracking

    tell = partial(view.console.print, markup=False, soft_wrap=True)
    title = f"{job.controller_name} on {len(training.fleet)} devices, {folder.path}"
    task = training.engine.task
    view.begin(title, training.planned_limits, History(rounds_so_far(folder), task.leading_metric))
    outcome = Session(
        training,
        folder,
        on_round=[view.show],
        tracking=Tracking(job.trackers, job.tables, tell),
        open_folder=partial(
            open_run, folder, job, fingerprint(task), task.leading_metric, is_real=is_real
        ),
        seconds_between_checkpoints=seconds_between_checkpoints,
    ).run()
    if outcome.stopped_by is None:
        tell(f"Interrupted. To go on: {how_to_go_on}")
        raise SystemExit(INTERRUPTED)
    on_end(outcome.stopped_by)


def _put_on_ray(training: "Training") -> None:
    """Have Ray compute the clients' rounds."""
    from typing import cast

    from dynamite_fl.simulation.engine import SimulatedEngine

    try:
        from dynamite_fl.simulation.ray import RayExecutor
    except ModuleNotFoundError:
        raise MissingExtra("--engine ray", "ray") from None

    engine = cast(SimulatedEngine, training.engine)
    engine.close()  # ends the workers of a pilot run, if there was one
    engine.executor = RayExecutor(engine.clients.make, len(engine.devices))
