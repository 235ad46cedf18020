"""Batch normalisation on a single sample, against its formula."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dynamite_fl.client.batch_norm import accept_single_values, depends_on_batch


@pytest.mark.parametrize(
    ("module", "depends"),
    [
        (nn.BatchNorm1d(2), True),
        (nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm2d(2))), True),
        (nn.SyncBatchNorm(2), True),
        (nn.Sequential(nn.GroupNorm(1, 2), nn.LayerNorm(2), nn.InstanceNorm1d(2)), False),
    ],
)
def test_which_models_depend_on_the_batch(module: nn.Module, depends: bool) -> None:
    assert depends_on_batch(module) == depends


def layer_of(kind: Any = nn.BatchNorm1d) -> Any:
    layer = kind(3)
    layer.running_mean = torch.tensor([1.0, 2.0, 3.0])
    layer.running_var = torch.tensor([4.0, 1.0, 0.25])
    nn.init.uniform_(layer.weight)
    nn.init.uniform_(layer.bias)
    accept_single_values(layer)
    return layer


def test_a_single_sample_is_normalised_by_the_running_statistics() -> None:
    layer = layer_of()
    sample = torch.tensor([[5.0, 0.0, 3.5]])
    scaled = (sample - layer.running_mean) / (layer.running_var + layer.eps).sqrt()
    expected = scaled * layer.weight + layer.bias
    torch.testing.assert_close(layer(sample), expected)
    assert layer.training
    assert layer.running_mean.tolist() == [1.0, 2.0, 3.0]
    assert int(layer.num_batches_tracked) == 0


def test_inputs_may_be_named() -> None:
    layer = layer_of()
    sample = torch.tensor([[5.0, 0.0, 3.5]])
    assert torch.equal(layer(input=sample), layer(sample))
    assert layer(input=torch.rand(2, 3)).shape == (2, 3)


def test_weights_of_the_layer_are_trained_on_a_single_sample() -> None:
    layer = layer_of()
    layer(torch.tensor([[5.0, 0.0, 3.5]])).sum().backward()
    assert layer.bias.grad.tolist() == [1.0, 1.0, 1.0]
    torch.testing.assert_close(layer.weight.grad, torch.tensor([2.0, -2.0, 1.0]), rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("kind", "values"),
    [(nn.BatchNorm1d, torch.rand(2, 3)), (nn.BatchNorm2d, torch.rand(1, 3, 2, 2))],
)
def test_several_values_are_normalised_as_torch_does(kind: Any, values: Tensor) -> None:
    """One image has several values per channel."""
    ours, theirs = layer_of(kind), kind(3)
    theirs.load_state_dict(ours.state_dict())
    assert torch.equal(ours(values), theirs(values))
    assert torch.equal(ours.running_mean, theirs.running_mean)
    assert int(ours.num_batches_tracked) == 1


def test_a_layer_that_fails_is_in_training_mode_afterwards() -> None:
    layer = layer_of()
    with pytest.raises(RuntimeError):
        layer(torch.rand(1, 9))
    assert layer.training


def test_evaluation_and_other_layers_are_left_alone() -> None:
    layer = layer_of()
    layer.eval()
    layer(torch.rand(1, 3))
    assert not layer.training
    without = nn.BatchNorm1d(3, track_running_stats=False)
    accept_single_values(without)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        without(torch.rand(1, 3))
