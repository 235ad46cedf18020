"""Checks that every controller must pass.

Each check runs small simulated trainings and raises ``AssertionError`` if the controller fails it.
"""

import math
import tempfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dynamite_fl.control.controller import Controller
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.stream.buffer import POLICIES
from dynamite_fl.testing._training import Setting, small_training
from dynamite_fl.training.checkpoint import Checkpoint
from dynamite_fl.training.codec import load_record, save_record
from dynamite_fl.training.loop import begin, rounds
from dynamite_fl.training.progress import Progress, Round
from dynamite_fl.training.training import Training

Check = Callable[[Controller[Any]], None]

_LEAST_ACCURACY = 0.25  # ten classes, and a first model that knows none of them
_UNTRAINED_LOSS = math.log(10)  # the loss of a model that gives ten classes the same probability


def check_controller(controller: Controller[Any]) -> None:
    """Check a controller in small simulated trainings, which takes some seconds.

    They have five unequal clients, 8 rounds and a learning rate of 0.05. The checks are: the
    controller learns and keeps the limits; the same seed gives the same result; an interruption
    changes nothing; it works with cohorts, absent clients, open rounds and streaming data; its
    state is data; and it refuses limits that allow no round.

    Raises:
        AssertionError: The controller fails a check. The message says which one and why.

    Example:
        >>> from dynamite_fl.control.baselines.fedavg import FedAvg
        >>> check_controller(FedAvg(local_steps=3, batch_size=10))
    """
    for name, check in CHECKS.items():
        try:
            check(controller)
        except AssertionError as error:
            raise AssertionError(f"{type(controller).__name__}, check {name!r}: {error}") from error


def learns_within_limits(controller: Controller[Any]) -> None:
    """Check that the model becomes better and that no limit is exceeded."""
    training = small_training(controller, Setting())
    _, played = _train(training)
    _require(len(played) >= 3, f"only {len(played)} of 8 rounds were played")
    evaluation = played[-1].evaluation
    accuracy = 0.0 if evaluation is None else evaluation.metrics["accuracy"]
    _require(accuracy > _LEAST_ACCURACY, f"the accuracy after training is only {accuracy:.2f}")


def same_seed_same_result(controller: Controller[Any]) -> None:
    """Check that a training depends on its seed only."""
    first, again = (_train(small_training(controller, Setting(seed=3)))[0] for _ in range(2))
    _require(
        torch.equal(first.weights, again.weights) and first.ledger == again.ledger,
        "two trainings with the same seed differ: decide by the arguments and the state only",
    )


def interruption(controller: Controller[Any]) -> None:
    """Check that a training that is saved and resumed ends like an uninterrupted one."""
    _check_interruption(controller, Setting())


def streams(controller: Controller[Any]) -> None:
    """Check that the controller learns from streaming data, with every kind of buffer."""
    for buffer in POLICIES:
        stream = {"order": "iid", "buffer": buffer}
        _, played = _train(small_training(controller, Setting(seed=1, stream=stream)))
        evaluation = played[-1].evaluation
        loss = None if evaluation is None else evaluation.stream_loss
        _require(
            loss is not None and loss < _UNTRAINED_LOSS,
            f"with a {buffer} buffer, the loss on the stream is {loss} after training",
        )


def interrupted_streams(controller: Controller[Any]) -> None:
    """Check that an interruption changes nothing if data streams in."""
    for buffer in POLICIES:
        stream = {"order": "continuous", "buffer": buffer}
        _check_interruption(controller, Setting(stream=stream))


def cohorts(controller: Controller[Any]) -> None:
    """Check that plans are for the clients of the cohort."""
    _, played = _train(small_training(controller, Setting(cohort=2)))
    sizes = {len(one.plan.batch_sizes) for one in played}
    _require(sizes == {2}, f"plans for cohorts of 2 clients have {sizes} batch sizes")


def absent_clients(controller: Controller[Any]) -> None:
    """Check that training continues if clients are absent, even if all of them are."""
    often = Setting(seed=1, devices={"availability": 0.5, "dropout": 0.2})
    always = Setting(devices={"dropout": 1.0})
    for setting in (often, always):
        _, played = _train(small_training(controller, setting))
        _require(len(played) >= 3, f"only {len(played)} rounds were played with absent clients")


def open_rounds(controller: Controller[Any]) -> None:
    """Check that a deadline or a budget ends the training if the rounds are not given."""
    setting = Setting(limits={"rounds": None, "deadline": 4.0})
    progress, _ = _train(small_training(controller, setting))
    _require(progress.ended in ("deadline", "budget"), f"{progress.ended} ended the training")


