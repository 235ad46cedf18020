"""A strategy of Flower within limits, with a train function of the user's own."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedProx,
    Result,
)

from dynamite_fl.errors import Diverged, InvalidInput, TooFewNodes, UserCodeError
from dynamite_fl.flower.strategy import WithinLimits
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.records import Limits
from tests.flower.own_app import SAMPLES, Orders, model, own_grid

LIMITS = Limits(
    rounds=4,
    deadline=1000.0,
    budget=1000.0,
    cost_per_sample=0.001,
    cost_per_round=1.0,
    max_local_steps=6,
)
QUICK = Timeouts(join_seconds=0.05)


def started(
    nodes: Any = None, inner: Any = None, orders: Orders | None = None, **settings: Any
) -> tuple[WithinLimits, Result]:
    """Train, and return the strategy and Flower's result."""
    nodes = own_grid([] if orders is None else orders) if nodes is None else nodes
    start = settings.pop("start", {})
    settings = {"limits": LIMITS, "learning_rate": 0.1, **settings}
    strategy = WithinLimits(inner, **settings)
    return strategy, strategy.start(nodes, ArrayRecord(model().state_dict()), **start)


def test_nodes_get_their_own_orders_and_the_model_learns() -> None:
    orders: Orders = []
    strategy, result = started(orders=orders, limits=Limits(**{**vars(LIMITS), "rounds": 8}))
    assert strategy.stopped_by == "rounds"
    assert len(strategy.history) == 8
    trial, later = orders[:3], orders[3:]
    assert [order["local_steps"] for _, order in trial] == [2, 2, 2]
    for index, record in enumerate(strategy.history):
        round_orders = sorted(later[3 * index : 3 * index + 3], key=lambda order: order[0])
        assert record.clients == (0, 1, 2)
        assert tuple(order["batch_size"] for _, order in round_orders) == record.batch_sizes
        assert {order["local_steps"] for _, order in round_orders} == {record.local_steps}
        assert {order["learning_rate"] for _, order in round_orders} == {0.1}
        assert {order["server-round"] for _, order in round_orders} == {record.round}
    first, last = strategy.history[0].value("accuracy"), strategy.history[-1].value("accuracy")
    assert last > max(first, 0.6)
    assert strategy.history[-1].estimates["gain"] is not None  # it learned from the meters
    assert result.evaluate_metrics_clientapp[8]["accuracy"] == last
    assert set(result.arrays) == set(model().state_dict())


def test_the_average_is_that_of_the_other_strategy() -> None:
    class Recording(FedAvg):
        aggregated: list[ArrayRecord] = []  # noqa: RUF012

        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            replies = list(replies)
            assert len(replies) == 3
            assert all("dynamite" not in reply.content for reply in replies)
            arrays, metrics = super().aggregate_train(server_round, replies)
            assert arrays is not None
            self.aggregated.append(arrays)
            return arrays, metrics

    inner = Recording()
    strategy, result = started(inner=inner)
    assert len(inner.aggregated) == len(strategy.history)
    assert result.arrays is inner.aggregated[-1]


@pytest.mark.parametrize(
    "inner",
    [
        FedAdam(eta=0.01),
        FedProx(proximal_mu=0.1),
        DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.1, 1.0, 3),
    ],
    ids=lambda inner: type(inner).__name__,
)
def test_other_strategies_work(inner: Any) -> None:
    orders: Orders = []
    strategy, _ = started(inner=inner, orders=orders)
    assert len(strategy.history) == 4
    assert all(record.absent == () for record in strategy.history)
    if isinstance(inner, FedProx):
        assert {order["proximal-mu"] for _, order in orders} == {0.1}


@pytest.mark.parametrize("controller", ["fedavg", "no-straggler", "uniform", "dbfl"])
def test_an_unchanged_train_function_is_enough_for_other_controllers(controller: str) -> None:
    orders: Orders = []
    nodes = own_grid(orders, with_meter=False)
    strategy, _ = started(nodes, controller=controller)
    assert len(strategy.history) == 4
    record = strategy.history[-1]
    assert record.arrived == SAMPLES
    assert record.comm_seconds == (0.0, 0.0, 0.0)
    assert all(seconds is not None and seconds > 0 for seconds in record.step_seconds or ())


def test_slow_nodes_get_smaller_batches_without_a_meter() -> None:
    limits = Limits(rounds=6, deadline=1e4, budget=1e6, cost_per_sample=0.001, cost_per_round=1)
    nodes = own_grid([], with_meter=False, seconds_per_sample=0.001)
    strategy, _ = started(nodes, controller="no-straggler", limits=limits)
    sizes = np.array([record.batch_sizes for record in strategy.history[2:]], dtype=float)
    assert sizes[:, 0].mean() > sizes[:, 2].mean()


