"""Orders that a device refuses, and values in replies that cannot be used."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from dynamite_fl.client.messages import ClientState, Reply
from dynamite_fl.client.probe import ProbeFigures
from dynamite_fl.client.sketch import sketch
from dynamite_fl.client.step_path import StepPath
from dynamite_fl.flower.message_checks import check_order, check_path, checked_reply
from dynamite_fl.flower.messages import Work
from dynamite_fl.flower.wire import Malformed
from tests.flower.test_messages import ORDER


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("local_steps", 0, "local_steps is 0: it must be a whole number, from 1 to 1,000,000"),
        ("batch_size", 10**12, "batch_size is"),
        ("round_index", 0, "round_index is 0"),
        ("client", -1, "client is -1"),
        ("learning_rate", math.nan, "learning_rate is nan: it must be a number 0 or more"),
        ("weights", torch.zeros(2), r"weights: the shape is \(2,\), not \(3,\)"),
        ("weights", torch.full((3,), math.inf), "the weights are not finite"),
    ],
)
def test_orders_that_a_device_refuses(field: str, value: Any, reason: str) -> None:
    like = torch.zeros(3)
    check_order(ORDER, like, only_sketches=False)
    with pytest.raises(Malformed, match=reason):
        check_order(replace(ORDER, **{field: value}), like, only_sketches=False)


@pytest.mark.parametrize(
    ("figure", "value", "is_kept"),
    [
        ("loss", -3.0, True),  # such as a log-likelihood
        ("drift", -1.0, True),
        ("pl_constant", math.nan, True),
        ("loss", math.inf, False),
        ("smoothness", -1.0, False),
    ],
)
def test_figures_that_cannot_be_are_dropped(figure: str, value: float, is_kept: bool) -> None:
    figures = replace(ProbeFigures(1.0, 1.0, 1.0, 1.0, 1.0, 0.0), **{figure: value})
    like = torch.zeros(3)
    reply = Reply(like, 5, figures, like, 2.0, 0, ClientState())
    work = Work(computed=4, step_seconds=0.5, seconds=1.0)
    found = checked_reply(reply, work, like, trained=3, max_samples=10)
    assert (found.figures is not None) == (found.gradient is not None) == is_kept


def test_gradients_and_paths_are_of_the_trained_weights_alone() -> None:
    """Of a model of five numbers, two are buffers."""
    like, gradient = torch.zeros(5), torch.ones(3)
    work = Work(computed=4, step_seconds=0.5, seconds=1.0)
    path = StepPath(sketch(gradient), 1.0, sketch(gradient))
    reply = Reply(like, 5, None, gradient, 2.0, 0, ClientState(), path)
    assert checked_reply(reply, work, like, trained=3, max_samples=10) is reply
    check_path(reply, 3, asked=True)
    with pytest.raises(Malformed, match=r"gradient: the shape is \(5,\), not \(3,\)"):
        checked_reply(replace(reply, gradient=like), work, like, trained=3, max_samples=10)
    for wrong in (sketch(like), torch.full_like(sketch(gradient), math.nan)):
        with pytest.raises(Malformed, match="path"):
            check_path(replace(reply, path=replace(path, gradient_sum=wrong)), 3, asked=True)


def test_a_device_that_sends_only_sketches_refuses_to_send_a_gradient() -> None:
    like = torch.zeros(3)
    check_order(replace(ORDER, sketch=True), like, only_sketches=True)
    check_order(replace(ORDER, probe=False), like, only_sketches=True)
    with pytest.raises(Malformed, match="asks for a whole gradient"):
        check_order(ORDER, like, only_sketches=True)
