"""Several trainings at a time: what processes report, and what happens if one of them dies."""

import multiprocessing
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dynamite_fl._format import metric_value
from dynamite_fl.compare.contenders import Run
from dynamite_fl.compare.parallel import run_all
from dynamite_fl.job.training import load_training_job
from dynamite_fl.training.history import read_history
from dynamite_fl.training.run_folder import RunFolder
from tests.compare.threads import threads_for_processes
from tests.regressions import REGRESSION

__all__ = ["threads_for_processes"]  # a fixture

SMALL = (
    'task={model="softmax", dataset="synthetic"}',
    "limits.rounds=3",
    "controller.name=fedavg",
    "devices={samples_per_second=[100, 200]}",
)
DYING = """
import os

def make_task():
    os._exit(7)
"""


@dataclass
class Recorder:
    """A watcher that keeps the calls of its methods."""

    events: list[tuple[str, ...]] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)

    def started(self, name: str) -> None:
        self.events.append(("started", name))

    def moved(self, name: str, share: float, reached: str | None) -> None:
        assert name
        assert reached is None or reached
        self.shares.append(share)

    def finished(self, name: str, reached: str | None) -> None:
        assert reached is not None
        self.reached.append(reached)
        self.events.append(("finished", name))

    def failed(self, name: str, reason: str) -> None:
        self.events.append(("failed", name, reason))

    def warned(self, name: str, message: str) -> None:
        self.events.append(("warned", name, message))

    def stopping(self) -> None:
        self.events.append(("stopping",))


def small_run(folder: Path, seed: int = 0, *overrides: str) -> Run:
    job = load_training_job(overrides=[*SMALL, f"training.seed={seed}", *overrides])
    return Run("fedavg", seed, folder / f"fedavg-{seed}", job)


@pytest.mark.slow
def test_a_process_that_dies_is_replaced_and_its_run_fails(tmp_path: Path) -> None:
    """One process after the other has a run that kills it, one that fails and one that ends."""
    (tmp_path / "dying.py").write_text(DYING)
    (tmp_path / "job.toml").write_text(
        'task = "dying:make_task"\n[limits]\ndeadline = 9\nbudget = 9\ncost_per_sample = 0\n'
        "cost_per_round = 0\n[training]\nlearning_rate = 0.1\n"
    )
    deadly = Run("fedavg", 0, tmp_path / "fedavg-0", load_training_job(tmp_path / "job.toml"))
    impossible = small_run(tmp_path, 1, "limits.deadline=0.001")
    watcher = Recorder()
    failures = run_all([deadly, impossible, small_run(tmp_path, 2)], None, 1, watcher)
    assert failures["fedavg-0"] == "its process ended with code 7"
    assert "deadline" in failures["fedavg-1"]
    assert [event[:2] for event in watcher.events] == [
        ("started", "fedavg-0"),
        ("failed", "fedavg-0"),
        ("started", "fedavg-1"),
        ("failed", "fedavg-1"),
        ("started", "fedavg-2"),
        ("finished", "fedavg-2"),
    ]
    assert len(read_history(RunFolder(tmp_path / "fedavg-2").history)) == 3
    assert multiprocessing.active_children() == []


@pytest.mark.usefixtures("threads_for_processes")
@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_every_run_is_started_and_finished_once(tmp_path: Path, jobs: int) -> None:
    watcher, seeds = Recorder(), range(3)
    assert run_all([small_run(tmp_path, seed) for seed in seeds], None, jobs, watcher) == {}
    names = [f"fedavg-{seed}" for seed in seeds]
    assert sorted(name for kind, name in watcher.events if kind == "started") == names
    assert sorted(name for kind, name in watcher.events if kind == "finished") == names
    assert watcher.shares
    assert all(0 < share <= 1 for share in watcher.shares)


@pytest.mark.usefixtures("threads_for_processes")
@pytest.mark.parametrize(
    ("overrides", "words"), [((), r"accuracy \d+\.\d%"), (REGRESSION, r"RMSE \d\.\d+")]
)
def test_the_leading_metric_is_reported_in_words(
    tmp_path: Path, overrides: tuple[str, ...], words: str
) -> None:
    watcher = Recorder()
    assert run_all([small_run(tmp_path, 0, *overrides)], None, 1, watcher) == {}
    (reached,) = watcher.reached
    assert re.fullmatch(words, reached)
    history = read_history(RunFolder(tmp_path / "fedavg-0").history)
    assert reached.endswith(metric_value(history.leading_metric.name, history.final))


class Impatient(Recorder):
    """A watcher that presses Ctrl-C at the first news of a run."""

    def moved(self, *_: object) -> None:
        raise KeyboardInterrupt


@pytest.mark.usefixtures("threads_for_processes")
def test_ctrl_c_lets_runs_end_their_rounds_and_keeps_their_work(tmp_path: Path) -> None:
    endless = ("limits.rounds=1000000", "limits.deadline=1e9", "limits.budget=1e9")
    watcher = Impatient()
    with pytest.raises(KeyboardInterrupt):
        run_all([small_run(tmp_path, 0, *endless)], None, 1, watcher)
    assert watcher.events[-1] == ("stopping",)
    folder = RunFolder(tmp_path / "fedavg-0")
    assert folder.checkpoint.exists()
    assert not folder.is_finished
