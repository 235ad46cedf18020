"""``dynamite run``."""

import errno
import json
import re
import resource
import tomllib
from itertools import count
from pathlib import Path
from typing import BinaryIO

import pytest
from click.testing import Result

from dynamite_fl import _atomic
from dynamite_fl.training.history import read_history
from dynamite_fl.training.server_optimizer import SERVER_OPTIMIZERS, make_server, server_table
from tests._cli.commands import dynamite, invoke
from tests.processes import main, run_forked

SHORT = (
    *("--set", "limits.rounds=12", "--set", "limits.max_local_steps=10"),
    *("--set", "task.model=softmax"),
)
STREAM = ("--set", 'stream={preset="smooth-c", scale=0.01, every=3, size=10, buffer_size=60}')


def trained(runs: Path, *more: str, name: str = "a") -> Path:
    result = invoke("run", "--runs", runs, "--name", name, *SHORT, *more)
    assert result.exit_code == 0, result.stderr
    return runs / name


def test_a_run_leaves_its_folder(tmp_path: Path) -> None:
    folder = trained(tmp_path)
    assert {path.name for path in folder.iterdir()} == {
        "checkpoint.safetensors",
        "ended.txt",
        "history.jsonl",
        "job.toml",
        "model.safetensors",
        "run.json",
    }
    history = read_history(folder / "history.jsonl")
    assert len(history) == 12
    assert history.final > 0.3


def test_the_first_line_comes_before_pytorch_is_loaded(tmp_path: Path) -> None:
    """A person sees something at once; the accuracy is shown only when there is one."""
    watch = "import sys, typer; echo = typer.echo\n"
    watch += "typer.echo = lambda text, **k: echo(f'{text} {\"torch\" in sys.modules}', **k)"
    small = ("--set", "limits.rounds=2", "--set", "task={model='softmax', dataset='synthetic'}")
    result = dynamite("run", "--runs", tmp_path, "--name", "a", *small, before=watch)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == f"Training in {tmp_path / 'a'} False"
    assert "nan" not in result.stdout + result.stderr


