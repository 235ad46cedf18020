from pathlib import Path

import pytest

from dynamite_fl.errors import JobError
from dynamite_fl.job.planning import load_planning_job

JOB = """
fleet = "fleet.csv"

[limits]
deadline = 100
budget = 50
cost_per_sample = 0.01
cost_per_round = 1

[geometry]
learning_rate = 0.01
quadratic_bound = 1
smoothness = 1
pl_constant = 0.1
divergence = 1
loss_gap = 2
"""
FLEET = """name,samples,gradient_variance,samples_per_second,comm_seconds
ward,100,2.5,40,0.1
lab,300,1.0,90,0.3
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "fleet.csv").write_text(FLEET)
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path / "job.toml"


def test_a_job_with_a_fleet_file_beside_it(job: Path) -> None:
    loaded = load_planning_job(job)
    assert loaded.fleet.name == ("ward", "lab")
    assert loaded.fleet.samples.tolist() == [100, 300]
    assert loaded.fleet.step_overhead.tolist() == [0, 0]
    assert loaded.limits.rounds is None
    assert loaded.geometry.loss_gap == 2


def test_the_embedded_job_is_like_the_papers() -> None:
    job = load_planning_job()
    assert len(job.fleet) == 20
    assert job.fleet.samples.sum() == 50_000
    assert (job.limits.rounds, job.limits.deadline, job.limits.budget) == (3000, 5000, 10_000)


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("limits.deadline=7", 7),
        ("limits.deadline = 7.5", 7.5),
        ("limits.deadline=inf", float("inf")),
    ],
)
def test_overrides(job: Path, override: str, value: float) -> None:
    assert load_planning_job(job, [override]).limits.deadline == value


def test_overrides_add_and_remove_keys(job: Path) -> None:
    assert load_planning_job(job, ["limits.rounds=9"]).limits.rounds == 9
    assert load_planning_job(overrides=["limits.rounds=none"]).limits.rounds is None
    assert load_planning_job(overrides=["limits.rounds=None"]).limits.rounds is None
    fleet = load_planning_job(overrides=["fleet.samples_per_second=7"]).fleet
    assert fleet.samples_per_second[19] == 7


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        (["limits.dedline=3"], "limits has no key 'dedline': did you mean 'deadline'?"),
        (["limit.deadline=3"], "the job has no key 'limit': did you mean 'limits'?"),
        (
            ["geometry.zzz=3"],
            "geometry has no key 'zzz': use one of learning_rate, quadratic_bound",
        ),
        (["geometry.loss_gap=none"], "geometry lacks the key 'loss_gap'"),
        (["fleet=none"], "the job lacks [fleet]"),
        (["limits.deadline=soon"], "limits.deadline is 'soon': it must be a number above 0"),
        (["limits.deadline"], "write it as table.key=value"),
        (["=3"], "write it as table.key=value"),
        (["limits=3"], "limits must be a table"),
        (["fleet=3"], "fleet must be a table or the name of a CSV file"),
        (["limits.dedline=none"], "limits has no key 'dedline': did you mean 'deadline'?"),
        (["fleet.step_overhead=0.1"], "fleet is not a table of keys"),
        (["limits.rounds=" + "9" * 400], "it must be a whole number, from 1 to"),
        (["limits.deadline.seconds=3"], "deadline is not a table of keys"),
        (["fleet=gone.csv"], "gone.csv cannot be read: No such file"),
    ],
)
def test_bad_jobs_say_what_to_change(job: Path, overrides: list[str], complaint: str) -> None:
    with pytest.raises(JobError) as caught:
        load_planning_job(job, overrides)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("fleet", "complaint"),
    [
        ("", "lacks the key 'samples'"),
        ("samples,gradient_variance,samples_per_second,comm_seconds\n", "has no client"),
        (FLEET.replace("comm_seconds", "com_seconds"), "did you mean 'comm_seconds'?"),
        (FLEET.replace("comm_seconds", "samples"), "lacks the key 'comm_seconds'"),
        (FLEET.replace("name,", "samples,"), "two columns of one name"),
        (FLEET.replace("300,", ""), "line 3 has 4 of 5 columns"),
        (FLEET.replace("300", "many"), "line 3: samples is 'many', not a number"),
        (FLEET.replace("90", "-90"), "fleet.samples_per_second[1] is -90"),
        (FLEET.replace("lab", "ward"), "fleet.name has 'ward' twice"),
        (FLEET.replace(",", ";"), "separate columns by commas"),
        (FLEET.replace("comm_seconds\n", "comm_seconds,\n"), "has no key ''"),
        ("x" * 200_000, "line 1: field larger than"),
    ],
)
def test_bad_fleet_files_say_what_to_change(job: Path, fleet: str, complaint: str) -> None:
    (job.parent / "fleet.csv").write_text(fleet)
    with pytest.raises(JobError) as caught:
        load_planning_job(job)
    assert complaint in str(caught.value)


def test_a_fleet_file_on_the_command_line_is_meant_from_here(
    job: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path_factory.mktemp("here")
    (here / "other.csv").write_text(FLEET + "shed,5,1,1,1\n")
    monkeypatch.chdir(here)
    loaded = load_planning_job(job, ["fleet=other.csv"])
    assert len(loaded.fleet) == 3
    assert loaded.files == (job, here / "other.csv")


def test_a_fleet_name_below_a_table_is_found(job: Path) -> None:
    head, rest = JOB.split("\n\n", 1)
    job.write_text(rest + head)
    with pytest.raises(JobError, match=r"has fleet inside \[geometry\]: write it above all"):
        load_planning_job(job)


def test_a_fleet_from_a_spreadsheet(job: Path) -> None:
    (job.parent / "fleet.csv").write_bytes(b"\xef\xbb\xbf" + FLEET.replace("\n", "\r\n").encode())
    assert load_planning_job(job).fleet.name == ("ward", "lab")
    (job.parent / "fleet.csv").write_text(FLEET.replace(",", ", ").replace("lab", '"lab, east"'))
    assert load_planning_job(job).fleet.name == ("ward", "lab, east")


def test_files_that_are_no_jobs(job: Path) -> None:
    job.write_text("[limits\n")
    with pytest.raises(JobError, match="not valid TOML"):
        load_planning_job(job)
    job.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(JobError, match="not a text file"):
        load_planning_job(job)
    with pytest.raises(JobError, match="cannot be read: Is a directory"):
        load_planning_job(job.parent)


def test_epsilon_is_for_training_jobs(job: Path) -> None:
    with pytest.raises(JobError, match=r"limits\.epsilon and limits\.delta are for training jobs"):
        load_planning_job(job, ["limits.epsilon=3"])
