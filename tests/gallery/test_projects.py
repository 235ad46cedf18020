"""Projects of ordinary kinds, as people bring them: each with two workers, resumed, and saved."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import Dataset

import dynamite_fl as fl
from tests.gallery.checks import check_workers_and_resumes

ROUNDS = 3
INPUTS = torch.randn(90, 8, generator=torch.Generator().manual_seed(0))
LABELS = (INPUTS[:, :4].sum(dim=1) > 0).long() + (INPUTS[:, 4] > 1).long()
PAIR = (INPUTS, LABELS)


class Made(Dataset[Any]):
    """Samples that a function makes from a generator for each place."""

    def __init__(self, make: Callable[[torch.Generator], Any], first: int, samples: int) -> None:
        self.make, self.first, self.samples = make, first, samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> Any:
        return self.make(torch.Generator().manual_seed(self.first + index))


def both(make: Callable[[torch.Generator], Any]) -> dict[str, Any]:
    return {"train_data": Made(make, 0, 60), "test_data": Made(make, 1000, 20)}


class UNet(nn.Module):
    """Two images in, a mask out."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.output = nn.Conv2d(8, 1, 1)

    def forward(self, image: Tensor, depth: Tensor) -> Tensor:
        first = self.down(torch.cat([image, depth], dim=1))
        second = self.up(self.deep(functional.max_pool2d(first, 2)))
        return self.output(torch.cat([first, second], dim=1))  # type: ignore[no-any-return]


def segmentation() -> fl.Task:
    image, depth = torch.randn(2, 40, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    mask = (image + depth > 0).float()

    def dice(outputs: Tensor, targets: Tensor) -> Tensor:
        chosen = (outputs > 0).float()
        return 2 * (chosen * targets).sum() / (chosen.sum() + targets.sum())

    return fl.Task(
        model=UNet,
        loss=nn.BCEWithLogitsLoss(),
        train_data=((image, depth), mask),
        test_data=((image, depth), mask),
        metrics={"dice": dice},
    )


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 16, num_layers=2, dropout=0.1, batch_first=True)
        self.output = nn.Linear(16, 20)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(
            self.embedding(words), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=words.shape[1]
        )
        return self.output(states)  # type: ignore[no-any-return]


def language_model() -> fl.Task:
    def sentence(random: torch.Generator) -> Tensor:
        words = [int(torch.randint(19, (), generator=random))]
        for _ in range(int(torch.randint(3, 9, (), generator=random))):
            words.append((3 * words[-1] + 1) % 19)
        return torch.tensor(words) + 1

    def collate(rows: list[Tensor]) -> Any:
        inputs = pad_sequence([row[:-1] for row in rows], batch_first=True)
        targets = pad_sequence([row[1:] for row in rows], batch_first=True, padding_value=-100)
        return inputs, torch.tensor([len(row) - 1 for row in rows]), targets

    return fl.Task(
        model=LanguageModel,
        loss=lambda outputs, targets: functional.cross_entropy(outputs.transpose(1, 2), targets),
        collate_fn=collate,
        metrics=["perplexity"],
        **both(sentence),
    )


def siamese() -> fl.Task:
    names = ("anchor", "positive", "negative")

    def triplet(random: torch.Generator) -> Any:
        anchor, noise, negative = torch.randn(3, 8, generator=random)
        return dict(zip(names, (anchor, anchor + 0.1 * noise, negative), strict=True))

    def distances(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        anchor, positive, negative = (model(batch[name]) for name in names)
        farther = (anchor - negative).norm(dim=1) - (anchor - positive).norm(dim=1)
        return farther, torch.ones(len(anchor))

    return fl.Task(
        model=lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)),
        training_step=lambda model, batch: functional.triplet_margin_loss(
            *(model(batch[name]) for name in names)
        ),
        predict=distances,
        metrics=["binary_accuracy"],
        **both(triplet),
    )


@dataclass
class ModelOutput:
    """What models of Hugging Face return."""

    loss: Tensor | None
    logits: Tensor


