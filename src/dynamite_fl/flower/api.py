"""Training inside a Flower app: ``train`` in its ServerApp, ``local_client`` in its ClientApp."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from dynamite_fl._validate import check_name, check_whole
from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import Compute, FlatModel
from dynamite_fl.client.gaussian_noise import SecretNoise
from dynamite_fl.client.local_data.device_client import device_client
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.private_update import NodePrivacy
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.control.controller import Controller
from dynamite_fl.errors import InvalidInput
from dynamite_fl.flower.engine import FlowerEngine
from dynamite_fl.flower.job_parts import averaging_of_nodes, refuse_pilot
from dynamite_fl.flower.messenger import Grid
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.job.build import (
    build_controller,
    build_privacy,
    check_cohort,
    schedule_of,
    warn_of_optimizer,
)
from dynamite_fl.job.build_data import check_test_data
from dynamite_fl.job.from_python import as_task, describe_job
from dynamite_fl.job.runs import opened_run
from dynamite_fl.job.settings import Settings
from dynamite_fl.job.training import (
    DEFAULT_CONTROLLER,
    DEFAULT_OPTIMIZER,
)
from dynamite_fl.records import Limits
from dynamite_fl.stream.buffer import Storage
from dynamite_fl.task.fingerprint import fingerprint
from dynamite_fl.task.task import Task
from dynamite_fl.task.trial import try_task
from dynamite_fl.training.averaging import Averaging
from dynamite_fl.training.privacy import Privacy
from dynamite_fl.training.private_mechanism import node_privacy
from dynamite_fl.training.result import Result as Result
from dynamite_fl.training.result import result_of
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.server_optimizer import ServerOptimizer
from dynamite_fl.training.session import Session
from dynamite_fl.training.training import Training

ProbeGradient = Literal["whole", "sketch"]


def train(
    grid: Grid,
    task: Task | str,
    limits: Limits,
    controller: Controller[Any] | str = DEFAULT_CONTROLLER,
    *,
    clients: int,
    learning_rate: float | None = None,
    server: ServerOptimizer | str | None = None,
    averaging: Averaging | str | None = None,
    privacy: Privacy | None = None,
    schedule: str = "constant",
    warmup: float = 0.0,
    final_rate: float = 0.01,
    seed: int = 0,
    cohort: int | None = None,
    select_by: str = "uniform",
    evaluate_every: int = 1,
    probe_every: int = 1,
    probe_gradient: ProbeGradient = "whole",
    optimizer: Optimizer | str = DEFAULT_OPTIMIZER,
    device: str = "cpu",
    min_nodes: int = 1,
    max_samples_per_node: int = 10_000_000,
    timeouts: Timeouts | None = None,
    folder: Path | str | None = None,
    on_round: Callable[[RoundRecord], None] | None = None,
) -> Result:
    """Train a model on the nodes of a Flower Grid until a limit is reached.

    The nodes run a ClientApp made by ``client_app``. Arguments that ``dynamite_fl.train`` has too
    mean the same and have the same defaults. All seconds are real seconds.

    Args:
        grid: The Grid that Flower passes to the main function of a ServerApp.
        task: Model, loss and test data. The training data is on the nodes.
        limits: The deadline, the budget and the rounds that training may use.
        controller: The controller that chooses local steps and batch sizes, or its name.
        clients: The largest number of nodes that take part.
        learning_rate: The learning rate of the local steps, the largest one if it changes.
            Default: it is chosen during the training.
        server: What the server makes of the average of a round, or its name. Default:
            ``extrapolation`` if the default controller chooses the learning rate, otherwise
            ``average``.
        averaging: How the local models of a round are averaged. The default, ``clipped-mean``,
            resists single nodes that send bad models; ``mean`` trusts all nodes.
        privacy: Protects what each node contributes, by clipping and noise; None for no protection.
            With ``noise_at="node"``, ``local_client`` is given the same.
        schedule: How the learning rate changes as the limits are used up: ``constant``, ``linear``
            or ``cosine``.
        warmup: The share of the limits during which the learning rate rises to ``learning_rate``.
        final_rate: The learning rate when the limits are used up, as a share of ``learning_rate``.
            It has no effect if the schedule is ``constant``.
        seed: The seed of the first weights and of all random choices.
        cohort: The number of nodes in a round; None for all of them.
        select_by: How a cohort is drawn: ``uniform``, or ``data`` for chances in proportion to
            the nodes' samples.
        evaluate_every: The number of rounds from one evaluation to the next.
        probe_every: The number of rounds from one measurement of the loss to the next.
        probe_gradient: What nodes send of a gradient when the loss is measured: the ``whole``
            gradient, or a ``sketch`` of at most 251 numbers.
        optimizer: The optimiser of the nodes' local steps; ``local_client`` is given the same.
        device: Where the server evaluates the model: ``cpu``, ``cuda``, ``mps`` or ``auto``.
        min_nodes: The number of connected nodes that a round needs.
        max_samples_per_node: The largest number of samples that a node may claim to hold. Models
            are averaged by samples, so a node that claims more is refused.
        timeouts: How long to wait for nodes; None for the defaults.
        folder: The folder for history, model and checkpoint; None to keep none. If it holds a
            part of this training, training goes on from there.
        on_round: A function that is called with the record of each round.

    Returns:
        The trained model, the history, and the limit that ended the training.

    Raises:
        Infeasible: The limits do not allow a single round.
        InvalidInput: An argument cannot be used.
        TooFewNodes: Fewer than ``min_nodes`` nodes have connected in time.
    """
    settings = Settings(
        learning_rate=learning_rate,
        schedule=schedule,
        warmup=warmup,
        final_rate=final_rate,
        seed=seed,
        cohort=cohort,
        select_by=select_by,
        evaluate_every=evaluate_every,
        probe_every=probe_every,
        probe_gradient=probe_gradient,
        device=device,
    )
    optimizer = Optimizer(optimizer) if isinstance(optimizer, str) else optimizer
    task = as_task(task)
    try_task(task, needs_train_data=False)
    check_whole("clients", clients)
    check_test_data(task, clients)
    check_cohort(cohort, clients)
    job = describe_job(
        task,
        limits,
        settings,
        controller,
        {"clients": clients},
        optimizer=optimizer,
        server=server,
        averaging=averaging,
        privacy=privacy,
    )
    mechanism = build_privacy(job, clients, is_real=True)
    if isinstance(controller, str):
        controller = build_controller(job, refuse_pilot)
    warn_of_optimizer(controller, optimizer)
    run_folder = None if folder is None else RunFolder(Path(folder))
    with (
        nullcontext()
        if run_folder is None
        else opened_run(run_folder, job, fingerprint(task), task.leading_metric)
    ):
        engine = FlowerEngine(
            grid,
            task,
            clients,
            seed,
            names_file=None if run_folder is None else run_folder.nodes,
            timeouts=timeouts or Timeouts(),
            min_nodes=min_nodes,
            max_samples_per_node=max_samples_per_node,
            optimizer=optimizer,
            compute=Compute(device),
            is_private=mechanism is not None,
        )
        fleet, rate = engine.enroll(), settings.rate_schedule
        training = Training(
            engine,
            controller,
            limits,
            schedule_of(job),
            fleet,
            rate,
            job.server,
            averaging_of_nodes(job),
            mechanism,
        )
        outcome = Session(
            training,
            run_folder,
            on_round=[] if on_round is None else [on_round],
            seconds_between_checkpoints=0.0,  # a round on real machines is too expensive to lose
        ).run()
    if outcome.stopped_by is not None:
        engine.roster.say_goodbye(outcome.stopped_by)
    return result_of(training, task, seed, outcome, run_folder)


def local_client(
    task: Task,
    seed: int = 0,
    *,
    probe_gradient: ProbeGradient = "whole",
    incoming: Path | str | None = None,
    storage: Storage | None = None,
    optimizer: Optimizer | str = DEFAULT_OPTIMIZER,
    device: str = "cpu",
    precision: str = "float32",
    privacy: Privacy | None = None,
    expected_clients: int | None = None,
) -> Client:
    """Return the client of a device that loads its own data.

    Args:
        task: The model, the loss and the training data of the device.
        seed: The seed of the client's batches.
        probe_gradient: What the client is ready to send of a gradient: with ``sketch`` it refuses
            every order to send a whole gradient.
        incoming: The folder in which the device's samples arrive, as ``.npz`` files with the arrays
            ``inputs`` and ``targets``. The task's training data then only show their format.
        storage: The policy and size of the buffer for incoming samples. Default: a reservoir of
            10,000 samples.
        optimizer: The optimiser of local steps, as in ``dynamite_fl.train``.
        device: Where the model is computed: ``cpu``, ``cuda``, ``mps`` or ``auto``.
        precision: ``float32``, or ``bfloat16`` to compute with mixed precision.
        privacy: The privacy of the training. With ``noise_at="node"``, the client clips its update
            and adds its share of the noise; otherwise the server does both.
        expected_clients: The expected number of clients in a round, which determines the share of
            the noise. It is needed with ``noise_at="node"`` only.

    Raises:
        InvalidInput: An argument cannot be used.
    """
    optimizer = Optimizer(optimizer) if isinstance(optimizer, str) else optimizer
    model = FlatModel(task, seed, Compute(device, precision))
    settings = ProbeSettings(only_sketches=_is_sketched(probe_gradient))
    return device_client(
        model,
        seed,
        settings,
        optimizer,
        incoming=incoming,
        storage=storage,
        privacy=_node_privacy(privacy, expected_clients),
    )


def _node_privacy(privacy: Privacy | None, expected_clients: int | None) -> NodePrivacy | None:
    """Return how a node protects its update; None if the server does so, or nobody."""
    if privacy is None or privacy.noise_at == "server":
        return None
    if expected_clients is None:
        raise InvalidInput(
            'noise_at="node" needs expected_clients, the expected number of clients in a round'
        )
    check_whole("expected_clients", expected_clients)
    return node_privacy(privacy, expected_clients, SecretNoise())


def _is_sketched(probe_gradient: str) -> bool:
    check_name("probe_gradient", probe_gradient, ("whole", "sketch"))
    return probe_gradient == "sketch"
