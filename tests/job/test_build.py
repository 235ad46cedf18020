"""From a training job to what it describes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from dynamite_fl.client.flat_model import Compute
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.errors import DynamiteError, InvalidInput, JobError, RunFolderError
from dynamite_fl.job.build import (
    Given,
    build_controller,
    build_optimizer,
    build_training,
    compute_of,
    schedule_of,
)
from dynamite_fl.job.build_data import (
    build_partition,
    build_stream,
    build_task,
    number_of_devices,
    split_data,
)
from dynamite_fl.job.training import TrainingJob, load_training_job
from dynamite_fl.partitions import PartitionRecipe, dirichlet, fixed, shards, unequal, wang
from dynamite_fl.task.task import Task
from dynamite_fl.training.cohort import Selection
from tests.trainings import SETTINGS, digits

SMALL = ('task={model="softmax", dataset="digits"}', "devices={samples_per_second=[100, 200, 300]}")


def job(*overrides: str) -> TrainingJob:
    return load_training_job(overrides=[*SMALL, *overrides])


def no_pilot(_: int) -> dict[str, Any]:
    raise AssertionError("only CoOptFL needs a pilot")


def test_a_training_has_all_that_the_job_describes() -> None:
    made: Any = build_training(job("training.seed=3", "training.workers=2", "controller=fedavg"))
    assert made.engine.task.name == "softmax on digits"
    assert made.controller == FedAvg()
    assert len(made.fleet) == len(made.engine.partition) == 3
    assert (made.engine.seed, made.engine.workers, made.schedule.seed) == (3, 2, 3)
    assert made.limits == job().limits
    assert made.engine.streams is None


def test_what_was_made_in_python_takes_the_place_of_tables() -> None:
    task, controller = digits(), FedAvg(local_steps=7)
    made: Any = build_training(job(), given=Given(task, wang(case=2), controller))
    assert made.engine.task is task
    assert made.controller is controller
    expected = wang(case=2).split(task.train_labels(), 3, 0)
    for client in range(3):
        np.testing.assert_array_equal(
            made.engine.partition.indices(client), expected.indices(client)
        )


def test_a_task_made_in_python_cannot_be_made_from_its_table() -> None:
    with pytest.raises(RunFolderError, match=r"was made in Python: go on with"):
        build_task(job('task={made_in_python="mine"}'))


MODULE = """
import torch
from torch import nn
from dynamite_fl import Task

def make(samples, *, width=2, per_client=False, tests=1):
    def pair(k):
        return torch.full((samples, width), float(k)), torch.full((samples, 1), float(k))
    return Task(
        name=f"{samples} of {width}",
        model=lambda: nn.Linear(width, 1),
        loss=nn.MSELoss(),
        train_data=[pair(k) for k in range(3)] if per_client else pair(0),
        test_data=pair(0) if tests == 1 else [pair(k) for k in range(tests)],
    )

def adam(weights, learning_rate):
    return torch.optim.Adam(weights, lr=learning_rate, betas=(0.5, 0.5))
"""


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., TrainingJob]:
    """Return a function that loads a job beside a module of the user's own."""
    (tmp_path / "built.py").write_text(MODULE)

    def load(*overrides: str) -> TrainingJob:
        tables = ['task={use="built:make", samples=12}', 'partition={kind="wang", case=1}']
        return load_training_job(overrides=[SMALL[1], *tables, *overrides], folders=[tmp_path])

    return load


def test_the_other_keys_of_the_task_are_arguments_of_its_function(
    own: Callable[..., TrainingJob],
) -> None:
    task = build_task(own("task.width=5"))
    assert task.name == "12 of 5"
    assert task.source == {"use": "built:make", "samples": 12, "width": 5}
    assert build_training(own("task.width=5")).engine.task.name == "12 of 5"
    with pytest.raises(InvalidInput, match="unexpected keyword argument 'widht'"):
        build_task(own("task.widht=5"))


def test_lists_of_datasets_are_split_already(own: Callable[..., TrainingJob]) -> None:
    made: Any = build_training(own("task.per_client=true", "task.tests=3"))
    assert made.engine.partition.sizes.tolist() == [12, 12, 12]
    for client in range(3):
        device = made.engine.client(client)
        inputs, _ = device.samples.batch(device.indices)
        assert (inputs == client).all()
    by_name = build_training(own("task.per_client=true", 'partition={kind="by_owner"}'))
    assert len(by_name.fleet) == 3


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["task.per_client=true", "devices={samples_per_second=[1, 1]}"],
            "the training data is a list of 3 datasets, but there are 2 devices: give one",
        ),
        (
            ["task.per_client=true", "devices={samples_per_second=[1, 1, 1, 1]}"],
            "the training data is a list of 3 datasets, but there are 4 devices",
        ),
        (
            ["task.per_client=true", 'partition={kind="dirichlet", alpha=1}'],
            "list with one dataset for each client: leave the partition out",
        ),
    ],
)
def test_lists_that_do_not_fit_are_refused(
    own: Callable[..., TrainingJob], overrides: list[str], message: str
) -> None:
    with pytest.raises(JobError, match=message):
        build_training(own(*overrides))


class Slow(Dataset[Any]):
    """A dataset that states no labels, and counts how many samples were loaded."""

    def __init__(self) -> None:
        self.loaded = 0

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        self.loaded += 1
        return torch.rand(3), index % 4


