"""Records of finished runs: what they keep, and that damaged ones are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynamite_fl.errors import RunFolderError
from dynamite_fl.experiments.experiment import load_experiment
from dynamite_fl.experiments.measures import measure
from dynamite_fl.experiments.origin import Origin
from dynamite_fl.experiments.run_record import read_record, record_file, write_record
from dynamite_fl.training.history import History
from tests.experiments.histories import history

JOB = load_experiment("online-accuracy").job_of("smoke", "cost", "fedavg", 0)
OTHER = load_experiment("online-accuracy").job_of("smoke", "cost", "fedavg", 1)
ORIGINS = [Origin("2026-01-02", "0.1.0", "abc"), Origin("2026-01-03", "0.1.0", "")]
HISTORY = history(
    [None, 0.5, None, 0.75],
    steps=[3, 2, 2, 1],
    stream_loss=[2.5, 2.0, 1.5, 1.0],
    classes=[{"a": 0.9, "b": 0.1}] * 4,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = record_file(tmp_path / "cost-fedavg-0")
    write_record(path, JOB, ORIGINS, HISTORY)
    return path


def test_it_keeps_all_that_is_measured(file: Path) -> None:
    record = read_record(file, JOB)
    assert file.name == "cost-fedavg-0.json"
    assert list(record.origins) == ORIGINS
    assert len(record.history) == 4
    assert record.history.final == 0.75
    expected = measure(HISTORY, target=0.6, burst=2)
    # Rounds that were not evaluated have no loss and no accuracies of classes in real histories.
    changed = {"roughness", "loss_after_burst"}
    found = measure(record.history, target=0.6, burst=2)
    assert {k: v for k, v in found.items() if k not in changed} == {
        k: v for k, v in expected.items() if k not in changed
    }


def test_numbers_have_six_digits_and_what_is_not_finite_is_none(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_record(path, JOB, [], history([1 / 3], stream_loss=[float("nan")]))
    kept = read_record(path, JOB).history[0]
    assert kept.value("accuracy") == 0.333333
    assert kept.stream_loss is None


def test_a_record_of_another_job_is_refused(file: Path) -> None:
    with pytest.raises(RunFolderError, match=r"^\S+ holds a run of another job \(training"):
        read_record(file, OTHER)


def changed(key: str, change: Callable[[Any], Any]) -> Callable[[str], str]:
    def apply(text: str) -> str:
        values = json.loads(text)
        values[key] = change(values[key])
        return json.dumps(values)

    return apply


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: "",
        lambda text: text[: len(text) // 2],
        lambda _: "[]",
        lambda _: "[" * 100_000,
        lambda _: "{}",
        changed("format", lambda _: 2),
        changed("job", lambda _: ["[task"]),
        changed("job", lambda _: []),
        changed("job", lambda _: 3),
        changed("origins", lambda _: [{"day": "1"}]),
        changed("origins", lambda _: [{"date": 1, "version": "0.1.0", "commit": ""}]),
        changed("leading_metric", lambda _: {}),
        changed("columns", lambda names: names[:-1]),
        changed("columns", lambda names: [*names[:-1], "unknown"]),
        changed("rounds", lambda _: []),
        changed("rounds", lambda rows: rows[1:]),
        changed("rounds", lambda rows: [*rows, rows[-1]]),
        changed("rounds", lambda rows: [["one", *rows[0][1:]], *rows[1:]]),
        changed("rounds", lambda rows: [[*rows[0][:-1], "many"], *rows[1:]]),
        changed("evaluations", lambda _: []),
        changed("evaluations", lambda _: {"2": {"loss": "small"}}),
        changed("evaluations", lambda _: {"2": {"metrics": {"accuracy": "high"}}}),
    ],
)
def test_a_damaged_record_is_refused_with_what_to_do(
    file: Path, damage: Callable[[str], str]
) -> None:
    file.write_text(damage(file.read_text()))
    with pytest.raises(RunFolderError, match=r"cost-fedavg-0.json is damaged \(.+\): copy it from"):
        read_record(file, JOB)


def test_a_record_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is damaged"):
        read_record(tmp_path, JOB)


def test_a_history_without_rounds_is_never_a_record(tmp_path: Path) -> None:
    write_record(tmp_path / "run.json", JOB, [], History())
    with pytest.raises(RunFolderError, match="its rounds are not numbered from 1 on"):
        read_record(tmp_path / "run.json", JOB)
