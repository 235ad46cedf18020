"""What the server believes of the answer of one node."""

import math
from dataclasses import replace

import torch

from dynamite_fl.client.messages import ClientState, Reply
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.flower.answer_reader import Reader
from dynamite_fl.flower.messages import TrainReply, Work
from tests.flower.test_messages import ORDER


def test_a_race_that_was_not_ordered_does_not_count() -> None:
    reply = Reply(
        weights=torch.zeros(3),
        samples=9,
        figures=None,
        gradient=None,
        gradient_variance=None,
        measured_samples=0,
        state=ClientState(),
        race_factor=8.0,
    )
    received = TrainReply("nonce", 1, reply, Work(computed=9, step_seconds=0.1, seconds=1.0))
    reader = Reader(torch.zeros(3), 3, max_samples=100, settings=ProbeSettings())
    for is_ordered in (True, False):
        believed = reader._in_range(received, replace(ORDER, path=False, race=is_ordered))
        assert math.isnan(believed.race_factor) is not is_ordered
