"""Real runs for reports, as ``dynamite run`` and ``compare`` leave them.

They are played in this process, because a process of its own takes many times as long to start.
"""

from collections.abc import Sequence
from pathlib import Path

from dynamite_fl.compare.contenders import contenders_of, fixed_contender, runs_of
from dynamite_fl.compare.hindsight import FixedSetting
from dynamite_fl.job.build import build_training
from dynamite_fl.job.runs import open_run
from dynamite_fl.job.training import TrainingJob, load_training_job
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session

SHORT = (
    "task.model=softmax",
    "training.evaluate_every=2",
    "limits.rounds=12",
    "limits.max_local_steps=10",
    "limits.budget=40",  # small batches, so that M_i can be measured
)
STREAM = (
    'stream={arrivals="smooth", initial=20, size=8, every=3, order="continuous", buffer_size=40}'
)


def play(path: Path, job: TrainingJob) -> Path:
    folder, training = RunFolder(path), build_training(job)
    open_run(folder, job, data={}, leading_metric=training.engine.task.leading_metric)
    Session(training, folder).run()
    return path


def play_run(path: Path, overrides: Sequence[str] = ()) -> Path:
    return play(path, load_training_job(overrides=[*SHORT, *overrides]))


def play_comparison(folder: Path, overrides: Sequence[str] = ()) -> Path:
    """Play two controllers on two seeds, and three fixed settings, one of them on both."""
    job = load_training_job(overrides=[*SHORT, *overrides])
    contenders = contenders_of(job, ["dynamite", "fedavg"])
    settings = [FixedSetting(5, 20), FixedSetting(1, 50), FixedSetting(2, 30)]
    first, *others = map(fixed_contender, settings)
    runs = runs_of(job, [*contenders, first], [0, 1], folder)
    for planned in [*runs, *runs_of(job, others, [0], folder)]:
        play(planned.path, planned.job)
    return folder
