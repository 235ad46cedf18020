"""The command that repeats runs."""

import pytest

from dynamite_fl.report.contents import ReportedRun
from dynamite_fl.report.repeat_command import how_to_repeat, job_differences
from dynamite_fl.training.history import History

RATE = "learning_rate = "


def run(contender: str, seed: int = 0, job: str = "", settings: str = "") -> ReportedRun:
    controller = contender.partition("+")[0].partition("@")[0]
    buffer = contender.partition("+")[2]
    text = f'[controller]\nname = "{controller}"\n{settings}\n[training]\nseed = {seed}\n{job}'
    if buffer:
        text += f'\n[stream]\nbuffer = "{buffer}"\n'
    return ReportedRun(
        name=f"{contender}-{seed}",
        folder=f"runs/{contender}-{seed}",
        contender=contender,
        controller=controller,
        about="",
        seed=seed,
        history=History(),
        is_complete=True,
        limits=None,
        ended=None,
        devices=(),
        job=text,
    )


@pytest.mark.parametrize(
    ("runs", "command"),
    [
        (
            [run("dynamite"), run("fedavg"), run("fedavg", 1)],
            "dynamite compare job.toml --controllers dynamite,fedavg --seeds 2",
        ),
        (
            [run("fedavg+fifo"), run("fedavg+reservoir")],
            "dynamite compare job.toml --controllers fedavg --buffers fifo,reservoir --seeds 1",
        ),
        (
            [run("fedavg"), run("fixed-5x20")],
            "dynamite compare job.toml --controllers fedavg --seeds 1 --hindsight",
        ),
        ([run("fedavg"), run("dbfl", job="cohort = 3")], "dynamite run job.toml"),
        (
            [
                run("fedavg@0.1", job=RATE + "0.1"),
                run("fedadam@1x0.1", job=RATE + "1"),
                run("dbfl"),
            ],
            "dynamite compare job.toml --controllers fedavg@0.1,fedadam@1x0.1,dbfl --seeds 1",
        ),
        (
            [run("dbfl"), *(run(f"fedexp@{rate}", job=f"{RATE}{rate}") for rate in (0.1, 0.3, 1))],
            "dynamite compare job.toml --controllers dbfl --seeds 1 --tune fedexp",
        ),
        (
            [run("dbfl", job=RATE + "1"), run("fedavg", job=RATE + "2")],
            "dynamite run job.toml",
        ),
    ],
)
def test_commands(runs: list[ReportedRun], command: str) -> None:
    assert how_to_repeat(runs).command == command


def test_the_job_of_the_one_contender_with_settings_is_used() -> None:
    runs = [run("dynamite"), run("fedavg", settings="local_steps = 3")]
    assert how_to_repeat(runs).run == "fedavg-0"
    runs = [run("dynamite", settings="first_batch = 9"), run("fedavg", settings="local_steps = 3")]
    assert how_to_repeat(runs).command == "dynamite run job.toml"


def test_runs_of_different_jobs_are_noted() -> None:
    assert job_differences([run("fedavg"), run("dynamite", 3)]) == []
    (note,) = job_differences([run("fedavg"), run("dynamite", job="cohort = 3")])
    assert "they differ in training" in note
