"""Trackers, by what their own libraries read back."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from mlflow import MlflowClient
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

from dynamite_fl.cli import app
from dynamite_fl.compare import contenders_of, runs_of
from dynamite_fl.compare_runs import play_all
from dynamite_fl.compare_view import CompareView
from dynamite_fl.engine.run import RunFolder, run, save
from dynamite_fl.report.history import read_history
from dynamite_fl.report.tracking import METRICS, Tracked, metrics, tracking
from dynamite_fl.run_command import start_run
from dynamite_fl.run_config import load_training_job, make_training, to_toml
from tests.report.runs import SHORT

pytestmark = [
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:mlflow"),
]


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)


def tracked(folder: Path, overrides: tuple[str, ...] = ()) -> tuple[Tracked, Any]:
    job = load_training_job(overrides=[*SHORT, *overrides])
    folder.mkdir(parents=True, exist_ok=True)
    run_folder = RunFolder(folder)
    run_folder.job.write_text(to_toml(job.tables))
    return Tracked(folder, run_folder.history, to_toml(job.tables), job.tables), make_training(job)


def expected(folder: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for line in read_history(folder / "history.jsonl").lines:
        for name, value in metrics(line).items():
            found.setdefault(name, []).append((line["round"], value))
    assert len(found["seconds"]) == 12
    assert len(found["accuracy"]) == 6
    return found


def in_tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    job = events.Tensors("job/text_summary")[0].tensor_proto.string_val[0].decode()
    assert (folder / "job.toml").read_text() in job
    names = events.Tags()["scalars"]
    return {name: [(each.step, each.value) for each in events.Scalars(name)] for name in names}


def runs_in(client: MlflowClient, name: str) -> list[Any]:
    experiment = client.get_experiment_by_name(name)
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def in_mlflow(folder: Path) -> dict[str, list[tuple[int, float]]]:
    client = MlflowClient(tracking_uri=f"sqlite:///{folder.parent / 'mlflow.db'}")
    (found,) = runs_in(client, "dynamite")
    assert found.info.run_name == folder.name
    assert found.data.params["limits.rounds"] == "12"
    assert found.data.params["controller.name"] == "dynamite-feedback"
    path = client.download_artifacts(found.info.run_id, "job.toml", str(folder))
    assert Path(path).read_text() == Path(folder / "job.toml").read_text()
    return {
        name: [
            (each.step, each.value) for each in client.get_metric_history(found.info.run_id, name)
        ]
        for name in METRICS
        if name in found.data.metrics
    }


READERS: dict[str, Callable[[Path], dict[str, list[tuple[int, float]]]]] = {
    "tensorboard": in_tensorboard,
    "mlflow": in_mlflow,
}


def assert_same(found: dict[str, Any], wanted: dict[str, list[tuple[int, float]]]) -> None:
    assert set(found) == set(wanted)
    for name, points in wanted.items():
        assert [step for step, _ in found[name]] == [step for step, _ in points]
        assert [value for _, value in found[name]] == pytest.approx([v for _, v in points])


@pytest.mark.parametrize("name", READERS)
def test_one_line_in_the_job_is_enough(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "runs" / "a"
    start_run(folder, None, [*SHORT, f'training.track=["{name}"]'], None, as_json=True)
    assert_same(READERS[name](folder), expected(folder))


@pytest.mark.parametrize("name", READERS)
def test_a_resume_tells_no_round_twice(tmp_path: Path, name: str) -> None:
    """Killed after round 8, with a checkpoint of round 5: rounds 6 to 8 are played once more."""
    folder = tmp_path / "runs" / "a"
    told, training = tracked(folder)
    with tracking([name], told, pytest.fail) as track:
        for progress, line in run(training, RunFolder(folder)):
            assert line is not None
            track(line)
            if line["round"] == 5:
                save(training, RunFolder(folder), progress)
            if line["round"] == 8:
                break
    told, training = tracked(folder)
    with tracking([name], told, pytest.fail) as track:
        rounds = []
        for _, line in run(training, RunFolder(folder)):
            assert line is not None
            rounds.append(line["round"])
            track(line)
    assert rounds == list(range(6, 13))
    assert_same(READERS[name](folder), expected(folder))


def test_a_tracker_that_fails_does_not_stop_the_training_and_catches_up(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    told, training = tracked(folder)
    words: list[str] = []
    with tracking(["tensorboard"], told, words.append) as track:
        for _, line in run(training, RunFolder(folder)):
            assert line is not None
            events = folder / "tensorboard"
            if line["round"] == 1:
                events.write_text("in the way")  # no folder can be made here
            if line["round"] == 4:
                events.unlink()
            track(line)
    assert len(words) == 1
    assert "tensorboard cannot be told of rounds" in words[0]
    assert_same(in_tensorboard(folder), expected(folder))


def test_what_was_missed_is_told_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    told, training = tracked(folder)
    words: list[str] = []
    with tracking(["tensorboard"], told, words.append) as track:
        (folder / "tensorboard").write_text("in the way")
        for _, line in run(training, RunFolder(folder)):
            assert line is not None
            track(line)
        (folder / "tensorboard").unlink()
    assert len(words) == 1
    assert_same(in_tensorboard(folder), expected(folder))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a server of MLflow's is asked for that can answer nothing."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(503)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}/[/red]")
        yield paths
        server.shutdown()


def test_a_server_that_is_away_is_asked_less_and_less(
    tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """After rounds 1, 2, 4 and 8 and at the end, and once again each time."""
    job = [*SHORT, 'training.track=["mlflow"]']
    start_run(tmp_path / "a", None, job, None, as_json=True)
    assert len(asked) == 10
    said = capsys.readouterr().err
    assert said.count("mlflow cannot be told of rounds") == 1
    assert "/[/red]/api" in said  # no markup of ours


def test_a_comparison_says_that_a_tracker_cannot_be_reached(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["compare", "--set", 'training.track=["mlflow"]'])
    assert asked
    assert result.exit_code == 2
    assert "training.track has mlflow, which cannot be used" in result.stderr


class Impatient(CompareView):
    """One who interrupts all at the first news."""

    def moved(self, *_: object) -> None:
        raise KeyboardInterrupt


def in_processes(folder: Path, view: CompareView, *overrides: str) -> dict[str, str]:
    job = load_training_job(overrides=[*SHORT, 'training.track=["mlflow"]', *overrides])
    return play_all(runs_of(job, contenders_of(job, ["fedavg"]), [0], folder), None, 1, view)


def test_a_run_of_a_comparison_says_that_its_tracker_fails(
    tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert in_processes(tmp_path, CompareView(Console(width=200)), "limits.rounds=1") == {}
    assert asked
    assert "fedavg-0: mlflow cannot be told of rounds: " in capsys.readouterr().out


def test_a_run_that_is_interrupted_is_not_finished_for_mlflow(tmp_path: Path) -> None:
    endless = ("limits.rounds=100000", "limits.deadline=1e9", "limits.budget=1e9")
    with pytest.raises(KeyboardInterrupt):
        in_processes(tmp_path, Impatient(Console()), *endless)
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    (found,) = runs_in(client, "dynamite")
    assert found.info.status == "KILLED"
    assert (tmp_path / "fedavg-0" / "checkpoint.safetensors").exists()


def test_mlflow_goes_where_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'elsewhere.db'}")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "a"
    told, training = tracked(folder, ("limits.rounds=2",))
    with tracking(["mlflow"], told, pytest.fail) as track:
        for _, line in run(training, RunFolder(folder)):
            assert line is not None
            track(line)
    assert not (tmp_path / "runs" / "mlflow.db").exists()
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'elsewhere.db'}")
    (found,) = runs_in(client, "mine")
    assert found.info.status == "FINISHED"
    assert found.data.metrics["seconds"] == read_history(folder / "history.jsonl").last("seconds")


@pytest.mark.parametrize("name", READERS)
def test_a_missing_extra_is_an_error_before_anything_is_done(tmp_path: Path, name: str) -> None:
    script = f"""
import sys
from importlib import util
found = util.find_spec
util.find_spec = lambda module, *more: None if module == {name!r} else found(module, *more)
from dynamite_fl.cli import app
app(["run", "--runs", {str(tmp_path)!r}, "--name", "a", "--set", 'training.track=["{name}"]'])
"""
    result = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 2, result.stderr
    assert f"pip install 'dynamite-fl[{name}]'" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", ['"tensorboard"', '["wandb"]'])
def test_unknown_trackers_are_refused(value: str) -> None:
    job = load_training_job(overrides=[f"training.track={value}"])
    with pytest.raises(ValueError, match=r'training.track must be a list of some of "tensorboard"'):
        make_training(job)
