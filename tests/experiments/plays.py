"""Experiments at the scale ``smoke``, played in this process: no time goes into starting others."""

from pathlib import Path

from dynamite_fl.engine.run import RunFolder
from dynamite_fl.engine.run import run as rounds
from dynamite_fl.experiments import origin
from dynamite_fl.experiments.read import load_experiment
from dynamite_fl.experiments.runs import Plays
from dynamite_fl.files import write_atomically
from dynamite_fl.run_config import make_training, to_toml
from dynamite_fl.simulation import one_thread


def smoke(name: str, runs: Path) -> Plays:
    experiment = load_experiment(name)
    return Plays(experiment, "smoke", experiment.seeds["smoke"], runs)


def play(plays: Plays, at_most: int | None = None) -> None:
    """Play its runs, those apart that are finished, or only the first of them."""
    waiting = [part.run for part in plays.parts() if not part.run.is_finished]
    with one_thread():
        for run in waiting[:at_most]:
            origin.record(run.path, origin.here_and_now())
            write_atomically(RunFolder(run.path).job, to_toml(run.job.tables))
            list(rounds(make_training(run.job), RunFolder(run.path)))
        plays.ask_theorem(None)
