"""What a server and its nodes compare before they train one model together."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from dynamite_fl.client.model_outline import ModelOutline, difference, outline_of


def model(*, seed: int = 0, frozen: bool = True, hidden: int = 6) -> nn.Module:
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.Linear(4, hidden), nn.BatchNorm1d(hidden), nn.Linear(hidden, 2))
    layers[0].requires_grad_(not frozen)
    return layers


def test_the_same_model_with_other_trained_weights_is_the_same() -> None:
    ours, theirs = model(), model()
    with torch.no_grad():
        theirs[2].weight.add_(1)  # type: ignore[index]
    assert difference(outline_of(ours), outline_of(theirs)) is None
    compiled = nn.ModuleDict({"_orig_mod": ours})  # the names that torch.compile makes
    assert difference(outline_of(ours), outline_of(compiled)) is None


def test_rounding_on_another_machine_is_not_a_difference() -> None:
    ours = model().double()
    theirs = model().double()
    with torch.no_grad():
        theirs[0].weight.mul_(1 + 1e-7)  # type: ignore[index]
    assert difference(outline_of(ours), outline_of(theirs)) is None


@pytest.mark.parametrize(
    "theirs",
    [
        model(frozen=False),
        model(hidden=7),
        model().double(),
        nn.Sequential(*reversed(list(model()))),  # type: ignore[call-overload]
    ],
)
def test_other_layers_are_a_difference(theirs: nn.Module) -> None:
    said = difference(outline_of(model()), outline_of(theirs))
    assert said == "its layers are not those of this model"


def test_other_frozen_weights_are_a_difference() -> None:
    said = "its frozen weights are not those of this model"
    ours = outline_of(model())
    assert difference(ours, outline_of(model(seed=1))) == said
    unknown = (math.nan, *ours.frozen[1:])
    assert difference(ours, replace(ours, frozen=unknown)) == said
    assert difference(ours, ModelOutline(ours.layers)) is not None


def test_the_numbers_of_a_frozen_weight() -> None:
    layer = nn.Linear(2, 1, bias=False).requires_grad_(False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, -7.0]]))
    assert outline_of(layer).frozen == (5.0, -3.0)
