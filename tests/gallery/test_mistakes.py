"""Ordinary mistakes in a task: one exception in Python, one line from ``dynamite run``."""

from pathlib import Path

import pytest

import dynamite_fl as fl
from tests._cli.commands import invoke

_MODULE = """
import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset
import dynamite_fl as fl

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
Y = (X.sum(dim=1) > 0).long()

class Numbered(Dataset):
    def __init__(self, row=31, label=None):
        self.row, self.label = row, label
    def __len__(self):
        return 60
    def __getitem__(self, row):
        if row == self.row and self.label is None:
            raise KeyError(f"row {row}")
        return X[row], self.label if row == self.row else int(Y[row])

class Endless(IterableDataset):
    def __len__(self):
        return 60
    def __iter__(self):
        yield from zip(X, Y)

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 2), nn.Dropout(0.1))

def make_task():
    fields = dict(model=Net, loss=nn.CrossEntropyLoss(), train_data=(X, Y), test_data=(X, Y))
    return fl.Task(**{**fields, **dict(CHANGES)})
"""
_JOB = """
task = "mistaken:make_task"
controller = "fedavg"
devices = { samples_per_second = [100, 200] }

[limits]
deadline = 60
budget = 30
cost_per_sample = 0.001
cost_per_round = 1
rounds = 3

[training]
learning_rate = 0.1
"""
# What a user wrote instead, and what the line says.
MISTAKES = {
    "loss=nn.CrossEntropyLoss(reduction='sum')": "returns the sum over a batch, not the mean",
    "loss=nn.CrossEntropyLoss": "Task.loss is the class CrossEntropyLoss: give an object of it",
    "loss='cross_entropy'": "Task.loss is a str: give a function",
    "train_data=(X, Y.float())": "labels of classes must be of type int64, such as labels.long()",
    "train_data=(X, Y + 1)": "labels count from 0 and must be less than the number of the model's",
    "test_data=(X, Y + 1)": "labels count from 0 and must be less than the number of the model's",
    "model=lambda: nn.Linear(5, 2)": "the size of a layer does not fit the shape",
    "model=Net()": "Task.model is a model: give a function that returns a new one",
    "model=nn.Linear": "it is called without arguments, such as lambda: Net(10)",
    "train_data=(X.tolist(), Y.tolist())": "inputs are a list: give a torch.Tensor or an array",
    "train_data=list(zip(X, Y))": "must have one dataset for each client, but Task.train_data[0]",
    "train_data=(X.double(), Y)": "convert the data, such as inputs.float()",
    "train_data=(X / 0, Y)": "has NaN or infinity: remove or replace such values",
    "train_data=(X, Y[1:])": "has 60 inputs, but 59 targets: each input needs one target",
    "train_data=[{'x': X[0], 'labels': 1}]": "Task.train_data[0] is one sample: give (inputs, targ",
    "train_data={'train': Numbered()}": "or one of the datasets that it holds, such as data['tr",
    "train_data=Endless()": "is an IterableDataset, of which no single sample can be loaded",
    "loss=nn.NLLLoss()": "use nn.CrossEntropyLoss, which takes them as they come from a linear",
    "train_data=X": "Task.train_data is a Tensor without targets: give a pair (inputs, targets)",
    "test_data=(X[:0], Y[:0])": "are empty: they need at least one sample",
    "test_data=None": "the task has no test data: give Task.test_data",
    "metrics={'f': lambda outputs, targets: outputs}": "metric f: a metric returned the shape",
    "metrics={'f': lambda outputs, targets: None}": "metric f: a metric returned a NoneType",
    "metrics=['acuracy']": "did you mean 'accuracy'?",
    "train_data=np.load('missing.npy')": "there is no file missing.npy, seen from",
    "train_data=Numbered(label=7)": "a local step failed: IndexError: Target 7 is out of bounds",
}


def write(folder: Path, changes: str, module: str = _MODULE) -> Path:
    (folder / "mistaken.py").write_text(module.replace("CHANGES", changes))
    (folder / "job.toml").write_text(_JOB)
    return folder / "job.toml"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(mistake: str, tmp_path: Path) -> None:
    result = invoke("run", write(tmp_path, mistake), "--runs", tmp_path / "runs", "--name", "a")
    assert result.exit_code == 2, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("dynamite: ")
    assert MISTAKES[mistake] in line


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_exception(mistake: str, tmp_path: Path) -> None:
    write(tmp_path, mistake)
    with pytest.raises(fl.DynamiteError) as raised:
        fl.train(
            fl.load_task("mistaken:make_task", [tmp_path]),
            limits=fl.Limits(deadline=60, budget=9, cost_per_sample=0, cost_per_round=1),
            devices=fl.Devices(samples_per_second=[100, 200]),
            learning_rate=0.1,
            controller="fedavg",
        )
    assert MISTAKES[mistake] in str(raised.value)


def test_a_mistake_in_a_worker_is_one_line(tmp_path: Path) -> None:
    job = write(tmp_path, "train_data=Numbered(label=7)")
    result = invoke("run", job, "--runs", tmp_path, "--set", "training.workers=2")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert "failed, client" in line
    assert "a local step failed: IndexError: Target 7 is out of bounds" in line


@pytest.mark.parametrize(
    ("row", "action"),
    [
        (0, "loading two samples of Task.train_data"),
        (30, "loading sample 30"),
        (31, "loading a batch of training samples"),
    ],
)
def test_an_exception_in_a_dataset_shows_where(row: int, action: str, tmp_path: Path) -> None:
    """It shows in the trial, while the data is fingerprinted, or in a local step."""
    job = write(tmp_path, f"metrics=['accuracy'], train_data=Numbered({row})")
    result = invoke("run", job, "--runs", tmp_path / "runs", "--name", "a")
    assert result.exit_code == 2
    assert 'raise KeyError(f"row {row}")' in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last == f"dynamite: {action} failed: KeyError: 'row {row}'"
    assert "dynamite_fl/" not in result.stderr


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("task.size=3", "got an unexpected keyword argument 'size'. Its arguments are the keys"),
        ("task=mistaken:make", "has no 'make': did you mean 'make_task'?"),
        ("task=mistake:make_task", "there is no module 'mistake' in"),
        ("task=mistaken:X", "task mistaken:X is not a function that makes a Task"),
        ("optimizer=adamm", "there is no optimizer 'adamm': did you mean 'Adam'?"),
        (
            "optimizer={name='SGD', momentm=0.9}",
            "there is no option of SGD 'momentm': did you mean 'momentum'?",
        ),
        ("optimizer={name='SGD', lr=0.9}", "set training.learning_rate"),
        ("training.precision=float16", "did you mean 'bfloat16'?"),
    ],
)
def test_a_mistake_in_a_job_is_one_line(change: str, line: str, tmp_path: Path) -> None:
    job = write(tmp_path, "")
    result = invoke("run", job, "--runs", tmp_path / "runs", "--name", "a", "--set", change)
    assert result.exit_code == 2, result.stderr
    (said,) = result.stderr.splitlines()
    assert line in said


def test_a_function_that_wants_an_argument_says_so(tmp_path: Path) -> None:
    job = write(tmp_path, "", _MODULE.replace("make_task()", "make_task(folder)"))
    result = invoke("run", job, "--runs", tmp_path / "runs", "--name", "a")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert "missing a required argument: 'folder'. Its arguments are the keys beside use" in line