def state_is_data(controller: Controller[Any]) -> None:
    """Check that the state consists of values that a checkpoint can hold."""
    training = small_training(controller, Setting())
    for progress, _ in rounds(training, begin(training)):
        _require_data("state", progress.control)
        numbers = controller.describe(progress.control)
        _require(
            all(isinstance(value, float | int) for value in numbers.values()),
            f"describe returned {numbers}: it must return numbers by name",
        )


def impossible_limits(controller: Controller[Any]) -> None:
    """Check that limits without room for a round are refused with the name of the client."""
    fleet = Fleet(
        samples=[500, 300],
        gradient_variance=1,
        samples_per_second=[90, 70],
        comm_seconds=0.3,
        name=["first", "second"],
    )
    limits = Limits(deadline=0.1, budget=900, cost_per_sample=0.01, cost_per_round=1, rounds=60)
    try:
        controller.start(fleet, limits, np.array([1]))
    except Infeasible as error:
        _require("second" in str(error), f"the error does not name the client: {error}")
    else:
        raise AssertionError("start must raise Infeasible if the limits allow no round")


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        learns_within_limits,
        same_seed_same_result,
        interruption,
        streams,
        interrupted_streams,
        cohorts,
        absent_clients,
        open_rounds,
        state_is_data,
        impossible_limits,
    )
}


def _train(training: Training) -> tuple[Progress, list[Round]]:
    """Train to the end, and check every plan and every charge on the way."""
    played = []
    limits = training.limits
    for progress, one in rounds(training, begin(training)):  # noqa: B007  the last one is returned
        plan, ledger = one.plan, one.ledger
        at_hand = _at_hand(training, one.outcome.report.clients, ledger.rounds)
        where = f"in round {ledger.rounds}"
        sizes = plan.batch_sizes
        _require(sizes.shape == at_hand.shape, f"{where}, batch sizes have the shape {sizes.shape}")
        _require(bool((sizes >= 1).all()), f"{where}, a batch size is below 1: {sizes}")
        _require(
            bool((sizes <= at_hand).all()),
            f"{where}, the batch sizes {sizes} exceed the samples {at_hand}",
        )
        _require(
            1 <= plan.local_steps <= limits.max_local_steps,
            f"{where}, there are {plan.local_steps} local steps",
        )
        _require(ledger.seconds <= limits.deadline, f"{where}, the deadline is exceeded")
        _require(ledger.cost <= limits.budget, f"{where}, the budget is exceeded")
        played.append(one)
    return progress, played


def _at_hand(training: Training, cohort: IntArray, round_index: int) -> FloatArray:
    """Return how many samples each client can draw a batch from, and 1 if it has none yet."""
    engine = training.engine
    if not isinstance(engine, SimulatedEngine) or engine.streams is None:
        return training.fleet.at_hand[cohort]
    arrived = np.maximum(engine.streams.seen(cohort, round_index), 1)
    return np.minimum(arrived, engine.streams.storage.size or np.inf)


def _check_interruption(controller: Controller[Any], setting: Setting) -> None:
    """Save a training after its second round, load it, and compare the end with the original."""
    training = small_training(controller, setting)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "checkpoint"
        for progress, _ in rounds(training, begin(training)):
            if progress.ledger.rounds == 2:
                _save(training, progress, file)
        resumed = small_training(controller, setting)
        *_, (again, _) = rounds(resumed, _load(resumed, file))
    _require(
        torch.equal(progress.weights, again.weights)
        and progress.ledger == again.ledger
        and repr(controller.describe(progress.control)) == repr(controller.describe(again.control)),
        "a resumed training ends differently: keep all that is learned in the state",
    )


def _save(training: Training, progress: Progress, file: Path) -> None:
    states = training.engine.states
    save_record(file, Checkpoint(progress, tuple(states), tuple(states.values())))


def _load(training: Training, file: Path) -> Progress:
    kind = type(begin(training).control)
    checkpoint = load_record(file, Checkpoint, unknown=kind)
    training.engine.states.update(zip(checkpoint.clients, checkpoint.states, strict=True))
    return checkpoint.progress


def _require_data(name: str, value: Any) -> None:
    if is_dataclass(value) and not isinstance(value, type):
        frozen = getattr(value, "__dataclass_params__").frozen  # noqa: B009  it has no type
        _require(frozen, f"{name} is a {type(value).__name__}: use @dataclass(frozen=True)")
        for field in fields(value):
            _require_data(f"{name}.{field.name}", getattr(value, field.name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            _require_data(f"{name}[{index}]", item)
    else:
        plain = bool | int | float | str | np.ndarray | np.generic | None
        _require(
            isinstance(value, plain),
            f"{name} is a {type(value).__name__}: use numbers, text, arrays, tuples or dataclasses",
        )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)
