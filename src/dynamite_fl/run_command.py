"""What ``dynamite run``, ``resume`` and ``show`` do."""

import signal
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import torch
from rich.console import Console

from dynamite_fl.config import JobError
from dynamite_fl.engine.loop import Training, begin
from dynamite_fl.engine.run import RunFolder, run, save
from dynamite_fl.engine.simulated import SimulatedEngine
from dynamite_fl.files import write_atomically
from dynamite_fl.report.history import read_history, to_line
from dynamite_fl.report.tracking import Tracked, tracking
from dynamite_fl.run_config import (
    TrainingJob,
    limits_of,
    load_training_job,
    make_training,
    to_toml,
    trackers_of,
)
from dynamite_fl.run_view import RunView, show_summary

INTERRUPTED = 130


class _Interrupts:
    """Ctrl-C that waits for the round's end, when all that is to be saved is whole.

    A second one ends at once; what was saved before stays.
    """

    asked = False

    def __enter__(self) -> "_Interrupts":
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def start_run(
    path: Path,
    job_file: Path | None,
    overrides: Iterable[str],
    data_dir: Path | None,
    as_json: bool,
    *,
    on_ray: bool = False,
) -> None:
    """Train by a job, in a new folder, which is made only if the job can be used."""
    if path.exists():
        raise JobError(f"{path} is there already: choose another --name, or dynamite resume it")
    job = load_training_job(job_file, overrides)
    trackers_of(job)  # so that a missing extra is known before anything is done
    training = make_training(job, data_dir)
    begin(training)  # so that limits that allow no round are refused here
    if on_ray:
        _put_on_ray(training)
    path.mkdir(parents=True)
    write_atomically(RunFolder(path).job, to_toml(job.tables))
    train(RunFolder(path), job, training, as_json)


def resume_run(path: Path, data_dir: Path | None, as_json: bool, *, on_ray: bool = False) -> None:
    """Go on with the training in a folder."""
    folder = RunFolder(path)
    if not folder.job.exists():
        raise JobError(f"{path} is no run folder: it has no {folder.job.name}")
    if folder.nodes.exists():
        raise JobError(f"{path} is of real machines: go on with dynamite serve or cluster")
    job = load_training_job(folder.job)
    training = make_training(job, data_dir)
    if on_ray:
        _put_on_ray(training)
    train(folder, job, training, as_json)


def _put_on_ray(training: Training) -> None:
    """Have Ray compute for the clients."""
    from dynamite_fl.engine.flower.ray import RayCrew

    engine = cast(SimulatedEngine, training.engine)
    engine.close()  # workers of a pilot, if it had any
    with Console(stderr=True).status("Starting Ray"):
        alone = replace(engine, workers=1, crew=None)
        engine.crew = RayCrew(alone.client, len(engine.devices))


def train(
    folder: RunFolder,
    job: TrainingJob,
    training: Training,
    as_json: bool,
    *,
    seconds_between_checkpoints: float = 30.0,
    go_on: str | None = None,
) -> None:
    """Train from where the folder is, and show what comes of it."""
    go_on = go_on or f"dynamite resume {folder.path}"
    torch.set_num_threads(1)  # two threads on busy cores can be many times slower
    title = f"{job.tables['controller']['name']} on {len(training.fleet)} devices, {folder.path}"
    console = Console(stderr=as_json, highlight=False)
    tell = partial(console.print, markup=False, soft_wrap=True)
    told = Tracked(folder.path, folder.history, to_toml(job.tables), job.tables)
    with (
        closing(training.engine),
        tracking(trackers_of(job), told, tell) as track,
        RunView(console, title, training.limits) as view,
        _Interrupts() as interrupts,
    ):
        for progress, line in run(
            training, folder, seconds_between_checkpoints=seconds_between_checkpoints
        ):
            if line is not None:
                view.show(line)
                track(line)
            if interrupts.asked and not progress.ended:
                save(training, folder, progress)
                console.print(f"Interrupted. To go on: {go_on}")
                raise SystemExit(INTERRUPTED)
    show_run(folder.path, as_json)


def show_run(path: Path, as_json: bool) -> None:
    """What a training in a folder reached and spent."""
    folder = RunFolder(path)
    if not folder.job.exists() or not folder.history.exists():
        raise JobError(f"{path} is no run folder: it has no {folder.job.name}")
    job = load_training_job(folder.job)
    history = read_history(folder.history)
    if as_json:
        print(to_line(history.lines[-1] if history.lines else {}), end="")  # noqa: T201
        return
    title = f"{job.tables['controller']['name']}, {path}"
    ended = folder.ended.read_text().strip() if folder.ended.exists() else None
    show_summary(Console(highlight=False), title, history, limits_of(job), ended)
