import numpy as np
import pytest
import torch

from dynamite_fl.training.aggregate import average, sound_average

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
def test_unsound_updates_are_told_and_left_out(update: torch.Tensor, fine: bool) -> None:
    others = torch.full((3,), 5.0)
    found, which = sound_average([others, update], np.array([3.0, 1.0]), MODEL)
    assert which.tolist() == [True, fine]
    assert found.tolist() == ([4.0] * 3 if fine else [5.0] * 3)


def test_without_any_update_the_model_stays() -> None:
    found, which = sound_average([torch.full((3,), float("nan"))], np.array([1.0]), MODEL)
    assert torch.equal(found, MODEL)
    assert not which.any()
    assert sound_average([], np.zeros(0), MODEL)[1].size == 0


def test_long_updates_are_averaged_in_pieces_to_the_same_bits() -> None:
    """The sums of 150,000 numbers are those of one sum in double precision."""
    generator = torch.Generator().manual_seed(0)
    updates = list(torch.randn(3, 150_000, generator=generator))
    samples = np.array([3.0, 5.0, 11.0])
    whole = sum(update.double() * count for update, count in zip(updates, samples, strict=True))
    assert torch.equal(average(updates, samples), (whole / 19.0).float())
