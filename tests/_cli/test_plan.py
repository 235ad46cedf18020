import csv
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynamite_fl
from dynamite_fl import cooptimize, uniform_plan
from dynamite_fl.job.planning import load_planning_job
from tests._cli.commands import dynamite, invoke
from tests.processes import HANG_SECONDS, start_command


def answer(*arguments: str | Path) -> dict[str, Any]:
    result = invoke("plan", "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout, parse_constant=pytest.fail)
    return found


def test_json_is_the_plan() -> None:
    job = load_planning_job()
    plan = cooptimize(job.fleet, job.limits, job.geometry)
    found = answer()
    assert found["local_steps"] == plan.local_steps
    assert found["batch_sizes"] == plan.batch_sizes.tolist()
    assert found["rounds"] == 3000
    assert found["seconds"] == plan.seconds
    assert found["cost"] == plan.cost
    assert found["bound"] == plan.bound
    assert found["binding"] == list(plan.binding)
    assert found["clients"][0] == "small-1"
    assert max(found["round_seconds"]) * 3000 == pytest.approx(plan.seconds)
    assert found["held_by"].count("deadline") == 4
    uniform = uniform_plan(job.fleet, job.limits, job.geometry)
    assert found["uniform"]["bound"] == uniform.bound
    assert found["fedavg"]["batch_size"] == 60
    curve = found["bound_by_local_steps"]
    assert curve["local_steps"] == list(range(1, 101))
    assert curve["bound"][plan.local_steps - 1] == pytest.approx(plan.bound)
    assert curve["bound"][-1] is None  # 100 local steps do not fit


def test_json_chooses_rounds() -> None:
    found = answer("--set", "limits.rounds=none", "--set", "limits.deadline=inf")
    assert found["rounds"] > 3000
    assert found["limits"]["rounds"] is None
    assert found["limits"]["deadline"] is None


def test_a_person_sees_plan_limits_batches_and_alternatives() -> None:
    result = invoke("plan")
    assert result.exit_code == 0
    assert result.stderr == ""
    job = load_planning_job()
    plan = cooptimize(job.fleet, job.limits, job.geometry)
    lines = result.stdout.splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line.startswith(("small", "large"))}
    for name, size in zip(job.fleet.name or (), plan.batch_sizes, strict=True):
        if name in rows:
            assert rows[name][5] == str(size)
    for text in (
        "local steps  6",
        "4,959.4 of      5,000.0",
        "9,996.0 of     10,000.0",
        "the budget, which pays for no more samples",
        "the deadline, for 4 devices",
        "FedAvg's default",
        "same batch for all",
        "▲▲▲ 6",
    ):
        assert text in result.stdout