class Pretrained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.classifier = nn.Linear(16, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> ModelOutput:
        states = self.encoder(self.embedding(input_ids), src_key_padding_mask=attention_mask == 0)
        logits = self.classifier(states[:, 0])
        return ModelOutput(functional.cross_entropy(logits, labels), logits)


def hugging_face() -> fl.Task:
    def row(random: torch.Generator) -> Any:
        length = int(torch.randint(3, 9, (), generator=random))
        words = torch.randint(1, 50, (length,), generator=random)
        return {"input_ids": words.tolist(), "labels": int(words[0]) % 3}

    def collate(rows: list[Any]) -> Any:
        words = pad_sequence([torch.tensor(row["input_ids"]) for row in rows], batch_first=True)
        labels = torch.tensor([row["labels"] for row in rows])
        return {"input_ids": words, "attention_mask": (words > 0).long(), "labels": labels}

    return fl.Task(
        model=Pretrained,
        training_step=lambda model, batch: model(**batch).loss,
        predict=lambda model, batch: (model(**batch).logits, batch["labels"]),
        collate_fn=collate,
        metrics=["accuracy"],
        **both(row),
    )


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.kind, self.size = nn.Linear(8, 16), nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        states = self.body(inputs).relu()
        return {"kind": self.kind(states), "size": self.size(states)}


def several_tasks() -> fl.Task:
    data = (INPUTS, {"kind": LABELS, "size": INPUTS.sum(dim=1, keepdim=True)})

    def loss(outputs: Any, targets: Any) -> Tensor:
        kind = functional.cross_entropy(outputs["kind"], targets["kind"])
        return kind + functional.mse_loss(outputs["size"], targets["size"])

    def share(outputs: Any, targets: Any) -> Any:
        return (outputs["kind"].argmax(dim=1) == targets["kind"]).float().mean()

    return fl.Task(
        model=TwoHeads, loss=loss, train_data=data, test_data=data, metrics={"kinds": share}
    )


class GraphNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.message, self.output = nn.Linear(4, 16), nn.Linear(16, 2)

    def forward(self, nodes: Tensor, edges: Tensor, graph: Tensor) -> Tensor:
        states = (edges @ self.message(nodes)).relu()
        sums = torch.zeros(int(graph.max()) + 1, 16).index_add(0, graph, states)
        return self.output(sums)  # type: ignore[no-any-return]


def graphs() -> fl.Task:
    """A batch has fewer graphs than nodes, and its first tensor has a row for each node."""

    def graph(random: torch.Generator) -> Any:
        size = int(torch.randint(3, 8, (), generator=random))
        nodes = torch.randn(size, 4, generator=random)
        edges = (torch.rand(size, size, generator=random) > 0.5).float()
        return nodes, edges, int(nodes.sum() > 0)

    def collate(rows: list[Any]) -> Any:
        nodes, edges, labels = zip(*rows, strict=True)
        sizes = torch.tensor([len(part) for part in nodes])
        return {
            "nodes": torch.cat(nodes),
            "edges": torch.block_diag(*edges),  # type: ignore[no-untyped-call]
            "graph": torch.repeat_interleave(torch.arange(len(rows)), sizes),
            "labels": torch.tensor(labels),
        }

    return fl.Task(model=GraphNet, loss=nn.CrossEntropyLoss(), collate_fn=collate, **both(graph))


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(30, 8, sparse=True)
        self.output = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 2))

    def forward(self, words: Tensor, offsets: Tensor) -> Tensor:
        return self.output(self.words(words, offsets))  # type: ignore[no-any-return]


def bag_of_words() -> fl.Task:
    def text(random: torch.Generator) -> Any:
        length = int(torch.randint(1, 9, (), generator=random))
        words = torch.randint(30, (length,), generator=random)
        return words, int(words.max()) % 2

    def collate(rows: list[Any]) -> Any:
        texts, labels = zip(*rows, strict=True)
        lengths = torch.tensor([0, *(len(text) for text in texts[:-1])])
        return torch.cat(texts), lengths.cumsum(dim=0), torch.tensor(labels)

    return fl.Task(model=Bag, loss=nn.CrossEntropyLoss(), collate_fn=collate, **both(text))


