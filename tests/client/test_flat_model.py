"""A task's module and its flat vector: what is in it, what is not, and what a use leaves behind."""

import math
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence
from torch.utils.data import Dataset

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import Compute, FlatModel
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.fingerprint import fingerprint
from dynamite_fl.task.registry import make_task
from dynamite_fl.task.trial import try_task
from dynamite_fl.training.aggregate import average
from dynamite_fl.training.codec import save_model
from dynamite_fl.training.evaluate import evaluate
from tests.client.tasks import line_task
from tests.models import ALL, CLASSES, FEATURES, batch_norm_net, data, gru_net, tanh_net, task_of


def reply_of(
    model: FlatModel,
    client: int = 0,
    optimizer: Optimizer | None = None,
    *,
    batch_size: int = 10,
    probe: bool = False,
) -> Reply:
    """Run three local steps of the client that has 30 samples from 30 times its number on."""
    rows = np.arange(30 * client, 30 * (client + 1))
    device = Client(model, model.task.train, rows, 0, optimizer=optimizer or Optimizer())
    order = Order(client, 1, model.first_weights, 3, batch_size, 0.1, probe=probe, remember=probe)
    return device.run_round(order, ClientState())


@pytest.mark.parametrize("name", ALL)
def test_the_vector_is_the_weights_then_the_buffers(name: str) -> None:
    model = FlatModel(task_of(ALL[name]), seed=4)
    weights = [weight.detach().reshape(-1) for weight in model.module.parameters()]
    buffers = [b.reshape(-1) for b in model.module.buffers() if b.is_floating_point()]
    assert torch.equal(model.first_weights, torch.cat([*weights, *buffers]))
    assert model.trained == sum(weight.numel() for weight in weights)
    assert len(model) == model.first_weights.numel()


@pytest.mark.parametrize("name", ALL)
def test_the_gradient_is_that_of_plain_torch(name: str) -> None:
    task = task_of(ALL[name])
    model = FlatModel(task, seed=3)
    batch = task.train.batch(np.arange(7))
    torch.manual_seed(5)
    loss, gradient = model.gradient(model.first_weights, batch)
    plain = task.new_model(seed=3).train()
    torch.manual_seed(5)
    expected = nn.CrossEntropyLoss()(plain(batch[0]), batch[1])
    gradients = torch.autograd.grad(expected, list(plain.parameters()))
    assert float(loss) == float(expected.detach())
    assert torch.equal(gradient, torch.cat([part.reshape(-1) for part in gradients]))