@pytest.mark.parametrize("controller", ["dynamite-feedback", "dynamite", "fedavg"])
@pytest.mark.parametrize(("limit", "value"), [("deadline", 0.1), ("budget", 0.5)])
def test_the_smallest_change_of_a_limit_is_enough_and_no_more(
    tmp_path: Path, controller: str, limit: str, value: float
) -> None:
    def run(value: float, name: str) -> Result:
        changes = (f"limits.{limit}={value!r}", f"controller={controller}", "task.model=softmax")
        options = (word for change in changes for word in ("--set", change))
        return invoke("run", "--runs", tmp_path, "--name", name, *options, "--json")

    refused = run(value, "a")
    assert refused.exit_code == 3
    advice = re.search(rf"The smallest change: {limit} = ([\d.]*\d)", refused.output)
    assert advice is not None, refused.output
    needed = float(advice[1])
    enough = run(needed, "b")
    assert enough.exit_code == 0, enough.output
    assert json.loads(enough.stdout)["round"] >= 1
    assert run(needed * (1 - 1e-6), "c").exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_the_resolved_job_repeats_the_run(tmp_path: Path) -> None:
    more = ["limits.budget=inf", "devices=testbed5", "server=fedyogi", "training.warmup=0.1"]
    more.append("training.learning_rate=0.05")
    folder = trained(tmp_path, *(word for each in more for word in ("--set", each)))
    again = invoke("run", folder / "job.toml", "--runs", tmp_path, "--name", "b")
    assert again.exit_code == 0, again.stderr
    for name in ("history.jsonl", "model.safetensors", "job.toml"):
        assert (folder / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("server", SERVER_OPTIMIZERS)
def test_a_run_with_each_server_and_a_falling_rate(tmp_path: Path, server: str) -> None:
    words = ["--set", f"server={server}", "--set", "training.schedule=cosine"]
    words += ["--set", "training.learning_rate=0.05"]
    folder = trained(tmp_path, *words)
    history = read_history(folder / "history.jsonl")
    assert history.final > 0.3
    rates = [record.learning_rate or 0.0 for record in history]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > rates[-1] > 0
    job = tomllib.loads((folder / "job.toml").read_text())
    assert job["server"] == server_table(make_server(server))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("controller.name=dynamit", "did you mean 'dynamite'?"),
        ("controller.speed=3", "dynamite-feedback has no setting 'speed'"),
        ("controller={name=3}", "controller needs a name"),
        ("server=fedadm", "did you mean 'fedadam'?"),
        ("server={name='fedadam', beta=1}", "server fedadam has no setting 'beta'"),
        ("training.schedule=linaer", "did you mean 'linear'?"),
        ("task.model=sofmax", "did you mean 'softmax'?"),
        ("task.dataset=mnits", "mnits"),
        ("task=nowhere:make", "nowhere"),
        ("partition.kind=dirichle", "did you mean 'dirichlet'?"),
        ("partition.alpha=-1", "alpha"),
        ('partition={kind="wang"}', "partition wang lacks the key 'case'"),
        ("devices.latency=-1", "latency"),
        ("devices=nowhere.csv", "nowhere.csv cannot be read"),
        ("training.learning_rate=0", "training.learning_rate is 0"),
        ("training.learning_rate=abc", "training.learning_rate is 'abc'"),
        ("training.seed=1.5", "training.seed is 1.5"),
        ("training.cohort=2.5", "training.cohort is 2.5"),
        ("training.sead=1", "did you mean 'seed'?"),
        ("training.track=mlflow", "training.track must be a list"),
        ("limits.dedline=1", "did you mean 'deadline'?"),
        ("limits=3", "limits must be a table"),
        ('stream="burst"', "stream must be a table"),
        ("stream.preset=smoth-i", "did you mean 'smooth-i'?"),
        ('stream={preset="burst", scale=2}', "stream.scale is 2"),
        ("stream.scale=0.5", "stream.preset"),
        ('stream={preset="burst", bufer="fifo"}', "did you mean 'buffer'?"),
        ('stream={preset="burst", every=3}', "stream.every is not for arrivals 'burst'"),
        ("stream.preset=random limits.rounds=none", "stream.rounds"),
    ],
)
def test_a_job_that_cannot_be_used_is_one_line_and_leaves_nothing(
    tmp_path: Path, change: str, complaint: str
) -> None:
    changes = change.split(" ") if " limits" in change else [change]
    words = [word for each in changes for word in ("--set", each)]
    result = invoke("run", "--runs", tmp_path, "--name", "a", *words)
    assert result.exit_code == 2, result.stderr
    assert complaint in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "a").exists()


def test_impossible_limits_end_with_3(tmp_path: Path) -> None:
    result = invoke("run", "--runs", tmp_path, "--name", "a", "--set", "limits.deadline=0.1")
    assert result.exit_code == 3
    assert "deadline" in result.stderr
    assert not (tmp_path / "a").exists()


def test_a_run_on_a_stream_shows_what_it_has_forgotten(tmp_path: Path) -> None:
    folder = trained(tmp_path, *STREAM, "--set", "controller.name=dynamite")
    history = read_history(folder / "history.jsonl")
    last = history[-1]
    assert set(last.class_accuracy or {}) == {str(label) for label in range(10)}
    assert last.stream_loss is not None
    assert last.stream_loss > 0
    assert "drift" in last.estimates
    shown = invoke("show", folder).stdout
    worst = history.worst_class
    assert worst is not None
    assert f"{worst[0]}, {worst[1]:.1%}" in shown
    assert f"{last.stream_loss:.3f}" in shown
    assert json.loads(invoke("show", folder, "--json").stdout)["stream_loss"] > 0


def test_a_run_is_not_overwritten(tmp_path: Path) -> None:
    folder = trained(tmp_path)
    before = (folder / "history.jsonl").read_bytes()
    result = invoke("run", "--runs", tmp_path, "--name", "a", *SHORT)
    assert result.exit_code == 2
    assert "exists already" in result.stderr
    assert (folder / "history.jsonl").read_bytes() == before


