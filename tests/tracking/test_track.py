"""Trackers, checked by what their own libraries read back."""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from mlflow import MlflowClient
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

from dynamite_fl._cli.all_commands import app
from dynamite_fl._cli.views.compare import CompareView
from dynamite_fl.compare.contenders import contenders_of, runs_of
from dynamite_fl.compare.parallel import run_all
from dynamite_fl.errors import InvalidInput
from dynamite_fl.job.build import build_training
from dynamite_fl.job.runs import open_run
from dynamite_fl.job.training import load_training_job
from dynamite_fl.tracking.tracker import round_metrics
from dynamite_fl.training.history import read_history
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session, Tracking
from tests._cli.commands import invoke
from tests.compare.threads import threads_for_processes
from tests.regressions import TWO_CLIENTS
from tests.report.runs import SHORT

__all__ = ["threads_for_processes"]  # a fixture
pytestmark = [
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:mlflow"),
]


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty database of MLflow; creating its tables takes seconds."""
    file = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{file}").search_experiments()
    return file


@pytest.fixture
def runs(tmp_path: Path, database: Path) -> Path:
    """Return a folder for runs that has an empty database of MLflow."""
    (tmp_path / "runs").mkdir()
    shutil.copy(database, tmp_path / "runs")
    return tmp_path / "runs"


def session(
    path: Path,
    name: str,
    warn: Callable[[str], None] = pytest.fail,
    overrides: tuple[str, ...] = (),
    **more: Any,
) -> Session:
    """Return a session that tells a tracker of its rounds."""
    job, folder = load_training_job(overrides=[*SHORT, *overrides]), RunFolder(path)
    open_run(folder, job, data={})
    return Session(build_training(job), folder, tracking=Tracking([name], job.tables, warn), **more)


class Killed(Exception):  # noqa: N818  it says what happened
    """A training that ends at once, without a last checkpoint."""


def run_job(path: Path, *overrides: str) -> None:
    """Run a job as the command does."""
    words = [word for each in (*SHORT, *overrides) for word in ("--set", each)]
    result = invoke("run", "--runs", path.parent, "--name", path.name, "--json", *words)
    assert result.exit_code == 0, result.stderr


def expected(folder: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    history = read_history(folder / "history.jsonl")
    for record in history:
        for name, value in round_metrics(record, history.leading_metric).items():
            found.setdefault(name, []).append((record.round, value))
    assert len(found["seconds"]) == 12
    assert len(found[history.leading_metric.name]) == 6
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
        for name in found.data.metrics
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


every_tracker = pytest.mark.parametrize(
    "name", ["tensorboard", pytest.param("mlflow", marks=pytest.mark.slow)]
)


@every_tracker
def test_one_setting_of_the_job_is_enough(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "runs" / "a"
    run_job(folder, f'training.track=["{name}"]')
    assert_same(READERS[name](folder), expected(folder))


@every_tracker
def test_all_metrics_and_the_worst_client_are_recorded(runs: Path, name: str) -> None:
    """Of errors, the worst is the largest."""
    folder = runs / "a"
    run_job(folder, *TWO_CLIENTS, f'training.track=["{name}"]')
    found = READERS[name](folder)
    assert_same(found, expected(folder))
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    judged = [line for line in lines if line["metrics"] is not None]
    values = {key: [value for _, value in points] for key, points in found.items()}
    for key in ("rmse", "mae"):
        assert values[key] == pytest.approx([line["metrics"][key] for line in judged])
    clients = [line["client_metrics"] for line in judged]
    assert values["worst_client"] == pytest.approx([max(errors) for errors in clients])
    assert values["client_mean"] == pytest.approx([sum(errors) / 2 for errors in clients])
    assert "accuracy" not in found


@every_tracker
def test_a_resume_records_no_round_twice(runs: Path, name: str) -> None:
    """The run is killed after round 8 with a checkpoint of round 5, so 6 to 8 are played again."""
    folder = runs / "a"
    rounds: list[int] = []

    def kill() -> bool:
        if len(rounds) == 8:
            raise Killed
        return False

    def note(record: RoundRecord) -> None:
        rounds.append(record.round)

    first = session(folder, name, on_round=[note], should_stop=lambda: len(rounds) == 5)
    assert first.run().stopped_by is None
    with pytest.raises(Killed):
        session(folder, name, on_round=[note], should_stop=kill).run()
    rounds.clear()
    session(folder, name, on_round=[note]).run()
    assert rounds == list(range(6, 13))
    assert_same(READERS[name](folder), expected(folder))


def test_a_tracker_that_fails_does_not_stop_the_training_and_catches_up(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    words: list[str] = []
    events = folder / "tensorboard"

    def obstruct(record: RoundRecord) -> None:
        if record.round == 1:
            events.write_text("in the way")  # no folder can be made here
        if record.round == 4:
            events.unlink()

    session(folder, "tensorboard", words.append, on_round=[obstruct]).run()
    assert len(words) == 1
    assert "tensorboard cannot record rounds" in words[0]
    assert_same(in_tensorboard(folder), expected(folder))


def test_missing_rounds_are_recorded_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    words: list[str] = []
    events = folder / "tensorboard"

    def obstruct(record: RoundRecord) -> None:
        if record.round == 1:
            events.write_text("in the way")
        if record.round == 12:
            (folder / "last").touch()

    def clear_at_the_end() -> bool:
        if (folder / "last").exists() and events.is_file():
            events.unlink()
        return False

    session(
        folder, "tensorboard", words.append, on_round=[obstruct], should_stop=clear_at_the_end
    ).run()
    assert len(words) == 1
    assert_same(in_tensorboard(folder), expected(folder))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the requests to an MLflow server that answers all of them with an error."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(503)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=partial(server.serve_forever, poll_interval=0.02), daemon=True).start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}/[/red]")
        yield paths
        server.shutdown()


def test_an_unreachable_server_is_tried_less_and_less_often(
    tmp_path: Path, asked: list[str]
) -> None:
    """It is tried after rounds 1, 2, 4 and 8 and at the end, each time with one retry."""
    words = [word for each in (*SHORT, 'training.track=["mlflow"]') for word in ("--set", each)]
    said = invoke("run", "--runs", tmp_path, "--name", "a", "--json", *words).stderr
    assert len(asked) == 10
    assert said.count("mlflow cannot record rounds") == 1
    assert "/[/red]/api" in said  # no markup of ours


def test_a_comparison_refuses_an_unreachable_tracker(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["compare", "--set", 'training.track=["mlflow"]'])
    assert asked
    assert result.exit_code == 2
    assert "training.track has mlflow, but it cannot be reached" in result.stderr


class Impatient(CompareView):
    """A view that interrupts the comparison at the first news."""

    def moved(self, *_: object) -> None:
        raise KeyboardInterrupt


def compare(folder: Path, view: CompareView, *overrides: str) -> dict[str, str]:
    job = load_training_job(overrides=[*SHORT, 'training.track=["mlflow"]', *overrides])
    return run_all(runs_of(job, contenders_of(job, ["fedavg"]), [0], folder), None, 1, view)


@pytest.mark.usefixtures("threads_for_processes")
def test_a_run_of_a_comparison_warns_of_a_failing_tracker(
    tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(tmp_path, CompareView(Console(width=200)), "limits.rounds=1") == {}
    assert asked
    assert (
        "fedavg-0: mlflow cannot record rounds, but training goes on: " in capsys.readouterr().out
    )


@pytest.mark.usefixtures("threads_for_processes")
def test_an_interrupted_run_is_killed_in_mlflow(runs: Path) -> None:
    endless = ("limits.rounds=100000", "limits.deadline=1e9", "limits.budget=1e9")
    with pytest.raises(KeyboardInterrupt):
        compare(runs, Impatient(Console()), *endless)
    client = MlflowClient(tracking_uri=f"sqlite:///{runs / 'mlflow.db'}")
    (found,) = runs_in(client, "dynamite")
    assert found.info.status == "KILLED"
    assert (runs / "fedavg-0" / "checkpoint.safetensors").exists()


def test_mlflow_obeys_its_own_variables(
    tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(database, tmp_path / "elsewhere.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'elsewhere.db'}")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "a"
    session(folder, "mlflow", overrides=("limits.rounds=2",)).run()
    assert not (tmp_path / "runs" / "mlflow.db").exists()
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'elsewhere.db'}")
    (found,) = runs_in(client, "mine")
    assert found.info.status == "FINISHED"
    assert found.data.metrics["seconds"] == read_history(folder / "history.jsonl").last("seconds")


@pytest.mark.parametrize("value", ['"tensorboard"', '["wandb"]'])
def test_unknown_trackers_are_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match=r"training.track must be a list|there is no tracker"):
        _ = load_training_job(overrides=[f"training.track={value}"]).settings