def test_many_clients_are_summed_up(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["samples,gradient_variance,samples_per_second,comm_seconds"]
    lines += [
        f"{rng.integers(10, 999)},{rng.lognormal():.3f},{rng.integers(50, 400)},0.2"
        for _ in range(1000)
    ]
    (tmp_path / "fleet.csv").write_text("\n".join(lines))
    fleet = f"fleet={tmp_path / 'fleet.csv'}"
    budget = ("--set", "limits.budget=400000", "--set", "limits.cost_per_round=100")
    result = invoke("plan", "--set", fleet, *budget)
    assert result.exit_code == 0, result.stderr
    assert "The best plan for 1,000 devices" in result.stdout
    assert "median" in result.stdout
    sizes = np.array(answer("--set", fleet, *budget)["batch_sizes"])
    assert f"{sizes.min()} to {sizes.max()}" in result.stdout
    bars = [line.split() for line in result.stdout.splitlines() if line.rstrip().endswith("█")]
    assert sum(int(bar[-2].replace(",", "")) for bar in bars if bar[-2].isdigit()) > 900


def test_csv_has_a_line_for_each_client(tmp_path: Path) -> None:
    result = invoke("plan", "--csv", tmp_path / "batches.csv")
    assert result.exit_code == 0
    with (tmp_path / "batches.csv").open() as file:
        rows = list(csv.DictReader(file))
    job = load_planning_job()
    plan = cooptimize(job.fleet, job.limits, job.geometry)
    assert [int(row["batch_size"]) for row in rows] == plan.batch_sizes.tolist()
    assert [row["name"] for row in rows] == list(job.fleet.name or ())
    slowest = max(float(row["round_seconds"]) for row in rows)
    assert plan.seconds == pytest.approx(3000 * slowest)
    assert {row["held_by"] for row in rows} == {"", "deadline"}


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_bad_jobs_end_with_2(json_too: list[str]) -> None:
    result = invoke("plan", "--set", "limits.deadlin=5", *json_too)
    assert result.exit_code == 2
    assert result.stderr == "dynamite: limits has no key 'deadlin': did you mean 'deadline'?\n"
    if json_too:
        assert "did you mean 'deadline'?" in json.loads(result.stdout)["error"]
    else:
        assert result.stdout == ""


def test_infeasible_limits_end_with_3() -> None:
    result = invoke("plan", "--json", "--set", "limits.deadline=1000")
    assert result.exit_code == 3
    assert "deadline = 1316.408164, or rounds = 2278" in result.stderr
    (miss,) = json.loads(result.stdout)["infeasible"]["misses"]
    assert miss["limit"] == "deadline"
    assert miss["needed"] == pytest.approx(1316.41, rel=1e-5)


def test_a_csv_file_that_cannot_be_written(tmp_path: Path) -> None:
    result = invoke("plan", "--csv", tmp_path / "gone" / "batches.csv")
    assert result.exit_code == 2
    assert "cannot be written: No such file or directory" in result.stderr


def test_a_learning_rate_beyond_the_proof_is_warned_of_in_one_line() -> None:
    result = dynamite("plan", "--set", "geometry.learning_rate=1")
    assert result.returncode == 0
    assert result.stderr.startswith("warning: geometry.learning_rate is 1, above")
    assert len(result.stderr.splitlines()) == 1


def test_a_csv_file_never_replaces_what_the_job_is_read_from(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text((Path(dynamite_fl.__file__).parent / "job" / "planning.toml").read_text())
    result = invoke("plan", job, "--csv", job)
    assert result.exit_code == 2
    assert "would replace a file that the job is read from" in result.stderr
    assert "[limits]" in job.read_text()


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_no_terminal_is_too_narrow(columns: int) -> None:
    result = invoke("plan", columns=columns)
    assert result.exit_code == 0
    assert all(len(line) <= columns for line in result.stdout.splitlines())
    assert "medium-7" in result.stdout


def test_a_terminal_without_unicode() -> None:
    result = dynamite("plan", encoding="ascii")
    assert result.returncode == 0
    assert result.stderr == ""
    assert "The best plan for 20 devices" in result.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_said_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        process = start_command("plan", stdout=full.fileno(), stderr=subprocess.PIPE)
        _, errors = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 2
    assert errors == "dynamite: the output cannot be written: No space left on device\n"


def test_endless_limits_are_bad_input() -> None:
    endless = [f"limits.{name}=1e29" for name in ("deadline", "budget")]
    result = invoke("plan", *(f"--set={each}" for each in ("limits.rounds=none", *endless)))
    assert result.exit_code == 2
    assert result.stderr.startswith("dynamite: limits.rounds is needed")


def test_help_has_examples() -> None:
    result = invoke("plan", "--help")
    assert result.exit_code == 0
    assert "dynamite plan --set limits.deadline=2000" in result.stdout
    assert "plan" in invoke("-h").stdout
    assert invoke("--version").stdout.startswith("dynamite 0.")


def test_fedavg_that_does_not_fit_once() -> None:
    found = answer("--set", "limits.rounds=1", "--set", "limits.deadline=1.2")
    assert found["fedavg"] is None
    shown = invoke("plan", "--set", "limits.rounds=1", "--set", "limits.deadline=1.2").stdout
    assert "does not fit" in shown


def test_one_client_and_no_limits() -> None:
    fleet = "fleet={samples=[5], gradient_variance=1, samples_per_second=9, comm_seconds=0}"
    free = ("--set", fleet, "--set", "limits.deadline=inf", "--set", "limits.budget=inf")
    found = answer(*free)
    assert found["batch_sizes"] == [5]
    assert math.isfinite(found["bound"])
    assert "no limit" in invoke("plan", *free).stdout


TRAINING_JOB = """
task = { model = "softmax", dataset = "synthetic" }
devices = "testbed5"
limits = { deadline = 60, budget = 90, cost_per_sample = 0.001, cost_per_round = 1 }
training = { learning_rate = 0.05 }
"""


def test_a_training_job_can_be_planned_and_run(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(TRAINING_JOB)
    nominal, measured = answer(job), answer(job, "--pilot")
    assert len(nominal["batch_sizes"]) == 5
    assert nominal["gradient_variance"] == [1.0] * 5
    assert measured["gradient_variance"] != nominal["gradient_variance"]
    assert measured["geometry"] != nominal["geometry"]
    assert measured["geometry"]["learning_rate"] == 0.05
    shown = invoke("plan", job)
    assert shown.exit_code == 0, shown.stderr
    assert "The devices have their nominal speeds." in shown.stdout
    short = ("--set", "limits.rounds=2", "--runs", tmp_path)
    assert invoke("run", job, *short).exit_code == 0


def test_training_jobs_that_cannot_be_planned(tmp_path: Path) -> None:
    job, planning = tmp_path / "job.toml", tmp_path / "planning.toml"
    job.write_text(TRAINING_JOB)
    refused = invoke("plan", job, "--set", "limits.budget=0.5", "--json")
    assert refused.exit_code == 3
    (miss,) = json.loads(refused.stdout)["infeasible"]["misses"]
    assert miss["limit"] == "budget"
    assert answer(job, "--set", f"limits.budget={miss['needed']!r}")["rounds"] == 1
    planning.write_text("[limits]\n[geometry]\n[fleet]\n")
    refused = invoke("plan", planning, "--pilot")
    assert refused.exit_code == 2
    assert "--pilot needs a training job" in refused.stderr
    replaced = invoke("plan", job, "--csv", job)
    assert replaced.exit_code == 2
    assert "would replace a file that the job is read from" in replaced.stderr
