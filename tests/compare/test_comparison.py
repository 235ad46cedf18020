"""A comparison from start to end: its seeds, its stages and its summary."""

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from dynamite_fl.compare.comparison import Comparison, ComparisonRequest, compare
from dynamite_fl.errors import RunFolderError
from dynamite_fl.job.training import load_training_job
from tests.compare.test_parallel import Recorder
from tests.compare.threads import threads_for_processes
from tests.regressions import REGRESSION, RMSE

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


def final_errors(folder: Path) -> dict[str, float]:
    """Return the mean of the last errors of each contender, from the lines of the histories."""
    finals: dict[str, list[float]] = {}
    for history in folder.glob("*/history.jsonl"):
        contender = history.parent.name.rpartition("-")[0]
        last = json.loads(history.read_text().splitlines()[-1])
        finals.setdefault(contender, []).append(last["metrics"]["rmse"])
    return {name: statistics.fmean(errors) for name, errors in finals.items()}


@pytest.mark.usefixtures("threads_for_processes")
def test_a_regression_is_won_by_the_lowest_error(request_: ComparisonRequest) -> None:
    """This holds for contenders, for the target and for the best fixed setting."""
    request = replace(
        request_,
        job=load_training_job(overrides=[*SMALL, *REGRESSION]),
        controllers=["uniform", "dynamite"],
        hindsight=True,
    )
    comparison = compare(request, Counting())
    assert comparison.failures == {}
    errors = final_errors(request.folder)
    names = [row.contender for row in comparison.contenders]
    assert names == sorted(("uniform", "dynamite", "fedavg"), key=errors.__getitem__)
    assert comparison.target is not None
    assert comparison.target.metric == RMSE
    assert comparison.target.value == pytest.approx(errors["fedavg"])
    for row in comparison.contenders:
        histories = [result.history for result in row.results]
        reached = [history.best <= comparison.target.value for history in histories]
        assert len(row.reached) == sum(reached)
    hindsight = comparison.hindsight
    assert hindsight is not None
    assert list(hindsight.tried.values()) == sorted(hindsight.tried.values())
    fixed = [name for name in errors if name.startswith("fixed")]
    finalists = [name for name in fixed if (request.folder / f"{name}-5").exists()]
    on_all_seeds = {name: errors[name] for name in ("fedavg", *finalists)}
    assert hindsight.best.contender == min(on_all_seeds, key=on_all_seeds.__getitem__)
    assert hindsight.gap == pytest.approx(errors["fedavg"] - min(on_all_seeds.values()))
    values = comparison.to_json()
    assert values["metric"] == {"name": "rmse", "higher_is_better": False}
    assert values["best"] == names[0]


@pytest.mark.usefixtures("threads_for_processes")
def test_a_folder_of_another_job_is_refused_before_any_run(request_: ComparisonRequest) -> None:
    compare(request_, Counting())
    other = replace(request_, job=load_training_job(overrides=[*SMALL, "limits.rounds=3"]))
    watcher = Counting()
    with pytest.raises(RunFolderError, match=r"limits\.rounds is 2 there and 3 here"):
        compare(other, watcher)
    assert watcher.stages == []
