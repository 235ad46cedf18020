"""A comparison from start to end: its seeds, its stages and its summary."""

from dataclasses import replace
from pathlib import Path

import pytest

from dynamite_fl.compare.comparison import Comparison, ComparisonRequest, compare
from dynamite_fl.errors import RunFolderError
from dynamite_fl.job.training import load_training_job
from tests.compare.test_parallel import Recorder
from tests.compare.threads import threads_for_processes

__all__ = ["threads_for_processes"]  # a fixture

SMALL = (
    'task={model="softmax", dataset="synthetic"}',
    "limits.rounds=2",
    "limits.max_local_steps=2",
    "training.seed=4",
    "devices={samples_per_second=[100, 200]}",
)


class Counting(Recorder):
    """A watcher that also keeps how many runs each stage has."""

    def __init__(self) -> None:
        super().__init__()
        self.stages: list[tuple[int, int]] = []

    def more(self, runs: int, finished: int) -> None:
        self.stages.append((runs, finished))


@pytest.fixture
def request_(tmp_path: Path) -> ComparisonRequest:
    return ComparisonRequest(
        job=load_training_job(overrides=SMALL),
        controllers=["fedavg"],
        buffers=None,
        seeds=2,
        target=None,
        hindsight=False,
        folder=tmp_path / "one",
        data_dir=None,
        jobs=1,
    )


def test_seeds_begin_with_that_of_the_job(request_: ComparisonRequest) -> None:
    assert request_.seed_values == [4, 5]


def test_a_comparison_without_a_finished_run_is_an_error_in_json(
    request_: ComparisonRequest,
) -> None:
    comparison = Comparison(request_, [], None, None, {"fedavg-4": "no memory"})
    assert comparison.to_json() == {"error": "no run finished", "failed": {"fedavg-4": "no memory"}}


@pytest.mark.usefixtures("threads_for_processes")
def test_finished_runs_are_not_run_again(request_: ComparisonRequest) -> None:
    first, again = Counting(), Counting()
    compare(request_, first)
    comparison = compare(replace(request_, seeds=3), again)
    assert first.stages[0] == (2, 0)
    assert again.stages[0] == (3, 2)
    assert [result.seed for result in comparison.contenders[0].results] == [4, 5, 6]


@pytest.mark.usefixtures("threads_for_processes")
def test_fixed_settings_are_tried_on_the_first_seed_and_the_best_on_all(
    request_: ComparisonRequest,
) -> None:
    """FedAvg takes part although it was not asked for, because gaps are measured from it."""
    watcher = Counting()
    request = replace(request_, controllers=["uniform"], hindsight=True)
    comparison = compare(request, watcher)
    assert comparison.failures == {}
    assert {summary.contender for summary in comparison.contenders} == {"uniform", "fedavg"}
    assert comparison.hindsight is not None
    first, refined, last = (runs for runs, _ in watcher.stages)
    assert first > 4  # two contenders with two seeds, and fixed settings
    assert len(comparison.hindsight.tried) == first - 4 + refined
    assert last > 0


@pytest.mark.usefixtures("threads_for_processes")
def test_a_folder_of_another_job_is_refused_before_any_run(request_: ComparisonRequest) -> None:
    compare(request_, Counting())
    other = replace(request_, job=load_training_job(overrides=[*SMALL, "limits.rounds=3"]))
    watcher = Counting()
    with pytest.raises(RunFolderError, match=r"limits\.rounds is 2 there and 3 here"):
        compare(other, watcher)
    assert watcher.stages == []