def test_limits_end_the_training() -> None:
    budget = Limits(deadline=1e6, budget=3.5, cost_per_sample=0.001, cost_per_round=1.0)
    strategy, _ = started(limits=budget, controller="fedavg")
    assert strategy.stopped_by == "budget"
    assert strategy.history[-1].cost <= 3.5
    # The trial, two steps on 32 samples on each node, is paid for too.
    first = strategy.history[0]
    assert first.samples == 2 * 3 * first.batch_mean + 3 * 2 * 32
    assert first.cost == pytest.approx(1.0 + 0.001 * first.samples)
    deadline = Limits(deadline=0.5, budget=1e6, cost_per_sample=0.001, cost_per_round=1.0)
    strategy, _ = started(limits=deadline)
    assert strategy.stopped_by == "deadline"
    assert strategy.history[-1].seconds <= 0.5
    with pytest.raises(Infeasible):
        started(limits=Limits(deadline=10, budget=0.5, cost_per_sample=0, cost_per_round=1))


def test_num_rounds_and_configs_are_flower_s() -> None:
    orders: Orders = []
    evaluated: list[int] = []

    def evaluate_fn(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        evaluated.append(server_round)
        return MetricRecord({"loss": float(len(arrays))})

    start = {
        "num_rounds": 2,
        "train_config": ConfigRecord({"augment": True}),
        "evaluate_fn": evaluate_fn,
    }
    strategy, result = started(orders=orders, start=start)
    assert evaluated == [0, 1, 2]
    assert strategy.history[-1].loss == len(model().state_dict())
    assert list(result.evaluate_metrics_serverapp) == [0, 1, 2]
    assert all(order["augment"] is True for _, order in orders)


def test_a_cohort_is_drawn() -> None:
    strategy, _ = started(cohort=2, controller="fedavg")
    cohorts = [record.clients for record in strategy.history]
    assert all(len(cohort or ()) == 2 for cohort in cohorts)
    assert len(set(cohorts)) > 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"controller": "dynamite"}, "measures the loss"),
        ({"inner": FedAvg(fraction_train=0.5)}, "say cohort="),
        ({"cohort": 1}, "needs 2: lower its min_available_nodes"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"clients": 0}, "clients"),
        ({"limits": Limits(**{**vars(LIMITS), "epsilon": 2.0})}, "adds no noise that could be"),
        ({"limits": Limits(**{**vars(LIMITS), "delta": 0.1})}, "adds no noise that could be"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        started(**settings)


def test_a_missing_meter_is_refused_at_once() -> None:
    orders: Orders = []
    with pytest.raises(InvalidInput, match="add a StepMeter to the train function, or choose"):
        started(own_grid(orders, with_meter=False))
    assert len(orders) == 3  # of the trial


def remove_samples(content: RecordDict) -> None:
    content["metrics"] = MetricRecord({"loss": 1.0})


def fail(content: RecordDict) -> None:  # noqa: ARG001
    raise RuntimeError("no such file: data.csv")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (remove_samples, InvalidInput, "no positive number 'num-examples'"),
        (fail, UserCodeError, r"fails on every node: .*no such file: data\.csv"),
    ],
)
def test_mistakes_in_the_train_function_are_told(
    change: Callable[[RecordDict], None], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        started(own_grid([], change=change))


def test_too_few_nodes() -> None:
    nodes = own_grid([])
    with pytest.raises(TooFewNodes, match=r"3 nodes are connected .* needs 4"):
        started(nodes, FedAvg(min_available_nodes=4), timeouts=QUICK)


def not_a_number(content: RecordDict) -> None:
    arrays = {name: torch.full((3,), torch.nan) for name in content["arrays"]}
    content["arrays"] = ArrayRecord(arrays)


def test_updates_that_are_no_numbers_end_the_training() -> None:
    with pytest.raises(Diverged, match=r"at the learning rate 0\.1 the model is ruined"):
        started(own_grid([], change=not_a_number))


def test_one_bad_update_is_left_out() -> None:
    nodes = own_grid([])
    nodes.apps[12] = own_grid([], change=not_a_number).apps[12]
    strategy, result = started(nodes)
    assert [record.refused for record in strategy.history] == [1, 1, 1, 1]
    assert all(np.isfinite(array.numpy()).all() for array in result.arrays.values())


def test_nodes_may_hang_leave_and_come() -> None:
    """A node that hangs is absent; one that leaves gives its place to one that comes."""
    nodes = own_grid([])
    working = nodes.apps[13]

    def hang(message: Any, context: Any) -> Any:
        is_training = message.metadata.message_type == "train"
        if is_training and message.content["config"]["server-round"] == 2:
            raise TimeoutError
        return working(message, context)

    nodes.apps[13] = hang

    def change(record: Any) -> None:
        if record.round == 2:
            nodes.apps[14], nodes.contexts[14] = nodes.apps.pop(11), nodes.contexts[11]

    short = Timeouts(round_factor=0.0, min_round_seconds=3.0)  # the others need much less
    strategy, _ = started(nodes, timeouts=short, on_round=change)
    assert [record.absent for record in strategy.history][:2] == [(), (2,)]
    assert [record.absent for record in strategy.history][2:] == [(), ()]
