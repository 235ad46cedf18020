"""Real runs that reports are made of, as ``dynamite run`` and ``compare`` leave them.

They are played in this process, since a command of its own takes many times as long to start.
"""

from collections.abc import Sequence
from pathlib import Path

from dynamite_fl.compare import contenders_of, runs_of
from dynamite_fl.engine.run import RunFolder, run
from dynamite_fl.hindsight import Pair
from dynamite_fl.run_config import TrainingJob, load_training_job, make_training, to_toml
from dynamite_fl.simulation import one_thread

SHORT = (
    "task.model=softmax",
    "training.evaluate_every=2",
    "limits.rounds=12",
    "limits.budget=40",  # small batches, so that M_i can be measured
)
STREAM = (
    'stream={arrivals="smooth", initial=20, size=8, every=3, order="continuous", buffer_size=40}'
)


def play(path: Path, job: TrainingJob) -> Path:
    path.mkdir(parents=True)
    (path / "job.toml").write_text(to_toml(job.tables))
    with one_thread():
        for _ in run(make_training(job), RunFolder(path)):
            pass
    return path


def play_run(path: Path, overrides: Sequence[str] = ()) -> Path:
    return play(path, load_training_job(overrides=[*SHORT, *overrides]))


def play_comparison(folder: Path) -> Path:
    """Two controllers on two seeds, and three fixed pairs, one of them on both."""
    job = load_training_job(overrides=SHORT)
    contenders = contenders_of(job, ["dynamite", "fedavg"])
    first, *others = [Pair(steps, size).contender for steps, size in ((5, 20), (1, 50), (2, 30))]
    runs = runs_of(job, [*contenders, first], [0, 1], folder)
    for each in [*runs, *runs_of(job, others, [0], folder)]:
        play(each.path, each.job)
    return folder
