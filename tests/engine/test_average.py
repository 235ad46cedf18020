import numpy as np
import pytest
import torch

from dynamite_fl.engine.average import average, sound

MODEL = torch.zeros(3)


def test_average_is_by_samples() -> None:
    found = average([torch.tensor([1.0, 0.0]), torch.tensor([4.0, 8.0])], np.array([100.0, 300.0]))
    assert found.tolist() == [3.25, 6.0]
    assert found.dtype == torch.float32


@pytest.mark.parametrize(
    ("update", "fine"),
    [
        (torch.ones(3), True),
        (torch.ones(4), False),
        (torch.ones(3, 1), False),
        (torch.ones(3, dtype=torch.float64), False),
        (torch.tensor([1.0, float("nan"), 1.0]), False),
        (torch.tensor([1.0, float("inf"), 1.0]), False),
    ],
)
def test_unsound_updates_are_told(update: torch.Tensor, fine: bool) -> None:
    assert sound(update, MODEL) is fine
