"""Whole trainings on real nodes of which one lies: the table of issue and answer."""

from pathlib import Path
from typing import Any

import pytest
import torch

from dynamite_fl import Limits
from dynamite_fl.control.registry import make_controller
from dynamite_fl.flower.engine import FlowerEngine
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.training.averaging import ClippedMean
from dynamite_fl.training.checkpoint import restore
from dynamite_fl.training.loop import begin
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session
from dynamite_fl.training.training import Schedule, Training
from tests.flower.lies import INTRODUCTIONS, LIES
from tests.flower.lying_process import NODES
from tests.flower.machines import Machines
from tests.processes import HANG_SECONDS, wait_until
from tests.trainings import RATE, digits

LIMITS = Limits(
    rounds=30,
    deadline=10 * HANG_SECONDS,
    budget=60,
    cost_per_sample=0.001,
    cost_per_round=0.5,
    max_local_steps=30,
)
POINTS = 0.02  # that a lie may cost


def trained(machines: Machines, folder: Path, nodes: int = NODES) -> tuple[float, list[str]]:
    """Return the accuracy of a training, and the nodes that were excluded in it.

    Args:
        machines: The nodes.
        folder: The run folder, which is made.
        nodes: The number of nodes that the server lets in.
    """
    folder.mkdir()
    run = RunFolder(folder)
    engine = FlowerEngine(
        machines.link.grid,
        digits("perceptron"),
        NODES,
        names_file=run.nodes,
        registered=machines.link.registered,
        # The times only end a hang, but a node that is refused is waited for all of its seconds.
        timeouts=Timeouts(3.0, HANG_SECONDS, HANG_SECONDS if nodes == NODES else 1.0),
    )

    def have_joined() -> bool:
        engine.roster.update()
        return len(engine.roster.usable) >= nodes

    wait_until(have_joined, lambda: engine.roster.connected_names)
    training = Training(
        engine,
        make_controller("dynamite-feedback", learning_rate=RATE),
        LIMITS,
        Schedule(),
        engine.enroll(),
        RateSchedule(RATE),
        averaging=ClippedMean(),
    )
    outcome = Session(training, run).run()
    assert outcome.stopped_by in ("rounds", "budget")
    saved = restore(training, run, begin(training))  # what a restart would begin with
    assert torch.equal(saved.weights, outcome.weights)
    assert torch.isfinite(saved.weights).all()
    return outcome.history.final_metrics["accuracy"], list(engine.roster.conduct.excluded)


@pytest.mark.faults
@pytest.mark.slow
def test_no_lie_of_one_node_costs_more_than_two_points(tmp_path: Path, figure: Any) -> None:
    with Machines(tmp_path, NODES, module="tests.flower.lying_process") as machines:
        machines.engine()  # all of them have joined
        honest, excluded = trained(machines, tmp_path / "honest")
        assert excluded == []
        results = {}
        for number, lie in enumerate([*LIES, *INTRODUCTIONS]):
            (tmp_path / "lie.txt").write_text(lie)
            nodes = NODES - 1 if lie in INTRODUCTIONS else NODES
            results[lie] = trained(machines, tmp_path / f"lie-{number}", nodes)
    figure(f"lies of one of three nodes: honest nodes reach {100 * honest:.1f} %")
    for lie, (accuracy, excluded) in results.items():
        figure(f"  {lie}: {100 * accuracy:.1f} %, excluded: {', '.join(excluded) or 'nobody'}")
    assert {lie: a for lie, (a, _) in results.items() if a < honest - POINTS} == {}
    assert {lie for lie, (_, excluded) in results.items() if excluded != ["device 2"]} == {
        *INTRODUCTIONS  # it never takes part
    }
