"""``dynamite compare``, as a user runs it."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dynamite_fl._cli.main import app
from dynamite_fl.job.runs import open_run
from dynamite_fl.job.training import load_training_job
from dynamite_fl.training.history import read_history
from dynamite_fl.training.run_folder import RunFolder

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


def command(folder: Path, *arguments: str) -> list[str]:
    (folder / "job.toml").write_text(JOB)
    start = [sys.executable, "-c", "from dynamite_fl._cli.main import main; main()", "compare"]
    return [*start, "job.toml", "--name", "one", *arguments]


def compare(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, with the small job."""
    return subprocess.run(
        command(folder, *arguments),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={**os.environ, "COLUMNS": "100"},
        check=False,
    )


def here(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    """Run the command within this process, which is faster."""
    (folder / "job.toml").write_text(JOB)
    monkeypatch.chdir(folder)
    return CliRunner().invoke(app, ["compare", "job.toml", "--name", "one", *arguments])


def stamps(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in sorted(folder.rglob("*.*"))}


def test_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ("--controllers", "dynamite,fedavg", "--seeds", "2")
    shown = compare(tmp_path, *chosen)
    assert shown.returncode == 0, shown.stderr
    assert "4 of 4: " in shown.stdout
    before = stamps(tmp_path / "runs")

    again = here(tmp_path, monkeypatch, *chosen, "--json")
    assert again.exit_code == 0, again.stderr
    assert "4 of 4 runs were finished before" in again.stderr
    assert stamps(tmp_path / "runs") == before

    found = json.loads(again.stdout, parse_constant=pytest.fail)
    assert found["job"]["limits"]["rounds"] == 6
    assert found["seeds"] == [0, 1]
    assert found["failed"] == {}
    finals = {name: finals_of(tmp_path, name) for name in ("dynamite", "fedavg")}
    assert found["target"] == pytest.approx(statistics.fmean(finals["fedavg"]))
    assert found["target_is_mean_of"] == "fedavg"
    for row in found["controllers"]:
        check_row(tmp_path, row, found["target"])
        mean, deviation = row["accuracy"]["mean"], row["accuracy"]["deviation"]
        assert mean == pytest.approx(statistics.fmean(finals[row["controller"]]))
        assert f"{mean:.1%} ± {100 * deviation:.1f}" in shown.stdout
    best = max(finals, key=lambda name: statistics.fmean(finals[name]))
    assert found["best"] == found["controllers"][0]["controller"] == best
    assert f"{best} *" in shown.stdout


def finals_of(folder: Path, name: str) -> list[float]:
    histories = [folder / "runs/one" / f"{name}-{seed}/history.jsonl" for seed in (0, 1)]
    return [read_history(each).final_accuracy for each in histories]


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


def test_controllers_and_buffers_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each controller is run with each buffer, all on the same stream."""
    chosen = ("--controllers", "dynamite,fedavg", "--buffers", "reservoir,fifo,unbounded")
    result = here(tmp_path, monkeypatch, *chosen, *SMOOTH, "--seeds", "2", "--jobs", "1", "--json")
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
            job = load_training_job(tmp_path / run["folder"] / "job.toml")
            assert job.tables["stream"]["buffer"] == name.partition("+")[2]
    shown = here(tmp_path, monkeypatch, *chosen, *SMOOTH, "--seeds", "2", "--jobs", "1")
    assert "worst class" in shown.stdout
    assert "fedavg+unbounded" in shown.stdout


def test_a_run_that_fails_is_named_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tight = ("--set", "limits.deadline=0.3")  # FedAvg's first round takes longer
    result = here(
        tmp_path,
        monkeypatch,
        "--controllers",
        "fedavg,dynamite",
        "--seeds",
        "1",
        "--jobs",
        "1",
        *tight,
    )
    assert result.exit_code == 1
    assert "fedavg-0 failed: " in result.stderr
    assert "deadline" in result.stderr
    assert "dynamite *" in result.stdout
    assert not (tmp_path / "runs/one/fedavg-0/ended.txt").exists()


def test_hindsight_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = (
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--set",
        "limits.rounds=2",
        "--set",
        "limits.max_local_steps=1",
    )
    result = here(
        tmp_path, monkeypatch, "--controllers", "dynamite", "--hindsight", "--json", *small
    )
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert {row["controller"] for row in found["controllers"]} == {"dynamite", "fedavg"}
    tried = found["hindsight"]["first_seed"]
    assert {pair["local_steps"] for pair in tried} == {1}
    accuracies = [pair["accuracy"] for pair in tried]
    assert accuracies == sorted(accuracies, reverse=True)
    fedavg = next(row for row in found["controllers"] if row["controller"] == "fedavg")
    best = max(accuracies[0], fedavg["accuracy"]["mean"])
    assert found["hindsight"]["best"]["accuracy"]["mean"] == best
    assert found["hindsight"]["gap"] == pytest.approx(best - fedavg["accuracy"]["mean"])
    assert found["hindsight"]["covered"]["fedavg"] in (0.0, None)


@pytest.mark.skipif(os.name == "nt", reason="signals are different there")
def test_an_interruption_stops_all_runs_and_says_how_to_go_on(tmp_path: Path) -> None:
    endless = ("limits.rounds=100000", "limits.deadline=1e9", "limits.budget=1e9")
    settings = [word for each in endless for word in ("--set", each)]
    process = subprocess.Popen(
        command(tmp_path, "--controllers", "fedavg", "--seeds", "1", *settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    history = tmp_path / "runs/one/fedavg-0/history.jsonl"
    deadline = time.monotonic() + 60
    while not (history.exists() and history.stat().st_size):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "repeat the command with --name one" in output
    assert "Traceback" not in errors
    assert (tmp_path / "runs/one/fedavg-0/checkpoint.safetensors").exists()
    size = history.stat().st_size
    time.sleep(0.5)
    assert history.stat().st_size == size  # no process still writes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--controllers", "dynamit"], "did you mean 'dynamite'?"),
        (["--set", "limits.deadlin=3"], "did you mean 'deadline'?"),
        (["--buffers", "fifo"], "the job has no [stream]"),
        (["--buffers", "lifo", *SMOOTH], "--buffers has 'lifo'"),
        (["--buffers", "fifo", "--hindsight", *SMOOTH], "--hindsight is for one buffer"),
    ],
)
def test_wrong_options_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    result = here(tmp_path, monkeypatch, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "runs").exists()


def test_another_job_under_the_same_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "runs/one/fedavg-0")
    open_run(folder, load_training_job(overrides=["limits.deadline=7"]), data="")
    before = folder.job.read_text()
    result = here(tmp_path, monkeypatch, "--controllers", "fedavg")
    assert result.exit_code == 2
    assert "holds a run of another job" in result.stderr
    assert 'task.model is "perceptron" there' in result.stderr
    assert folder.job.read_text() == before