@pytest.mark.parametrize(
    ("recipe", "uses_labels"),
    [
        (wang(case=1), False),
        (wang(case=3), False),
        (unequal(), False),
        (fixed([[0, 1], [2], [3]]), False),
        (wang(case=2), True),
        (dirichlet(alpha=1.0), True),
        (shards(per_client=1), True),
    ],
)
def test_samples_are_loaded_for_their_labels_only_if_a_partition_uses_them(
    recipe: PartitionRecipe, uses_labels: bool
) -> None:
    data = Slow()
    task = Task(
        model=lambda: nn.Linear(3, 4), loss=nn.CrossEntropyLoss(), train_data=data, metrics=[]
    )
    assert split_data(task, recipe, 3, seed=0).sizes.size == 3
    assert data.loaded == (40 if uses_labels else 0)
    known = replace(task, labels=[row % 4 for row in range(40)])
    split_data(known, recipe, 3, seed=0)
    assert data.loaded == (40 if uses_labels else 0)


def test_the_table_optimizer(own: Callable[..., TrainingJob]) -> None:
    assert build_optimizer(own()) == Optimizer()
    adam = own('optimizer={name="adamw", weight_decay=0.1, clip_norm=2.0, keep_state=true}')
    assert build_optimizer(adam) == Optimizer(
        "AdamW", weight_decay=0.1, clip_norm=2.0, keep_state=True
    )
    made: Any = build_training(adam)
    assert made.engine.client(0).optimizer == build_optimizer(adam)
    named = build_optimizer(own("optimizer=built:adam"))
    assert named.make([nn.Parameter(torch.zeros(1))], 0.1).defaults["betas"] == (0.5, 0.5)
    given: Any = build_training(own(), given=Given(optimizer=Optimizer("Rprop")))
    assert given.engine.optimizer.name == "Rprop"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("optimizer=adamm", "there is no optimizer 'adamm': did you mean 'Adam'"),
        ('optimizer={name="SGD", momentun=0.9}', "did you mean 'momentum'"),
        ("optimizer=built:adm", "has no 'adm': did you mean 'adam'"),
        ('optimizer="made in Python: mine"', r"made in Python: go on with .*optimizer=\.\.\."),
    ],
)
def test_optimisers_that_cannot_be_made(
    own: Callable[..., TrainingJob], table: str, message: str
) -> None:
    with pytest.raises(DynamiteError, match=message):
        build_optimizer(own(table))


def test_where_and_how_precisely_a_model_is_computed(own: Callable[..., TrainingJob]) -> None:
    assert compute_of(own()) == Compute("cpu", "float32")
    made: Any = build_training(own("training.precision=bfloat16"))
    assert made.engine.model.compute == Compute("cpu", "bfloat16")


def test_a_node_needs_no_fleet_and_a_server_no_partition() -> None:
    assert number_of_devices(job()) == 3
    assert number_of_devices(job("devices=vm20")) == 20
    partition = build_partition(job(), digits(), clients=5)
    assert len(partition) == 5


def test_a_table_stream_makes_streams() -> None:
    assert build_stream(job()) is None
    stream = build_stream(job('stream={preset="burst", scale=0.02}'))
    assert stream is not None
    made: Any = build_training(job('stream={preset="burst", scale=0.02}'))
    assert made.engine.streams is not None


def test_settings_of_a_controller_and_of_cooptfl_from_a_pilot() -> None:
    made = build_controller(job('controller={name="fedavg", local_steps=3}'), no_pilot)
    assert made == FedAvg(local_steps=3)
    asked: list[int] = []

    def pilot(rounds: int) -> dict[str, Any]:
        asked.append(rounds)
        return SETTINGS["cooptfl"]

    for table in ("controller=cooptfl", 'controller={name="cooptfl", pilot_rounds=2}'):
        planned: Any = build_controller(job(table), pilot)
        assert planned.geometry == SETTINGS["cooptfl"]["geometry"]
    assert asked == [5, 2]


def test_the_schedule_is_that_of_the_table_training() -> None:
    schedule = schedule_of(
        job(
            "training.cohort=2",
            "training.select_by=data",
            "training.evaluate_every=4",
            "training.probe_every=3",
            "training.free_probes=true",
        )
    )
    assert schedule.selection == Selection(2, "data")
    assert (schedule.evaluate_every, schedule.probe_every, schedule.free_probes) == (4, 3, True)


def test_sketches_of_gradients() -> None:
    job = load_training_job(overrides=["training.probe_gradient=sketch"])
    made: Any = build_training(job)
    assert made.schedule.sketches
    assert made.engine.client(0).settings.only_sketches
    with pytest.raises(JobError, match=r"there is no training\.probe_gradient 'half'"):
        build_training(load_training_job(overrides=["training.probe_gradient=half"]))


PRIVATE = ("limits.epsilon=20", "limits.delta=0.1", "privacy={clip_norm=1, noise_multiplier=2}")


def test_a_table_privacy_makes_a_mechanism() -> None:
    made = build_training(job(*PRIVATE, "training.cohort=2"))
    assert made.privacy is not None
    assert made.privacy.expected_clients == 2
    assert made.engine.privacy is None  # type: ignore[attr-defined]
    at_nodes = build_training(job(*PRIVATE, "privacy.noise_at=node", "controller=fedavg"))
    assert at_nodes.privacy is not None
    assert at_nodes.engine.privacy == at_nodes.privacy.for_nodes()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        (["limits.epsilon=3"], "no table privacy"),
        (["privacy.clip_norm=1"], r"limits\.delta"),
        ([*PRIVATE, "limits.delta=0.4"], r"limits\.delta is 0\.4, but there are 3 clients"),
        ([*PRIVATE, "privacy.noise_multiplier=none", "limits.rounds=none"], r"limits\.rounds"),
        ([*PRIVATE, "controller=cooptfl"], "pilot"),
    ],
)
def test_privacy_that_does_not_fit_is_refused(overrides: list[str], complaint: str) -> None:
    with pytest.raises(JobError, match=complaint):
        build_training(job(*overrides))
