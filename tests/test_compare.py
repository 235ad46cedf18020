"""`dynamite compare`, as a user runs it, and its sums by hand."""

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

from dynamite_fl.cli import app
from dynamite_fl.compare import contenders_of
from dynamite_fl.hindsight import Pair, covered, grid, look_back, outline, ranked
from dynamite_fl.records import Fleet, Limits
from dynamite_fl.report.history import History, read_history
from dynamite_fl.report.summary import Result, Spread, summed_up, target_of
from dynamite_fl.run_config import load_training_job

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


SMOOTH = ("--set", 'stream={preset="smooth-c", scale=0.002, every=2, most=1000}')


def command(folder: Path, *arguments: str) -> list[str]:
    (folder / "job.toml").write_text(JOB)
    start = [sys.executable, "-c", "from dynamite_fl.cli import main; main()", "compare"]
    return [*start, "job.toml", "--name", "one", *arguments]


def compare(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would, with the tiny job."""
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
    """The same within this process, which is quicker."""
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
    """A row of the JSON says what the histories say."""
    for run, seed in zip(row["runs"], (0, 1), strict=True):
        assert run["seed"] == seed
        assert run["folder"] == f"runs/one/{row['controller']}-{seed}"
        history = read_history(folder / run["folder"] / "history.jsonl")
        last = history.lines[-1]
        assert [run[key] for key in ("seconds", "cost")] == [last["seconds"], last["cost"]]
        assert run["rounds"] == len(history)
        first = history.first_reaching(target)
        assert run["seconds_to_target"] == (None if first is None else first["seconds"])
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
    """Each controller with each buffer, all on the same stream; only the buffer differs."""
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


def test_a_failing_run_is_named_and_stops_no_other(
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
def test_an_interruption_ends_all_and_says_how_to_go_on(tmp_path: Path) -> None:
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
    assert history.stat().st_size == size  # nobody writes on


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--controllers", "dynamit"], "did you mean 'dynamite'?"),
        (["--set", "limits.deadlin=3"], "did you mean deadline?"),
        (["--buffers", "fifo"], "the job has no [stream]"),
        (["--buffers", "lifo", *SMOOTH], "--buffers has 'lifo'"),
        (["--buffers", "fifo", "--hindsight", *SMOOTH], "--hindsight is for one buffer"),
    ],
)
def test_what_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    result = here(tmp_path, monkeypatch, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "runs").exists()


def test_another_job_under_the_same_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "runs/one/fedavg-0/job.toml"
    kept.parent.mkdir(parents=True)
    kept.write_text("[task]\n")
    result = here(tmp_path, monkeypatch, "--controllers", "fedavg")
    assert result.exit_code == 2
    assert "choose another --name" in result.stderr
    assert kept.read_text() == "[task]\n"


def test_contenders_by_default_and_their_settings() -> None:
    job = load_training_job(overrides=["controller={name='fedavg', local_steps=7}"])
    contenders = {each.name: each.table for each in contenders_of(job, None)}
    assert {"dynamite", "fedavg", "no-straggler", "dbfl", "dynamic-tau"} <= contenders.keys()
    assert "fixed" not in contenders
    assert contenders["fedavg"] == {"name": "fedavg", "local_steps": 7}
    assert contenders["dynamite"] == {"name": "dynamite"}


def result(contender: str, seed: int, *accuracies: float | None) -> Result:
    """A run whose round k takes 10 s and costs 2 more."""
    lines = tuple(
        {"round": place, "seconds": 10.0 * place, "cost": 2.0 * place, "accuracy": accuracy}
        for place, accuracy in enumerate(accuracies, start=1)
    )
    return Result(contender, seed, Path(f"{contender}-{seed}"), "rounds", History(lines))


RESULTS = [
    result("dynamite", 0, 0.5, 0.8, 0.9),
    result("dynamite", 1, 0.6, 0.7),
    result("fedavg", 0, 0.3, None, 0.6),
    result("fedavg", 1, 0.3, 0.8),
]


def test_sums_by_hand() -> None:
    dynamite, fedavg = summed_up(RESULTS, target=0.75)
    assert (dynamite.contender, fedavg.contender) == ("dynamite", "fedavg")
    assert dynamite.accuracy.mean == pytest.approx(0.8)
    assert dynamite.accuracy.deviation == pytest.approx(0.02**0.5)
    assert dynamite.rounds == Spread(2.5, pytest.approx(0.5**0.5), 2.0, 3.0)  # type: ignore[arg-type]
    assert (dynamite.reached, fedavg.reached) == (1, 1)
    assert dynamite.seconds_to_target == Spread(20.0, None, 20.0, 20.0)
    assert fedavg.cost_to_target == Spread(4.0, None, 4.0, 4.0)
    assert [row.seconds_to_target for row in summed_up(RESULTS, target=0.95)] == [None, None]


def test_target_by_hand() -> None:
    assert target_of(RESULTS, 0.9).accuracy == 0.9
    assert target_of(RESULTS, 0.9).mean_of is None
    default = target_of(RESULTS, None)
    assert default.accuracy == pytest.approx(0.7)
    assert default.mean_of == "fedavg"
    without = target_of(RESULTS[:2], None)
    assert without.accuracy == pytest.approx(0.8)
    assert without.mean_of == "dynamite"


def test_share_of_the_way_by_hand() -> None:
    fedavg, best = {0: 0.6, 1: 0.8}, {0: 0.9, 1: 0.9}  # gaps of 0.3 and 0.1: 0.2 ± 0.14
    assert covered({0: 0.8, 1: 0.8}, fedavg, best) == pytest.approx(0.5)
    assert covered(best, fedavg, best) == pytest.approx(1.0)
    assert covered({0: 0.5, 1: 0.8}, fedavg, best) == pytest.approx(-0.25)
    assert covered({0: 0.7}, fedavg, best) == pytest.approx(1 / 3, abs=1e-6)  # one seed in common
    assert covered({}, fedavg, best) is None
    noisy = {0: 0.9, 1: 0.7}  # gaps of 0.3 and -0.1: 0.1 ± 0.28
    assert covered(best, fedavg, noisy) is None
    assert covered(fedavg, fedavg, fedavg) is None


def test_hindsight_by_hand() -> None:
    pairs = [result("fixed-1x8", 0, 0.7), result("fixed-5x4", 0, 0.95), result("fixed-2x9", 0, 0.9)]
    tried = ranked(pairs)
    assert list(tried.items()) == [(Pair(5, 4), 0.95), (Pair(2, 9), 0.9), (Pair(1, 8), 0.7)]
    later = [result("fixed-5x4", 1, 0.85), result("fixed-2x9", 1, 0.96)]
    rows = summed_up(RESULTS, 0.5)
    fedavg = rows[1]
    found = look_back(tried, [*summed_up([*pairs, *later], 0.5), fedavg], rows, fedavg)
    assert found is not None
    assert found.best.contender == "fixed-2x9"  # 0.93 over both seeds, against 0.9
    assert found.gap == pytest.approx(0.23)
    assert found.deviation == pytest.approx(0.14 / 2**0.5)  # of 0.3 and 0.16
    assert found.covered["dynamite"] == pytest.approx(0.1 / 0.23, abs=1e-6)
    assert found.covered["fedavg"] == 0


def test_grid_leaves_out_what_does_not_fit() -> None:
    fleet = Fleet(samples=[50, 90], gradient_variance=1, samples_per_second=100, comm_seconds=0.5)
    limits = Limits(
        deadline=10, budget=1e6, cost_per_sample=0.1, cost_per_round=0, rounds=10, max_local_steps=8
    )
    pairs = grid(fleet, limits, known=Pair(2, 60))
    assert {pair.local_steps for pair in pairs} == {1, 2, 5}
    assert Pair(2, 60) not in pairs
    # The deadline leaves 0.5 s a round: 50 samples in one step, 25 in each of two, 10 of five.
    assert {Pair(1, 50), Pair(1, 25), Pair(1, 12), Pair(2, 25), Pair(5, 10)} <= set(pairs)
    assert Pair(1, 90) in pairs  # by the budget alone all data fit
    assert outline(fleet, limits, pairs) == [Pair(1, 50), Pair(2, 25), Pair(5, 10)]
    pairs = grid(fleet, limits, known=Pair(2, 25))
    assert outline(fleet, limits, pairs) == [Pair(1, 50), Pair(2, 22), Pair(5, 10)]
    hurried = Limits(deadline=0.52, budget=1e6, cost_per_sample=0.1, cost_per_round=0, rounds=9)
    assert grid(fleet, hurried) == [Pair(1, 1), Pair(1, 2), Pair(2, 1)]  # fewer rounds, one
