"""A comparison from start to end: its seeds, its stages and its summary."""

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from dynamite_fl.compare import comparison
from dynamite_fl.compare.comparison import Comparison, ComparisonRequest, compare
from dynamite_fl.compare.pattern_search import Pattern
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
        tune=(),
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
    found = Comparison(request_, [], None, (), None, {"fedavg-4": "no memory"}, {})
    assert found.to_json() == {"error": "no run finished", "failed": {"fedavg-4": "no memory"}}


@pytest.mark.usefixtures("threads_for_processes")
def test_finished_runs_are_not_run_again(request_: ComparisonRequest) -> None:
    first, again = Counting(), Counting()
    compare(request_, first)
    found = compare(replace(request_, seeds=3), again)
    assert first.stages[0] == (2, 0)
    assert again.stages[0] == (3, 2)
    assert [result.seed for result in found.contenders[0].results] == [4, 5, 6]


@pytest.mark.usefixtures("threads_for_processes")
def test_searches_try_on_the_first_seed_and_show_the_best_of_all(
    request_: ComparisonRequest,
) -> None:
    """FedAvg is tuned although nobody asked for it, because gaps are measured from it."""
    request = replace(request_, controllers=["uniform"], tune=["fedadam"], hindsight=True)
    found = compare(request, Counting())
    assert found.failures == {}
    fedavg, fedadam = found.tuned
    shown = {summary.contender for summary in found.contenders}
    assert shown == {"uniform", fedavg.best, fedadam.best}
    for tuned in (fedavg, fedadam):
        assert list(tuned.tried.values()) == sorted(tuned.tried.values(), reverse=True)
        assert {f"{name}-4" for name in tuned.tried} == {
            path.name for path in request.folder.glob(f"{tuned.method}@*-4")
        }
        finalists = [path.name for path in request.folder.glob(f"{tuned.method}@*-5")]
        assert sorted(finalists) == sorted(f"{name}-5" for name in list(tuned.tried)[:2])
    hindsight = found.hindsight
    assert hindsight is not None
    assert hindsight.fedavg is not None
    assert hindsight.fedavg.contender == fedavg.best
    fixed = [path.name for path in request.folder.glob("fixed-*-4")]
    assert sorted(fixed) == sorted(f"{setting.name}-4" for setting in hindsight.tried)
    assert len(list(request.folder.glob("fixed-*-5"))) == 2


@pytest.mark.usefixtures("threads_for_processes")
def test_a_search_is_repeated_from_its_finished_runs(request_: ComparisonRequest) -> None:
    """Neither the job's own rate nor the time of the repetition changes what is tried."""
    request = replace(request_, controllers=["fedavg@0.1"], hindsight=True, seeds=1)
    first, again = Counting(), Counting()
    before = compare(request, first).to_json()
    other_rate = load_training_job(overrides=[*SMALL, "training.learning_rate=0.7"])
    after = compare(replace(request, job=other_rate), again).to_json()
    assert before["hindsight"] == after["hindsight"]
    assert before["tuned"] == after["tuned"]
    assert all(runs == finished for runs, finished in again.stages)
    assert not [event for event in again.events if event[0] == "started"]


@pytest.mark.usefixtures("threads_for_processes")
def test_trials_that_diverge_are_the_worst_and_no_failures(
    request_: ComparisonRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The squared error of a regression overflows at a rate of 1e30, the second that is tried."""
    rates = Pattern([(-8,), (120,)], directions=(), strides=())
    monkeypatch.setattr(comparison, "rates_to_try", lambda _method: rates)
    job = load_training_job(overrides=[*SMALL, *REGRESSION])
    request = replace(request_, job=job, controllers=["uniform"], tune=["fedavg"], seeds=1)
    found = compare(request, Counting())
    assert found.failures == {}
    assert list(found.diverged) == ["fedavg@1e+30-4"]
    assert list(found.tuned[0].tried) == ["fedavg@0.01"]
    again = Counting()
    assert compare(request, again).to_json() == found.to_json()
    assert all(runs == finished for runs, finished in again.stages)


def final_errors(folder: Path) -> dict[str, float]:
    """Return the mean of the last errors of each contender, from the lines of the histories."""
    finals: dict[str, list[float]] = {}
    for history in folder.glob("*/history.jsonl"):
        contender = history.parent.name.rpartition("-")[0]
        last = json.loads(history.read_text().splitlines()[-1])
        if last["metrics"] is not None:  # a training that was ruined ends without them
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
    found = compare(request, Counting())
    assert found.failures == {}
    errors = final_errors(request.folder)
    names = [row.contender for row in found.contenders]
    (tuned,) = found.tuned
    assert tuned.method == "fedavg"
    assert names == sorted(("uniform", "dynamite", tuned.best), key=errors.__getitem__)
    assert found.target is not None
    assert found.target.metric == RMSE
    assert found.target.value == pytest.approx(errors[tuned.best])
    for row in found.contenders:
        histories = [result.history for result in row.results]
        reached = [history.best <= found.target.value for history in histories]
        assert len(row.reached) == sum(reached)
    hindsight = found.hindsight
    assert hindsight is not None
    assert list(hindsight.tried.values()) == sorted(hindsight.tried.values())
    fixed = [name for name in errors if name.startswith("fixed")]
    finalists = [name for name in fixed if (request.folder / f"{name}-5").exists()]
    on_all_seeds = {name: errors[name] for name in (tuned.best, *finalists)}
    assert hindsight.best.contender == min(on_all_seeds, key=on_all_seeds.__getitem__)
    assert hindsight.gap == pytest.approx(errors[tuned.best] - min(on_all_seeds.values()))
    values = found.to_json()
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