class Gaussian(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mean, self.variance = nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return self.mean(inputs), functional.softplus(self.variance(inputs)) + 1e-3


def autoencoder() -> fl.Task:
    """Samples have no targets."""
    return fl.Task(
        model=lambda: nn.Sequential(nn.Linear(8, 3), nn.Tanh(), nn.Linear(3, 8)),
        training_step=lambda model, batch: functional.mse_loss(model(batch), batch),
        predict=lambda model, batch: (model(batch), batch),
        metrics=["rmse"],
        **both(lambda random: torch.randn(8, generator=random)),
    )


def plain(model: Callable[[], nn.Module], data: Any = PAIR, **fields: Any) -> fl.Task:
    loss = fields.pop("loss", nn.CrossEntropyLoss())
    return fl.Task(model=model, loss=loss, train_data=data, test_data=data, **fields)


def reparametrised() -> nn.Module:
    layers = weight_norm(nn.Linear(8, 16)), spectral_norm(nn.Linear(16, 16))
    return nn.Sequential(*layers, nn.Tanh(), orthogonal(nn.Linear(16, 4)), nn.Linear(4, 3))


def lazy() -> nn.Module:
    image = nn.Sequential(nn.Unflatten(1, (1, 2, 4)), nn.ZeroPad2d(1))
    convolution = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU())
    return nn.Sequential(image, convolution, nn.Flatten(), nn.LazyLinear(3))


def compiled() -> nn.Module:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    return torch.compile(model, backend="eager")  # type: ignore[return-value]


SUM = INPUTS.sum(dim=1, keepdim=True)
PROJECTS: dict[str, Callable[[], fl.Task]] = {
    "segmentation": segmentation,
    "language model": language_model,
    "siamese": siamese,
    "Hugging Face": hugging_face,
    "several tasks": several_tasks,
    "graphs": graphs,
    "bag of words": bag_of_words,
    "autoencoder": autoencoder,
    "reparametrised": partial(plain, reparametrised),
    "lazy": partial(plain, lazy),
    "compiled": partial(plain, compiled),
    "class weights": partial(
        plain, lambda: nn.Linear(8, 3), loss=nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 5.0]))
    ),
    "float64": partial(
        plain,
        lambda: nn.Linear(8, 1).double(),
        data=(INPUTS.double(), SUM.double()),
        loss=nn.MSELoss(),
        metrics=["rmse"],
    ),
    "two outputs": partial(
        plain,
        Gaussian,
        data=(INPUTS, SUM),
        loss=lambda outputs, targets: functional.gaussian_nll_loss(outputs[0], targets, outputs[1]),
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:training does not seem to change")  # of orthogonal weights
@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_is_trained_resumed_and_saved(name: str, tmp_path: Path) -> None:
    task = PROJECTS[name]()
    result = check_workers_and_resumes(partial(train, task), task, tmp_path, ROUNDS)
    model = task.new_model(seed=1)
    model.load_state_dict(load_file(tmp_path / "whole" / "model.safetensors"))
    assert fl.evaluate(task, model.eval()) == result.metrics
    fitted = replace(task, test_data=task.train_data)
    before, after = (fl.evaluate(fitted, m.eval()) for m in (task.new_model(seed=0), model))
    assert after["loss"] < before["loss"]


def train(task: fl.Task, **settings: Any) -> fl.Result:
    """Train on three devices, with the default controller and no learning rate."""
    limits = fl.Limits(
        deadline=1e6, budget=1e6, cost_per_sample=0.001, cost_per_round=1, rounds=ROUNDS
    )
    devices = fl.Devices(samples_per_second=[100, 200, 400])
    return fl.train(task, devices=devices, limits=limits, **settings)
