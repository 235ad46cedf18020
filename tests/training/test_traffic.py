"""What rounds send and pay for: models, gradients or sketches of them, and paths."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dynamite_fl.client.sketch import sketch_size
from dynamite_fl.records import Plan
from dynamite_fl.training.engine import ModelSize, RoundOrder
from dynamite_fl.training.loop import begin, run_round
from dynamite_fl.training.traffic import traffic
from tests.trainings import training

NUMBERS = 10_000
ORDER = RoundOrder(
    round_index=1,
    weights=torch.zeros(NUMBERS),
    plan=Plan(1, 1, np.array([1]), seconds=1.0, cost=1.0, bound=1.0, binding=()),
    cohort=np.array([0]),
    learning_rate=0.1,
    probe=False,
    remember=False,
    path=False,
    begins=0.0,
    seconds_left=1.0,
)


def test_traffic_in_units_of_a_model_to_the_client_and_back() -> None:
    size, sketch = ModelSize(NUMBERS, trained=NUMBERS), sketch_size(NUMBERS) / (2 * NUMBERS)
    assert traffic(ORDER, size, 0) == 1
    assert traffic(replace(ORDER, probe=True), size, 1) == 1.5
    assert traffic(replace(ORDER, probe=True, sketch=True), size, 1) == 1 + sketch
    assert traffic(replace(ORDER, path=True), size, 0) == 1 + sketch
    assert traffic(replace(ORDER, probe=True, path=True), size, 1) == 1.5 + sketch
    assert traffic(replace(ORDER, probe=True), size, 0) == 1  # it was due, but none was sent
    assert traffic(replace(ORDER, probe=True), size, [0, 1]).tolist() == [1, 1.5]
    assert traffic(replace(ORDER, probe=True, path=True, free_probes=True), size, 1) == 1


def test_only_trained_weights_have_gradients_and_other_optimisers_send_two_sketches() -> None:
    size = ModelSize(NUMBERS, trained=NUMBERS // 4, path_sketches=2)
    sketch = sketch_size(NUMBERS // 4) / (2 * NUMBERS)
    assert traffic(replace(ORDER, probe=True), size, 1) == 1.125
    assert traffic(replace(ORDER, path=True), size, 0) == 1 + 2 * sketch


@pytest.mark.parametrize("model", ["softmax", "perceptron"])
def test_a_training_by_sketches_pays_for_what_is_sent_and_learns(model: str) -> None:
    trained = training("dynamite", model=model, sketches=True)
    progress = begin(trained)
    start = trained.engine.evaluate(progress.weights, 0).metrics["accuracy"]
    progress, _ = run_round(trained, progress)
    before = progress.ledger
    progress, played = run_round(trained, progress)
    assert played is not None
    assert played.outcome.report.probe is not None
    assert np.isfinite(played.outcome.report.probe.divergence).all()
    d = progress.weights.numel()
    paid = progress.ledger.cost - before.cost - 0.002 * played.outcome.samples
    assert paid == pytest.approx(0.5 * (1 + sketch_size(d) / (2 * d)))
    while progress.ended is None:
        progress, _ = run_round(trained, progress)
    assert trained.engine.evaluate(progress.weights, 9).metrics["accuracy"] > start + 0.2
