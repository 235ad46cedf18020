"""What a StepMeter measures, compared with what this package's own client measures."""

import math
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord
from torch import Tensor, nn

from dynamite_fl.client.sketch import sketch
from dynamite_fl.client.step_path import PathRecorder
from dynamite_fl.errors import InvalidInput
from dynamite_fl.flower.step_meter import StepMeter, read_measurements
from dynamite_fl.flower.wire import Malformed
from tests.flower.own_app import order_config

BATCH = 6


def flat(net: nn.Module) -> Tensor:
    return torch.cat([weight.detach().reshape(-1) for weight in net.parameters()])


def batches(steps: int) -> list[tuple[Tensor, Tensor]]:
    random = torch.Generator().manual_seed(1)
    return [
        (torch.randn(BATCH, 5, generator=random), torch.randn(BATCH, 2, generator=random))
        for _ in range(steps)
    ]


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_it_measures_what_our_own_client_measures(steps: int, momentum: float) -> None:
    torch.manual_seed(0)
    net = nn.Linear(5, 2)
    start = flat(net)
    recorder = PathRecorder(start, start.numel())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=momentum)
    meter, total = StepMeter(net, order_config(steps, BATCH)), torch.zeros_like(start)
    for index, (inputs, targets) in enumerate(batches(steps), start=1):
        optimizer.zero_grad()
        loss: Any = nn.functional.mse_loss(net(inputs), targets)
        loss.backward()
        gradient = torch.cat([weight.grad.reshape(-1) for weight in net.parameters()])  # type: ignore[union-attr]
        recorder.record_gradients(gradient[None])
        optimizer.step()
        meter.step()
        if index <= math.ceil(steps / 2):
            total += gradient
        if index == math.ceil(steps / 2):
            recorder.record_first_half(flat(net)[None], total[None])
    (expected,) = recorder.paths(flat(net)[None], [BATCH], [10**6])
    measured = read_measurements(meter.record())
    torch.testing.assert_close(measured.first_half.float(), expected.first_half)
    assert expected.gradient_sum is not None
    torch.testing.assert_close(measured.gradient_sum.float(), expected.gradient_sum)
    torch.testing.assert_close(measured.movement.float(), sketch(start - flat(net)))
    assert measured.gradient_variance == pytest.approx(expected.gradient_variance, nan_ok=True)
    assert 0 < measured.step_seconds * steps <= measured.seconds


def test_frozen_weights_and_buffers_do_not_count() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    net[0].weight.requires_grad_(False)
    optimizer = torch.optim.SGD([w for w in net.parameters() if w.requires_grad], lr=0.1)
    meter = StepMeter(net, order_config(1, 8))
    net(torch.randn(8, 4)).mean().backward()
    optimizer.step()
    meter.step()
    assert len(read_measurements(meter.record()).movement) == 3 + 3 + 3 + 3 + 1


@pytest.mark.parametrize("made", [0, 2, 4])
def test_another_number_of_steps_is_refused(made: int) -> None:
    net = nn.Linear(2, 1)
    meter = StepMeter(net, order_config(3, 4))
    for _ in range(made):
        net(torch.ones(4, 2)).mean().backward()
        meter.step()
    with pytest.raises(InvalidInput, match=f"made {made} local steps, but the config asks for 3"):
        meter.record()


def test_a_config_of_another_strategy_is_refused() -> None:
    with pytest.raises(InvalidInput, match="must be a WithinLimits"):
        StepMeter(nn.Linear(2, 1), ConfigRecord({"lr": 0.1}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("first_half", [1.0]),
        ("movement", [0.5] * 252),
        ("gradient_sum", 3.0),
        ("gradient_sum", [1, 2, 3]),
        ("gradient_variance", -1.0),
        ("step_seconds", math.inf),
        ("seconds", "long"),
    ],
)
def test_other_records_are_refused(name: str, value: object) -> None:
    numbers: dict[str, object] = {
        "first_half": [1.0, 2.0, 3.0],
        "movement": [1.0, 2.0, 3.0],
        "gradient_sum": [1.0, 2.0, 3.0],
        "gradient_variance": math.nan,
        "step_seconds": 0.1,
        "seconds": 1.0,
    }
    read_measurements(ConfigRecord(numbers))  # type: ignore[arg-type]
    with pytest.raises(Malformed):
        read_measurements(ConfigRecord({**numbers, name: value}))  # type: ignore[dict-item]
