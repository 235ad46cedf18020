"""A Flower strategy that keeps the user's own strategy and train function within limits."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy
from torch import Tensor

from dynamite_fl._leading_metric import ACCURACY
from dynamite_fl._validate import check_number, check_whole
from dynamite_fl.control.controller import Controller
from dynamite_fl.control.registry import make_controller
from dynamite_fl.errors import InvalidInput
from dynamite_fl.flower.app_engine import AppEngine, EvaluateFunction
from dynamite_fl.flower.app_nodes import least_nodes, setting_of
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.job.training import DEFAULT_CONTROLLER
from dynamite_fl.records import Limits
from dynamite_fl.training.cohort import Selection
from dynamite_fl.training.describe import describe
from dynamite_fl.training.engine import Engine
from dynamite_fl.training.history import History
from dynamite_fl.training.loop import begin, rounds
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.server_optimizer import ServerOptimizer
from dynamite_fl.training.server_step import AveragedRound, ServerState
from dynamite_fl.training.training import Schedule, Training

_log = logging.getLogger(__name__)


class WithinLimits(Strategy):
    """Runs another strategy within a deadline and a budget.

    The nodes keep their own train function. The config of its message has three more numbers:
    ``local_steps``, ``learning_rate``, and ``batch_size``, which differs from node to node. The
    other strategy makes the messages and aggregates the replies, as always. Rounds go on until a
    limit is reached.

    Args:
        strategy: The strategy that aggregates; None for FedAvg.
        limits: The deadline in real seconds, the budget, and the prices of samples and rounds.
        learning_rate: The learning rate of local steps.
        controller: The controller that chooses local steps and batch sizes, or its name.
            ``dynamite-feedback`` needs a ``StepMeter`` in the train function. Controllers that
            measure the loss need a client of this package, and are refused.
        clients: The most nodes that take part; None for those that are connected at the start.
        cohort: The number of nodes in a round; None for all of them.
        evaluate_every: The number of rounds from one evaluation to the next.
        timeouts: How long to wait for nodes; None for the defaults.
        seed: The seed by which cohorts are drawn.
        on_round: A function that is called with the record of each round.

    Attributes:
        history: The records of all rounds, after ``start``.
        stopped_by: The limit that ended the training, after ``start``.

    Raises:
        InvalidInput: An argument cannot be used.
    """

    def __init__(
        self,
        strategy: Strategy | None = None,
        *,
        limits: Limits,
        learning_rate: float,
        controller: Controller[Any] | str = DEFAULT_CONTROLLER,
        clients: int | None = None,
        cohort: int | None = None,
        evaluate_every: int = 1,
        timeouts: Timeouts | None = None,
        seed: int = 0,
        on_round: Callable[[RoundRecord], None] | None = None,
    ) -> None:
        check_number("learning_rate", learning_rate, positive=True)
        for name, value in (("clients", clients), ("cohort", cohort)):
            if value is not None:
                check_whole(name, value)
        check_whole("evaluate_every", evaluate_every)
        if limits.epsilon is not None or limits.delta is not None:
            raise InvalidInput(
                "Limits.epsilon and Limits.delta limit the privacy that training spends, but a "
                "Flower strategy adds no noise that could be accounted for: leave them out, or use "
                "flower.train with privacy"
            )
        if isinstance(controller, str):
            controller = make_controller(controller, learning_rate=learning_rate)
        self.strategy = FedAvg() if strategy is None else strategy
        _check(self.strategy, controller, cohort)
        self.limits, self.learning_rate, self.controller = limits, learning_rate, controller
        self.clients, self.cohort, self.evaluate_every = clients, cohort, evaluate_every
        self.timeouts, self.seed, self.on_round = timeouts or Timeouts(), seed, on_round
        self.history, self.stopped_by = History(), ""

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int | None = None,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFunction | None = None,
    ) -> Result:
        """Train until a limit is reached.

        Args:
            grid: The Grid that Flower passes to the main function of a ServerApp.
            initial_arrays: The global model at the start.
            num_rounds: The most rounds; None for those of the limits.
            timeout: The longest wait for the replies of a round, in seconds. After some rounds, the
                wait is three times the planned seconds, if that is less.
            train_config: The config that goes to nodes with every order to train.
            evaluate_config: The config that goes to nodes with every order to evaluate.
            evaluate_fn: A function that evaluates the global model at the server.

        Returns:
            Flower's result: the final arrays and the metrics of all rounds.

        Raises:
            Infeasible: The limits do not allow a single round.
            InvalidInput: The replies of nodes lack something that the training needs.
            TooFewNodes: Too few nodes have connected in time.
            UserCodeError: The train function has failed on every node.
            Diverged: All updates of a round are NaN, infinite or misshapen.
        """
        limits = self.limits if num_rounds is None else replace(self.limits, rounds=num_rounds)
        engine = AppEngine(
            grid=grid,
            strategy=self.strategy,
            arrays=initial_arrays,
            clients=self.clients,
            needs_meter=self.controller.measures == "path",
            train_config=train_config or ConfigRecord(),
            evaluate_config=evaluate_config or ConfigRecord(),
            evaluate_fn=evaluate_fn,
            timeouts=self.timeouts,
            most_seconds=timeout,
        )
        self.summary()
        if evaluate_fn is not None and (found := evaluate_fn(0, initial_arrays)) is not None:
            engine.result.evaluate_metrics_serverapp[0] = found
        training = Training(
            cast(Engine, engine),
            self.controller,
            limits,
            Schedule(Selection(self.cohort), evaluate_every=self.evaluate_every, seed=self.seed),
            engine.enroll(self.learning_rate),
            RateSchedule(self.learning_rate),
            cast(ServerOptimizer, _AggregatedByStrategy(engine)),
        )
        self._run(training)
        return engine.result

    def _run(self, training: Training) -> None:
        """Run all rounds, and keep their records."""
        records: list[RoundRecord] = []
        first = progress = begin(training)
        for progress, finished in rounds(training, first):
            record = describe(training, finished, progress.control)
            records.append(record)
            _log.info(
                "Round %d: %d local steps, batches of %d to %d, %.1f s and %.2f spent.",
                record.round,
                record.local_steps,
                record.batch_least,
                record.batch_most,
                record.seconds,
                record.cost,
            )
            if self.on_round is not None:
                self.on_round(record)
        self.history = History(tuple(records), ACCURACY)
        self.stopped_by = progress.ended or ""

    def summary(self) -> None:
        """Log the settings of this strategy and of the one that it runs."""
        _log.info("%s within %s.", type(self.strategy).__name__, self.limits)
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the messages of the other strategy; ``start`` adds what each node is asked for."""
        return self.strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregate by the other strategy."""
        return self.strategy.aggregate_train(server_round, replies)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the messages of the other strategy."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Aggregate by the other strategy."""
        return self.strategy.aggregate_evaluate(server_round, replies)


@dataclass(frozen=True, eq=False)
class _AggregatedByStrategy:
    """Takes what the user's strategy makes of a round as the new global model."""

    engine: AppEngine

    def step(self, averaged: AveragedRound, state: ServerState) -> tuple[Tensor, ServerState]:  # noqa: ARG002
        return self.engine.aggregate(), state


def _check(strategy: Strategy, controller: Controller[Any], cohort: int | None) -> None:
    """Refuse a controller and a strategy that do not go together."""
    if controller.measures == "loss":
        raise InvalidInput(
            f"{type(controller).__name__} measures the loss on the nodes, which a train function "
            'of your own does not: use "dynamite-feedback", a controller that measures nothing, or '
            "dynamite_fl.flower.train"
        )
    if setting_of(strategy, "fraction_train", 1.0) != 1.0:
        raise InvalidInput(
            "fraction_train is below 1, but batch sizes are planned for the nodes of a round "
            "before they are asked: leave it at 1 and say cohort=... instead"
        )
    least = least_nodes(strategy)
    if cohort is not None and cohort < least:
        raise InvalidInput(
            f"a round has {cohort} nodes and the strategy needs {least}: lower its "
            "min_available_nodes and min_train_nodes"
        )
