"""Results, failures and divergence of the runs of a comparison."""

from pathlib import Path

import pytest

from dynamite_fl.compare.contenders import contenders_of, runs_of
from dynamite_fl.compare.parallel import Workers
from dynamite_fl.compare.runner import Runner
from dynamite_fl.job.training import load_training_job
from tests.compare.test_comparison import SMALL, Counting
from tests.compare.threads import threads_for_processes
from tests.regressions import REGRESSION

__all__ = ["threads_for_processes"]  # a fixture


@pytest.mark.usefixtures("threads_for_processes")
def test_divergence_is_a_failure_of_a_contender_but_not_of_a_trial(tmp_path: Path) -> None:
    job = load_training_job(overrides=[*SMALL, *REGRESSION])
    contenders = contenders_of(job, ["fedavg@0.01", "fedavg@1e+30"])
    runs = runs_of(job, contenders, [0], tmp_path)
    with Workers(None, 1) as workers:
        contending, searching = Runner(workers, Counting()), Runner(workers, Counting())
        contending.run(runs)
        searching.run(runs, searching=True)
    (reason,) = contending.failures.values()
    assert searching.diverged == contending.failures == {"fedavg@1e+30-0": reason}
    assert (contending.diverged, searching.failures) == ({}, {})
    assert [result.contender for result in searching.results_of(["fedavg@0.01"])] == ["fedavg@0.01"]
    assert searching.rank("fedavg@1e+30", 0) == float("inf")
    error = searching.results["fedavg@0.01-0"].history.final
    assert searching.rank("fedavg@0.01", 0) == error  # lower is better


@pytest.mark.usefixtures("threads_for_processes")
def test_runs_that_were_given_before_are_left_out(tmp_path: Path) -> None:
    job = load_training_job(overrides=SMALL)
    runs, watcher = runs_of(job, contenders_of(job, ["fedavg"]), [0, 1], tmp_path), Counting()
    with Workers(None, 2) as workers:
        runner = Runner(workers, watcher)
        runner.run(runs[:1])
        runner.run(runs)
    assert watcher.stages == [(1, 0), (1, 0)]
