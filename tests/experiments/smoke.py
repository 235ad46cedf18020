"""Experiments at the scale ``smoke``, run in this process, which saves starting others."""

from pathlib import Path

from dynamite_fl.experiments.experiment import load_experiment
from dynamite_fl.experiments.origin import Origin, record_origin
from dynamite_fl.experiments.runs import ExperimentRuns, ask_theorem
from dynamite_fl.job.build import build_training
from dynamite_fl.job.runs import open_run
from dynamite_fl.task.fingerprint import fingerprint
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session

QUICK_NAMES = ("optimal-tau", "online-accuracy", "ablation")  # all others take half a minute
ORIGIN = Origin("2026-01-02", "0.1.0", "abc")


def smoke(name: str, root: Path) -> ExperimentRuns:
    experiment = load_experiment(name)
    return ExperimentRuns(experiment, "smoke", experiment.seeds["smoke"], root)


def run_here(runs: ExperimentRuns, at_most: int | None = None) -> None:
    """Run what is not finished, or only the first few of it."""
    for run in runs.waiting()[:at_most]:
        record_origin(run.path, ORIGIN)
        folder = RunFolder(run.path)
        training = build_training(run.job)
        open_run(folder, run.job, fingerprint(training.engine.task))
        Session(training, folder).run()
    ask_theorem(runs, None)
