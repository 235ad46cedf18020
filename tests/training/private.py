"""Small trainings with differential privacy."""

from typing import Any

from dynamite_fl import Devices, Limits, Privacy
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.control.registry import make_controller
from dynamite_fl.partitions import dirichlet
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.testing._training import LIMITS
from dynamite_fl.training.averaging import make_averaging
from dynamite_fl.training.cohort import Selection
from dynamite_fl.training.private_mechanism import Mechanism, build_mechanism
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.server_optimizer import make_server
from dynamite_fl.training.training import Schedule, Training
from tests.trainings import RATE, digits

CLIENTS = 20
DELTA = 0.01


def limits(**changed: Any) -> Limits:
    return Limits(**{**LIMITS, "delta": DELTA, **changed})


def mechanism(
    *,
    clients: int = CLIENTS,
    cohort: int | None = None,
    is_real: bool = False,
    seed: int = 0,
    given: Limits | None = None,
    **settings: Any,
) -> Mechanism:
    settings = {"clip_norm": 1.0, "noise_multiplier": 2.0, **settings}
    made = build_mechanism(
        Privacy(**settings),
        given or limits(),
        clients=clients,
        cohort=cohort,
        seed=seed,
        is_real=is_real,
    )
    assert made is not None
    return made


def private_training(
    controller: str = "fedavg",
    *,
    cohort: int | None = None,
    server: str = "average",
    averaging: str = "mean",
    seed: int = 0,
    select_by: str = "uniform",
    model: str = "softmax",
    optimizer: Optimizer | None = None,
    workers: int = 1,
    is_real: bool = False,
    limit: dict[str, Any] | None = None,
    **settings: Any,
) -> Training:
    task, given = digits(model), limits(**(limit or {}))
    privacy = mechanism(cohort=cohort, seed=seed, given=given, is_real=is_real, **settings)
    engine = SimulatedEngine(
        task,
        dirichlet(alpha=0.5).split(task.train_labels(), CLIENTS, seed),
        Devices(samples_per_second=[100 + 20 * client for client in range(CLIENTS)], latency=0.1),
        seed,
        optimizer=optimizer or Optimizer(),
        privacy=privacy.for_nodes(),
        workers=workers,
    )
    return Training(
        engine,
        make_controller(controller, learning_rate=RATE),
        given,
        Schedule(selection=Selection(cohort, select_by), seed=seed),
        engine.enroll(),
        RateSchedule(RATE),
        make_server(server),
        make_averaging(averaging),
        privacy,
    )