def test_seeds_decide_about_first_weights_and_leave_others_alone() -> None:
    task = make_task("perceptron", "digits")
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    same = [FlatModel(task, seed=seed).first_weights for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(same[0], same[1])
    assert not torch.equal(same[0], same[2])


def test_the_penalty_is_part_of_loss_and_gradient() -> None:
    task = line_task([[1.0, 0.0]], [2.0], start=(4.0, 2.0), penalty=0.5)
    model = FlatModel(task, seed=0)
    loss, gradient = model.gradient(model.first_weights, task.train.batch(np.array([0])))
    assert float(loss) == 2.0 + 0.25 * 20  # (4 - 2)^2/2 + 0.5/2 |w|^2
    assert gradient.tolist() == [2.0 + 2.0, 0.0 + 1.0]


def test_statistics_of_batch_normalisation_are_averaged_by_samples() -> None:
    """The running mean after one step of momentum 0.1 is a tenth of the batch's mean."""
    inputs, _ = data()
    task = task_of(lambda: nn.BatchNorm1d(FEATURES, affine=True))
    model = FlatModel(task, seed=0)
    assert len(model) - model.trained == 2 * FEATURES
    means, sizes = [], (10, 30)
    for start, size in ((0, 10), (10, 30)):
        rows = np.arange(start, start + size)
        order = Order(0, 1, model.first_weights, 1, size, 0.1, probe=False, remember=False)
        reply = Client(model, task.train, rows, 0).run_round(order, ClientState())
        means.append(reply.weights)
        expected = 0.1 * inputs[rows].mean(0)
        found = reply.weights[model.trained : model.trained + FEATURES]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    merged = average(means, np.array(sizes, dtype=float))
    state = model.state_dict(merged)
    torch.testing.assert_close(
        state["running_mean"], 0.1 * inputs[:40].mean(0), rtol=1e-4, atol=1e-6
    )
    assert int(state["num_batches_tracked"]) == 0  # a counter is not sent


@pytest.mark.parametrize("name", ALL)
def test_a_state_can_be_loaded_into_a_new_module(name: str) -> None:
    task = task_of(ALL[name])
    model = FlatModel(task, seed=0)
    weights = torch.rand(len(model))
    other = task.new_model(seed=9)
    other.load_state_dict(model.state_dict(weights), strict=True)
    model.load(weights)
    inputs = data()[0]
    assert torch.equal(other.eval()(inputs), model.module.eval()(inputs))
    assert torch.equal(model.read(), weights)


def tied() -> nn.Module:
    first, second = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
    second.weight = first.weight
    return nn.Sequential(first, nn.Tanh(), second)


def test_tied_weights_are_one_entry_and_stay_tied() -> None:
    model = FlatModel(task_of(tied), seed=0)
    assert len(model) == FEATURES * FEATURES + 2 * FEATURES
    state = model.state_dict(reply_of(model).weights)
    assert torch.equal(state["0.weight"], state["2.weight"])
    assert not torch.equal(state["0.bias"], state["2.bias"])


def half_frozen() -> nn.Module:
    model = tanh_net()
    model[0].requires_grad_(False)  # type: ignore[index]
    return model


@pytest.mark.parametrize("optimizer", [Optimizer(), Optimizer("AdamW", weight_decay=0.5)])
def test_frozen_weights_neither_move_nor_are_sent(optimizer: Optimizer) -> None:
    model = FlatModel(task_of(half_frozen), seed=0)
    assert len(model) == model.trained == 5 * CLASSES + CLASSES
    first = model.state_dict(model.first_weights)
    after = model.state_dict(reply_of(model, optimizer=optimizer).weights)
    moved = {name: not torch.equal(after[name], first[name]) for name in first}
    assert moved == {"0.weight": False, "0.bias": False, "2.weight": True, "2.bias": True}


def test_a_model_without_trained_weights_is_refused() -> None:
    model = FlatModel(task_of(lambda: nn.Linear(FEATURES, 3).requires_grad_(False)), seed=0)
    with pytest.raises(InvalidInput, match="no weight with requires_grad=True: it learns nothing"):
        model.train()


class WithBuffers(nn.Module):
    """Multiplies inputs by a constant, and holds buffers of all kinds."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)
        self.register_buffer("scale", torch.linspace(0.1, 0.7, FEATURES))
        self.register_buffer("mask", torch.triu(torch.full((2, 2), -math.inf), 1))
        self.register_buffer("places", torch.arange(3))
        self.register_buffer("is_used", torch.tensor([True, False]))
        self.register_buffer("not_saved", torch.ones(4), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layer(inputs * self.scale)
        return outputs


def test_constant_buffers_stay_as_they_are() -> None:
    """Of these, only the finite numbers that are saved are in the vector."""
    model = FlatModel(task_of(WithBuffers), seed=0)
    assert len(model) - model.trained == FEATURES
    replies = [reply_of(model, client) for client in range(3)]
    merged = average([reply.weights for reply in replies], np.array([7.0, 11.0, 13.0]))
    assert torch.isfinite(merged).all()
    state, first = model.state_dict(merged), task_of(WithBuffers).new_model(0).state_dict()
    for name in ("scale", "mask", "places", "is_used"):
        assert torch.equal(state[name], first[name]), name
    assert not torch.equal(state["layer.weight"], first["layer.weight"])


class PartlyUsed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(FEATURES, CLASSES), nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.used(inputs)
        return outputs


@pytest.mark.parametrize(
    "optimizer", [Optimizer(), Optimizer("Adam"), Optimizer(proximal=1.0, clip_norm=0.1)]
)
def test_weights_that_are_not_used_have_the_gradient_zero(optimizer: Optimizer) -> None:
    model = FlatModel(task_of(PartlyUsed), seed=0)
    _, gradient = model.gradient(model.first_weights, data(5))
    assert gradient.numel() == model.trained
    assert not gradient[-20:].any()
    assert gradient[:-20].all()
    assert torch.equal(
        reply_of(model, optimizer=optimizer).weights[-20:], model.first_weights[-20:]
    )


@pytest.mark.parametrize("model", [tanh_net, batch_norm_net, gru_net])
def test_mixed_precision_computes_about_the_same(model: Callable[[], nn.Module]) -> None:
    task = task_of(model)
    exact, mixed = FlatModel(task, 0), FlatModel(task, 0, Compute(precision="bfloat16"))
    batch = task.train.batch(np.arange(40))
    loss, gradient = exact.gradient(exact.first_weights, batch)
    mixed_loss, mixed_gradient = mixed.gradient(exact.first_weights, batch)
    assert mixed.first_weights.dtype == mixed_gradient.dtype == torch.float32
    assert not torch.equal(gradient, mixed_gradient)
    assert float(mixed_loss) == pytest.approx(float(loss), rel=0.02)
    torch.testing.assert_close(mixed_gradient, gradient, rtol=0.1, atol=0.02)


class Packed(nn.Module):
    """Reads sequences of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.last = nn.GRU(1, 4), nn.Linear(4, CLASSES)

    def forward(self, sequences: PackedSequence) -> Tensor:
        outputs: Tensor = self.last(self.recurrent(sequences)[1][0])
        return outputs


def test_sequences_of_different_lengths() -> None:
    items = [(torch.ones(1 + k % 4, 1), k % CLASSES) for k in range(30)]

    def packed(samples: list[Any]) -> Any:
        sequences, labels = zip(*samples, strict=True)
        return pack_sequence(list(sequences), enforce_sorted=False), torch.tensor(labels)

    class Sequences(Dataset[Any]):
        def __len__(self) -> int:
            return len(items)

        def __getitem__(self, index: int) -> Any:
            return items[index]

    task = task_of(Packed, train_data=Sequences(), test_data=Sequences(), collate_fn=packed)
    try_task(task)
    model = FlatModel(task, seed=0)
    reply = reply_of(model, probe=True)
    assert torch.isfinite(reply.weights).all()
    assert evaluate(model, reply.weights).metrics.keys() == {"accuracy"}


def test_a_device_that_is_not_there_is_refused() -> None:
    missing = "mps" if torch.cuda.is_available() else "cuda"
    with pytest.raises(InvalidInput, match=rf'training.device is "{missing}", which this machine'):
        Compute(missing).torch_device()
    assert Compute("auto").torch_device().type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_models_of_other_precisions_keep_it(dtype: torch.dtype) -> None:
    inputs, labels = data()
    task = task_of(lambda: tanh_net().to(dtype), train_data=(inputs.to(dtype), labels))
    model = FlatModel(task, seed=0)
    weights = reply_of(model, probe=True).weights
    assert weights.dtype == model.first_weights.dtype == dtype
    assert model.state_dict(weights)["0.weight"].dtype == dtype


def test_complex_weights_are_refused() -> None:
    def waves() -> nn.Module:
        return nn.Linear(FEATURES, 3, dtype=torch.complex64)

    with pytest.raises(InvalidInput, match=r"has complex weights.*view_as_real"):
        FlatModel(task_of(waves), seed=0)


class Leaving(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, 5), nn.Linear(5, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.last(self.first(inputs).tanh())
        return outputs


def test_what_torch_jit_has_compiled_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"compiled by torch\.jit: give the module as it was"):
        FlatModel(task_of(scripted), seed=0)


def scripted() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is old
        module: nn.Module = torch.jit.script(tanh_net())
    return module


class WithExtraState(Leaving):
    """Adds a dict to its state, as some libraries do."""

    def __init__(self) -> None:
        super().__init__()
        self.words = {"a": 1}

    def get_extra_state(self) -> dict[str, int]:
        return self.words

    def set_extra_state(self, state: dict[str, int]) -> None:
        self.words = state


def test_a_state_that_is_no_tensor_is_kept(tmp_path: Path) -> None:
    task = task_of(WithExtraState)
    try_task(task)
    assert "model" in fingerprint(task)
    model = FlatModel(task, seed=0)
    state = model.state_dict(reply_of(model).weights)
    task.new_model(1).load_state_dict(state, strict=True)
    save_model(tmp_path / "model.safetensors", state)
    assert load_file(tmp_path / "model.safetensors").keys() == state.keys() - {"_extra_state"}


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_sparse_gradients_are_those_of_dense_ones(name: str) -> None:
    words = torch.randint(0, 20, (90, 4), generator=torch.Generator().manual_seed(2))
    replies = []
    for sparse in (False, True):
        task = task_of(
            lambda sparse=sparse: nn.EmbeddingBag(20, CLASSES, sparse=sparse),  # type: ignore[misc]
            name="words",
            train_data=(words, words[:, 0] % CLASSES),
        )
        replies.append(reply_of(FlatModel(task, 0), optimizer=Optimizer(name), probe=True))
    torch.testing.assert_close(replies[1].weights, replies[0].weights)
    assert replies[1].gradient_variance == pytest.approx(replies[0].gradient_variance or 0.0)


# Modules in which a forward pass leaves something behind.


class Counter(Leaving):
    """Outputs shrink with every call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(inputs) / self.calls


class CountingBuffer(Leaving):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(inputs) / self.calls


class ReplacedBuffer(Leaving):
    """Subtracts a moving average, which is a new tensor after every call."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(FEATURES))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * inputs.mean(0)
        return super().forward(inputs - self.mean)


class Stateful(Leaving):
    """Adds what it had computed for the last batch, as a recurrent model with a memory does."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: Tensor | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs).tanh()
        before = 0.0 if self.hidden is None else self.hidden
        self.hidden = hidden.detach().mean(0)
        outputs: Tensor = self.last(hidden + before)
        return outputs


class Caching(Leaving):
    """Keeps a table for the longest batch so far, as rotary embeddings do."""

    table: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", None, persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.table is None or len(self.table) < len(inputs):
            self.table = torch.linspace(0, 1, len(inputs))[:, None]
        return super().forward(inputs * self.table[: len(inputs)])


class Thawing(Leaving):
    """Trains its first layer in every other call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        self.first.requires_grad_(self.calls % 2 == 0)
        return super().forward(inputs)


class Hooked(Leaving):
    """Adds the outputs that a hook has collected in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []
        self.first.register_forward_hook(lambda *given: self.seen.append(given[2].detach().mean()))

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) + sum(self.seen)


def cumulative() -> nn.Module:
    """Return a model whose statistics are means over all batches, by a counter."""
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5, momentum=None), nn.Linear(5, 3))


LEAVING: list[Callable[[], nn.Module]] = [
    *(Counter, CountingBuffer, ReplacedBuffer, Stateful, Caching, Thawing, Hooked, cumulative),
    *ALL.values(),
]


@pytest.mark.parametrize("probe", [False, True])
@pytest.mark.parametrize("kind", LEAVING)
def test_a_round_does_not_depend_on_who_computed_before(
    kind: Callable[[], nn.Module], probe: bool
) -> None:
    task = task_of(kind)
    alone = [reply_of(FlatModel(task, 0), client, probe=probe) for client in range(3)]
    model = FlatModel(task, 0)
    for client in (2, 0, 1, 0):
        evaluate(model, alone[1].weights)
        reply = reply_of(model, client, probe=probe)
        assert torch.equal(reply.weights, alone[client].weights)
        assert reply.gradient_variance == alone[client].gradient_variance


def test_a_buffer_that_is_replaced_is_in_the_vector() -> None:
    """Its value after three batches is worked out by hand."""
    model = FlatModel(task_of(ReplacedBuffer), seed=0)
    expected = torch.zeros(FEATURES)
    for start in (0, 10, 20):
        rows = np.arange(start, start + 10)
        model.backward(model.task.train.batch(rows))
        expected = 0.5 * expected + 0.5 * data()[0][rows].mean(0)
    torch.testing.assert_close(model.read()[model.trained :], expected)
    torch.testing.assert_close(model.state_dict(model.read())["mean"], expected)


def test_a_buffer_that_changes_its_size_is_refused() -> None:
    class Growing(ReplacedBuffer):
        def forward(self, inputs: Tensor) -> Tensor:
            self.mean = torch.cat([self.mean, torch.zeros(1)])
            return super(ReplacedBuffer, self).forward(inputs)

    model = FlatModel(task_of(Growing), seed=0)
    with pytest.raises(InvalidInput, match="changes its size: register it with persistent=False"):
        reply_of(model)


@pytest.mark.parametrize("size", [1, 2])
def test_batches_of_one_sample_train_a_model_with_batch_normalisation(size: int) -> None:
    model = FlatModel(task_of(batch_norm_net), seed=0)
    reply = reply_of(model, batch_size=size, probe=True)
    assert torch.isfinite(reply.weights).all()
    moved = reply.weights != model.first_weights
    assert moved[: model.trained].any()
    # A single sample shows no statistics, which therefore stay as they are.
    assert moved[model.trained :].any() == (size > 1)


def test_hooks_are_not_left_in_a_model_that_is_only_evaluated() -> None:
    net: Any = batch_norm_net()
    model = FlatModel(task_of(lambda: net), seed=0)
    evaluate(model, model.first_weights)
    assert not net[1]._forward_hooks
    assert not net[1]._forward_pre_hooks


@pytest.mark.parametrize("name", ALL)
def test_a_model_sent_to_another_process_computes_the_same(name: str) -> None:
    """Before and after it has been used, as on Ray."""
    model = FlatModel(task_of(ALL[name]), seed=0)
    unused = pickle.dumps(model)
    expected = reply_of(model, probe=True)
    for sent in (unused, pickle.dumps(model)):
        copy = pickle.loads(sent)  # noqa: S301  our own
        for _ in range(2):
            reply = reply_of(copy, probe=True)
            assert torch.equal(reply.weights, expected.weights)
            assert reply.gradient_variance == expected.gradient_variance