@pytest.mark.parametrize(("model", "rate", "rounds"), [("perceptron", 1e25, 12), ("svm", 1.0, 150)])
def test_a_training_that_diverges_says_what_to_change(
    tmp_path: Path, model: str, rate: float, rounds: int
) -> None:
    """At once, or slowly, while gradients are finite but too large to plan with."""
    change = [f"training.learning_rate={rate}", f"task.model={model}", f"limits.rounds={rounds}"]
    more = [word for each in change for word in ("--set", each)]
    result = invoke("run", "--runs", tmp_path, "--name", "a", *more)
    assert result.exit_code == 2
    assert "set training.learning_rate to" in result.stderr


def test_a_full_disk_is_said_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    """A limit on the size of files that is smaller than a checkpoint stands for the disk."""
    words = ("run", "--runs", tmp_path, "--name", "a", *SHORT, "--set", "controller.name=dynamite")

    def run() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        main(*words)

    assert run_forked(run, tmp_path / "output.txt") == 2
    assert "File too large" in (tmp_path / "output.txt").read_text()
    assert not (tmp_path / "a" / "checkpoint.safetensors").exists()
    assert not list((tmp_path / "a").glob(".writing-*"))


@pytest.mark.parametrize("command", ["run", "compare", "serve", "cluster", "node"])
@pytest.mark.parametrize("name", ["../x", "..", "a/b", "/tmp/x", "a" * 300, "a\nb"])  # noqa: S108
def test_a_name_does_not_lead_out_of_the_folder_of_runs(
    tmp_path: Path, command: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    result = invoke(command, "--name", name)
    assert result.exit_code == 2
    assert "it must be the name of a folder" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.rglob("*")] == ["here"]


def test_a_name_is_no_markup(tmp_path: Path) -> None:
    folder = trained(tmp_path, name="[bold]x")
    assert "[bold]x" in invoke("show", folder).stdout
    folder = trained(tmp_path, name="[oops]")
    (folder / "history.jsonl").write_text("")
    for name in ("ended.txt", "checkpoint.safetensors"):
        (folder / name).unlink()
    assert "[oops]:noroundwasplayedyet" in "".join(invoke("show", folder).stdout.split())


@pytest.mark.parametrize("file", ["run.json", "job.toml", "history.jsonl"])
def test_a_full_disk_at_the_start_leaves_nothing_in_the_way(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", "--runs", tmp_path, "--name", "a", *SHORT)
    writes = count()

    def write_until_full(file_object: BinaryIO, content: bytes) -> None:
        if next(writes) >= ["run.json", "job.toml", "history.jsonl"].index(file):
            raise OSError(errno.ENOSPC, "No space left on device")
        write_out(file_object, content)

    write_out = _atomic.write_out
    with monkeypatch.context() as full:
        full.setattr(_atomic, "write_out", write_until_full)
        result = invoke(*words)
    assert result.exit_code == 2
    assert f"{file} cannot be written: No space left on device" in result.stderr
    if file == "history.jsonl":
        assert invoke("resume", tmp_path / "a").exit_code == 0
    else:
        assert not (tmp_path / "a").exists()
        assert invoke(*words).exit_code == 0


def test_a_run_that_was_killed_before_it_began_can_begin(tmp_path: Path) -> None:
    """A kill leaves the folder, the run's identity, its lock and a file that is not whole."""
    (tmp_path / "a").mkdir()
    for name in ("run.json", ".lock", ".writing-x"):
        (tmp_path / "a" / name).write_text("half")
    trained(tmp_path)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "photo.jpg").touch()
    result = invoke("run", "--runs", tmp_path, "--name", "b", *SHORT)
    assert result.exit_code == 2
    assert "exists already" in result.stderr


def test_a_changed_job_is_noticed(tmp_path: Path) -> None:
    """The number of workers may be changed, as it changes no result."""
    folder = trained(tmp_path)
    job = folder / "job.toml"
    text = job.read_text()
    job.write_text(text.replace("workers = 1", "workers = 2"))
    assert invoke("show", folder).exit_code == 0
    job.write_text(text.replace("seed = 0", "seed = 1"))
    for command in ("show", "resume"):
        result = invoke(command, folder)
        assert result.exit_code == 2
        assert "job.toml was changed after the run began" in result.stderr
