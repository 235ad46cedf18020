"""``dynamite compare``."""

import json
import os
import signal
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dynamite_fl.job.runs import open_run
from dynamite_fl.job.training import load_training_job
from dynamite_fl.training.history import read_history
from dynamite_fl.training.run_folder import RunFolder
from tests._cli.commands import invoke
from tests.compare.threads import threads_for_processes
from tests.processes import HANG_SECONDS, start_command, wait_until
from tests.regressions import REGRESSION

__all__ = ["threads_for_processes"]  # a fixture

JOB = """
[task]
model = "softmax"
dataset = "digits"

[partition]
kind = "dirichlet"
alpha = 0.5

[devices]
samples_per_second = [100, 200, 300, 400, 500]
latency = 0.1
jitter = 0.1

[limits]
rounds = 6
deadline = 30
budget = 100
cost_per_sample = 0.001
cost_per_round = 1
max_local_steps = 2

[controller]
name = "dynamite"

[training]
learning_rate = 0.1
evaluate_every = 2
"""


SMOOTH = ("--set", 'stream={preset="smooth-c", scale=0.002, every=2, max_samples=1000}')


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the job, in which commands run."""
    (tmp_path / "job.toml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compare(*arguments: str) -> Result:
    return invoke("compare", "job.toml", "--name", "one", *arguments)


def stamps(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in sorted(folder.rglob("*.*"))}


@pytest.mark.usefixtures("threads_for_processes")
def test_tables_and_json_agree_with_the_histories(here: Path) -> None:
    chosen = ("--controllers", "dynamite,fedavg", "--seeds", "2")
    shown = compare(*chosen)
    assert shown.exit_code == 0, shown.stderr
    assert "4 of 4: " in shown.stdout
    before = stamps(here / "runs")

    again = compare(*chosen, "--json")
    assert again.exit_code == 0, again.stderr
    assert "4 of 4 runs were finished before" in again.stderr
    assert stamps(here / "runs") == before

    found = json.loads(again.stdout, parse_constant=pytest.fail)
    assert found["job"]["limits"]["rounds"] == 6
    assert found["seeds"] == [0, 1]
    assert found["failed"] == {}
    finals = {name: finals_of(here, name) for name in ("dynamite", "fedavg")}
    assert found["target"] == pytest.approx(statistics.fmean(finals["fedavg"]))
    assert found["target_is_mean_of"] == "fedavg"
    for row in found["controllers"]:
        check_row(here, row, found["target"])
        mean, deviation = row["final"]["mean"], row["final"]["deviation"]
        assert mean == pytest.approx(statistics.fmean(finals[row["controller"]]))
        assert f"{mean:.1%} ± {100 * deviation:.1f}" in shown.stdout
    best = max(finals, key=lambda name: statistics.fmean(finals[name]))
    assert found["best"] == found["controllers"][0]["controller"] == best
    assert f"{best} *" in shown.stdout


def finals_of(folder: Path, name: str) -> list[float]:
    histories = [folder / "runs/one" / f"{name}-{seed}/history.jsonl" for seed in (0, 1)]
    return [read_history(each).final for each in histories]


def check_row(folder: Path, row: dict[str, Any], target: float) -> None:
    """Check a contender in the JSON output against the histories."""
    for run, seed in zip(row["runs"], (0, 1), strict=True):
        assert run["seed"] == seed
        assert run["folder"] == f"runs/one/{row['controller']}-{seed}"
        history = read_history(folder / run["folder"] / "history.jsonl")
        assert (run["seconds"], run["cost"]) == (history[-1].seconds, history[-1].cost)
        assert run["rounds"] == len(history)
        first = history.first_reaching(target)
        assert run["seconds_to_target"] == (None if first is None else first.seconds)
    costs = [run["cost"] for run in row["runs"]]
    assert row["cost"]["least"] == min(costs)
    assert row["cost"]["most"] == max(costs)
    assert row["cost"]["deviation"] == pytest.approx(statistics.stdev(costs))
    times = [run["seconds_to_target"] for run in row["runs"]]
    reached = [each for each in times if each is not None]
    assert row["reached_target"] == len(reached)
    if reached:
        assert row["seconds_to_target"]["mean"] == pytest.approx(statistics.fmean(reached))


@pytest.mark.usefixtures("threads_for_processes", "here")
def test_a_regression_has_a_target_of_its_own() -> None:
    """The target is above 1, and lower errors reach it."""
    settings = [word for setting in REGRESSION for word in ("--set", setting)]
    settings += ["--controllers", "dynamite,fedavg", "--seeds", "1"]
    shown = compare(*settings, "--target", "3.5")
    assert shown.exit_code == 0, shown.stderr
    assert "RMSE" in shown.stdout
    assert "to 3.5" in shown.stdout
    assert "accuracy" not in shown.stdout
    found = json.loads(compare(*settings, "--target", "3.5", "--json").stdout)
    assert found["metric"] == {"name": "rmse", "higher_is_better": False}
    first, second = (row["final"]["mean"] for row in found["controllers"])
    assert first < second < 3.5
    assert [row["reached_target"] for row in found["controllers"]] == [1, 1]


@pytest.mark.usefixtures("threads_for_processes")
def test_each_controller_is_run_with_each_buffer_on_the_same_stream(here: Path) -> None:
    chosen = ("--controllers", "dynamite,fedavg", "--buffers", "reservoir,fifo,unbounded")
    few = ("--seeds", "2", "--set", "limits.rounds=3")
    result = compare(*chosen, *SMOOTH, *few, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    rows = {row["controller"]: row for row in found["controllers"]}
    assert set(rows) == {
        f"{name}+{buffer}"
        for name in ("dynamite", "fedavg")
        for buffer in ("reservoir", "fifo", "unbounded")
    }
    assert found["target_is_mean_of"] == "fedavg+reservoir"
    for name, row in rows.items():
        assert row["stream_loss"]["mean"] > 0
        for run in row["runs"]:
            worst = min(run["class_accuracy"].values())
            assert row["worst_class"]["least"] <= worst <= row["worst_class"]["most"]
            job = load_training_job(here / run["folder"] / "job.toml")
            assert job.tables["stream"]["buffer"] == name.partition("+")[2]
    shown = compare(*chosen, *SMOOTH, *few)
    assert "worst class" in shown.stdout
    assert "fedavg+unbounded" in shown.stdout


@pytest.mark.usefixtures("threads_for_processes")
def test_a_run_that_fails_is_named_and_stops_no_other(here: Path) -> None:
    tight = ("--set", "limits.deadline=0.3")  # FedAvg's first round takes longer
    result = compare("--controllers", "fedavg,dynamite", "--seeds", "1", *tight)
    assert result.exit_code == 1
    assert "fedavg-0 failed: " in result.stderr
    assert "deadline" in result.stderr
    assert "dynamite *" in result.stdout
    assert not (here / "runs/one/fedavg-0/ended.txt").exists()


@pytest.mark.usefixtures("threads_for_processes", "here")
def test_hindsight_finds_the_best_fixed_setting_and_fedavg_at_its_best() -> None:
    small = ("--seeds", "1", "--set", "limits.rounds=2", "--set", "limits.max_local_steps=1")
    chosen = ("--controllers", "dynamite", "--tune", "fedexp", "--hindsight", *small)
    result = compare(*chosen, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert set(found["tuned"]) == {"fedavg", "fedexp"}
    fedavg, fedexp = (found["tuned"][method]["best"] for method in ("fedavg", "fedexp"))
    rows = {row["controller"]: row["final"]["mean"] for row in found["controllers"]}
    assert set(rows) == {"dynamite", fedavg, fedexp}
    assert rows[fedavg] == max(found["tuned"]["fedavg"]["first_seed"].values())
    assert found["hindsight"]["fedavg"] == fedavg
    tried = found["hindsight"]["first_seed"]
    assert {setting["local_steps"] for setting in tried} == {1}
    assert len({setting["learning_rate"] for setting in tried}) > 2
    accuracies = [setting["final"] for setting in tried]
    assert accuracies == sorted(accuracies, reverse=True)
    best = max(accuracies[0], rows[fedavg])
    assert found["hindsight"]["best"]["final"]["mean"] == best
    assert found["hindsight"]["gap"] == pytest.approx(best - rows[fedavg])
    assert found["hindsight"]["covered"][fedavg] in (0.0, None)
    shown = " ".join(compare(*chosen).stdout.split())
    assert f"{fedexp} has the best of" in shown
    assert "The best setting in hindsight is" in shown
    assert f"better than that of {fedavg}." in shown


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals are different there")
def test_an_interruption_stops_all_runs_and_says_how_to_go_on(here: Path) -> None:
    """This is the one comparison in processes as a user has them."""
    endless = ("limits.rounds=100000", "limits.deadline=1e9", "limits.budget=1e9")
    settings = [word for setting in endless for word in ("--set", setting)]
    settings += ["--set", "task.dataset=synthetic"]
    process = start_command(
        *("compare", "job.toml", "--name", "one", "--controllers", "fedavg", "--seeds", "1"),
        *settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        new_session=True,
    )
    history = here / "runs/one/fedavg-0/history.jsonl"
    wait_until(
        lambda: process.poll() is not None or (history.exists() and history.stat().st_size > 0)
    )
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=HANG_SECONDS)  # until all have closed their pipes
    assert process.returncode == 130, errors
    assert "repeat the command with --name one" in output
    assert "Traceback" not in errors
    folder = RunFolder(history.parent)
    assert folder.checkpoint.exists()
    assert not folder.is_finished


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--controllers", "dynamit"], "did you mean 'dynamite'?"),
        (["--set", "limits.deadlin=3"], "did you mean 'deadline'?"),
        (["--buffers", "fifo"], "the job has no [stream]"),
        (["--buffers", "lifo", *SMOOTH], "--buffers has 'lifo'"),
        (["--buffers", "fifo", "--hindsight", *SMOOTH], "--hindsight is for one buffer"),
        (["--buffers", "fifo", "--tune", "fedavg", *SMOOTH], "--tune is for one buffer"),
        (["--tune", "fedadm"], "there is no controller 'fedadm'"),
        (["--controllers", "fedavg@fast"], "has no learning rate after the @"),
    ],
)
def test_wrong_options_are_refused(here: Path, arguments: list[str], message: str) -> None:
    result = compare(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (here / "runs").exists()


def test_another_job_under_the_same_name_is_refused(here: Path) -> None:
    folder = RunFolder(here / "runs/one/fedavg-0")
    open_run(folder, load_training_job(overrides=["limits.deadline=7"]), data={})
    folder.history.write_text("a round was trained\n")
    before = folder.job.read_text()
    result = compare("--controllers", "fedavg")
    assert result.exit_code == 2
    assert "holds a run of another job" in result.stderr
    assert 'task.model is "perceptron" there' in result.stderr
    assert folder.job.read_text() == before
