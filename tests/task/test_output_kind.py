"""Outputs of the wrong kind for a loss of torch are refused; all others are not."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.output_kind import check_output_kind


@pytest.fixture
def logits() -> Tensor:
    inputs = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    outputs: Tensor = nn.Linear(4, 3)(inputs)
    return outputs


WRONG = [
    (nn.NLLLoss(), lambda x: x, "end the model with nn.LogSoftmax"),
    (functional.nll_loss, lambda x: x.softmax(dim=1), "end the model with nn.LogSoftmax"),
    (nn.CrossEntropyLoss(), lambda x: x.softmax(dim=1), "leave the softmax out"),
    (functional.cross_entropy, lambda x: x.bfloat16().softmax(dim=1), "leave the softmax out"),
    (nn.BCEWithLogitsLoss(), lambda x: x.sigmoid(), "leave it out of the model"),
    (nn.BCEWithLogitsLoss(), lambda x: x[:, :1].sigmoid().squeeze(1), "leave it out of the model"),
]
RIGHT = [
    (nn.NLLLoss(), lambda x: x.log_softmax(dim=1)),
    (nn.NLLLoss(), lambda x: x.bfloat16().log_softmax(dim=1)),
    (nn.NLLLoss(), lambda x: x[:, :, None, None].expand(-1, -1, 2, 2).log_softmax(dim=1)),
    (nn.CrossEntropyLoss(), lambda x: x),
    (nn.CrossEntropyLoss(), lambda x: x.log_softmax(dim=1)),
    (nn.CrossEntropyLoss(), lambda x: 0 * x),
    (nn.CrossEntropyLoss(), lambda x: x.relu()),
    (nn.BCEWithLogitsLoss(), lambda x: x),
    (nn.BCEWithLogitsLoss(), lambda x: x * x.sigmoid()),
    (nn.BCEWithLogitsLoss(), lambda x: x.sigmoid().detach()),  # in evaluation, nothing is known
    (nn.BCELoss(), lambda x: x.sigmoid()),
    (nn.MSELoss(), lambda x: x.softmax(dim=1)),
    (nn.NLLLoss(), lambda x: {"several": x}),
]


@pytest.mark.parametrize(("loss", "last", "advice"), WRONG)
def test_the_wrong_kind_is_refused(loss, last, advice: str, logits: Tensor) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInput, match=advice):
        check_output_kind(loss, last(logits))


@pytest.mark.parametrize(("loss", "last"), RIGHT)
def test_the_right_kind_is_not(loss, last, logits: Tensor) -> None:  # type: ignore[no-untyped-def]
    check_output_kind(loss, last(logits))
